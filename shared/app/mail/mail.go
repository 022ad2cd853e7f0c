// Package mail has the channels whose clients are large, e-mail and SMS: only the functions
// that send messages to people link it.
package mail

import (
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/channel/ses"
	"github.com/lanekeeper/lanekeeper/shared/channel/sns"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// Channels are e-mail by SES and SMS by SNS. Their clients are made when a message is sent.
func Channels(core *app.Core) []thread.Channel {
	return []thread.Channel{
		&ses.Channel{From: core.Config.EmailFrom, Config: core.AWS},
		&sns.Channel{Config: core.AWS},
	}
}
