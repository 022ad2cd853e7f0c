package lane

import (
	"context"
	"sync"
	"time"
)

// lastWrites is how long the last writes of a piece of work may take beyond it.
const lastWrites = 5 * time.Second

type lastKey struct{}

// lastLimit is the limit that the last writes of one piece of work share.
type lastLimit struct {
	outer *lastLimit      // of the work that this is part of, or nil
	work  context.Context // at whose end the limit begins, if last writes are under way or come then
	begin func()
	over  context.Context
}

// WithLastWrites has all last writes under a context share one limit of 5 s beyond it, which
// begins with the first of them that is not done when the context has ended: no step of an
// end has a limit of its own. Work within other work shares that one's limit too. It must be
// cancelled.
func WithLastWrites(ctx context.Context) (context.Context, context.CancelFunc) {
	return WithLastWritesOf(ctx, ctx)
}

// WithLastWritesOf is [WithLastWrites] where the work goes on under another context than the
// one in which its outcome is awaited.
func WithLastWritesOf(ctx, work context.Context) (context.Context, context.CancelFunc) {
	limit := &lastLimit{work: work}
	beyond := context.WithoutCancel(ctx)
	if outer, ok := ctx.Value(lastKey{}).(*lastLimit); ok {
		limit.outer, beyond = outer, outer.over
	}
	over, cancel := context.WithCancel(beyond)
	limit.over = over
	limit.begin = sync.OnceFunc(func() {
		timer := time.AfterFunc(lastWrites, cancel)
		context.AfterFunc(over, func() { timer.Stop() })
	})
	under, end := context.WithCancel(context.WithValue(ctx, lastKey{}, limit))
	return under, func() { end(); cancel() }
}

// LastWrites is a context for the last reads and writes of a piece of work. It outlives
// ctx by 5 s at most, and has no deadline of its own: that would shorten a hold which the
// writes prove. Under [WithLastWrites] it ends together with the others. It must be
// cancelled.
func LastWrites(ctx context.Context) (context.Context, context.CancelFunc) {
	limit, ok := ctx.Value(lastKey{}).(*lastLimit)
	end := func() {}
	if !ok {
		ctx, end = WithLastWrites(ctx)
		limit = ctx.Value(lastKey{}).(*lastLimit)
	}
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stops := []func() bool{context.AfterFunc(limit.over, cancel), context.AfterFunc(ctx, limit.begin)}
	for l := limit; l != nil; l = l.outer {
		stops = append(stops, context.AfterFunc(l.work, l.begin))
	}
	return last, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
		end()
	}
}

// LastWritesWithin is [LastWrites] with a time-out besides, for writes that prove no hold.
func LastWritesWithin(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	last, cancel := LastWrites(ctx)
	limited, end := context.WithTimeout(last, limit)
	return limited, func() { end(); cancel() }
}
