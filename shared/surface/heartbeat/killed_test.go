package heartbeat_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// mortal returns a skill whose first calls kill the process.
func mortal(times int) (k skill.Skill, ran *int) {
	ran = new(int)
	return skill.Skill{Name: "mortal", Parameters: []byte(`{"type": "object"}`), Run: func(context.Context, lane.Tx, skill.Call) (any, error) {
		*ran++
		if *ran <= times {
			return nil, errDied
		}
		return "alive", nil
	}}, ran
}

// risky calls the skill mortal before it does its task.
func risky(_ context.Context, tk task) (llmtest.Step, error) {
	if tk.Kind == "plan" {
		return obedient(context.Background(), tk)
	}
	if tk.Answers == 0 {
		return llmtest.Call("query_activity", `{}`, "mortal", `{}`), nil
	}
	tk.Answers--
	return obedient(context.Background(), tk)
}

// dies runs a tick during which the process dies.
func (w *world) dies(t testing.TB, tick heartbeat.Tick) {
	t.Helper()
	tick.Workspace = w.Workspace
	if r, err := w.Run(t.Context(), tick); !errors.Is(err, errDied) {
		t.Fatalf("the beat did not die: %+v, %v", r, err)
	}
}

func TestAKilledBeatOfTheSameSlotIsTakenUp(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, ran := mortal(1)
		w := newWorld(t, e, pilot(risky), k)
		id := w.plan(t, w.addObjective(t, "x", 5), "one", "two")
		w.dies(t, slot(1))
		beat, piece := w.the(t, lane.Heartbeat), w.the(t, lane.Objective(id))
		if beat.Status != execution.Running || piece.Status != execution.Running || piece.Parent != beat.ID || piece.Trace != beat.Trace {
			t.Fatalf("it left %+v and %+v", beat, piece)
		}
		left := len(w.journal(t, piece.ID))

		r := w.beat(t, slot(1))
		if r.Outcome != heartbeat.Completed || r.ExecutionID != beat.ID || r.TraceID != string(beat.Trace) {
			t.Errorf("taken up it is %+v", r)
		}
		beat.Status, beat.Attempt, piece.Status, piece.Attempt = execution.Completed, 2, execution.Completed, 2
		piece.Tokens = 3 * 15
		if diff := cmp.Diff([]executionRow{beat, piece}, w.executions(t)); diff != "" {
			t.Error(diff)
		}
		if o := w.objective(t, id); o.Plan[0].Status != objective.Done || o.Plan[0].Attempts != 1 || o.Plan[1].Status != objective.Pending {
			t.Errorf("the plan is %+v", o.Plan)
		}
		if *ran != 2 || left != 3 || len(w.actions(t, activity.Filter{Skill: "query_activity"})) != 1 {
			t.Errorf("the skill ran %d times, %d entries were left", *ran, left)
		}
		for _, l := range w.actions(t, activity.Filter{Skill: "mortal"}) {
			if l.Attempt != 2 || l.Execution != piece.ID {
				t.Errorf("the log says %+v", l)
			}
		}
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Duplicate {
			t.Errorf("delivered again it is %+v", r)
		}
		w.mustBeFree(t)
	})
}

func TestAKilledBeatOfAnotherSlotIsClosedAndItsPieceResumed(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for name, next := range map[string]heartbeat.Tick{"the next slot": slot(2), "a beat by hand": {}} {
			k, _ := mortal(1)
			w := newWorld(t, e, pilot(risky), k)
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			id := w.plan(t, w.addObjective(t, "x", 5), "one", "two")
			w.dies(t, slot(1))
			before := w.the(t, lane.Objective(id))

			r := w.beat(t, next)
			beats := w.ofSubject(t, lane.Heartbeat)
			if len(beats) != 2 || beats[0].Status != execution.Failed || beats[0].Error != "it was cut off; its work went on in "+r.TraceID {
				t.Errorf("%s: the beats are %+v", name, beats)
			}
			if r.Outcome != heartbeat.Completed || r.ExecutionID != beats[1].ID || beats[1].Status != execution.Completed || beats[1].Attempt != 1 {
				t.Errorf("%s: it is %+v", name, r)
			}
			after := w.the(t, lane.Objective(id))
			if after.ID != before.ID || after.Trace != before.Trace || after.Attempt != 2 || after.Status != execution.Completed {
				t.Errorf("%s: the piece is %+v, was %+v", name, after, before)
			}
			if o := w.objective(t, id); o.Plan[0].Status != objective.Done || o.Plan[1].Status != objective.Pending {
				t.Errorf("%s: the plan is %+v", name, o.Plan)
			}
			w.mustBeFree(t)
		}
	})
}

