package budget_test

import (
	"context"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

// shipped are the models that the migrations bring.
var shipped = budget.Tiers{
	budget.Small:  {Name: "claude-3-5-haiku", Input: 800_000, Output: 4_000_000},
	budget.Middle: {Name: "claude-sonnet-4", Input: 3_000_000, Output: 15_000_000},
	budget.Top:    {Name: "claude-opus-4", Input: 15_000_000, Output: 75_000_000},
}

func TestRoute(t *testing.T) {
	const rich = budget.MaxMicroUSD
	for _, c := range []struct {
		what      string
		of        budget.TaskShape
		tokens    int64
		remaining int64
		want      budget.Tier
		says      string
	}{
		{"usual", budget.TaskShape{Complexity: 8, Priority: 8}, 10_000, rich, budget.Middle, "neither"},
		{"short", budget.TaskShape{Complexity: 8}, 9999, rich, budget.Small, "9999 tokens"},
		{"boilerplate", budget.TaskShape{Type: "Boilerplate", Complexity: 8}, 50_000, rich, budget.Small, "boilerplate"},
		{"complex", budget.TaskShape{Complexity: 9}, 16_146, rich, budget.Top, "complexity is 9"},
		{"critical", budget.TaskShape{Type: "boilerplate", Priority: 9}, 100, rich, budget.Top, "critical"},
		{"critical, with little money", budget.TaskShape{Priority: 10}, 10_000, 299_999, budget.Middle, "can't pay the top tier"},
		{"critical, with just enough", budget.TaskShape{Priority: 10}, 10_000, 300_000, budget.Top, "critical"},
		{"critical, with hardly any", budget.TaskShape{Priority: 10}, 10_000, 59_999, budget.Small, "can't pay the middle tier"},
		{"critical, with none", budget.TaskShape{Priority: 10}, 10_000, 0, budget.Small, "can't pay the small tier"},
	} {
		got := budget.Route(shipped, c.of, c.tokens, c.remaining)
		if got.Tier != c.want || got.Model != shipped[c.want].Name || !strings.Contains(got.Why, c.says) || got.MicroUSD != shipped[c.want].Cost(c.tokens) {
			t.Errorf("%s: %+v, want %s", c.what, got, c.want)
		}
	}
	if got := budget.Route(budget.Tiers{budget.Small: shipped[budget.Small]}, budget.TaskShape{Priority: 9}, 100, rich); got.Tier != budget.Small ||
		!strings.Contains(got.Why, "no model serves the top tier") {
		t.Errorf("without a top tier: %+v", got)
	}
	if got := budget.Route(nil, budget.TaskShape{}, 100, rich); got.Model != "" || got.MicroUSD != 0 {
		t.Errorf("without models: %+v", got)
	}
	if got := shipped[budget.Middle].Cost(budget.MaxTokens); got <= 0 {
		t.Errorf("much costs %d", got)
	}
}

func TestAWorkspaceChoosesItsTiers(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		read := func(w world) (got budget.Tiers) {
			t.Helper()
			check(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
				got, err = w.s.Tiers(ctx, tx)
				return err
			}))
			return got
		}
		choose := func(model string) error {
			return w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				return w.s.ChooseTier(ctx, tx, budget.Top, model)
			})
		}
		other := w
		other.Workspace = newWorkspace(t, w)
		for _, of := range []world{w, other} {
			for tier, want := range shipped {
				if got := read(of)[tier]; got != want {
					t.Errorf("%s is %+v, want %+v", tier, got, want)
				}
			}
		}
		check(t, choose("claude-sonnet-4-5"))
		if got := read(w)[budget.Top]; got != (budget.Model{Name: "claude-sonnet-4-5", Input: 3_000_000, Output: 15_000_000}) {
			t.Errorf("it chose %+v", got)
		}
		if read(other)[budget.Top] != shipped[budget.Top] {
			t.Error("it chose for a neighbour")
		}
		if err := choose("nobody-knows"); err == nil {
			t.Error("a model without a price was chosen")
		}
	})
}

func TestWhatRoutingSaved(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		c := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
		number, _ := w.assign(t, c, 100, 0)
		w.report(t, c, number, "claude-3-5-haiku", usage(1_000_000))
		w.report(t, c, number, "claude-opus-4", usage(1_000_000))
		w.report(t, c, number, "nobody-knows", usage(1_000_000))
		w.settleAs(t, w.reserve(t, request("a", 100)), budget.Used{Usage: usage(1_000_000), Model: "claude-sonnet-4"}) // of no task
		got, err := w.s.Savings(t.Context(), w.Workspace, w.noon.AddDate(0, 0, -1), w.noon.AddDate(0, 0, 1))
		if err != nil || got != (budget.Savings{Calls: 3, Unpriced: 1, Cost: 15_800_000, TopTier: 30_000_000}) || got.Percent() < 47.3 || got.Percent() > 47.4 {
			t.Errorf("it saved %+v, %v %%, %v", got, got.Percent(), err)
		}
		if none, err := w.s.Savings(t.Context(), w.Workspace, w.noon.AddDate(0, 0, 1), w.noon.AddDate(0, 0, 2)); err != nil || none.Percent() != 0 {
			t.Errorf("of nothing: %+v, %v", none, err)
		}
	})
}
