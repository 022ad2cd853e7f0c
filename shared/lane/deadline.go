package lane

import (
	"context"
	"time"
)

type outerDeadline struct{}

// WithInnerDeadline ends the work before the invocation does: max(2 s, 10 %)
// before its deadline, so that there is time to write a checkpoint and release.
// Inside an inner deadline it changes nothing.
func WithInnerDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	outer, ok := ctx.Deadline()
	if !ok || ctx.Value(outerDeadline{}) != nil {
		return context.WithCancel(ctx)
	}
	margin := max(2*time.Second, time.Until(outer)/10)
	return context.WithDeadline(context.WithValue(ctx, outerDeadline{}, outer), outer.Add(-margin))
}

// lease is for how long the hold is renewed: as long as it was asked for, else as
// long as its lane says, and no shorter than [Store.Cover] made sure of: the step may
// be under way still.
func (h *Hold) lease(ctx context.Context) time.Duration {
	ttl := h.ttl
	if ttl == 0 {
		ttl = leaseFor(ctx, h.Lane)
	}
	return max(ttl, h.coveredFor(time.Now()))
}

// leaseFor is the time to live of a hold: what the lane says, or what is left of
// the invocation and 5 s, whichever is shorter.
func leaseFor(ctx context.Context, name Name) time.Duration {
	ttl := name.TTL()
	deadline, ok := ctx.Value(outerDeadline{}).(time.Time)
	if !ok {
		deadline, ok = ctx.Deadline()
	}
	if ok {
		ttl = min(ttl, max(0, time.Until(deadline))+5*time.Second)
	}
	return ttl
}
