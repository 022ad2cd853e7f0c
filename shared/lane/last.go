package lane

import (
	"context"
	"sync"
	"time"
)

// lastWrites is how long the last writes of a piece of work may take.
const lastWrites = 5 * time.Second

type lastKey struct{}

// lastLimit is the limit that the last writes of one piece of work share.
type lastLimit struct {
	begin func()
	over  context.Context
}

// WithLastWrites has all last writes under a context share one limit of 5 s, which begins
// with the first of them: no step of an end has a limit of its own. Under such a context
// it changes nothing. It must be cancelled.
func WithLastWrites(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Value(lastKey{}).(lastLimit); ok {
		return context.WithCancel(ctx)
	}
	over, cancel := context.WithCancel(context.WithoutCancel(ctx))
	begin := sync.OnceFunc(func() {
		timer := time.AfterFunc(lastWrites, cancel)
		context.AfterFunc(over, func() { timer.Stop() })
	})
	under, end := context.WithCancel(context.WithValue(ctx, lastKey{}, lastLimit{begin, over}))
	return under, func() { end(); cancel() }
}

// LastWrites is a context for the last reads and writes of a piece of work. It outlives
// ctx by 5 s at most, and has no deadline of its own: that would shorten a hold which the
// writes prove. Under [WithLastWrites] it ends together with the others. It must be
// cancelled.
func LastWrites(ctx context.Context) (context.Context, context.CancelFunc) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if limit, ok := ctx.Value(lastKey{}).(lastLimit); ok {
		limit.begin()
		stop := context.AfterFunc(limit.over, cancel)
		return last, func() { stop(); cancel() }
	}
	timer := time.AfterFunc(lastWrites, cancel)
	return last, func() { timer.Stop(); cancel() }
}
