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

// The secrets of a workspace by which channels prove themselves.
const (
	httpSecret  = "channel.http"  // signs what is posted
	slackSecret = "channel.slack" // the token of a bot
)

// channels are the ways in which messages leave for people from every process. Others may
// have to go from another one: see app/mail.
func (s *Surfaces) channels() []thread.Channel {
	core := s.Core
	of := func(name string) channel.Secret {
		return func(ctx context.Context, ws db.Workspace) (secret.Value, error) {
			return s.Secrets.Resolve(ctx, ws, name)
		}
	}
	all := []thread.Channel{
		&channel.HTTP{Client: s.Outbound, Secret: of(httpSecret), Clock: core.Clock},
		&channel.Slack{Client: s.Outbound, Token: of(slackSecret)},
	}
	if !core.Config.OnLambda() { // its log would keep what people are told
		all = append(all, &channel.Log{Slog: core.Log})
	}
	return all
}

// deliverable says whether a text reaches an address. The error is an [problem.InvalidError].
func (s *Surfaces) deliverable(name, address, body string) error {
	if err := s.Reachable(name, address); err != nil {
		return err
	}
	return channel.CheckBody(name, body)
}

// Reachable says whether a channel is wired and has such addresses, and, of a URL,
// whether it may be called. The error is an [problem.InvalidError].
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
