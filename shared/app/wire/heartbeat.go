package wire

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// NewHeartbeat wires the heartbeat. instance names this process in holders; fan
// hands a workspace's beat to an invocation of its own, nil beats for one
// workspace after the other here. It is called by functions/heartbeat.
func NewHeartbeat(core *app.Core, instance string, fan func(context.Context, heartbeat.Tick) error) (*heartbeat.Heartbeat, error) {
	s, err := New(core, instance)
	if err != nil {
		return nil, err
	}
	s.Heartbeat.Fan = fan
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
