package lane

import (
	"context"
	"time"
)

type outerDeadline struct{}

// WithInnerDeadline returns a context that ends before the invocation does: max(2 s, 10 %) before
// its deadline, so that there is time to write a checkpoint and release. Inside an inner deadline
// it changes nothing.
func WithInnerDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	outer, ok := ctx.Deadline()
	if !ok || ctx.Value(outerDeadline{}) != nil {
		return context.WithCancel(ctx)
	}
	margin := max(2*time.Second, time.Until(outer)/10)
	return context.WithDeadline(context.WithValue(ctx, outerDeadline{}, outer), outer.Add(-margin))
}

// Lease returns for how long to renew the hold: the TTL that was asked for, else the lane's
// default. It is never shorter than what [Store.Cover] ensured, because the step may still run.
func (h *Hold) Lease(ctx context.Context) time.Duration {
	ttl := h.ttl
	if ttl == 0 {
		ttl = leaseFor(ctx, h.Lane)
	}
	return max(ttl, h.coveredFor(time.Now()))
}

// leaseFor returns the time to live of a hold: the lane's default, or the time left of the
// invocation plus 5 s, whichever is shorter.
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