func TestASlotBeforeOneThatWasKilledIsADuplicate(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, _ := mortal(1)
		w := newWorld(t, e, pilot(risky), k)
		w.plan(t, w.addObjective(t, "x", 5), "one", "two")
		w.dies(t, slot(5))
		if r := w.beat(t, slot(4)); r.Outcome != heartbeat.Duplicate {
			t.Errorf("the earlier slot is %+v", r)
		}
		if r := w.beat(t, slot(5)); r.Outcome != heartbeat.Completed || w.the(t, lane.Heartbeat).Attempt != 2 {
			t.Errorf("the killed slot is %+v", r)
		}
	})
}

func TestAKilledBeatByHandIsNotTakenUpByAnother(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, _ := mortal(1)
		w := newWorld(t, e, pilot(risky), k)
		w.plan(t, w.addObjective(t, "x", 5), "one", "two")
		w.dies(t, heartbeat.Tick{})
		id := ids() // the id that the caller received
		if r := w.beat(t, heartbeat.Tick{ExecutionID: id}); r.Outcome != heartbeat.Completed || r.ExecutionID != id {
			t.Errorf("the other is %+v", r)
		}
		if beats := w.ofSubject(t, lane.Heartbeat); len(beats) != 2 || beats[0].Status != execution.Failed || beats[1].ID != id {
			t.Errorf("the beats are %+v", beats)
		}
	})
}

// TestAPlanningKilledAfterItsPlanDoesNotBlockTheObjective covers a planning whose plan is stored
// but whose execution has not ended. No planning is due then, and no other execution may begin on
// the objective until that one ends.
func TestAPlanningKilledAfterItsPlanDoesNotBlockTheObjective(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, nil)
		id := w.addObjective(t, "x", 5)
		w.think(pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			if tk.Kind == "plan" && tk.Answers == 1 { // the plan is stored, the last answer is not
				w.force(t, lane.Objective(id)) // it cannot write any more
			}
			return obedient(ctx, tk)
		}))
		w.beat(t, slot(1))
		if o, e := w.objective(t, id), w.the(t, lane.Objective(id)); o.PlanVersion != 1 || e.Status.Ended() {
			t.Fatalf("it left %+v and %+v", o, e)
		}
		w.think(pilot(obedient))
		for n := 2; n < 6; n++ {
			w.beat(t, slot(n))
		}
		if o := w.objective(t, id); o.Status != objective.Completed || o.PlanVersion != 1 {
			t.Errorf("four beats later the objective is %+v", o)
		}
		for _, e := range w.executions(t) {
			if !e.Status.Ended() {
				t.Errorf("an execution is left %+v", e)
			}
		}
	})
}

