package budget_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// sums is what the budgets of skills must hold in the end.
type sums struct {
	mu                  sync.Mutex
	allocated, consumed map[string]int64 // by skill
}

func (s *sums) add(to map[string]int64, skill string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to[skill] += n
}

// TestBudgetsOfSkillsAreReallocatedDuringCalls: no token that is moved between budgets of skills while calls
// are settled is lost or counted twice, and none is moved that was consumed.
func TestBudgetsOfSkillsAreReallocatedDuringCalls(t *testing.T) {
	const settlers, calls, movers, moves, allocated = 6, 15, 4, 15, 5_000
	seed := promise.Seed(t)
	onEach(t, func(t *testing.T, w world) {
		skills := []string{"look", "pay", "say"}
		want := sums{allocated: map[string]int64{}, consumed: map[string]int64{}}
		ids := map[string]string{}
		for _, skill := range skills {
			ids[skill] = w.create(t, w.month(budget.Skill, skill, allocated)).ID
			want.allocated[skill] = allocated
		}
		settle := func(rng *rand.Rand) {
			asks := request("ann", 200)
			asks.Lease = time.Hour
			r, err := w.s.Reserve(t.Context(), w.Workspace, asks)
			if err != nil {
				t.Error(err)
				return
			}
			var asked []string
			for _, i := range rng.Perm(len(skills))[:1+rng.IntN(len(skills))] {
				asked = append(asked, skills[i])
			}
			prompt, completion := rng.IntN(300), 1+rng.IntN(200)
			used := budget.Used{Usage: llm.Usage{PromptTokens: prompt, CompletionTokens: completion}, Model: "demo", Skills: asked}
			for range 1 + rng.IntN(2) { // the second time as if the answer was lost
				if _, err := w.s.Settle(t.Context(), w.Workspace, r, used); err != nil {
					t.Error(err)
					return
				}
			}
			n := len(asked)
			for i, skill := range asked {
				share := prompt/n + completion/n
				if i == n-1 {
					share += prompt%n + completion%n
				}
				want.add(want.consumed, skill, int64(share))
			}
		}
		move := func(rng *rand.Rand) {
			pair, amount := rng.Perm(len(skills)), 1+rng.Int64N(2_000)
			from, to := skills[pair[0]], skills[pair[1]]
			source, target, err := w.reallocate(t, ids[from], ids[to], amount)
			if _, refused := errors.AsType[*budget.RefusedError](err); refused {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			if source.Tokens.Remaining() < 0 || source.ScopeID != from || target.ScopeID != to {
				t.Errorf("%d tokens were moved from %+v to %+v", amount, source, target)
			}
			want.add(want.allocated, from, -amount)
			want.add(want.allocated, to, amount)
		}
		var wg sync.WaitGroup
		start := make(chan struct{})
		several := func(workers, times int, first uint64, do func(*rand.Rand)) {
			for i := range workers {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(seed, first+uint64(i)))
					<-start
					for range times {
						do(rng)
					}
				})
			}
		}
		several(settlers, calls, 0, settle)
		several(movers, moves, settlers, move)
		wg.Go(func() { // at every instant all budgets together have what was allocated
			<-start
			for range moves {
				items, _, err := w.s.List(t.Context(), w.Workspace, budget.Filter{Limit: 10})
				var sum int64
				for _, b := range items {
					sum += b.Tokens.Allocated
				}
				if err != nil || sum != allocated*int64(len(skills)) {
					t.Errorf("%d tokens are allocated in all, %v", sum, err)
				}
			}
		})
		close(start)
		wg.Wait()
		for _, skill := range skills {
			is := w.get(t, ids[skill]).Tokens
			if is.Allocated != want.allocated[skill] || is.Consumed != want.consumed[skill] || is.Reserved != 0 ||
				is.Overdraft() != max(0, is.Consumed-is.Allocated) {
				t.Errorf("skill %s has %+v; want %d allocated and %d consumed", skill, is, want.allocated[skill], want.consumed[skill])
			}
		}
	})
}
