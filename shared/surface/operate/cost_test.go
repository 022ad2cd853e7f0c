package operate_test

import (
	"context"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// TestWhatASkillByHandCosts checks this for a skill with an effect outside the database.
func TestWhatASkillByHandCosts(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		k := skill.Skill{Name: "mail", Parameters: []byte(`{"type": "object"}`), Do: func(context.Context, skill.Call) (any, error) {
			return "sent", nil
		}}
		set := must(skill.NewSet(k))(t)
		w.Skills = func(context.Context, db.Workspace, trace.Surface) (*skill.Set, error) { return set, nil }
		before := w.DB.Stats()
		must(w.RunSkill(t.Context(), w.Workspace, "mail", []byte(`{}`), operate.ByHand{By: "user:ada", Person: true}))(t)
		if got, want := w.DB.Stats().Sub(before), (db.Stats{Statements: 23, RoundTrips: 12}); got != want {
			t.Errorf("it takes %+v, want %+v", got, want)
		}
	})
}

// TestWhatAForkCosts checks the cost of the beginning of a fork, and of its work.
func TestWhatAForkCosts(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, llmtest.Writes("Hello."), llmtest.Writes("Hello again.")))
		r := w.said(t, "Hello.")
		before := w.DB.Stats()
		fork := must(w.Fork(t.Context(), w.Workspace, r.Trace, "", 1, operate.Edits{}))(t)
		if got, want := w.DB.Stats().Sub(before), (db.Stats{Statements: 9, RoundTrips: 4}); got != want {
			t.Errorf("its beginning takes %+v, want %+v", got, want)
		}
		before = w.DB.Stats()
		w.drain(t)
		got := w.DB.Stats().Sub(before)
		if e := w.execution(t, fork.ID); e.Status != execution.Completed {
			t.Errorf("it is %+v", e)
		}
		if want := (db.Stats{Statements: 27, RoundTrips: 16}); got != want {
			t.Errorf("its work takes %+v, want %+v", got, want)
		}
	})
}
