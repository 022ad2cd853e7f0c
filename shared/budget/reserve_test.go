package budget_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestStatementsAndRoundTrips(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.create(t, w.month(budget.Global, "", 10_000))
		w.create(t, w.month(budget.Skill, "plan", 10_000))
		ask := request("a", 100)
		ask.Skill, ask.Day = "plan", 1000
		var r budget.Reservation
		for _, step := range []struct {
			what string
			want db.Stats
			do   func()
		}{
			// Three statements that find no period, three that make it, and then those of every
			// other reservation.
			{"the first reservation of a day", db.Stats{Statements: 3 + 4 + 4, RoundTrips: 1 + 3 + 2}, func() { r = w.reserve(t, ask) }},
			{"settling", db.Stats{Statements: 4, RoundTrips: 1}, func() { w.settle(t, r, 50) }},
			{"a reservation", db.Stats{Statements: 4, RoundTrips: 2}, func() { r = w.reserve(t, ask) }},
			{"giving back", db.Stats{Statements: 3, RoundTrips: 1}, func() { check(t, w.s.Release(t.Context(), w.Workspace, r)) }},
			{"a refusal", db.Stats{Statements: 2, RoundTrips: 1}, func() { w.refused(t, request("b", 20_000)) }},
		} {
			if got := w.spent(step.do); got != step.want {
				t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
			}
		}
	})
}

func TestEveryBudgetThatCoversTheCallIsCharged(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		global := w.create(t, w.month(budget.Global, "", 10_000))
		skill := w.create(t, w.month(budget.Skill, "plan", 5000))
		other := w.create(t, w.month(budget.Agent, "other", 5000))
		ask := request("a", 300)
		ask.Skill, ask.Day = "plan", 1000
		r := w.reserve(t, ask)
		agent := w.all(t)[3]
		if agent.Scope != budget.Agent || agent.ScopeID != "a:hb" || agent.Tokens.Allocated != 1000 || agent.CreatedBy != budget.Automatic ||
			!agent.Start.Equal(w.noon.Truncate(24*time.Hour)) || agent.End.Sub(agent.Start) != 24*time.Hour {
			t.Errorf("the agent's day is %+v", agent)
		}
		for _, id := range []string{global.ID, skill.ID, agent.ID} {
			w.holds(t, id, 0, 300)
		}
		w.settle(t, r, 120)
		for _, id := range []string{global.ID, skill.ID, agent.ID} {
			w.holds(t, id, 120, 0)
		}
		w.holds(t, other.ID, 0, 0)
	})
}

func TestOneBudgetWithTooLittleRefusesForAll(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		global := w.create(t, w.month(budget.Global, "", 1000))
		ask := request("a", 600)
		ask.Day = 500
		got := w.refused(t, ask)
		if got.Scope != budget.Agent || got.ScopeID != "a:hb" || got.Remaining != 500 || !got.FreesAt.Equal(w.noon.Add(12*time.Hour)) {
			t.Errorf("refused by %+v", got)
		}
		w.holds(t, global.ID, 0, 0)

		w.reserve(t, request("b", 700))
		got = w.refused(t, request("c", 600))
		if got.Scope != budget.Global || got.Remaining != 300 || got.FreesAt.Sub(w.noon) > 5*time.Minute {
			t.Errorf("refused by %+v, want the global one, until the other's lease ends", got)
		}
		w.holds(t, global.ID, 0, 700)
	})
}

func TestWhoIsContentWithLessGetsWhatIsLeft(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		b := w.create(t, w.month(budget.Global, "", 1000))
		ask := request("a", 2000)
		ask.Input, ask.Min = 100, 1000
		if got := w.refused(t, ask); got.Remaining != 1000 {
			t.Errorf("%+v", got)
		}
		ask.Min = 900
		if r := w.reserve(t, ask); r.Output != 900 {
			t.Errorf("granted %d, want what is left beside the input", r.Output)
		}
		w.holds(t, b.ID, 0, 1000)
	})
}

