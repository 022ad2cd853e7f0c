package budget_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// bySkill reads the view, as "skill tokens cost".
func (w world) bySkill(t testing.TB) (rows []string) {
	t.Helper()
	err := w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
		var skill, day string
		var tokens, cost int64
		err := scan(&skill, &day, &tokens, &cost)
		if _, bad := time.Parse(time.DateOnly, day); bad != nil {
			t.Errorf("day %q", day)
		}
		rows = append(rows, fmt.Sprintf("%s %d %d", skill, tokens, cost))
		return err
	}, w.q.BySkill)
	check(t, err)
	return rows
}

// usageBySkill returns the result of Usage, as "skill tokens cost".
func (w world) usageBySkill(t testing.TB) (rows []string) {
	t.Helper()
	used, err := w.s.Usage(t.Context(), w.Workspace, time.Time{}, time.Time{}, budget.BySkill)
	check(t, err)
	for _, u := range used {
		rows = append(rows, fmt.Sprintf("%s %d %d", u.Key, u.Total(), u.MicroUSD))
	}
	return rows
}

// calls settles a model call whose answer asks for skills.
func (w world) calls(t testing.TB, prompt, completion int, skills ...string) {
	t.Helper()
	used := llm.Usage{PromptTokens: prompt, CompletionTokens: completion}
	w.settleAs(t, w.reserve(t, request("ann", int64(prompt+completion))), budget.Used{Usage: used, Model: "claude-sonnet-4", Skills: skills})
}

func TestACallCountsForTheSkillsItAskedFor(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.calls(t, 100, 11, "look")
		w.calls(t, 301, 20, "look", "pay", "say")
		w.calls(t, 50, 5)
		other := w
		other.Workspace = dbtest.NewWorkspace(t, w.DB)
		other.calls(t, 9, 9, "elsewhere")
		want := []string{"look 217 866", "say 109 401", "pay 106 401", "(answer) 55 225"}
		if got := w.bySkill(t); !slices.Equal(got, want) {
			t.Errorf("the view tells %q, want %q", got, want)
		}
		if got := w.usageBySkill(t); !slices.Equal(got, want) {
			t.Errorf("usage tells %q, want %q", got, want)
		}
		if got := other.bySkill(t); !slices.Equal(got, []string{"elsewhere 18 162"}) {
			t.Errorf("a neighbour sees %q", got)
		}
	})
}

// TestSharesAddUp: the shares add up to the usage, whatever it is and however many skills share it.
func TestSharesAddUp(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, time.Time{})
		rapid.Check(t, func(rt *rapid.T) {
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			for range rapid.IntRange(1, 4).Draw(rt, "calls") {
				skills := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", `"c"`, "d'", "e"}), 0, 5, rapid.ID).Draw(rt, "skills")
				w.calls(t, rapid.IntRange(0, 1000).Draw(rt, "prompt"), rapid.IntRange(1, 1000).Draw(rt, "completion"), skills...)
			}
			whole, err := w.s.Usage(t.Context(), w.Workspace, time.Time{}, time.Time{}, budget.ByAgent)
			check(t, err)
			shares, err := w.s.Usage(t.Context(), w.Workspace, time.Time{}, time.Time{}, budget.BySkill)
			check(t, err)
			var sum, total budget.Usage
			for into, each := range map[*budget.Usage][]budget.Usage{&sum: shares, &total: whole} {
				for _, u := range each {
					into.Input, into.Output, into.MicroUSD = into.Input+u.Input, into.Output+u.Output, into.MicroUSD+u.MicroUSD
				}
			}
			if sum != total {
				rt.Errorf("the shares are %+v, what was used %+v", sum, total)
			}
			if view, told := w.bySkill(t), w.usageBySkill(t); strings.Join(view, "\n") != strings.Join(told, "\n") {
				rt.Errorf("the view tells %q, usage %q", view, told)
			}
		})
	})
}

