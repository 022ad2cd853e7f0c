package heartbeat_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// cutOff returns a model that does the step "close". Its run loses its lane before the model's last
// answer, so that it cannot write any more.
func (w *world) cutOff(t testing.TB, id string) pilot {
	return func(ctx context.Context, tk task) (llmtest.Step, error) {
		if tk.Step.Title == "close" && tk.Answers == 1 {
			w.force(t, lane.Objective(id))
		}
		return obedient(ctx, tk)
	}
}

// TestARunCutOffAfterItCompletedItsObjectiveIsClosed checks that the next beat ends the execution
// without a model. The objective is not due any more.
func TestARunCutOffAfterItCompletedItsObjectiveIsClosed(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, nil)
		id := w.plan(t, w.addObjective(t, "x", 5), "close")
		w.think(w.cutOff(t, id))
		w.beat(t, slot(1))
		if o, e := w.objective(t, id), w.the(t, lane.Objective(id)); o.Status != objective.Completed || e.Status != execution.Running {
			t.Fatalf("it left %+v and %+v", o, e)
		}
		w.think(idle(t))
		if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed {
			t.Errorf("the next beat is %+v", r)
		}
		if e := w.the(t, lane.Objective(id)); e.Status != execution.Completed {
			t.Errorf("the run is left %+v", e)
		}
		if r := w.beat(t, slot(3)); r.Outcome != heartbeat.Idle {
			t.Errorf("the beat after that is %+v", r)
		}
		w.mustBeFree(t)
	})
}

// changed changes an objective under its lane, as a person would.
func (w *world) changed(t testing.TB, id string, fn func(context.Context, lane.Tx) error) {
	t.Helper()
	h := w.acquire(t, lane.Objective(id))
	defer w.release(t, h)
	if err := w.Lanes.InHold(t.Context(), h, fn); err != nil {
		t.Fatal(err)
	}
}

// TestAParkedRunOfAPausedObjectiveIsClosed checks that a pause does not leave a run open. Otherwise
// no beat would be idle again.
func TestAParkedRunOfAPausedObjectiveIsClosed(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, nil)
		id := w.plan(t, w.addObjective(t, "x", 5), "one")
		w.set(t, `{"beat_model_calls": 1}`)
		w.think(pilot(obedient))
		w.beat(t, slot(1))
		if e := w.the(t, lane.Objective(id)); e.Status != execution.Parked {
			t.Fatalf("it left %+v", e)
		}
		w.changed(t, id, func(ctx context.Context, tx lane.Tx) error { return w.Objectives.Pause(ctx, tx, id, "enough") })
		w.think(idle(t))
		w.beat(t, slot(2))
		if e := w.the(t, lane.Objective(id)); e.Status != execution.Cancelled {
			t.Errorf("the run is left %+v", e)
		}
		if r := w.beat(t, slot(3)); r.Outcome != heartbeat.Idle {
			t.Errorf("the beat after that is %+v", r)
		}
	})
}

// TestAParkedRunIsClosedWithoutAModel: nothing has to be asked for that, so it happens also while no model may be.
func TestAParkedRunIsClosedWithoutAModel(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, nil)
		id := w.plan(t, w.addObjective(t, "x", 5), "one")
		w.set(t, `{"beat_model_calls": 1}`)
		w.think(pilot(obedient))
		w.beat(t, slot(1))
		w.set(t, `{"beat_model_calls": 0}`)
		w.think(idle(t))
		if w.beat(t, slot(2)); w.the(t, lane.Objective(id)).Status != execution.Parked {
			t.Errorf("while its objective is active it is %+v", w.the(t, lane.Objective(id)))
		}
		w.changed(t, id, func(ctx context.Context, tx lane.Tx) error { return w.Objectives.Pause(ctx, tx, id, "enough") })
		w.beat(t, slot(3))
		if e := w.the(t, lane.Objective(id)); e.Status != execution.Cancelled {
			t.Errorf("the run is left %+v", e)
		}
	})
}

// TestARunWhosePlanWasReplacedIsNotResumed: the step number now belongs to another plan.
func TestARunWhosePlanWasReplacedIsNotResumed(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, nil)
		id := w.plan(t, w.addObjective(t, "x", 5), "old")
		w.set(t, `{"beat_model_calls": 1}`)
		w.think(pilot(func(context.Context, task) (llmtest.Step, error) { return llmtest.Call("query_activity", `{}`), nil }))
		w.beat(t, slot(1))
		old := w.the(t, lane.Objective(id))
		w.plan(t, id, "new")
		w.set(t, `{}`)
		w.think(pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			if tk.Answers == 0 && tk.Step.Title != "new" {
				return nil, errors.New("it was told of another plan's step: " + tk.Step.Title)
			}
			return obedient(ctx, tk)
		}))
		w.beat(t, slot(2))
		all := w.ofSubject(t, lane.Objective(id))
		i := slices.IndexFunc(all, func(e executionRow) bool { return e.ID == old.ID })
		if len(all) != 2 || all[i].Status != execution.Cancelled || all[1-i].Status != execution.Completed {
			t.Errorf("the runs are %+v", all)
		}
		if o := w.objective(t, id); o.Plan[0].Status != objective.Done {
			t.Errorf("the plan is %+v", o.Plan)
		}
	})
}

// TestWorkThatIsAlwaysLeftForLaterIsGivenUp covers a step that parks in each beat, which would use
// a part of every beat for ever. If each beat makes progress, the limit of steps ends each of its
// three attempts.
func TestWorkThatIsAlwaysLeftForLaterIsGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, nil)
		id := w.plan(t, w.addObjective(t, "x", 5), "endless")
		w.set(t, `{"beat_model_calls": 1, "steps_per_run": 5}`)
		asked := 0
		w.think(pilot(func(context.Context, task) (llmtest.Step, error) {
			asked++
			return llmtest.Call("query_activity", `{}`), nil
		}))
		n := 1
		for ; n < 100 && w.objective(t, id).Plan[0].Status == objective.Pending; n++ {
			w.beat(t, slot(n))
		}
		if o := w.objective(t, id); o.Plan[0].Status != objective.Failed || asked != 3*5 {
			t.Errorf("after %d beats and %d answers the plan is %+v", n, asked, o.Plan)
		}
	})
}