// TestAFrozenBeatLosesItsLanesAndWritesNothing freezes the process until its leases have expired
// and another one has beaten, and then thaws it.
func TestAFrozenBeatLosesItsLanesAndWritesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		frozen, thaw := make(chan struct{}), make(chan struct{})
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			close(frozen)
			<-thaw
			return obedient(ctx, tk)
		}))
		id := w.plan(t, w.addObjective(t, "x", 5), "one", "close")
		type ended struct {
			r   heartbeat.Report
			err error
		}
		end := make(chan ended, 1)
		go func() {
			tick := slot(1)
			tick.Workspace = w.Workspace
			r, err := w.Run(context.WithoutCancel(t.Context()), tick)
			end <- ended{r, err}
		}()
		<-frozen
		w.Skew.Advance(10 * time.Minute)
		other := w.another(t, pilot(obedient))
		for n, want := range []heartbeat.Outcome{heartbeat.Completed, heartbeat.Completed, heartbeat.Idle} {
			if r := other.beat(t, slot(n+1)); r.Outcome != want { // the first one has the slot of the frozen beat
				t.Errorf("beat %d is %+v", n, r)
			}
		}
		before, story := w.executions(t), w.actions(t, activity.Filter{})
		close(thaw)
		got := <-end
		if got.err != nil || got.r.Outcome != heartbeat.Lost {
			t.Errorf("the thawed beat is %+v, %v", got.r, got.err)
		}
		if diff := cmp.Diff(before, w.executions(t)); diff != "" {
			t.Errorf("it wrote: %s", diff)
		}
		if diff := cmp.Diff(story, w.actions(t, activity.Filter{})); diff != "" {
			t.Errorf("it logged: %s", diff)
		}
		if o := w.objective(t, id); o.Status != objective.Completed || len(other.ofSubject(t, lane.Objective(id))) != 2 {
			t.Errorf("the objective is %+v", o)
		}
	})
}

func TestABeatWhoseLaneIsTakenAwayStops(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, nil)
		id := w.plan(t, w.addObjective(t, "x", 5), "one")
		other := w.addObjective(t, "y", 1)
		w.think(first("advance", func() { w.force(t, lane.Heartbeat) }))
		w.plan(t, other, "one")
		r := w.beat(t, slot(1))
		if r.Outcome != heartbeat.Lost || len(w.ofSubject(t, lane.Objective(other))) != 0 {
			t.Errorf("it is %+v", r)
		}
		if got := len(w.journal(t, w.the(t, lane.Objective(id)).ID)); got != 1 {
			t.Errorf("the journal has %d entries", got)
		}
		w.mustBeFree(t)
	})
}

// TestAnObjectiveWhoseLaneIsTakenAwayIsLeft checks that the beat continues with the other
// objectives.
func TestAnObjectiveWhoseLaneIsTakenAwayIsLeft(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, nil)
		lost := w.plan(t, w.addObjective(t, "x", 9), "one")
		other := w.plan(t, w.addObjective(t, "y", 1), "one")
		w.think(first("advance", func() { w.force(t, lane.Objective(lost)) }))
		r := w.beat(t, slot(1))
		if r.Outcome != heartbeat.Parked || r.Left != 1 || r.Phases[3].Done != 1 {
			t.Errorf("it is %+v", r)
		}
		if w.objective(t, lost).Plan[0].Status != objective.Pending || w.objective(t, other).Plan[0].Status != objective.Done {
			t.Errorf("the plans are %+v and %+v", w.objective(t, lost).Plan, w.objective(t, other).Plan)
		}
		w.mustBeFree(t)
		w.beat(t, slot(2))
		if e := w.ofSubject(t, lane.Objective(lost)); w.objective(t, lost).Plan[0].Status != objective.Done || e[0].Attempt != 2 {
			t.Errorf("the next beat left %+v", e)
		}
	})
}