// TestABudgetOfASkillHasItsShares of the calls whose answers ask for the skill. When it is spent, its skill is
// named until the next period begins, which the next call makes.
func TestABudgetOfASkillHasItsShares(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		look, pay := w.month(budget.Skill, "look", 200), w.month(budget.Skill, "pay", 1000)
		look.End = w.noon.Add(3 * time.Hour)
		look, pay = w.create(t, look), w.create(t, pay)
		spent := func() map[string]time.Time {
			t.Helper()
			var b db.Batch
			of := w.s.SpentSkills(&b)
			check(t, w.DB.Read(t.Context(), w.Workspace, &b))
			return of
		}
		w.calls(t, 100, 11, "look")
		if of := spent(); len(of) != 0 {
			t.Errorf("spent: %v", of)
		}
		r := w.reserve(t, request("ann", 321))
		used := budget.Used{Usage: llm.Usage{PromptTokens: 301, CompletionTokens: 20}, Model: "claude-sonnet-4", Skills: []string{"look", "say", "pay"}}
		w.settleAs(t, r, used)
		w.settleAs(t, r, used) // as if the answer was lost
		w.calls(t, 50, 5)
		w.holds(t, look.ID, 111+106, 0)
		w.holds(t, pay.ID, 101+8, 0)
		if is := w.get(t, look.ID); is.Tokens.Overdraft() != 17 || is.MicroUSD.Consumed != 100*3+11*15+(301*3+20*15)/3 {
			t.Errorf("the budget is %+v", is)
		}
		if of := spent(); len(of) != 1 || !of["look"].Equal(look.End) {
			t.Errorf("spent: %v", of)
		}
		if got := w.happened(t); !slices.Equal(got, []string{"budget.exhausted"}) {
			t.Errorf("events: %q", got)
		}
		if p, err := w.s.Projection(t.Context(), w.Workspace, look.ID); err != nil || p.DailyBurnRate != 217 || p.Recommendation != budget.Stop {
			t.Errorf("the projection: %+v, %v", p, err)
		}
		if of, err := w.s.Series(t.Context(), w.Workspace, pay.ID, 1); err != nil || of.Days[0].Tokens != 109 {
			t.Errorf("the series: %+v, %v", of.Days, err)
		}
		var b db.Batch
		advice := w.s.AdviceIn(&b, 10)
		check(t, w.DB.Read(t.Context(), w.Workspace, &b))
		for _, a := range *advice {
			if want := map[string]int64{"look": 217, "pay": 109}[a.ScopeID]; a.DailyBurnRate != want {
				t.Errorf("%s burns %d, want %d", a.ScopeID, a.DailyBurnRate, want)
			}
		}

		w.Skew.Advance(4 * time.Hour)
		if of := spent(); len(of) != 0 {
			t.Errorf("spent after the period: %v", of)
		}
		w.calls(t, 30, 0, "look")
		w.holds(t, look.ID, 217, 0)
		if all := w.all(t); len(all) != 3 || all[2].ScopeID != "look" || all[2].Tokens.Consumed != 30 {
			t.Errorf("the budgets: %+v", all)
		}
	})
}

// TestAnAttemptsCallsCountForTheirSkills, once each.
func TestAnAttemptsCallsCountForTheirSkills(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		look := w.create(t, w.month(budget.Skill, "look", 1000))
		c := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
		number, _ := w.assign(t, c, 500, 0)
		id := newID()
		for range 2 {
			check(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				l, err := w.s.Lock(ctx, tx, []budget.Cover{c, {Skill: "look"}})
				if err != nil {
					return err
				}
				_, err = w.s.Report(ctx, tx, l, budget.Report{
					ID: id, Usage: llm.Usage{PromptTokens: 300}, Cover: c, Attempt: number, Model: "demo", Skills: []string{"look", "say"},
				})
				return err
			}))
		}
		w.holds(t, look.ID, 150, 0)
	})
}
