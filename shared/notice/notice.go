// Package notice tells people of events over channels, such as Slack and e-mail. The setting
// notifications of a workspace says whom. A trigger of the database adds a row to the outbox for each
// of them in the transaction of the change.
package notice

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// Topic returns the outbox topic of the notices of a channel. The migrations contain the same text.
func Topic(channel string) string { return "notice." + channel }

// Handlers returns the handlers of the notices of channels, by topic.
func Handlers(channels ...thread.Channel) map[string]outbox.Handler {
	out := make(map[string]outbox.Handler, len(channels))
	for _, c := range channels {
		out[Topic(c.Name())] = teller{c}
	}
	return out
}

// teller sends notices over one channel.
type teller struct{ channel thread.Channel }

// Unkeyed implements [outbox.Unkeyed].
func (t teller) Unkeyed() bool {
	u, ok := t.channel.(interface{ Unkeyed() bool })
	return ok && u.Unkeyed()
}

// Places implements [outbox.Apart]: notices take no place of the messages of conversations.
func (teller) Places() (all, each int) { return 8, 2 }

// limit is how long a notice may take when its channel names no limit.
const limit = 30 * time.Second

// Limit implements [outbox.Limited].
func (t teller) Limit() time.Duration {
	if l, ok := t.channel.(interface{ Limit() time.Duration }); ok {
		return l.Limit()
	}
	return limit
}

// Handle sends a notice.
func (t teller) Handle(ctx context.Context, c outbox.Claimed) error {
	var p struct {
		endpoint.Happened
		Address string `json:"address"`
	}
	if err := json.Unmarshal(c.Payload, &p); err != nil {
		return outbox.Permanently(fmt.Errorf("read notice %s: %w", c.ID, err))
	}
	subject, body := Text(p.Happened, c.Trace)
	return t.channel.Send(ctx, thread.Message{
		Key: c.Key, Workspace: c.Workspace, Address: p.Address, Body: body, Metadata: map[string]string{"subject": subject, "event": p.Event},
	})
}