func TestMoneyBoundsWhereItIsAllocated(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		capped := w.month(budget.Global, "", 1_000_000)
		capped.Capped, capped.MicroUSD.Allocated = true, 20_000
		b := w.create(t, capped)

		ask := request("a", 1000) // 15 µ$ a token
		ask.Model = "us.anthropic.claude-sonnet-4-20250514-v1:0"
		ask.Input = 1000 // 3.75 µ$ a token when it is written to the cache
		ask.Min = 1
		first := w.reserve(t, ask)
		if first.Output != 1000 {
			t.Errorf("granted %d", first.Output)
		}
		if got := w.get(t, b.ID).MicroUSD; got.Reserved != 18_750 {
			t.Errorf("%d µ$ are reserved", got.Reserved)
		}
		ask.Input = 0
		if r := w.reserve(t, ask); r.Output != 83 { // of 1,250 µ$
			t.Errorf("granted %d", r.Output)
		}
		ask.Output = 100
		if got := w.refused(t, ask); got.Scope != budget.Global {
			t.Errorf("%+v", got)
		}
		cost := w.settleAs(t, first, budget.Used{
			Usage: llm.Usage{PromptTokens: 100, CompletionTokens: 10, CacheReadTokens: 1000, CacheWriteTokens: 100},
			Model: "claude-sonnet-4-20250514",
		})
		if cost != 1125 {
			t.Errorf("it cost %d µ$", cost)
		}
		if got := w.get(t, b.ID); got.MicroUSD.Consumed != 300+150+300+375 || got.Tokens.Consumed != 1210 || !got.Capped {
			t.Errorf("%+v", got)
		}

		// A model that answers under a name without a price costs what the requested model does.
		if cost := w.settleAs(t, w.reserve(t, ask), budget.Used{Usage: llm.Usage{CompletionTokens: 10_000}, Model: "profile/x"}); cost != 150_000 {
			t.Errorf("it cost %d µ$", cost)
		}
		if got := w.get(t, b.ID).MicroUSD; got.Overdraft() == 0 {
			t.Errorf("no overdraft: %+v", got)
		}
		w.refused(t, ask)
	})
}

func TestTheDearestThatMayAnswerCounts(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		capped := w.month(budget.Global, "", 1_000_000)
		capped.Capped, capped.MicroUSD.Allocated = true, 80_000
		b := w.create(t, capped)
		ask := request("a", 1000)
		ask.Model, ask.Others = "claude-3-5-haiku", []string{"claude-opus-4", "claude-sonnet-4"}
		w.reserve(t, ask)
		if got := w.get(t, b.ID).MicroUSD; got.Reserved != 75_000 {
			t.Errorf("%d µ$ are reserved", got.Reserved)
		}
	})
}

// TestAModelWithoutAPriceIsRefusedWhereMoneyIsCapped: nobody could know when the money is used up.
func TestAModelWithoutAPriceIsRefusedWhereMoneyIsCapped(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		unpriced := func(ask budget.Request) {
			t.Helper()
			_, err := w.s.Reserve(t.Context(), w.Workspace, ask)
			if e, ok := errors.AsType[*budget.UnpricedError](err); !ok || e.Model != "demo" {
				t.Errorf("it is %v", err)
			}
		}
		ask := request("a", 100)
		if cost := w.settleAs(t, w.reserve(t, ask), budget.Used{Usage: llm.Usage{CompletionTokens: 100}}); cost != 0 {
			t.Errorf("where nothing is capped it cost %d µ$", cost)
		}
		day, priced := ask, ask
		day.Day, day.DayMicroUSD = 1000, 1000
		unpriced(day)
		priced.Priced = true
		unpriced(priced)
		fallback := priced
		fallback.Model, fallback.Others = "claude-sonnet-4", []string{"demo"}
		unpriced(fallback)
		capped := w.month(budget.Global, "", 1_000_000)
		capped.Capped, capped.MicroUSD.Allocated = true, budget.MaxMicroUSD
		w.create(t, capped)
		unpriced(ask)
	})
}

// TestBeatsLeaveThePersonTheirDay: the daily limit of beats limits nobody else. The limit of an
// agent applies to it everywhere.
func TestBeatsLeaveThePersonTheirDay(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		beat, person := request("a", 600), request("a", 600)
		beat.Day, person.Surface = 1000, trace.Operate
		w.settle(t, w.reserve(t, beat), 600)
		w.refused(t, beat)
		w.settle(t, w.reserve(t, person), 600)
		w.create(t, w.month(budget.Agent, "a", 700))
		w.settle(t, w.reserve(t, person), 600)
		for _, ask := range []budget.Request{beat, person} {
			if got := w.refused(t, ask); ask.Day == 0 && got.ScopeID != "a" {
				t.Errorf("refused by %+v", got)
			}
		}
		beat.Output = 200 // the day has 400 left, the agent 100
		if got := w.refused(t, beat); got.ScopeID != "a" {
			t.Errorf("refused by %+v", got)
		}
	})
}

func TestTheMoneyOfADay(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		ask := request("a", 1000)
		ask.Model, ask.Min, ask.Day, ask.DayMicroUSD = "claude-sonnet-4", 1, 100_000, 20_000
		w.settle(t, w.reserve(t, ask), 1000)
		if r := w.reserve(t, ask); r.Output != 333 { // for 5,000 µ$
			t.Errorf("granted %d", r.Output)
		}
		ask.Min = 100
		w.refused(t, ask)
		w.Skew.Advance(24 * time.Hour)
		if r := w.reserve(t, ask); r.Output != 1000 {
			t.Errorf("the next day it is granted %d", r.Output)
		}
	})
}

