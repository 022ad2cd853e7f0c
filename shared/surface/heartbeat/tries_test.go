package heartbeat_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// TestAStepThatNeverAdvancesIsGivenUpAndPlannedAnew covers three runs that end without completing
// the step.
func TestAStepThatNeverAdvancesIsGivenUpAndPlannedAnew(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			if tk.Kind == "advance" && tk.Step.Title == "impossible" {
				return llmtest.Say("I can't"), nil
			}
			return obedient(ctx, tk)
		}))
		id := w.plan(t, w.addObjective(t, "x", 5), "fine", "impossible", "close")
		for n := range 4 { // one for the first step, three attempts
			w.beat(t, slot(n))
		}
		if o := w.objective(t, id); o.Plan[1].Status != objective.Pending || o.Plan[1].Attempts != 3 {
			t.Fatalf("after three tries the step is %+v", o.Plan[1])
		}
		r := w.beat(t, slot(4))
		if r.Phases[3].Failed != 1 || r.Tokens != 0 {
			t.Errorf("the fourth try is %+v", r)
		}
		o := w.objective(t, id)
		if o.Plan[1].Status != objective.Failed || o.Plan[1].Result != "given up: it was tried 3 times" || o.Next() != nil {
			t.Errorf("the plan is %+v", o.Plan)
		}
		r = w.beat(t, slot(5))
		if o := w.objective(t, id); o.PlanVersion != 2 || r.Phases[1].Done != 1 || o.Plan[0].Status != objective.Done {
			t.Errorf("the next beat left %+v and %+v", r, o)
		}
		w.beat(t, slot(6))
		if o := w.objective(t, id); o.Status != objective.Completed {
			t.Errorf("at last the objective is %+v", o)
		}
	})
}

// TestTheLastTryIsResumed checks that only a fourth attempt is given up. A third attempt that was
// parked is resumed.
func TestTheLastTryIsResumed(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(func(context.Context, task) (llmtest.Step, error) { return llmtest.Say("I can't"), nil }))
		id := w.plan(t, w.addObjective(t, "x", 5), "one", "two")
		w.beat(t, slot(0))
		w.beat(t, slot(1))
		w.set(t, `{"beat_model_calls": 1}`)
		w.think(pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			if tk.Answers == 0 {
				return llmtest.Call("query_activity", `{}`), nil
			}
			tk.Answers--
			return obedient(ctx, tk)
		}))
		r := w.beat(t, slot(2))
		if st := w.objective(t, id).Plan[0]; r.Outcome != heartbeat.Parked || st.Attempts != 3 || st.Status != objective.Pending {
			t.Fatalf("the third try is %+v after %+v", st, r)
		}
		w.set(t, `{}`)
		if r := w.beat(t, slot(3)); r.Outcome != heartbeat.Completed || r.Phases[3].Done != 1 || w.objective(t, id).Plan[0].Status != objective.Done {
			t.Errorf("resumed it is %+v", r)
		}
	})
}

func TestAnObjectiveWithoutAPlanIsPausedForAPerson(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(func(context.Context, task) (llmtest.Step, error) { return llmtest.Say("I don't know how"), nil }))
		id := w.addObjective(t, "x", 5)
		for n := range 3 {
			if r := w.beat(t, slot(n)); r.Outcome != heartbeat.Completed || r.Phases[1].Considered != 1 {
				t.Errorf("beat %d is %+v", n, r)
			}
		}
		if o := w.objective(t, id); o.Status != objective.Active || o.PlanAttempts != 3 {
			t.Fatalf("after three tries the objective is %+v", o)
		}
		w.think(idle(t))
		r := w.beat(t, slot(3))
		o := w.objective(t, id)
		if o.Status != objective.Paused || o.StatusReason != "no plan came about: it was tried 3 times" || r.Phases[1].Failed != 1 {
			t.Errorf("the fourth beat left %+v and %+v", r, o)
		}
		if got := w.actions(t, activity.Filter{Status: activity.Error}); len(got) != 1 || got[0].Error != "given up: it was tried 3 times" || got[0].Skill != "heartbeat.plan" {
			t.Errorf("the log says %+v", got)
		}
		if r := w.beat(t, slot(4)); r.Outcome != heartbeat.Idle {
			t.Errorf("the fifth is %+v", r)
		}
	})
}

func TestAnObjectivePlannedTooOftenIsPaused(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		id := w.addObjective(t, "x", 5)
		for range 10 {
			w.plan(t, id) // a plan without steps is used up at once
		}
		w.think(idle(t))
		w.beat(t, slot(1))
		if o := w.objective(t, id); o.Status != objective.Paused || o.StatusReason != "no plan came about: it was planned 10 times" {
			t.Errorf("the objective is %+v", o)
		}
	})
}

// A person who resumes an objective that was planned too often gives it further plans.
func TestAnObjectivePlannedTooOftenIsPlannedAgainOnceResumed(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		id := w.addObjective(t, "x", 5)
		for range 10 {
			w.plan(t, id)
		}
		w.beat(t, slot(1))
		admin := objective.NewAdmin(w.Objectives, w.Lanes, w.Runs, w.Threads.Release)
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := admin.Resume(ctx, tx, id)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		w.beat(t, slot(2))
		if o := w.objective(t, id); o.Status == objective.Paused || len(o.Plan) != 2 {
			t.Errorf("the objective is %+v", o)
		}
	})
}

func TestARunThatStallsOrFailsIsCountedAndTriedAgain(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		answers := []pilot{
			func(context.Context, task) (llmtest.Step, error) { return llmtest.Call("nothing", `{}`), nil },
			func(context.Context, task) (llmtest.Step, error) { return nil, errors.New("odd") },
			obedient,
		}
		w := newWorld(t, e, nil)
		w.set(t, `{"tool_retries": 0}`)
		id := w.plan(t, w.addObjective(t, "x", 5), "one", "two")
		for n, answer := range answers {
			w.think(answer)
			r := w.beat(t, slot(n))
			if r.Outcome != heartbeat.Completed || r.Phases[3].Failed+r.Phases[3].Done != 1 || r.Phases[3].Done == 1 != (n == 2) {
				t.Errorf("beat %d is %+v", n, r)
			}
		}
		var got []string
		for _, e := range w.ofSubject(t, lane.Objective(id)) {
			got = append(got, string(e.Status))
		}
		if !slices.Equal(got, []string{"stalled", "failed", "completed"}) || w.objective(t, id).Plan[0].Attempts != 3 {
			t.Errorf("the executions are %v", got)
		}
		if got := w.actions(t, activity.Filter{Status: activity.Error, Skill: "reason"}); len(got) != 2 {
			t.Errorf("the log says %+v", got)
		}
	})
}

func TestTheStepLimitIsTheWorkspaces(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(func(context.Context, task) (llmtest.Step, error) { return llmtest.Call("query_activity", `{}`), nil }))
		w.set(t, `{"steps_per_run": 3}`)
		id := w.plan(t, w.addObjective(t, "x", 5), "one")
		r := w.beat(t, slot(1))
		if e := w.the(t, lane.Objective(id)); e.Status != execution.Stalled || e.Error != "stalled: the limit of 3 steps was reached" || r.Phases[3].ModelCalls != 3 {
			t.Errorf("the execution is %+v, the beat %+v", e, r)
		}
	})
}