// TestPoisonIsGivenUp covers work that kills the process each time it is resumed.
func TestPoisonIsGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, ran := mortal(1_000)
		w := newWorld(t, e, pilot(risky), k)
		id := w.plan(t, w.addObjective(t, "x", 5), "one", "two")
		other := w.plan(t, w.addObjective(t, "y", 1), "fine")
		for n := range 5 {
			w.dies(t, slot(n))
		}
		w.think(pilot(obedient))
		r := w.beat(t, slot(5))
		if r.Outcome != heartbeat.Completed || r.Phases[3].Failed != 1 || r.Phases[3].Done != 1 {
			t.Errorf("it is %+v", r)
		}
		piece := w.the(t, lane.Objective(id))
		if piece.Status != execution.Failed || piece.Attempt != 5 || !strings.Contains(piece.Error, "given up: it was cut off in attempt 5") || *ran != 5 {
			t.Errorf("after %d runs the piece is %+v", *ran, piece)
		}
		if o := w.objective(t, id); o.Plan[0].Status != objective.Failed || !strings.HasPrefix(o.Plan[0].Result, "given up: ") {
			t.Errorf("the plan is %+v", o.Plan)
		}
		if got := w.actions(t, activity.Filter{Status: activity.Error}); len(got) != 1 || got[0].Skill != "heartbeat.advance" || got[0].Execution != piece.ID ||
			!strings.HasPrefix(got[0].Error, "given up: ") || !strings.Contains(string(got[0].Input), id) {
			t.Errorf("the log says %+v", got)
		}
		if w.objective(t, other).Plan[0].Status != objective.Done {
			t.Error("the other objective is not served")
		}
		w.beat(t, slot(6))
		if o := w.objective(t, id); o.PlanVersion != 2 || o.Plan[0].Status != objective.Done {
			t.Errorf("the next beat left %+v", o)
		}
	})
}

// TestAPlanningThatIsPoisonPausesTheObjective checks also that a stored plan prevents the pause.
func TestAPlanningThatIsPoisonPausesTheObjective(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for _, planned := range []bool{false, true} {
			w := newWorld(t, e, nil)
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			w.set(t, `{}`)
			id := w.addObjective(t, "x", 5)
			w.think(pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
				if tk.Answers == map[bool]int{false: 0, true: 1}[planned] {
					w.force(t, lane.Objective(id)) // it cannot write any more
				}
				return obedient(ctx, tk)
			}))
			w.beat(t, slot(1))
			piece := w.the(t, lane.Objective(id))
			if piece.Status != execution.Running {
				t.Fatalf("the planning is %+v", piece)
			}
			must(w.DB.Exec(t.Context(), w.Workspace, w.q.Attempts, piece.ID, 5))(t)
			w.think(idle(t))
			r := w.beat(t, slot(2))
			if e := w.the(t, lane.Objective(id)); e.Status != execution.Failed || r.Outcome != heartbeat.Completed {
				t.Errorf("planned %v: the execution is %+v, the beat %+v", planned, e, r)
			}
			o := w.objective(t, id)
			if !planned && (o.Status != objective.Paused || !strings.HasPrefix(o.StatusReason, "no plan came about: it was cut off")) {
				t.Errorf("the objective is %+v", o)
			}
			if planned && o.Status != objective.Active {
				t.Errorf("the planned objective is %+v", o)
			}
		}
	})
}

// TestAnOutageIsNoPoison checks that repeatedly parked executions do not count as poison.
func TestAnOutageIsNoPoison(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for _, class := range []llm.ErrorClass{llm.ClassUnavailable, llm.ClassAuthentication, llm.ClassBilling, llm.ClassRateLimit} {
			asked := 0
			w := newWorld(t, e, pilot(func(context.Context, task) (llmtest.Step, error) {
				asked++
				return nil, &llm.Error{Class: class, Provider: "pilot"}
			}))
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			id := w.plan(t, w.addObjective(t, "x", 9), "close")
			all := []string{id}
			for i := range 3 {
				all = append(all, w.addObjective(t, fmt.Sprint(i), 1))
			}
			for n := range 12 {
				asked = 0
				r := w.beat(t, slot(n))
				if r.Outcome != heartbeat.Parked || !strings.Contains(r.Reason, string(class)) || asked != 1 {
					t.Fatalf("beat %d, in which the model was asked %d times, is %+v", n, asked, r)
				}
			}
			for _, id := range all {
				if o := w.objective(t, id); o.Status != objective.Active || o.PlanAttempts > 1 {
					t.Errorf("during the outage the objective became %+v", o)
				}
			}
			w.think(pilot(obedient))
			w.beat(t, slot(12))
			if o := w.objective(t, id); o.Status != objective.Completed || o.Plan[0].Attempts > 1 {
				t.Errorf("after the outage the objective is %+v", o)
			}
		}
	})
}
