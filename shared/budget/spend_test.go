package budget_test

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/budget"
)

// TestBudgetsAreNeverOverspent: many callers spend concurrently from overlapping budgets; some are
// killed between reserving and settling. LK_FULL=1 makes the 10,000 calls of the promise.
func TestBudgetsAreNeverOverspent(t *testing.T) {
	spenders, calls := 200, 1000
	if testing.Short() {
		spenders, calls = 40, 200
	}
	if promise.Full() {
		calls = 10_000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	onEach(t, func(t *testing.T, w world) {
		proof := promise.Of(t, "R18", "spenders at once, killed between reserve and settle, on "+w.Engine, "consumed = logged <= allocated, nothing kept by the dead")
		// A call uses about 120 tokens on average: each budget ends well before the calls do.
		total := int64(calls) * 120
		global := w.create(t, w.month(budget.Global, "", total/2))
		plan := w.create(t, w.month(budget.Skill, "plan", total/8))
		var settled, killed, released, refused atomic.Int64
		spend := func(t *testing.T, rng *rand.Rand) {
			ask := request("agent-"+strconv.Itoa(rng.IntN(4)), 1+rng.Int64N(400))
			ask.Input, ask.Min, ask.Day = rng.Int64N(100), 1, total/6
			if rng.IntN(3) == 0 {
				ask.Skill = "plan"
			}
			ask.Lease = budget.MaxLease
			r, err := w.s.Reserve(t.Context(), w.Workspace, ask)
			if _, no := errors.AsType[*budget.RefusedError](err); no {
				refused.Add(1)
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			switch rng.IntN(10) {
			case 0:
				killed.Add(1)
			case 1:
				released.Add(1)
				err = w.s.Release(t.Context(), w.Workspace, r)
			default:
				settled.Add(1)
				var used budget.Used
				used.PromptTokens, used.CompletionTokens = int(r.Input), rng.IntN(int(r.Output)+1)
				_, err = w.s.Settle(t.Context(), w.Workspace, r, used)
				if err == nil && rng.IntN(10) == 0 {
					_, err = w.s.Settle(t.Context(), w.Workspace, r, used) // as if the answer was lost
				}
			}
			if err != nil {
				t.Error(err)
			}
		}
		const rounds = 2 // the leases of the first round's killed callers end before the second round
		for round := range rounds {
			var wg sync.WaitGroup
			for i := range spenders {
				rng := rand.New(rand.NewPCG(seed, uint64(round*spenders+i)))
				wg.Go(func() {
					for range calls / spenders / rounds {
						spend(t, rng)
					}
				})
			}
			wg.Wait()
			w.Skew.Advance(budget.MaxLease)
		}
		t.Logf("settled %d, killed %d, released %d, refused %d", settled.Load(), killed.Load(), released.Load(), refused.Load())
		if settled.Load() == 0 || killed.Load() == 0 || refused.Load() == 0 {
			t.Error("the test has not tried what it is about")
		}

		logged := map[budget.By]map[string]int64{budget.ByAgent: {}, budget.BySkill: {}}
		var all, n int64
		for by, sums := range logged {
			for _, u := range w.usage(t, by) {
				sums[u.Key] = u.Total()
				if by == budget.ByAgent {
					all, n = all+u.Total(), n+u.Calls
				}
			}
		}
		if n != settled.Load() {
			t.Errorf("%d calls are logged, want %d", n, settled.Load())
		}
		for _, b := range w.all(t) {
			used := all
			switch b.Scope {
			case budget.Agent:
				used = logged[budget.ByAgent][strings.TrimSuffix(b.ScopeID, ":hb")]
			case budget.Skill:
				used = logged[budget.BySkill][b.ScopeID]
			}
			if b.Tokens.Consumed != used || used > b.Tokens.Allocated {
				t.Errorf("%s %s: %d consumed, %d logged, %d allocated", b.Scope, b.ScopeID, b.Tokens.Consumed, used, b.Tokens.Allocated)
			}
			if b.Tokens.Reserved != 0 {
				t.Errorf("%s %s: the dead keep %d", b.Scope, b.ScopeID, b.Tokens.Reserved)
			}
		}
		// All that is left can be reserved.
		left := min(w.get(t, global.ID).Tokens.Remaining(), w.get(t, plan.ID).Tokens.Remaining())
		ask := request("another", max(1, left))
		ask.Skill, ask.Lease = "plan", time.Minute
		if left > 0 {
			w.reserve(t, ask)
		}
		ask.Output = 1 + w.get(t, global.ID).Tokens.Remaining()
		w.refused(t, ask)
		proof.Tell("%d calls of %d, %d killed, none overspent", calls, spenders, killed.Load())
	})
}
