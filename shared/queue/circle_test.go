package queue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/queue"
)

// chain returns a job of the first queue that enters the second queue at once, and so on. Only before
// the last queue it waits a second; it stays in the last queue for a second.
func (c *crowd) chain(queues ...string) func(context.Context) error {
	if len(queues) == 0 {
		return takes(time.Second)
	}
	return func(ctx context.Context) error {
		if len(queues) == 1 {
			time.Sleep(time.Second)
		}
		return do(ctx, c.q, in(queues[0]), c.chain(queues[1:]...))
	}
}

// TestANestedQueueThatWouldWaitForItselfIsRefusedWithItsChain includes a queue that has room for
// more jobs.
func TestANestedQueueThatWouldWaitForItselfIsRefusedWithItsChain(t *testing.T) {
	bubble(t, queue.Options{Queues: map[string]queue.Limits{"subagent": {MaxConcurrent: 4}}}, func(t *testing.T, c *crowd) {
		if err := c.chain("session:web:anna", "subagent", "cron")(t.Context()); err != nil {
			t.Errorf("different queues: %v", err)
		}
		for _, queues := range [][]string{{"main", "main"}, {"session:a", "subagent", "session:a"}, {"subagent", "subagent"}, {"a", "b", "c", "b"}} {
			err := c.chain(queues...)(t.Context())
			circle, ok := errors.AsType[*queue.CycleError](err)
			if !ok || !slices.Equal(circle.Chain, queues) || circle.Through != nil || !strings.HasSuffix(err.Error(), ": "+strings.Join(queues, " → ")) {
				t.Errorf("%v: %v", queues, err)
			}
		}
		if s := stats(c.q); s[""].Refused != 3 || s["subagent"].Refused != 1 {
			t.Errorf("counted %+v", s)
		}
	})
}

// TestACircleBetweenChainsIsRefused: the last chain that would close the cycle is refused. Each
// chain occupies all its queues but the last, and then asks for the last, a moment after the chain
// before it.
func TestACircleBetweenChainsIsRefused(t *testing.T) {
	two := map[string]queue.Limits{"a": {MaxConcurrent: 2}}
	for _, c := range []struct {
		name    string
		limits  map[string]queue.Limits
		chains  []string
		refused string // chain > path through the other queues; "": none is refused
	}{
		{"two that hold what the other wants", nil, []string{"a b", "b a"}, "b a > b"},
		{"three", nil, []string{"a b", "b c", "c a"}, "c a > b c"},
		{"the other holds it further out", nil, []string{"a x b", "b a"}, "b a > b"},
		{"this one holds it further out", nil, []string{"a b", "b x a"}, "b x a > b"},
		{"both do", nil, []string{"a x b", "b y c", "c z a"}, "c z a > b c"},
		{"two places, both taken", two, []string{"a b", "a b", "b a"}, "b a > b"},
		{"two places, by different ways", two, []string{"a b", "a c", "b d", "c d", "d a"}, "d a > b d"},
		{"two places, one of which gets free", two, []string{"a b", "a c", "b a"}, ""},
		{"two places, one in the own chain", two, []string{"a b", "a x", "x a b"}, ""},
		{"one waits for the other", nil, []string{"a b", "b c", "c d"}, ""},
		{"both wait for a third", nil, []string{"c d", "a c", "b c"}, ""},
		{"behind one that will wait", nil, []string{"a b", "b c", "d a"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, queue.Options{Queues: c.limits}, func(t *testing.T, all *crowd) {
				got := make([]error, len(c.chains))
				for i, chain := range c.chains {
					all.Go(func() { got[i] = all.chain(strings.Fields(chain)...)(t.Context()) })
					time.Sleep(10 * time.Millisecond)
				}
				begun := time.Now()
				all.Wait()
				var refused []string
				for i, err := range got {
					circle, ok := errors.AsType[*queue.CycleError](err)
					if ok {
						refused = append(refused, strings.Join(circle.Chain, " ")+" > "+strings.Join(circle.Through, " "))
						text := strings.ReplaceAll(c.chains[i], " ", " → ") + ", whose jobs wait for " + strings.Join(circle.Through, " → ")
						if !strings.HasSuffix(err.Error(), text) {
							t.Errorf("it says %v", err)
						}
					} else if err != nil {
						t.Errorf("chain %s: %v", c.chains[i], err)
					}
				}
				if strings.Join(refused, ", ") != c.refused || time.Since(begun) > time.Minute {
					t.Errorf("refused %q after %s", refused, time.Since(begun))
				}
			})
		})
	}
}

