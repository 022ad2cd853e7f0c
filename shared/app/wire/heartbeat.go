package wire

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// NewHeartbeat wires a heartbeat that sends no e-mail and no SMS: what it wants sent stands in
// the outbox, and kick has a function send it that links their clients, soon, or, where kick is
// nil or fails, within a minute. instance names this process in holders; fan hands a
// workspace's beat to an invocation of its own, nil beats for one workspace after the other
// here. It is called by functions/heartbeat.
func NewHeartbeat(
	core *app.Core, instance string, fan func(context.Context, heartbeat.Tick) error, kick func(context.Context) error,
) (*heartbeat.Heartbeat, error) {
	s, err := New(core, instance)
	if err != nil {
		return nil, err
	}
	s.Heartbeat.Fan, s.Heartbeat.Kick = fan, kick
	s.Heartbeat.Elsewhere = []string{thread.Topic(channel.NameEmail), thread.Topic(channel.NameSMS)}
	return s.Heartbeat, nil
}

// sweep lets go of reservations and rate limits that nobody needs any more.
func (s *Surfaces) sweep(ctx context.Context, ws db.Workspace) error {
	if _, err := s.Budgets.Sweep(ctx, ws); err != nil {
		return err
	}
	limits, err := ratelimit.New(s.DB)
	if err != nil {
		return err
	}
	var b db.Batch
	limits.Purge(&b)
	if err := s.DB.Do(ctx, ws, &b); err != nil {
		return fmt.Errorf("sweep rate limits: %w", err)
	}
	return nil
}
