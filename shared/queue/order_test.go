package queue_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/queue"
)

// mark returns a job of one second that records when it ran.
func mark(order *strings.Builder, text string) func(context.Context) error {
	return func(context.Context) error {
		order.WriteString(text)
		time.Sleep(time.Second)
		return nil
	}
}

func TestALaneRunsInTheOrderOfComing(t *testing.T) {
	bubble(t, queue.Options{}, func(t *testing.T, c *crowd) {
		var order strings.Builder
		for _, text := range strings.Split("abcdefgh", "") {
			c.comes(t.Context(), in("main"), mark(&order, text))
		}
		c.Wait()
		if order.String() != "abcdefgh" {
			t.Errorf("the order was %s", &order)
		}
	})
}

// TestUsersGoFirst: each class is served in order of arrival.
func TestUsersGoFirst(t *testing.T) {
	bubble(t, queue.Options{}, func(t *testing.T, c *crowd) {
		var order strings.Builder
		for _, text := range strings.Split("aBcDeF", "") {
			class := queue.Background
			if strings.ToUpper(text) == text {
				class = queue.User
			}
			c.comes(t.Context(), queue.Job{Queue: "main", Class: class}, mark(&order, text))
		}
		c.Wait()
		if order.String() != "aBDFce" {
			t.Errorf("the order was %s", &order)
		}
	})
}

func TestTheBackgroundIsPassedOverSoOftenAndNoMore(t *testing.T) {
	for _, c := range []struct {
		name       string
		maxPassed  int
		come, want string
	}{
		{"three", 3, "u bb uuuuuuuu", "u uuub uuub uu"},
		{"one", 1, "u bbb uuuu", "u ub ub ub u"},
		{"the default", 0, "u b uuuuuuuuuu", "u uuuuuuuub uu"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, queue.Options{MaxPassed: c.maxPassed}, func(t *testing.T, all *crowd) {
				var order strings.Builder
				for _, text := range strings.Split(strings.ReplaceAll(c.come, " ", ""), "") {
					class := map[string]queue.Class{"u": queue.User, "b": queue.Background}[text]
					all.comes(t.Context(), queue.Job{Queue: "main", Class: class}, mark(&order, text))
				}
				all.Wait()
				if order.String() != strings.ReplaceAll(c.want, " ", "") {
					t.Errorf("the order was %s, not %s", &order, c.want)
				}
			})
		})
	}
}

// TestWhoIsPassedOverCountsAnewWhenNobodyWasWaiting: users that passed a background job that has
// left do not count for the next background job.
func TestWhoIsPassedOverCountsAnewWhenNobodyWasWaiting(t *testing.T) {
	bubble(t, queue.Options{MaxPassed: 2}, func(t *testing.T, c *crowd) {
		var order strings.Builder
		user := queue.Job{Queue: "main", Class: queue.User}
		impatient, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		c.comes(t.Context(), user, mark(&order, "u"))
		gone := c.comes(impatient, in("main"), mark(&order, "x"))
		for range 5 {
			c.comes(t.Context(), user, mark(&order, "u"))
		}
		time.Sleep(2600 * time.Millisecond) // two have passed it, and it has left
		c.comes(t.Context(), in("main"), mark(&order, "b"))
		c.Wait()
		if !errors.Is(*gone, context.DeadlineExceeded) || order.String() != "uuuuubu" {
			t.Errorf("the order was %s, and the impatient one got %v", &order, *gone)
		}
	})
}

// TestAnInnerJobIsOfItsChainsClass: a person who waits for the outer job waits for the inner one.
func TestAnInnerJobIsOfItsChainsClass(t *testing.T) {
	bubble(t, queue.Options{}, func(t *testing.T, c *crowd) {
		var order strings.Builder
		c.comes(t.Context(), in("subagent"), mark(&order, "a"))
		c.comes(t.Context(), in("subagent"), mark(&order, "b"))
		c.comes(t.Context(), queue.Job{Queue: "session:a", Class: queue.User}, func(ctx context.Context) error {
			return do(ctx, c.q, in("subagent"), mark(&order, "c"))
		})
		c.Wait()
		if order.String() != "acb" {
			t.Errorf("the order was %s", &order)
		}
	})
}

