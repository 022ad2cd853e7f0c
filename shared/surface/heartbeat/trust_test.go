package heartbeat_test

import (
	"context"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// TestAStepsResultCarriesTheTrustOfItsRun checks that the next step receives the result, and begins
// with no more trust than that text has.
func TestAStepsResultCarriesTheTrustOfItsRun(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		fetch := skill.Skill{Name: "fetch", Parameters: []byte(`{"type": "object"}`), Do: func(context.Context, skill.Call) (any, error) { return "a page", nil }}
		model := pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			if tk.Objective.Title != "read" || tk.Step.Number != 1 {
				return obedient(ctx, tk)
			}
			if tk.Answers == 0 {
				return llmtest.Call("fetch", `{}`), nil
			}
			tk.Answers--
			return obedient(ctx, tk)
		})
		w := newWorld(t, e, model, fetch)
		for n, title := range []string{"think", "read"} {
			id := w.addObjective(t, title, 5)
			w.plan(t, id, "one", "close")
			w.beat(t, slot(2*n))
			w.beat(t, slot(2*n+1))
			want := map[string]execution.Trust{"think": execution.Trusted, "read": execution.Untrusted}[title]
			if o := w.objective(t, id); o.Status != objective.Completed || o.Untrusted != (want == execution.Untrusted) {
				t.Errorf("%s: it is %+v", title, o)
			}
			runs := w.ofSubject(t, lane.Objective(id))
			last := w.journal(t, runs[len(runs)-1].ID)
			if len(runs) != 2 || len(last) == 0 || last[0].Trust != want {
				t.Errorf("%s: of %d runs the last begins with %+v", title, len(runs), last)
			}
		}
	})
}
