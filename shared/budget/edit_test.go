package budget_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func (w world) patch(t testing.TB, id string, version int, allocated int64) (b budget.Budget, err error) {
	t.Helper()
	err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		b, err = w.s.Patch(ctx, tx, id, version, budget.Allocation{Tokens: &allocated})
		return err
	})
	return b, err
}

func (w world) reallocate(t testing.TB, from, to string, amount int64) (source, target budget.Budget, err error) {
	t.Helper()
	err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		source, target, err = w.s.Reallocate(ctx, tx, from, to, amount)
		return err
	})
	return source, target, err
}

func (w world) usage(t testing.TB, by budget.By) []budget.Usage {
	t.Helper()
	got, err := w.s.Usage(t.Context(), w.Workspace, time.Time{}, time.Time{}, by)
	check(t, err)
	return got
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*budget.InvalidError](err)
	return ok
}

func TestPatch(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		b := w.create(t, w.month(budget.Global, "", 1000))
		w.settle(t, w.reserve(t, request("a", 400)), 400)
		w.reserve(t, request("a", 600))
		w.refused(t, request("a", 1))
		if b.Version != 1 || w.get(t, b.ID).Version != 1 {
			t.Error("use counts as a change")
		}
		got, err := w.patch(t, b.ID, 1, 1500)
		check(t, err)
		if got.Version != 2 || got.Tokens.Allocated != 1500 || got.Tokens.Remaining() != 500 {
			t.Errorf("it is %+v", got)
		}
		w.reserve(t, request("a", 500)) // the budget renews itself
		if _, err := w.patch(t, b.ID, 1, 2000); !errors.Is(err, budget.ErrChanged) {
			t.Errorf("an old version: %v", err)
		}
		if _, err := w.patch(t, uuid.NewString(), 0, 2000); !errors.Is(err, budget.ErrNotFound) {
			t.Errorf("another: %v", err)
		}
		for _, allocated := range []int64{-1, 399, budget.MaxTokens + 1} {
			if _, err := w.patch(t, b.ID, 0, allocated); !isInvalid(err) {
				t.Errorf("%d: %v", allocated, err)
			}
		}
		got, err = w.patch(t, b.ID, 0, 400) // reserved tokens stay reserved
		check(t, err)
		if got.Tokens != (budget.Account{Allocated: 400, Consumed: 400, Reserved: 1100}) || got.Tokens.Overdraft() != 1100 {
			t.Errorf("it is %+v", got)
		}
		w.refused(t, request("a", 1))
	})
}

// TestACapOfMoneyIsRaised: what waits for money need not wait for the next period.
func TestACapOfMoneyIsRaised(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		b := w.create(t, w.month(budget.Global, "", 1000))
		to := func(microUSD int64) (b2 budget.Budget, err error) {
			err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
				b2, err = w.s.Patch(ctx, tx, b.ID, 0, budget.Allocation{MicroUSD: &microUSD})
				return err
			})
			return b2, err
		}
		for _, microUSD := range []int64{0, 5_000_000} {
			got, err := to(microUSD)
			check(t, err)
			if !got.Capped || got.MicroUSD.Allocated != microUSD || got.Tokens.Allocated != 1000 {
				t.Errorf("%d: it is %+v", microUSD, got)
			}
		}
		for _, microUSD := range []int64{-1, budget.MaxMicroUSD + 1} {
			if _, err := to(microUSD); !isInvalid(err) {
				t.Errorf("%d: %v", microUSD, err)
			}
		}
		if got, err := w.patch(t, b.ID, 0, 2000); err != nil || got.MicroUSD.Allocated != 5_000_000 {
			t.Errorf("more tokens: %+v, %v", got, err)
		}
		ask := request("a", 100)
		ask.Model = "claude-sonnet-4"
		w.reserve(t, ask) // 100 tokens of output, for 1500
		for _, microUSD := range []int64{1000, 2000} {
			if got, err := to(microUSD); err != nil || got.MicroUSD.Reserved != 1500 || got.MicroUSD.Overdraft() != max(0, 1500-microUSD) {
				t.Errorf("a cap of %d below or above what is reserved: %+v, %v", microUSD, got, err)
			}
		}
	})
}

