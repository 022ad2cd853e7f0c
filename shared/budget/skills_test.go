package budget_test

import (
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