// TestManyInnerJobsOfOneAreNoCircle: the concurrent calls of a step, while others wait for the same
// places.
func TestManyInnerJobsOfOneAreNoCircle(t *testing.T) {
	bubble(t, queue.Options{Queues: map[string]queue.Limits{"subagent": {MaxConcurrent: 4}}}, func(t *testing.T, c *crowd) {
		begun := time.Now()
		for _, session := range []string{"session:a", "session:b"} {
			c.comes(t.Context(), in(session), func(ctx context.Context) error {
				var step crowd
				step.q = c.q
				for range 8 {
					step.Go(func() {
						if err := do(ctx, c.q, in("subagent"), takes(time.Second)); err != nil {
							t.Error(err)
						}
					})
				}
				step.Wait()
				return nil
			})
		}
		c.Wait()
		if time.Since(begun) != 4*time.Second {
			t.Errorf("it took %s", time.Since(begun))
		}
	})
}

// TestAJobThatHasLeftHoldsNothing: a job that has left blocks neither what still runs under its
// context nor what enters later under it.
func TestAJobThatHasLeftHoldsNothing(t *testing.T) {
	bubble(t, queue.Options{}, func(t *testing.T, c *crowd) {
		var kept context.Context
		var stays *error
		err := do(t.Context(), c.q, in("outer"), func(ctx context.Context) error {
			err := do(ctx, c.q, in("main"), func(ctx context.Context) error {
				kept = context.WithoutCancel(ctx)
				stays = c.comes(kept, in("other"), func(ctx context.Context) error {
					time.Sleep(time.Second)
					return do(ctx, c.q, in("main"), fine) // the job itself was in this queue
				})
				return nil
			})
			if err == nil {
				err = do(kept, c.q, in("outer"), fine) // this outer job is still in the queue
			}
			return err
		})
		circle, ok := errors.AsType[*queue.CycleError](err)
		if !ok || !slices.Equal(circle.Chain, []string{"outer", "outer"}) {
			t.Errorf("got %v", err)
		}
		for _, name := range []string{"outer", "main"} {
			if err := do(kept, c.q, in(name), fine); err != nil {
				t.Errorf("later: %v", err)
			}
		}
		c.Wait()
		if *stays != nil {
			t.Errorf("the one that stayed: %v", *stays)
		}
	})
}

// TestWhatAJobLeftBehindIsOfTheChainAroundIt: inner jobs that are left belong to the outer chain,
// which may wait for them.
func TestWhatAJobLeftBehindIsOfTheChainAroundIt(t *testing.T) {
	bubble(t, queue.Options{}, func(t *testing.T, c *crowd) {
		other := c.comes(t.Context(), in("b"), func(ctx context.Context) error {
			time.Sleep(time.Second)
			return do(ctx, c.q, in("a"), fine)
		})
		err := do(t.Context(), c.q, in("a"), func(ctx context.Context) error {
			var behind crowd
			defer behind.Wait()
			return do(ctx, c.q, in("x"), func(ctx context.Context) error {
				behind.Go(func() {
					if err := do(context.WithoutCancel(ctx), c.q, in("b"), fine); err != nil {
						t.Error(err)
					}
				})
				time.Sleep(time.Millisecond)
				return nil
			})
		})
		c.Wait()
		if circle, ok := errors.AsType[*queue.CycleError](*other); !ok || !slices.Equal(circle.Through, []string{"b"}) || err != nil {
			t.Errorf("got %v, and %v", *other, err)
		}
	})
}

// TestOtherQueuesHaveChainsOfTheirOwn checks that two sets of queues share no chain.
func TestOtherQueuesHaveChainsOfTheirOwn(t *testing.T) {
	a, b := queue.New(queue.Options{}), queue.New(queue.Options{})
	err := do(t.Context(), a, in("main"), func(ctx context.Context) error {
		return do(ctx, b, in("main"), func(ctx context.Context) error { return do(ctx, a, in("other"), fine) })
	})
	if err != nil {
		t.Error(err)
	}
}
