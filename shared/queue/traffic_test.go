package queue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/queue"
)

// traffic simulates many concurrent callers: jobs inside jobs, in the same few queues, and callers
// that leave when they have waited long enough.
type traffic struct {
	q      *queue.Queues
	places map[string]int
	in     map[string]*atomic.Int32 // number of jobs in a queue
	over   atomic.Bool              // no job may be in any queue

	crowded, late               atomic.Int32
	done, circles, left, closed atomic.Int32
	other                       atomic.Pointer[error]
}

func newTraffic() *traffic {
	f := &traffic{places: map[string]int{"a": 1, "b": 1, "c": 2, "d": 3}, in: map[string]*atomic.Int32{}}
	queues := map[string]queue.Limits{}
	for name, n := range f.places {
		queues[name] = queue.Limits{MaxConcurrent: n}
		f.in[name] = new(atomic.Int32)
	}
	f.q = queue.New(queue.Options{Queues: queues})
	return f
}

// visit enters a queue, and from there perhaps others.
func (f *traffic) visit(ctx context.Context, r *rand.Rand, depth int) {
	name := string("abcd"[r.IntN(4)])
	if r.IntN(3) == 0 { // it may leave at any moment, including that of its turn
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(300))*time.Microsecond)
		defer cancel()
	}
	err := do(ctx, f.q, queue.Job{Queue: name, Class: queue.Class(r.IntN(2))}, func(ctx context.Context) error {
		if f.over.Load() {
			f.late.Add(1)
		}
		if int(f.in[name].Add(1)) > f.places[name] {
			f.crowded.Add(1)
		}
		defer f.in[name].Add(-1)
		runtime.Gosched()
		for range r.IntN(3) {
			if depth < 3 {
				f.visit(ctx, r, depth+1)
			}
		}
		return nil
	})
	_, circle := errors.AsType[*queue.CycleError](err)
	switch {
	case err == nil:
		f.done.Add(1)
	case circle:
		f.circles.Add(1)
	case errors.Is(err, queue.ErrClosed):
		f.closed.Add(1)
	case errors.Is(err, context.DeadlineExceeded):
		f.left.Add(1)
	default:
		f.other.Store(&err)
	}
}

// flow runs callers until each has made its visits.
func (f *traffic) flow(ctx context.Context, callers, visits int, seed uint64) *sync.WaitGroup {
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for range visits {
				f.visit(ctx, r, 0)
			}
		})
	}
	return &all
}

func (f *traffic) check(t *testing.T) {
	t.Helper()
	if n := f.crowded.Load(); n > 0 {
		t.Errorf("%d times there were too many in a queue", n)
	}
	if n := f.late.Load(); n > 0 {
		t.Errorf("%d jobs ran after the end", n)
	}
	if err := f.other.Load(); err != nil {
		t.Error(*err)
	}
	for _, s := range f.q.Stats() {
		if s.Active != 0 || s.Depth != 0 {
			t.Errorf("left behind: %+v", s)
		}
	}
}

// seed returns a new seed each time and prints it.
func seed(t *testing.T) uint64 {
	s := rand.Uint64()
	t.Logf("seed %d", s)
	return s
}

// TestCancellationsRacingTurns: no turn is lost, and chains that want each other's queues do not
// wait for ever.
func TestCancellationsRacingTurns(t *testing.T) {
	f := newTraffic()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a lost turn would use up the minute
	defer cancel()
	f.flow(ctx, 32, 150, seed(t)).Wait()
	if ctx.Err() != nil {
		t.Error("somebody waited for ever")
	}
	f.check(t)
	if f.done.Load() == 0 || f.circles.Load() == 0 || f.left.Load() == 0 {
		t.Errorf("%d jobs done, %d circles, %d gone: this shows nothing", f.done.Load(), f.circles.Load(), f.left.Load())
	}
}

// TestCloseRacingEverything: when Close has returned, nothing runs.
func TestCloseRacingEverything(t *testing.T) {
	s := seed(t)
	for i := range 40 {
		f := newTraffic()
		all := f.flow(t.Context(), 16, 30, s+uint64(i))
		for f.done.Load() < int32(i*5) { // while jobs run
			runtime.Gosched()
		}
		patience, cancel := context.WithCancel(t.Context())
		var closers sync.WaitGroup
		for range 2 {
			closers.Go(func() {
				if err := f.q.Close(patience); err != nil && patience.Err() == nil {
					t.Error(err)
				}
				for name, n := range f.in {
					if n.Load() != 0 {
						t.Errorf("%d jobs are in queue %s", n.Load(), name)
					}
				}
				f.over.Store(true)
			})
		}
		if i%2 == 0 {
			cancel()
		}
		closers.Wait()
		all.Wait()
		cancel()
		f.check(t)
	}
}
