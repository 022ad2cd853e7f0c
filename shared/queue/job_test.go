package queue_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/queue"
)

func TestAJobBringsItsResultAndItsError(t *testing.T) {
	q := queue.New(queue.Options{})
	n, err := queue.Do(t.Context(), q, in("main"), func(context.Context) (int, error) { return 7, nil })
	if n != 7 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	want := errors.New("no")
	n, err = queue.Do(t.Context(), q, in("main"), func(context.Context) (int, error) { return 3, want })
	if n != 3 || err != want { //nolint:errorlint // it comes as it is
		t.Errorf("got %d, %v", n, err)
	}
}

func TestAPanicIsItsJobsErrorAndTheQueueGoesOn(t *testing.T) {
	q := queue.New(queue.Options{})
	err := do(t.Context(), q, in("outer"), func(ctx context.Context) error {
		return do(ctx, q, in("main"), func(context.Context) error { panic("secret") })
	})
	p, ok := errors.AsType[*queue.PanicError](err)
	if !ok || p.Queue != "main" || p.Value != "secret" || strings.Contains(err.Error(), "secret") {
		t.Fatalf("got %v", err)
	}
	if stack := string(p.Stack); !strings.Contains(stack, "job_test.go") || strings.Contains(stack, "secret") {
		t.Errorf("the stack is %s", stack)
	}
	for _, name := range []string{"main", "outer"} {
		if err := do(t.Context(), q, in(name), fine); err != nil {
			t.Errorf("the next in %s: %v", name, err)
		}
	}
}

func TestAJobThatEndsItsGoroutineGivesItsTurnBack(t *testing.T) {
	var seen queue.Done
	q := queue.New(queue.Options{Observe: func(_ context.Context, d queue.Done) { seen = d }})
	var gone sync.WaitGroup
	gone.Go(func() {
		_ = do(t.Context(), q, in("main"), func(context.Context) error { runtime.Goexit(); return nil })
	})
	gone.Wait()
	if seen.Err == nil {
		t.Error("it was seen to succeed")
	}
	if err := do(t.Context(), q, in("main"), fine); err != nil {
		t.Error(err)
	}
}

// TestAJobHasADeadline: the deadline begins with the turn. The job, its queue or its caller sets it.
func TestAJobHasADeadline(t *testing.T) {
	queues := map[string]queue.Limits{"cron": {Timeout: 10 * time.Second}}
	for _, c := range []struct {
		name string
		job  queue.Job
		want time.Duration
	}{
		{"its own", queue.Job{Queue: "main", Timeout: time.Second}, time.Second},
		{"its queue's", queue.Job{Queue: "cron"}, 10 * time.Second},
		{"its own in such a queue", queue.Job{Queue: "cron", Timeout: 20 * time.Second}, 20 * time.Second},
		{"its caller's", queue.Job{Queue: "main"}, time.Minute},
		{"its caller's, which is earlier", queue.Job{Queue: "main", Timeout: time.Hour}, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, queue.Options{Queues: queues}, func(t *testing.T, all *crowd) {
				all.comes(t.Context(), in(c.job.Queue), takes(5*time.Second))
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second+c.want)
				if c.want < time.Minute {
					ctx, cancel = context.WithCancel(t.Context())
				}
				defer cancel()
				var ended time.Duration
				err := do(ctx, all.q, c.job, func(ctx context.Context) error {
					begun := time.Now()
					<-ctx.Done()
					ended = time.Since(begun)
					time.Sleep(time.Second) // Do waits for the job nevertheless
					return ctx.Err()
				})
				if !errors.Is(err, context.DeadlineExceeded) || ended != c.want {
					t.Errorf("it ended after %s with %v", ended, err)
				}
			})
		})
	}
}

// TestWhoWaitsInsideAJobLearnsThatItsTimeWasUp: an inner wait ends with the outer job's deadline as
// its cause.
func TestWhoWaitsInsideAJobLearnsThatItsTimeWasUp(t *testing.T) {
	bubble(t, queue.Options{}, func(t *testing.T, c *crowd) {
		c.comes(t.Context(), in("busy"), takes(time.Hour))
		err := do(t.Context(), c.q, queue.Job{Queue: "main", Timeout: time.Minute}, func(ctx context.Context) error {
			return do(ctx, c.q, in("busy"), fine)
		})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "queue busy: the job of queue main took more than 1m0s") {
			t.Errorf("got %v", err)
		}
	})
}

// TestTheContextEndsWithTheJob: a goroutine that the job left running sees the end.
func TestTheContextEndsWithTheJob(t *testing.T) {
	q := queue.New(queue.Options{})
	var kept context.Context
	if err := do(t.Context(), q, in("main"), func(ctx context.Context) error { kept = ctx; return ctx.Err() }); err != nil {
		t.Fatal(err)
	}
	if kept.Err() == nil {
		t.Error("it goes on")
	}
}

func TestCancellingTakesAJobOutOfTheQueue(t *testing.T) {
	bubble(t, queue.Options{}, func(t *testing.T, c *crowd) {
		release := make(chan none)
		c.comes(t.Context(), in("main"), func(context.Context) error { <-release; return nil })
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the browser was closed")
		gone := c.comes(ctx, in("main"), func(context.Context) error { t.Error("it ran"); return nil })
		next := c.comes(t.Context(), in("main"), fine)
		cancel(why)
		c.comes(ctx, in("main"), func(context.Context) error { t.Error("it ran"); return nil })
		if !errors.Is(*gone, context.Canceled) || !errors.Is(*gone, why) || !strings.Contains((*gone).Error(), "queue main") {
			t.Errorf("got %v", *gone)
		}
		if s := stats(c.q)[""]; s.Depth != 1 || s.Active != 1 || s.GaveUp != 1 {
			t.Errorf("the queue is %+v", s)
		}
		close(release)
		c.Wait()
		if *next != nil {
			t.Error(*next)
		}
	})
}

// TestATurnThatComesWithTheEndIsHandedOn: nothing runs for a caller that has left.
func TestATurnThatComesWithTheEndIsHandedOn(t *testing.T) {
	for range 50 {
		bubble(t, queue.Options{}, func(t *testing.T, c *crowd) {
			ctx, cancel := context.WithCancel(t.Context())
			c.comes(t.Context(), in("main"), func(context.Context) error { time.Sleep(time.Second); cancel(); return nil })
			c.comes(ctx, in("main"), func(context.Context) error { t.Error("it ran"); return nil })
			next := c.comes(t.Context(), in("main"), fine)
			c.Wait()
			if *next != nil {
				t.Error(*next)
			}
		})
	}
}
