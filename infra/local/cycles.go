package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/surface/coordinator"
)

// outageTold is the time without a successful cycle after which the log says so.
const outageTold = 5 * time.Minute

// cycles runs the coordinator's cycles in this process. One call runs at a time.
type cycles struct {
	run   func(context.Context, coordinator.Tick) (coordinator.Report, error)
	log   *slog.Logger
	clock func() time.Time
	ended time.Time // the last one without an error
	told  bool
}

func newCycles(c *coordinator.Coordinator) *cycles {
	return &cycles{run: c.Run, log: c.Log, clock: c.Clock, ended: c.Clock()}
}

// once runs a cycle in each workspace. A failure is logged, and the next call tries again. If all have
// failed for long, it says so once.
func (c *cycles) once(ctx context.Context) {
	_, err := c.run(ctx, coordinator.Tick{Scheduled: true})
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		c.ended, c.told = c.clock(), false
		return
	}
	c.log.WarnContext(ctx, "cycles failed: the next ones try again", "error", err)
	if since := c.clock().Sub(c.ended); since >= outageTold && !c.told {
		c.told = true
		c.log.ErrorContext(ctx, "no cycle has ended for minutes: no agent gets a task", "since", c.ended, "minutes", int(since.Minutes()))
	}
}
