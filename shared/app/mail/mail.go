// Package mail has the channels for e-mail and SMS, whose clients are large. Only functions that
// send messages to people link it.
package mail

import (
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/channel/ses"
	"github.com/lanekeeper/lanekeeper/shared/channel/sns"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// Channels returns the channels e-mail (SES) and SMS (SNS). Each creates its client when it sends a
// message.
func Channels(core *app.Core) []thread.Channel {
	return []thread.Channel{
		&ses.Channel{From: core.Config.EmailFrom, Config: core.AWS},
		&sns.Channel{Config: core.AWS},
	}
}
