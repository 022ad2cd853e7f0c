package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type none = struct{}

// do runs a job that brings nothing.
func do(ctx context.Context, q *queue.Queues, j queue.Job, fn func(context.Context) error) error {
	_, err := queue.Do(ctx, q, j, func(ctx context.Context) (none, error) { return none{}, fn(ctx) })
	return err
}

func fine(context.Context) error { return nil }

func TestAJobBringsItsResultAndItsError(t *testing.T) {
	q := queue.New(queue.Options{})
	n, err := queue.Do(t.Context(), q, queue.Job{Lane: "main"}, func(context.Context) (int, error) { return 7, nil })
	if n != 7 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	want := errors.New("no")
	if err := do(t.Context(), q, queue.Job{Lane: "main"}, func(context.Context) error { return want }); err != want { //nolint:errorlint // it comes as it is
		t.Errorf("got %v", err)
	}
}

// TestALaneRunsInOrder: one at a time, users before the background, each class in
// the order of its coming.
func TestALaneRunsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{})
		var order []string
		var jobs sync.WaitGroup
		for i, class := range []queue.Class{queue.User, queue.Background, queue.Background, queue.User, queue.User} {
			jobs.Go(func() {
				err := do(t.Context(), q, queue.Job{Lane: "main", Class: class}, func(context.Context) error {
					time.Sleep(time.Second) // of the bubble's clock: the others come meanwhile
					order = append(order, fmt.Sprint(i))
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		jobs.Wait()
		if got := strings.Join(order, ""); got != "03412" {
			t.Errorf("the order was %s", got)
		}
	})
}

// TestTheBackgroundIsPassedOverSoOftenAndNoMore.
func TestTheBackgroundIsPassedOverSoOftenAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{MaxPassed: 3})
		var order strings.Builder
		var jobs sync.WaitGroup
		add := func(class queue.Class, mark string) {
			jobs.Go(func() {
				_ = do(t.Context(), q, queue.Job{Lane: "main", Class: class}, func(context.Context) error {
					time.Sleep(time.Second)
					order.WriteString(mark)
					return nil
				})
			})
			synctest.Wait()
		}
		add(queue.User, "u")
		add(queue.Background, "b")
		add(queue.Background, "b")
		for range 8 {
			add(queue.User, "u")
		}
		jobs.Wait()
		if got := order.String(); got != "uuuubuuubuu" {
			t.Errorf("the order was %s", got)
		}
	})
}

func TestSoManyAtOnceAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Lanes: map[string]queue.Limits{"subagent": {MaxConcurrent: 4}}})
		var now, most atomic.Int32
		var jobs sync.WaitGroup
		for range 20 {
			jobs.Go(func() {
				_ = do(t.Context(), q, queue.Job{Lane: "subagent"}, func(context.Context) error {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Second)
					now.Add(-1)
					return nil
				})
			})
		}
		begun := time.Now()
		jobs.Wait()
		if most.Load() != 4 || time.Since(begun) != 5*time.Second {
			t.Errorf("%d at once, in %s", most.Load(), time.Since(begun))
		}
	})
}

func TestAPanicIsItsJobsErrorAndTheLaneGoesOn(t *testing.T) {
	q := queue.New(queue.Options{})
	err := do(t.Context(), q, queue.Job{Lane: "main"}, func(context.Context) error { panic("secret") })
	p, ok := errors.AsType[*queue.PanicError](err)
	if !ok || p.Value != "secret" || !strings.Contains(string(p.Stack), "queue_test") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if err := do(t.Context(), q, queue.Job{Lane: "main"}, fine); err != nil {
		t.Errorf("the next: %v", err)
	}
}

func TestAJobThatEndsItsGoroutineGivesItsTurnBack(t *testing.T) {
	q := queue.New(queue.Options{})
	var gone sync.WaitGroup
	gone.Go(func() {
		_ = do(t.Context(), q, queue.Job{Lane: "main"}, func(context.Context) error { runtime.Goexit(); return nil })
	})
	gone.Wait()
	if err := do(t.Context(), q, queue.Job{Lane: "main"}, fine); err != nil {
		t.Error(err)
	}
}

func TestAJobHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{})
		err := do(t.Context(), q, queue.Job{Lane: "main", Timeout: time.Minute}, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// TestCancellingTakesAJobOutOfTheQueue.
func TestCancellingTakesAJobOutOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{})
		release := make(chan none)
		var jobs sync.WaitGroup
		jobs.Go(func() {
			_ = do(t.Context(), q, queue.Job{Lane: "main"}, func(context.Context) error { <-release; return nil })
		})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		jobs.Go(func() {
			err := do(ctx, q, queue.Job{Lane: "main"}, func(context.Context) error { t.Error("it ran"); return nil })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		if s := q.Stats(); s[0].Depth != 0 || s[0].Active != 1 {
			t.Errorf("the lane is %+v", s)
		}
		close(release)
		jobs.Wait()
	})
}

// TestCancellationsRacingTurns: whatever comes first, no turn is lost.
func TestCancellationsRacingTurns(t *testing.T) {
	q := queue.New(queue.Options{Lanes: map[string]queue.Limits{"many": {MaxConcurrent: 2}}})
	var jobs sync.WaitGroup
	var now atomic.Int32
	for i := range 400 {
		jobs.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*100*time.Microsecond)
			defer cancel()
			_ = do(ctx, q, queue.Job{Lane: "many", Class: queue.Class(i % 2)}, func(context.Context) error {
				if now.Add(1) > 2 {
					t.Error("too many at once")
				}
				runtime.Gosched()
				now.Add(-1)
				return nil
			})
		})
	}
	jobs.Wait()
	if err := do(t.Context(), q, queue.Job{Lane: "many"}, fine); err != nil {
		t.Error(err)
	}
	if s := q.Stats()[0]; s.Active != 0 || s.Depth != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

func TestAFullLaneSaysWhenToComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Default: queue.Limits{Cap: 2}})
		work := func(context.Context) error { time.Sleep(10 * time.Second); return nil }
		_ = do(t.Context(), q, queue.Job{Lane: "session:a"}, work) // so long it takes
		var jobs sync.WaitGroup
		for range 3 {
			jobs.Go(func() { _ = do(t.Context(), q, queue.Job{Lane: "session:a"}, work) })
			synctest.Wait()
		}
		err := do(t.Context(), q, queue.Job{Lane: "session:a"}, fine)
		full, ok := errors.AsType[*queue.FullError](err)
		if !ok || full.Waiting != 2 || full.RetryAfter != 30*time.Second {
			t.Errorf("got %v", err)
		}
		if err := do(t.Context(), q, queue.Job{Lane: "session:b"}, fine); err != nil {
			t.Errorf("another lane: %v", err)
		}
		jobs.Wait()
	})
}

