package lane

import (
	"context"
	"sync"
	"time"
)

// lastWrites is the time that the last writes of a piece of work may take after the work's end.
const lastWrites = 5 * time.Second

type lastKey struct{}

// lastLimit is the limit that the last writes of one piece of work share.
type lastLimit struct {
	outer *lastLimit      // of the enclosing work, or nil
	work  context.Context // the limit begins when it ends, or with the first last writes after that
	begin func()
	over  context.Context
}

// WithLastWrites makes all last writes under a context share one limit of 5 s. The limit begins
// with the first last write that is not finished when the context has ended. So the steps of an end
// have no limits of their own. Nested work shares the limit of the enclosing work. The returned
// context must be cancelled.
func WithLastWrites(ctx context.Context) (context.Context, context.CancelFunc) {
	return WithLastWritesOf(ctx, ctx)
}

// WithLastWritesOf is [WithLastWrites] for work that runs under another context than the one in
// which a caller waits for its outcome.
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

// LastWrites returns a context for the last reads and writes of a piece of work. It outlives ctx by
// at most 5 s. It has no deadline, because a deadline would shorten the hold that the writes prove.
// Under [WithLastWrites] it ends together with the others. It must be cancelled.
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

// LastWritesWithin is [LastWrites] with an additional time-out, for writes that prove no hold.
func LastWritesWithin(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	last, cancel := LastWrites(ctx)
	limited, end := context.WithTimeout(last, limit)
	return limited, func() { end(); cancel() }
}
