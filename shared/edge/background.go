package edge

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// background runs the work that continues after responses are sent.
type background struct {
	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // of the latest invocation
	working sync.WaitGroup
}

func (b *background) enter(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ctx = ctx
}

// Background runs fn after the response to a request. Lambda freezes a sandbox between invocations,
// so the current invocation ends only when fn has returned. The client has received its response by
// then. The context of fn ends shortly before the invocation's time limit.
func (s *Sandbox) Background(fn func(context.Context)) {
	s.background.mu.Lock()
	ctx := s.background.ctx
	s.background.mu.Unlock()
	s.background.working.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				s.log.ErrorContext(ctx, "background work panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
		}()
		fn(ctx)
	})
}