// TestANestedQueueThatWouldWaitForItselfIsRefusedWithItsChain.
func TestANestedQueueThatWouldWaitForItselfIsRefusedWithItsChain(t *testing.T) {
	q := queue.New(queue.Options{Lanes: map[string]queue.Limits{"subagent": {MaxConcurrent: 4}}})
	in := func(ctx context.Context, lanes ...string) (err error) {
		step := func(context.Context) error { return nil }
		for _, l := range slices.Backward(lanes) {
			inner := step
			step = func(ctx context.Context) error { return do(ctx, q, queue.Job{Lane: l}, inner) }
		}
		return step(ctx)
	}
	if err := in(t.Context(), "session:web:anna", "subagent", "cron"); err != nil {
		t.Errorf("different lanes: %v", err)
	}
	for _, lanes := range [][]string{{"main", "main"}, {"session:a", "subagent", "session:a"}, {"subagent", "subagent"}, {"a", "b", "c", "b"}} {
		err := in(t.Context(), lanes...)
		circle, ok := errors.AsType[*queue.CircleError](err)
		if !ok || !slices.Equal(circle.Chain, lanes) || !strings.Contains(err.Error(), strings.Join(lanes, " → ")) {
			t.Errorf("%v: %v", lanes, err)
		}
	}
	if s := q.Stats(); s[0].Active != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

// TestACircleBetweenChainsIsRefused: of two chains that hold what the other wants,
// the one that comes last; also through a third, and where a lane has room for two.
func TestACircleBetweenChainsIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		holds  []string // chain i holds lane i, then wants that of the next
		limits map[string]queue.Limits
	}{
		{"two", []string{"a", "b"}, nil},
		{"three", []string{"a", "b", "c"}, nil},
		{"two places, both taken", []string{"a", "a", "b"}, map[string]queue.Limits{"a": {MaxConcurrent: 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := queue.New(queue.Options{Lanes: c.limits})
				wants := map[string]string{"a": "b", "b": "c", "c": "a"}
				if c.name != "three" {
					wants["b"] = "a"
				}
				var refused atomic.Int32
				var chains sync.WaitGroup
				for _, held := range c.holds {
					chains.Go(func() {
						err := do(t.Context(), q, queue.Job{Lane: held}, func(ctx context.Context) error {
							synctestPause()
							return do(ctx, q, queue.Job{Lane: wants[held]}, fine)
						})
						if circle, ok := errors.AsType[*queue.CircleError](err); ok {
							refused.Add(1)
							if len(circle.Through) == 0 {
								t.Errorf("it does not say through what: %v", err)
							}
						} else if err != nil {
							t.Error(err)
						}
					})
				}
				chains.Wait()
				if refused.Load() != 1 {
					t.Errorf("%d of %d chains were refused", refused.Load(), len(c.holds))
				}
			})
		})
	}
}

// synctestPause lets the others of the bubble come as far as they can.
func synctestPause() { time.Sleep(time.Second) }

// TestAWaitThatEndsIsNoCircle: the other chain holds what this one wants, and one
// more place of it gets free.
func TestAWaitThatEndsIsNoCircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Lanes: map[string]queue.Limits{"a": {MaxConcurrent: 2}}})
		var chains sync.WaitGroup
		for i, held := range []string{"a", "a", "b"} {
			chains.Go(func() {
				err := do(t.Context(), q, queue.Job{Lane: held}, func(ctx context.Context) error {
					synctestPause()
					if i == 1 { // it wants nothing more, and ends
						synctestPause()
						return nil
					}
					return do(ctx, q, queue.Job{Lane: map[string]string{"a": "b", "b": "a"}[held]}, fine)
				})
				if err != nil {
					t.Errorf("chain %d: %v", i, err)
				}
			})
		}
		chains.Wait()
	})
}

// TestAWaitPastItsLimitWarnsWhileItWaits.
func TestAWaitPastItsLimitWarnsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		var told []queue.Waiting
		var over atomic.Bool
		q := queue.New(queue.Options{
			Slog: slog.New(slog.NewTextHandler(&text, nil)),
			Warn: func(_ context.Context, w queue.Waiting) {
				if over.Load() {
					t.Error("it warns of a wait that is over")
				}
				told = append(told, w)
			},
		})
		var jobs sync.WaitGroup
		jobs.Go(func() {
			_ = do(t.Context(), q, queue.Job{Lane: "outer"}, func(ctx context.Context) error {
				return do(ctx, q, queue.Job{Lane: "main"}, func(context.Context) error { time.Sleep(10 * time.Second); over.Store(true); return nil })
			})
		})
		synctest.Wait()
		jobs.Go(func() { _ = do(t.Context(), q, queue.Job{Lane: "main", Class: queue.User}, fine) })
		synctest.Wait()
		jobs.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = do(ctx, q, queue.Job{Lane: "main"}, fine) // gone before it is worth a warning
		})
		jobs.Wait()
		if len(told) != 1 || told[0].Lane != "main" || told[0].Waited != 2*time.Second || told[0].Active != 1 || told[0].Ahead != 0 ||
			!slices.Equal(told[0].Blocked, []string{"outer → main"}) {
			t.Errorf("told %+v", told)
		}
		if strings.Count(text.String(), "a job waits for its lane") != 1 {
			t.Errorf("logged %s", text.String())
		}
	})
}

