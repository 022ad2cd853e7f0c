package queue_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/queue"
)

// race_test.go sets raceEnabled. The race detector makes everything ten times slower.
var raceEnabled bool

// heap returns the size of the reachable heap.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the first collection may find objects with finalizers of the last test
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAMillionQueuesUsedOnceLeaveNoMemory(t *testing.T) {
	queues := 1_000_000
	if raceEnabled {
		queues = 50_000 // the full number is for runs without the race detector
	}
	q := queue.New(queue.Options{Queues: map[string]queue.Limits{"session": {}}})
	use := func(n int) {
		for i := range n {
			if err := do(t.Context(), q, in("session:web:"+strconv.Itoa(i)), fine); err != nil {
				t.Fatal(err)
			}
		}
	}
	use(1000)
	before := heap()
	use(queues)
	if grown := heap() - before; grown > 64<<10 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if s := stats(q)["session"]; s.Completed != int64(queues)+1000 || s.Active != 0 {
		t.Errorf("counted %+v", s)
	}
}

// TestTheInnerJobsOfALongOneLeaveNoMemory: a long job's inner jobs free their memory while it runs.
func TestTheInnerJobsOfALongOneLeaveNoMemory(t *testing.T) {
	q := queue.New(queue.Options{})
	err := do(t.Context(), q, in("main"), func(ctx context.Context) error {
		before := heap()
		for range 20_000 {
			if err := do(ctx, q, in("subagent"), fine); err != nil {
				return err
			}
		}
		if grown := heap() - before; grown > 64<<10 {
			t.Errorf("the heap grew by %d bytes", grown)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestManyLanesAtOnceLeaveNoMemory: a Go map alone would keep the memory.
func TestManyLanesAtOnceLeaveNoMemory(t *testing.T) {
	const queues = 10_000
	crowd := func() *queue.Queues {
		c := crowd{q: queue.New(queue.Options{})}
		var arrived sync.WaitGroup
		arrived.Add(queues)
		leave := make(chan none)
		for i := range queues {
			c.Go(func() {
				// a context of the test would keep memory for all these
				_ = do(context.Background(), c.q, in("queue:"+strconv.Itoa(i)), func(context.Context) error { arrived.Done(); <-leave; return nil })
			})
		}
		arrived.Wait()
		close(leave)
		c.Wait()
		return c.q
	}
	crowd() // its goroutines leave memory that the next ones reuse
	before := heap()
	q := crowd()
	if grown := heap() - before; grown > 128<<10 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if s := stats(q)[""]; s.Completed != queues {
		t.Errorf("counted %+v", s)
	}
}