func TestReallocate(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.create(t, w.month(budget.Agent, "a", 1000))
		b := w.create(t, w.month(budget.Agent, "b", 100))
		w.settle(t, w.reserve(t, request("a", 300)), 300)
		w.reserve(t, request("a", 200))
		if _, _, err := w.reallocate(t, a.ID, b.ID, 501); err == nil {
			t.Error("more than is left was moved")
		} else if refused, ok := errors.AsType[*budget.RefusedError](err); !ok || refused.ScopeID != "a" || refused.Remaining != 500 {
			t.Error(err)
		}
		w.refused(t, request("b", 600))
		source, target, err := w.reallocate(t, a.ID, b.ID, 500)
		check(t, err)
		if source.ID != a.ID || source.Tokens.Allocated != 500 || source.Tokens.Remaining() != 0 ||
			target.ID != b.ID || target.Tokens.Allocated != 600 || source.Version != 2 || target.Version != 2 {
			t.Errorf("they are %+v and %+v", source, target)
		}
		w.reserve(t, request("b", 600))
		old := w.month(budget.Agent, "a", 1000)
		old.Start, old.End = old.Start.AddDate(-1, 0, 0), old.End.AddDate(-1, 0, 0)
		over := w.create(t, old)
		for name, c := range map[string]struct {
			from, to string
			amount   int64
			want     func(error) bool
		}{
			"nothing":      {a.ID, b.ID, 0, isInvalid},
			"what expired": {over.ID, b.ID, 1, isInvalid},
			"backwards":    {a.ID, b.ID, -5, isInvalid},
			"to itself":    {a.ID, a.ID, 1, isInvalid},
			"to nobody":    {a.ID, uuid.NewString(), 1, func(err error) bool { return errors.Is(err, budget.ErrNotFound) }},
			"of nobody's":  {uuid.NewString(), a.ID, 1, func(err error) bool { return errors.Is(err, budget.ErrNotFound) }},
		} {
			if _, _, err := w.reallocate(t, c.from, c.to, c.amount); !c.want(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestList(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var ids []string
		for _, agent := range []string{"a", "b", "c"} {
			ids = append(ids, w.create(t, w.month(budget.Agent, agent, 1000)).ID)
		}
		old := w.month(budget.Global, "", 9)
		old.Start, old.End = old.Start.AddDate(-1, 0, 0), old.End.AddDate(-1, 0, 0)
		ids = append(ids, w.create(t, old).ID)
		yes, no := true, false
		for name, c := range map[string]struct {
			f    budget.Filter
			want []string
			more bool
		}{
			"all":      {budget.Filter{}, []string{ids[3], ids[2], ids[1], ids[0]}, false},
			"scope":    {budget.Filter{Scope: budget.Agent}, []string{ids[2], ids[1], ids[0]}, false},
			"scope id": {budget.Filter{ScopeID: "b"}, []string{ids[1]}, false},
			"active":   {budget.Filter{Active: &yes}, []string{ids[2], ids[1], ids[0]}, false},
			"past":     {budget.Filter{Active: &no}, []string{ids[3]}, false},
			"a page":   {budget.Filter{Limit: 2}, []string{ids[3], ids[2]}, true},
			"the next": {budget.Filter{Limit: 2, Before: ids[2]}, []string{ids[1], ids[0]}, false},
		} {
			items, more, err := w.s.List(t.Context(), w.Workspace, c.f)
			check(t, err)
			var got []string
			for _, b := range items {
				got = append(got, b.ID)
			}
			if len(got) != len(c.want) || more != c.more {
				t.Errorf("%s: %q, more: %v", name, got, more)
				continue
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("%s: %q, want %q", name, got, c.want)
				}
			}
		}
	})
}

