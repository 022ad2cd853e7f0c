package heartbeat_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/persona"
)

func TestABeatWorksByThePersonaOfTheOperator(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		var mu sync.Mutex
		asked := map[string]task{}
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[tk.Kind] = tk
			return obedient(ctx, tk)
		}))
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.Personas.Put(ctx, tx, persona.Persona{
				Name: persona.Flowpilot, Version: -1, Instructions: "Prefer small steps.", Model: "other", CreatedBy: "user:1",
				Skills: []string{"advance_plan"},
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		w.addObjective(t, "x", 5)
		w.beat(t, slot(0))
		w.beat(t, slot(1))
		for _, kind := range []string{"plan", "advance"} {
			tk := asked[kind]
			if !strings.Contains(tk.System, "Prefer small steps.") || tk.Model != "other" {
				t.Errorf("%s: it is asked of model %q by %q", kind, tk.Model, tk.System)
			}
			offered := map[string]int{"plan": 2, "advance": 1}[kind] // a plan needs its own skills
			if len(tk.Tools) != offered {
				t.Errorf("%s: %d skills are offered, want %d", kind, len(tk.Tools), offered)
			}
		}
		thinking := 0
		open, _, err := w.Runs.List(t.Context(), w.Workspace, execution.Filter{Limit: 50})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range open {
			if e.Persona != "" {
				thinking++
				if e.Persona != persona.Flowpilot || *e.PersonaVersion != 1 {
					t.Errorf("%s works by %s %d", e.Subject, e.Persona, *e.PersonaVersion)
				}
			}
		}
		if thinking < 2 {
			t.Errorf("%d executions have a persona", thinking)
		}
	})
}