// TestClose: what is active finishes, what waits and what is new is refused.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{})
		var jobs sync.WaitGroup
		finished := false
		jobs.Go(func() {
			err := do(t.Context(), q, queue.Job{Lane: "main"}, func(ctx context.Context) error {
				time.Sleep(time.Minute)
				if err := do(ctx, q, queue.Job{Lane: "other"}, fine); !errors.Is(err, queue.ErrClosed) {
					t.Errorf("a nested one: %v", err)
				}
				finished = true
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		jobs.Go(func() {
			if err := do(t.Context(), q, queue.Job{Lane: "main"}, fine); !errors.Is(err, queue.ErrClosed) {
				t.Errorf("one that waits: %v", err)
			}
		})
		synctest.Wait()
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Close(hasty); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 jobs are active") {
			t.Errorf("in a second: %v", err)
		}
		if err := q.Close(t.Context()); err != nil || !finished {
			t.Errorf("closed with %v while the job had finished: %v", err, finished)
		}
		if err := do(t.Context(), q, queue.Job{Lane: "main"}, fine); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("a new one: %v", err)
		}
		jobs.Wait()
	})
}

func TestTheCountsOfALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []queue.Done
		var mu sync.Mutex
		q := queue.New(queue.Options{
			Lanes:   map[string]queue.Limits{"session": {}, "cron": {}},
			Observe: func(d queue.Done) { mu.Lock(); defer mu.Unlock(); seen = append(seen, d) },
		})
		var jobs sync.WaitGroup
		for _, l := range []string{"session:a", "session:a", "session:b", "cron", "any"} {
			jobs.Go(func() {
				_ = do(t.Context(), q, queue.Job{Lane: l}, func(context.Context) error {
					time.Sleep(5 * time.Second)
					if l == "cron" {
						return errors.New("no")
					}
					return nil
				})
			})
		}
		jobs.Wait()
		stats := map[string]queue.Stats{}
		for _, s := range q.Stats() {
			stats[s.Lane] = s
		}
		s := stats["session"]
		if s.Completed != 3 || s.Failed != 0 || s.Waited[0].Jobs != 2 || s.Waited[4].Jobs != 1 || s.Service != 5*time.Second {
			t.Errorf("sessions: %+v", s)
		}
		if stats["cron"].Failed != 1 || stats[""].Completed != 1 || len(stats) != 3 || len(seen) != 5 {
			t.Errorf("got %+v, saw %+v", stats, seen)
		}
	})
}

// TestAMillionLanesUsedOnceLeaveNoMemory.
func TestAMillionLanesUsedOnceLeaveNoMemory(t *testing.T) {
	q := queue.New(queue.Options{Lanes: map[string]queue.Limits{"session": {}}})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	use := func(n int) {
		for i := range n {
			if err := do(t.Context(), q, queue.Job{Lane: fmt.Sprintf("session:web:%d", i)}, fine); err != nil {
				t.Fatal(err)
			}
		}
	}
	use(1000)
	before := heap()
	use(1_000_000)
	if grown := int64(heap()) - int64(before); grown > 256<<10 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if s := q.Stats()[0]; s.Completed != 1_001_000 {
		t.Errorf("counted %+v", s)
	}
}

func BenchmarkDo(b *testing.B) {
	q := queue.New(queue.Options{})
	b.ReportAllocs()
	for b.Loop() {
		_ = do(b.Context(), q, queue.Job{Lane: "main"}, fine)
	}
}
