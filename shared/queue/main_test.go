package queue_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type none = struct{}

// do runs a job that returns no value.
func do(ctx context.Context, q *queue.Queues, j queue.Job, fn func(context.Context) error) error {
	_, err := queue.Do(ctx, q, j, func(ctx context.Context) (none, error) { return none{}, fn(ctx) })
	return err
}

// in returns a job of a queue.
func in(name string) queue.Job { return queue.Job{Queue: name} }

func fine(context.Context) error { return nil }

// takes returns a job that takes d on the bubble's clock.
func takes(d time.Duration) func(context.Context) error {
	return func(context.Context) error { time.Sleep(d); return nil }
}

// crowd is the callers in a bubble.
type crowd struct {
	sync.WaitGroup
	q *queue.Queues
}

// bubble runs a test on a virtual clock and waits for its callers.
func bubble(t *testing.T, o queue.Options, fn func(t *testing.T, c *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{q: queue.New(o)}
		fn(t, c)
		c.Wait()
		for _, s := range c.q.Stats() {
			if s.Active != 0 || s.Depth != 0 {
				t.Errorf("left behind: %+v", s)
			}
		}
	})
}

// comes enters a job and lets all goroutines run until they block.
func (c *crowd) comes(ctx context.Context, j queue.Job, fn func(context.Context) error) *error {
	var err error
	c.Go(func() { err = do(ctx, c.q, j, fn) })
	synctest.Wait()
	return &err
}

// stats returns the counts by queue.
func stats(q *queue.Queues) map[string]queue.Stats {
	all := map[string]queue.Stats{}
	for _, s := range q.Stats() {
		all[s.Queue] = s
	}
	return all
}