func TestSoManyAtOnceAndNoMore(t *testing.T) {
	bubble(t, queue.Options{Queues: map[string]queue.Limits{"subagent": {MaxConcurrent: 4}}}, func(t *testing.T, c *crowd) {
		var now, most atomic.Int32
		begun := time.Now()
		for range 20 {
			c.comes(t.Context(), in("subagent"), func(context.Context) error {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Second)
				now.Add(-1)
				return nil
			})
		}
		c.Wait()
		if most.Load() != 4 || time.Since(begun) != 5*time.Second {
			t.Errorf("%d at once, in %s", most.Load(), time.Since(begun))
		}
	})
}

// TestLanesDoNotWaitForOneAnother: each session is a queue, with the limits of "session".
func TestLanesDoNotWaitForOneAnother(t *testing.T) {
	bubble(t, queue.Options{Queues: map[string]queue.Limits{"session": {Cap: 1}}}, func(t *testing.T, c *crowd) {
		begun := time.Now()
		for _, name := range []string{"session:web:anna", "session:web:ben", "cron", ""} {
			c.comes(t.Context(), in(name), takes(time.Second))
		}
		_ = c.comes(t.Context(), in("session:web:anna"), takes(time.Second))
		if full := c.comes(t.Context(), in("session:web:anna"), fine); !isFull(*full) {
			t.Errorf("a third for anna: %v", *full)
		}
		if s := stats(c.q); s["session"].Active != 2 || s["session"].Depth != 1 || s[""].Active != 2 {
			t.Errorf("the queues are %+v", s)
		}
		c.Wait()
		if time.Since(begun) != 2*time.Second {
			t.Errorf("it took %s", time.Since(begun))
		}
	})
}

func TestAJobThatNamesNoLaneIsOfTheMainOne(t *testing.T) {
	bubble(t, queue.Options{}, func(t *testing.T, c *crowd) {
		begun := time.Now()
		c.comes(t.Context(), in(""), takes(time.Second))
		c.comes(t.Context(), in(queue.Main), takes(time.Second))
		c.Wait()
		if time.Since(begun) != 2*time.Second {
			t.Errorf("they took %s", time.Since(begun))
		}
	})
}

func isFull(err error) bool {
	_, full := errors.AsType[*queue.FullError](err)
	return full
}

func TestAFullQueueSaysWhenToComeAgain(t *testing.T) {
	session := func(most int) queue.Options {
		return queue.Options{Queues: map[string]queue.Limits{"session": {Cap: most}, "subagent": {MaxConcurrent: 4, Cap: most}}}
	}
	for _, c := range []struct {
		name          string
		options       queue.Options
		queue         string
		before, lasts time.Duration // how long ended jobs took, and how long jobs take now
		crowd         int
		want          time.Duration
	}{
		{"two wait for one", session(2), "session:a", 10 * time.Second, time.Hour, 3, 30 * time.Second},
		{"seven wait for four", session(7), "subagent", 10 * time.Second, time.Hour, 11, 20 * time.Second},
		{"quick ones", session(2), "session:a", time.Millisecond, time.Hour, 3, time.Second},
		{"a long queue", session(100), "session:a", time.Minute, time.Hour, 101, 5 * time.Minute},
		{"another of the family was observed", session(2), "session:b", 10 * time.Second, time.Hour, 3, 30 * time.Second},
		{"nothing was observed but who is in it", session(2), "other", 0, time.Hour, 1001, 5 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, c.options, func(t *testing.T, all *crowd) {
				if c.before > 0 {
					if err := do(t.Context(), all.q, in(strings.Replace(c.queue, ":b", ":a", 1)), takes(c.before)); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				for range c.crowd {
					all.comes(ctx, in(c.queue), func(ctx context.Context) error { <-ctx.Done(); return nil })
				}
				time.Sleep(10 * time.Second)
				err := do(t.Context(), all.q, in(c.queue), fine)
				full, ok := errors.AsType[*queue.FullError](err)
				if !ok || full.RetryAfter != c.want || full.Queue != c.queue {
					t.Errorf("got %v (%+v), want %s", err, full, c.want)
				}
				cancel()
			})
		})
	}
}
