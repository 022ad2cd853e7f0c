package reason

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// All that a run writes after its end, it writes within one limit, counted from the end.
func TestLastWritesEndTogether(t *testing.T) {
	for name, begin := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Minute, cancel)
			return ctx, cancel
		},
		"at its deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			over, cancel := begin(t.Context())
			defer cancel()
			ctx, cancel := withEnds(over)
			defer cancel()
			before, cancel := LastWrite(ctx)
			defer cancel()
			<-over.Done()
			end := time.Now()
			lasts := func(what string, ctx context.Context, want time.Duration) {
				t.Helper()
				if <-ctx.Done(); time.Since(end) != want {
					t.Errorf("%s: %s ends %s after its run, want %s", name, what, time.Since(end), want)
				}
			}
			time.Sleep(time.Second)
			settle, cancel := lastSettle(ctx)
			defer cancel()
			lasts("a settle", settle, settleShare)
			after, cancel := LastWrite(ctx)
			defer cancel()
			lasts("a write", after, lastWriteLimit)
			lasts("an earlier write", before, lastWriteLimit)
			again, cancel := lastSettle(ctx)
			defer cancel()
			lasts("a late settle", again, lastWriteLimit)
			alone, cancel := LastWrite(over)
			defer cancel()
			lasts("a write without a run", alone, 2*lastWriteLimit)
		})
	}
}
