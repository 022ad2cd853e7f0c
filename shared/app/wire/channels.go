package wire

import (
	"context"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// The channels sign or authenticate their requests with these secrets of a workspace.
const (
	httpSecret  = "channel.http"  // key that signs the request
	slackSecret = "channel.slack" // token of the bot
)

// channels returns the channels that every process can send over. Package app/mail has the others.
func (s *Surfaces) channels() []thread.Channel {
	core := s.Core
	of := func(name string) channel.Secret {
		return func(ctx context.Context, ws db.Workspace) (secret.Value, error) {
			return s.Secrets.Resolve(ctx, ws, name)
		}
	}
	all := []thread.Channel{
		&channel.HTTP{Client: s.Outbound, Secret: of(httpSecret), Clock: core.Clock},
		&channel.Slack{Client: s.Outbound, Token: of(slackSecret), Webhook: of},
	}
	if !core.Config.OnLambda() { // on Lambda, the log would retain private messages
		all = append(all, &channel.Log{Slog: core.Log})
	}
	return all
}

// deliverable checks that a channel can deliver a text to an address. Otherwise it returns a
// [problem.InvalidError].
func (s *Surfaces) deliverable(name, address, body string) error {
	if err := s.Reachable(name, address); err != nil {
		return err
	}
	return channel.CheckBody(name, body)
}

// Reachable checks that a channel is wired and that the address is valid for it. An address of the
// http channel must also be allowed by the outbound rules. Otherwise it returns a
// [problem.InvalidError].
func (s *Surfaces) Reachable(name, address string) error {
	if err := channel.Check(name, address); err != nil {
		return err
	}
	if name == channel.NameLog && s.Core.Config.OnLambda() {
		return problem.Invalid("channel", "is for a laptop: nothing is sent over it from here")
	}
	if name != channel.NameHTTP {
		return nil
	}
	err := s.Outbound.Check(address)
	if blocked, ok := errors.AsType[*outbound.BlockedError](err); ok {
		return problem.Invalid("address", "may not be called from here: rule %s", blocked.Rule)
	}
	return err
}
