package queue_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/queue"
)

func TestCloseFinishesWhatIsActiveAndRefusesTheRest(t *testing.T) {
	bubble(t, queue.Options{}, func(t *testing.T, c *crowd) {
		var finished atomic.Bool
		active := c.comes(t.Context(), in("main"), func(context.Context) error { time.Sleep(time.Minute); finished.Store(true); return nil })
		waits := c.comes(t.Context(), in("main"), func(context.Context) error { t.Error("it ran"); return nil })
		var closed error
		c.Go(func() { closed = c.q.Close(t.Context()) })
		synctest.Wait()
		if !errors.Is(*waits, queue.ErrClosed) {
			t.Errorf("one that waited: %v", *waits)
		}
		if err := do(t.Context(), c.q, in("other"), fine); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("a new one: %v", err)
		}
		if finished.Load() {
			t.Error("the active one was not waited for")
		}
		c.Wait()
		if *active != nil || closed != nil || !finished.Load() {
			t.Errorf("active %v, closed %v", *active, closed)
		}
		if err := c.q.Close(t.Context()); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}

// TestCloseLetsAnActiveJobHaveTheInnerJobsThatItNeeds includes inner jobs that must wait.
func TestCloseLetsAnActiveJobHaveTheInnerJobsThatItNeeds(t *testing.T) {
	bubble(t, queue.Options{}, func(t *testing.T, c *crowd) {
		turn := func(ctx context.Context) error {
			time.Sleep(time.Second)
			err := do(ctx, c.q, in("subagent"), takes(time.Minute))
			return errors.Join(err, do(ctx, c.q, in("memory:x"), fine))
		}
		a := c.comes(t.Context(), in("session:a"), turn)
		b := c.comes(t.Context(), in("session:b"), turn)
		time.Sleep(2 * time.Second) // one job is in subagent, one waits for it
		stranger := c.comes(t.Context(), in("subagent"), fine)
		begun := time.Now()
		err := c.q.Close(t.Context())
		if err != nil || time.Since(begun) != 119*time.Second {
			t.Errorf("closed after %s: %v", time.Since(begun), err)
		}
		c.Wait()
		if *a != nil || *b != nil || !errors.Is(*stranger, queue.ErrClosed) {
			t.Errorf("got %v, %v, and for the stranger %v", *a, *b, *stranger)
		}
	})
}

// TestCloseOutOfPatienceEndsTheJobsAndStillWaitsForThem: when the context of Close ends, Close
// cancels the jobs and waits for them.
func TestCloseOutOfPatienceEndsTheJobsAndStillWaitsForThem(t *testing.T) {
	bubble(t, queue.Options{}, func(t *testing.T, c *crowd) {
		deaf := c.comes(t.Context(), in("deaf"), takes(10*time.Second))
		var waits, next error
		returned := false
		job := c.comes(t.Context(), in("main"), func(own context.Context) error {
			ctx := context.WithoutCancel(own) // otherwise the end of this context alone would end the job
			waits = do(ctx, c.q, in("deaf"), fine)
			next = do(ctx, c.q, in("free"), fine)
			time.Sleep(time.Minute) // the job cleans up
			returned = true
			return context.Cause(own)
		})
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		err := c.q.Close(hasty)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "2 jobs were cut short") {
			t.Errorf("closed with %v", err)
		}
		if !returned || time.Since(begun) != 61*time.Second {
			t.Errorf("closed after %s", time.Since(begun))
		}
		c.Wait()
		for name, err := range map[string]error{"the job": *job, "its wait": waits, "its next": next} {
			if !errors.Is(err, queue.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if *deaf != nil {
			t.Errorf("one that does not listen: %v", *deaf)
		}
	})
}

// TestCloseByAJobWouldWaitForItself checks that the call is refused.
func TestCloseByAJobWouldWaitForItself(t *testing.T) {
	q := queue.New(queue.Options{})
	err := do(t.Context(), q, in("main"), func(ctx context.Context) error { return q.Close(ctx) })
	if _, circle := errors.AsType[*queue.CycleError](err); !circle {
		t.Errorf("got %v", err)
	}
	if err := do(t.Context(), q, in("main"), fine); err != nil {
		t.Errorf("it is closed: %v", err)
	}
	if err := q.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCloseWaitsForTheObserver: nothing of the queues runs after Close.
func TestCloseWaitsForTheObserver(t *testing.T) {
	seen := 0
	o := queue.Options{Observe: func(context.Context, queue.Done) { time.Sleep(time.Minute); seen++ }}
	bubble(t, o, func(t *testing.T, c *crowd) {
		c.comes(t.Context(), in("main"), takes(time.Second))
		if err := c.q.Close(t.Context()); err != nil || seen != 1 {
			t.Errorf("closed with %v, %d seen", err, seen)
		}
	})
}