func TestAnAbandonedReservationReturnsByItself(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		b := w.create(t, w.month(budget.Global, "", 1000))
		w.reserve(t, request("killed", 800))
		w.refused(t, request("a", 300))
		w.Skew.Advance(time.Minute)
		w.holds(t, b.ID, 0, 0)
		r := w.reserve(t, request("a", 1000))
		w.holds(t, b.ID, 0, 1000)
		w.settle(t, r, 1000)
		w.holds(t, b.ID, 1000, 0)
	})
}

func TestSettlingHappensOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		b := w.create(t, w.month(budget.Global, "", 1000))
		r := w.reserve(t, request("a", 300))
		for range 3 {
			w.settle(t, r, 100)
			check(t, w.s.Release(t.Context(), w.Workspace, r))
		}
		w.holds(t, b.ID, 100, 0)
		if got := w.usage(t, budget.ByAgent); len(got) != 1 || got[0].Calls != 1 || got[0].Output != 100 {
			t.Errorf("the log has %+v", got)
		}
		// Also without any limit.
		bare := w
		bare.Workspace = dbtest.NewWorkspace(t, w.DB)
		r = bare.reserve(t, request("a", 300))
		bare.settle(t, r, 7)
		bare.settle(t, r, 7)
		if got := bare.usage(t, budget.ByAgent); len(got) != 1 || got[0].Calls != 1 || got[0].Output != 7 {
			t.Errorf("the log has %+v", got)
		}
	})
}

// TestSettlingCountsWhatWasUsed: usage counts after a release, after the lease, and beyond the
// budget.
func TestSettlingCountsWhatWasUsed(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		b := w.create(t, w.month(budget.Global, "", 1000))
		released, late, over := w.reserve(t, request("a", 100)), w.reserve(t, request("a", 100)), w.reserve(t, request("a", 800))
		check(t, w.s.Release(t.Context(), w.Workspace, released))
		w.settle(t, released, 100)
		w.Skew.Advance(time.Minute)
		w.settle(t, late, 100)
		w.settle(t, over, 900)
		w.holds(t, b.ID, 1100, 0)
		if got := w.get(t, b.ID).Tokens.Overdraft(); got != 100 {
			t.Errorf("the overdraft is %d", got)
		}
		w.refused(t, request("a", 1))
	})
}

func TestAPartOfABatchSettlesOrNeitherDoes(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		b := w.create(t, w.month(budget.Global, "", 1000))
		r := w.reserve(t, request("a", 100))
		failed := errors.New("no")
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			w.s.SettleIn(tx.Later(), r, budget.Used{Usage: llm.Usage{PromptTokens: 60}})
			return errors.Join(tx.Flush(ctx), failed)
		})
		if !errors.Is(err, failed) {
			t.Fatal(err)
		}
		w.holds(t, b.ID, 0, 100)
		var batch db.Batch
		w.s.SettleIn(&batch, r, budget.Used{Usage: llm.Usage{PromptTokens: 60}})
		check(t, w.DB.Do(t.Context(), w.Workspace, &batch))
		w.holds(t, b.ID, 60, 0)
	})
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	w := world{Env: dbtest.New(t, dbtest.OnSQLite)}
	w.s = open(t, w.DB)
	for name, change := range map[string]func(*budget.Request){
		"no output":         func(r *budget.Request) { r.Output = 0 },
		"negative input":    func(r *budget.Request) { r.Input = -1 },
		"too much":          func(r *budget.Request) { r.Input = 1 << 40 },
		"more at least":     func(r *budget.Request) { r.Min = r.Output + 1 },
		"no lease":          func(r *budget.Request) { r.Lease = 0 },
		"a lease of a day":  func(r *budget.Request) { r.Lease = 24 * time.Hour },
		"a negative day":    func(r *budget.Request) { r.Day = -1 },
		"a day in the red":  func(r *budget.Request) { r.DayMicroUSD = -1 },
		"nobody to hold it": func(r *budget.Request) { r.Execution, r.Day = "", 100 },
	} {
		ask := request("a", 10)
		change(&ask)
		if r, err := w.s.Reserve(t.Context(), w.Workspace, ask); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestSweepKeepsAWeek(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.create(t, w.month(budget.Global, "", 1000))
		w.settle(t, w.reserve(t, request("a", 100)), 100)
		w.reserve(t, request("a", 100))
		for _, step := range []struct {
			after time.Duration
			want  int64
		}{{0, 0}, {6 * 24 * time.Hour, 0}, {25 * time.Hour, 2}} {
			w.Skew.Advance(step.after)
			if n, err := w.s.Sweep(t.Context(), w.Workspace); err != nil || n != step.want {
				t.Errorf("%s later %d rows were swept (%v), want %d", step.after, n, err, step.want)
			}
		}
	})
}
