package budget_test

import (
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

func TestProject(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, c := range []struct {
		name                string
		allocated, consumed int64
		burn                int64
		ends                time.Duration
		days                float64 // negative: never
		want                budget.Recommendation
	}{
		{"nothing burns", 1000, 0, 0, 30 * day, -1, budget.Continue},
		{"nothing burns, little is left", 1000, 951, 0, 30 * day, -1, budget.Stop},
		{"nothing burns, nothing is left", 1000, 1000, 0, 30 * day, 0, budget.Stop},
		{"nothing was allocated", 0, 0, 0, 30 * day, 0, budget.Stop},
		{"overdrawn", 1000, 1500, 100, 30 * day, 0, budget.Stop},
		{"lasts", 10_000, 0, 100, 200 * day, 100, budget.Continue},
		{"lasts seven days", 1000, 300, 100, 30 * day, 7, budget.Continue},
		{"does not last a week", 1000, 310, 100, 30 * day, 6.9, budget.Throttle},
		{"does not last a week, which the period does not either", 1000, 310, 100, 6 * day, 6.9, budget.Continue},
		{"lasts a day", 1000, 900, 100, 30 * day, 1, budget.Throttle},
		{"does not last a day", 1000, 910, 100, 30 * day, 0.9, budget.Stop},
		{"does not last a day, and the period is over sooner", 1000, 910, 100, 12 * time.Hour, 0.9, budget.Continue},
		{"five percent is left", 1000, 950, 1, 30 * day, 50, budget.Continue},
		{"under five percent is left", 1000, 951, 1, 30 * day, 49, budget.Stop},
		{"as good as never", 1_000_000_000_000_000, 0, 1, 30 * day, -1, budget.Continue},
		{"the period is over", 1000, 500, 1000, -day, 0.5, budget.Continue},
	} {
		b := budget.Budget{Tokens: budget.Account{Allocated: c.allocated, Consumed: c.consumed, Reserved: c.allocated}, End: now.Add(c.ends)}
		p := b.Project(c.burn, now)
		if p.Recommendation != c.want || p.RemainingTokens != max(0, c.allocated-c.consumed) || p.DailyBurnRate != c.burn {
			t.Errorf("%s: %+v, want %s", c.name, p, c.want)
		}
		if (p.DaysUntilExhaustion == nil) != (c.days < 0) || (p.ExhaustionDate == nil) != (c.days < 0) {
			t.Errorf("%s: %v days until %v", c.name, p.DaysUntilExhaustion, p.ExhaustionDate)
		} else if c.days >= 0 && (*p.DaysUntilExhaustion != c.days || p.ExhaustionDate.Sub(now) != time.Duration(c.days*float64(day))) {
			t.Errorf("%s: %g days until %s, want %g", c.name, *p.DaysUntilExhaustion, p.ExhaustionDate, c.days)
		}
	}
}

func TestTheBurnIsThatOfTheScopesLastDay(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		budgets := map[string]budget.Budget{
			"global": w.create(t, w.month(budget.Global, "", 10_000)),
			"agent":  w.create(t, w.month(budget.Agent, "a", 10_000)),
			"beats":  w.create(t, w.month(budget.Agent, "b:hb", 10_000)),
			"skill":  w.create(t, w.month(budget.Skill, "plan", 10_000)),
			"task":   w.create(t, w.month(budget.Task, "0199a1b2-0000-7000-8000-00000000000a", 10_000)),
		}
		use := func(agent, skill, task string, tokens int) {
			t.Helper()
			ask := request(agent, 1000)
			ask.Skill, ask.Task = skill, task
			w.settleAs(t, w.reserve(t, ask), budget.Used{Usage: llm.Usage{PromptTokens: tokens}})
		}
		use("a", "plan", "", 900)
		w.Skew.Advance(25 * time.Hour)
		use("a", "", "", 1)
		use("b", "plan", "", 10)
		use("b", "", budgets["task"].ScopeID, 100)
		for scope, want := range map[string]int64{"global": 111, "agent": 1, "beats": 110, "skill": 10, "task": 100} {
			p, err := w.s.Projection(t.Context(), w.Workspace, budgets[scope].ID)
			if err != nil || p.DailyBurnRate != want {
				t.Errorf("%s burns %d (%v), want %d", scope, p.DailyBurnRate, err, want)
			}
		}
	})
}