func TestUsageIsAddedUp(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		use := func(agent, skill, model string, surface trace.Surface, u llm.Usage) {
			t.Helper()
			ask := request(agent, 1000)
			ask.Skill, ask.Surface, ask.Model = skill, surface, model
			w.settleAs(t, w.reserve(t, ask), budget.Used{Usage: u})
		}
		use("a", "plan", "claude-opus-4", trace.Heartbeat, llm.Usage{PromptTokens: 10, CompletionTokens: 1, CacheReadTokens: 2, CacheWriteTokens: 4})
		use("a", "", "claude-opus-4", trace.Heartbeat, llm.Usage{PromptTokens: 10})
		w.Skew.Advance(24 * time.Hour)
		use("b", "plan", "demo", trace.Chat, llm.Usage{CompletionTokens: 500})
		opus := budget.Usage{Key: "claude-opus-4", Calls: 2, Input: 20, Output: 1, CacheRead: 2, CacheWrite: 4, MicroUSD: 150 + 75 + 3 + 75 + 150}
		demo := budget.Usage{Key: "demo", Calls: 1, Output: 500, Unpriced: 1}
		as := func(u budget.Usage, key string) budget.Usage { u.Key = key; return u }
		today, tomorrow := w.noon.Format(time.DateOnly), w.noon.AddDate(0, 0, 1).Format(time.DateOnly)
		for by, want := range map[budget.By][]budget.Usage{
			budget.ByModel:   {demo, opus},
			budget.ByAgent:   {as(demo, "b"), as(opus, "a")},
			budget.BySurface: {as(demo, "ch"), as(opus, "hb")},
			budget.ByDay:     {as(demo, tomorrow), as(opus, today)},
			budget.BySkill: {
				{Key: "plan", Calls: 2, Input: 10, Output: 501, CacheRead: 2, CacheWrite: 4, MicroUSD: 150 + 75 + 3 + 75, Unpriced: 1},
				{Key: "(answer)", Calls: 1, Input: 10, MicroUSD: 150},
			},
			budget.ByTask: {{Key: "", Calls: 3, Input: 20, Output: 501, CacheRead: 2, CacheWrite: 4, MicroUSD: 453, Unpriced: 1}},
		} {
			if got := w.usage(t, by); len(got) != len(want) || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
				t.Errorf("by %s:\n%+v, want\n%+v", by, got, want)
			}
		}
		got, err := w.s.Usage(t.Context(), w.Workspace, w.noon.Add(time.Hour), time.Time{}, budget.ByDay)
		if err != nil || len(got) != 1 || got[0].Key != tomorrow || got[0].Total() != 500 {
			t.Errorf("since: %+v, %v", got, err)
		}
		got, err = w.s.Usage(t.Context(), w.Workspace, time.Time{}, w.noon.Add(time.Hour), budget.ByDay)
		if err != nil || len(got) != 1 || got[0].Key != today || got[0].Total() != 27 {
			t.Errorf("until: %+v, %v", got, err)
		}
	})
}

func TestWorkspacesHaveBudgetsOfTheirOwn(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		theirs := w
		theirs.Workspace = dbtest.NewWorkspace(t, w.DB)
		ours, b := w.create(t, w.month(budget.Global, "", 1000)), theirs.create(t, w.month(budget.Global, "", 1000))
		r := w.reserve(t, request("a", 1000))
		theirs.reserve(t, request("a", 1000))

		theirs.settle(t, r, 500) // a reservation belongs to its workspace
		w.holds(t, ours.ID, 0, 1000)
		theirs.holds(t, b.ID, 0, 1000)
		check(t, theirs.s.Release(t.Context(), theirs.Workspace, r))
		w.holds(t, ours.ID, 0, 1000)

		if _, err := theirs.s.Get(t.Context(), theirs.Workspace, ours.ID); !errors.Is(err, budget.ErrNotFound) {
			t.Errorf("ours is theirs to read: %v", err)
		}
		if _, err := theirs.s.Projection(t.Context(), theirs.Workspace, ours.ID); !errors.Is(err, budget.ErrNotFound) {
			t.Errorf("ours is theirs to project: %v", err)
		}
		if _, err := theirs.patch(t, ours.ID, 0, 5000); !errors.Is(err, budget.ErrNotFound) {
			t.Errorf("ours is theirs to change: %v", err)
		}
		if _, _, err := theirs.reallocate(t, ours.ID, b.ID, 1); !errors.Is(err, budget.ErrNotFound) {
			t.Errorf("ours is theirs to take from: %v", err)
		}
		if all := theirs.all(t); len(all) != 1 || all[0].ID != b.ID {
			t.Errorf("they see %+v", all)
		}
		if len(w.usage(t, budget.ByAgent)) != 0 {
			t.Error("we see their log")
		}
	})
}

// TestEveryGroupOfUsageIsTold, however many tasks there are.
func TestEveryGroupOfUsageIsTold(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		const tasks = 450
		var b db.Batch
		for range tasks {
			b.Exec(w.q.AddUsage, newID(), newID(), 10)
		}
		check(t, w.DB.Do(t.Context(), w.Workspace, &b))
		if got := len(w.usage(t, budget.ByTask)); got != tasks {
			t.Errorf("of %d tasks, the usage of %d is told", tasks, got)
		}
	})
}
