package budget_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

// TestAttemptsNeverOverspend: many coordinators assign tasks whose covers overlap, report what is used and end
// the attempts; some are killed in a transaction or between reserve and settle. Nothing is overspent at any
// instant.
func TestAttemptsNeverOverspend(t *testing.T) {
	spenders, calls := 200, 250
	if testing.Short() {
		spenders, calls = 20, 100
	}
	calls = promise.Figure(calls, 10_000)
	seed := promise.Seed(t)
	onEach(t, func(t *testing.T, w world) {
		proof := promise.Of(t, "R18", "attempts reserved at three levels, killed between reserve and settle, on "+w.Engine,
			"consumed = logged <= allocated at every instant, nothing kept by the dead")
		const estimate = 1000
		total := int64(calls) * estimate
		projects := []string{w.project(t), w.project(t), w.project(t)}
		agents := []string{newID(), newID(), newID(), newID()}
		w.create(t, w.month(budget.Global, "", total/2))
		for _, p := range projects {
			w.create(t, w.month(budget.Project, p, total/5))
		}
		for _, a := range agents {
			w.create(t, w.month(budget.Agent, a, total/6))
		}
		tasks := make([]budget.Cover, calls)
		rng := rand.New(rand.NewPCG(seed, 0))
		var b db.Batch
		for i := range tasks {
			tasks[i] = budget.Cover{Task: newID(), Project: projects[rng.IntN(len(projects))], Agent: agents[rng.IntN(len(agents))]}
			b.Exec(w.q.AddTasks, tasks[i].Task, "code", "{}")
		}
		check(t, w.DB.Do(t.Context(), w.Workspace, &b))

		var done, killed, refused, torn, looks atomic.Int64
		spend := func(rng *rand.Rand, c budget.Cover) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if rng.IntN(8) == 0 { // killed in the transaction, or while its answer is on its way
				timer := time.AfterFunc(time.Duration(rng.IntN(8000))*time.Microsecond, cancel)
				defer timer.Stop()
			}
			number, no, err := w.tryAssign(ctx, c, estimate, 0)
			switch {
			case err != nil && ctx.Err() != nil:
				torn.Add(1)
				return
			case err != nil:
				t.Error(err)
				return
			case no != nil:
				refused.Add(1)
				return
			}
			for left := estimate; left > 0 && rng.IntN(4) > 0; {
				n := 1 + rng.IntN(left)
				left -= n
				w.report(t, c, number, "demo", usage(n))
			}
			if rng.IntN(6) == 0 {
				killed.Add(1)
				return
			}
			w.complete(t, c.Task)
			done.Add(1)
		}
		look := func() {
			items, _, err := w.s.List(t.Context(), w.Workspace, budget.Filter{Limit: 200})
			if err != nil {
				t.Error(err)
			}
			for _, b := range items {
				if b.Tokens.Overdraft() != 0 || b.Tokens.Consumed+b.Tokens.Reserved > b.Tokens.Allocated {
					t.Errorf("%s %s: %+v", b.Scope, b.ScopeID, b.Tokens)
				}
			}
			looks.Add(1)
		}
		over := make(chan struct{})
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for {
				look()
				select {
				case <-over:
					return
				default:
				}
			}
		}()
		next := make(chan budget.Cover)
		var wg sync.WaitGroup
		for i := range spenders {
			rng := rand.New(rand.NewPCG(seed, uint64(i+1)))
			wg.Go(func() {
				for c := range next {
					spend(rng, c)
				}
			})
		}
		for _, c := range tasks {
			next <- c
		}
		close(next)
		wg.Wait()
		close(over)
		<-watched
		if done.Load() == 0 || killed.Load() == 0 || refused.Load() == 0 {
			t.Errorf("done %d, killed %d, refused %d: the test has not tried what it is about", done.Load(), killed.Load(), refused.Load())
		}

		// The coordinator recovers what the dead have left open: nothing stays reserved.
		_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.EndAttempts)
		check(t, err)
		look()
		logged := map[budget.Scope]map[string]int64{budget.Global: {}, budget.Agent: {}, budget.Project: {}}
		of := map[string]budget.Cover{}
		for _, c := range tasks {
			of[c.Task] = c
		}
		check(t, w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
			var id string
			var used int64
			err := scan(&id, &used)
			logged[budget.Global][""] += used
			logged[budget.Project][of[id].Project] += used
			logged[budget.Agent][of[id].Agent] += used
			return err
		}, w.q.UsedByTask))
		for _, b := range w.all(t) {
			if used := logged[b.Scope][b.ScopeID]; b.Tokens.Consumed != used || b.Tokens.Reserved != 0 {
				t.Errorf("%s %s: %d consumed, %d logged, %d reserved", b.Scope, b.ScopeID, b.Tokens.Consumed, used, b.Tokens.Reserved)
			}
		}
		proof.Tell("%d attempts of %d spenders, %d killed after and %d in the reservation, %d refused, none overspent at %d looks", calls, spenders,
			killed.Load(), torn.Load(), refused.Load(), looks.Load())
	})
}
