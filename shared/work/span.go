package work

import (
	"context"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/span"
)

// beginSpan begins the span of the unit when its execution is known. fresh says that this unit has begun the
// execution.
func (d *doing) beginSpan(ctx context.Context, fresh bool) {
	if d.span != nil || d.exec.ID == "" {
		return
	}
	d.span = d.Reason.Spans.Run(ctx, span.Run{
		Trace: d.exec.Trace, Execution: d.exec.ID, Parent: d.exec.Parent, Workspace: string(d.Unit.Lane.Workspace),
		Surface: d.exec.Surface, Agent: d.exec.Agent, Unit: d.Name, Attempt: d.exec.Attempt, Resumed: !fresh, Begun: d.taken,
	})
}

// endSpan ends the span of the unit. ended says that the unit has returned; otherwise it has panicked.
func (d *doing) endSpan(ended bool, out Outcome, err error) {
	switch {
	case !ended:
		d.span.Fail("panic")
	case err != nil:
		d.span.Fail(ErrorClass(err))
	case out.Poison:
		d.span.Fail("poison")
	case out.Status == execution.Failed:
		d.span.Fail("failed")
	}
	if ended && err == nil {
		d.span.Text("lanekeeper.status", string(out.Execution.Status))
	}
	d.span.End()
}

// ErrorClass returns the class of an error that ended a unit, for spans.
func ErrorClass(err error) string {
	_, busy := errors.AsType[*lane.BusyError](err)
	switch {
	case errors.Is(err, lane.ErrLost):
		return "lane_lost"
	case busy:
		return "lane_busy"
	case errors.Is(err, db.ErrUnavailable):
		return "database_unavailable"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return span.Other
}
