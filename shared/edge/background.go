package edge

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// background is what goes on behind the answers of a sandbox.
type background struct {
	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // of the invocation that began last
	working sync.WaitGroup
}

func (b *background) enter(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ctx = ctx
}

// Background runs fn behind the answer to a request. A sandbox stands still between
// invocations: the present one ends when fn has returned, after its caller has had
// the answer. The context ends shortly before Lambda would end the invocation.
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
