package heartbeat_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// cutShort leaves two executions whose processes died: one of an objective and one of an
// automation.
func (w *world) cutShort(t testing.TB) (ofObjective, ofAutomation executionRow) {
	t.Helper()
	o := w.plan(t, w.addObjective(t, "x", 5), "one", "two")
	w.dies(t, slot(0))
	quiet := w.Log
	a := w.automate(t, "tidy up", "tidy", "")
	w.Skew.Advance(time.Hour)
	w.Log = tells("automation runs", func() {
		w.force(t, lane.Automation(a))
		w.force(t, lane.Heartbeat)
	})
	if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Lost {
		t.Fatalf("the beat is %+v", r)
	}
	w.Log = quiet
	return w.the(t, lane.Objective(o)), w.the(t, lane.Automation(a))
}

// TestWhatCannotBeReadIsQuarantined covers executions whose input or journal has a future format.
// They do not fail a beat, and are given up after five attempts.
func TestWhatCannotBeReadIsQuarantined(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for name, of := range map[string]func(*world) db.Query{
			"input":   func(w *world) db.Query { return w.q.FutureInput },
			"journal": func(w *world) db.Query { return w.q.FutureStep },
		} {
			tidy, ran := counting("tidy")
			die, _ := mortal(99)
			w := newWorld(t, e, pilot(risky), tidy, die)
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			w.set(t, `{}`)
			onObjective, onAutomation := w.cutShort(t)
			for _, x := range []executionRow{onObjective, onAutomation} {
				must(w.DB.Exec(t.Context(), w.Workspace, of(w), x.ID))(t)
			}
			w.think(idle(t))
			other := w.automate(t, "another", "tidy", "")
			for n := range 6 {
				if n == 3 {
					w.Skew.Advance(time.Hour)
				}
				if r := w.beat(t, slot(2+n)); r.Outcome != heartbeat.Completed {
					t.Errorf("%s: beat %d is %+v", name, n, r)
				}
				if got := w.ofSubject(t, lane.Name(onAutomation.Subject))[0]; n < 4 && (got.Status != execution.Running || got.Attempt != n+2) {
					t.Errorf("%s: after beat %d the automation's is %+v", name, n, got)
				}
				if o := w.ofSubject(t, lane.Name(onObjective.Subject)); len(o) > 1 {
					w.think(pilot(obedient)) // the step is tried again
				} else if n < 4 && (o[0].Status != execution.Running || o[0].Attempt != n+2) {
					t.Errorf("%s: after beat %d the objective's is %+v", name, n, o[0])
				}
				if n == 4 {
					w.think(pilot(obedient))
				}
			}
			for _, x := range []executionRow{onObjective, onAutomation} {
				if got := w.ofSubject(t, lane.Name(x.Subject))[0]; got.ID != x.ID || got.Status != execution.Failed {
					t.Errorf("%s: at last it is %+v", name, got)
				}
			}
			id, _ := lane.AutomationOf(lane.Name(onAutomation.Subject))
			if a := w.automation(t, id); a.LastStatus == "" {
				t.Errorf("%s: the automation is %+v", name, a)
			}
			if a := w.automation(t, other); a.LastStatus != "success" || *ran == 0 {
				t.Errorf("%s: what is sound has not run: %+v", name, a)
			}
			w.mustBeFree(t)
		}
	})
}

// TestAnAutomationThatCannotBeReadIsLeft covers a schedule that this build does not know, such as one with a
// newer time zone. Its automation does not run, and stops no other one.
func TestAnAutomationThatCannotBeReadIsLeft(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		tidy, ran := counting("tidy")
		w := newWorld(t, e, idle(t), tidy)
		broken := w.automate(t, "broken", "tidy", "")
		must(w.DB.Exec(t.Context(), w.Workspace, w.q.BreakSchedule, broken))(t)
		sound := w.automate(t, "sound", "tidy", "")
		w.Skew.Advance(time.Hour)
		r := w.beat(t, slot(1))
		if r.Outcome != heartbeat.Completed || r.Phases[2].Done != 1 || r.Phases[2].Left != 1 || *ran != 1 {
			t.Errorf("after %d runs it is %+v", *ran, r)
		}
		if a := w.automation(t, sound); a.LastStatus != "success" {
			t.Errorf("the sound one is %+v", a)
		}
		w.mustBeFree(t)
	})
}

// TestTheBeatsOwnIsFoundAmongMany checks that a beat finds its own execution among many unfinished
// ones.
func TestTheBeatsOwnIsFoundAmongMany(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, _ := mortal(2)
		w := newWorld(t, e, pilot(risky), k)
		w.plan(t, w.addObjective(t, "x", 5), "one", "two")
		must(w.DB.Exec(t.Context(), w.Workspace, w.q.PastOpen, 501))(t)
		w.dies(t, slot(1))
		w.dies(t, slot(1))
		if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed || r.Phases[3].Done != 1 {
			t.Errorf("the next is %+v", r)
		}
	})
}

// TestAPoisonThoughtIsQuarantined covers a run of the reflect or the remember phase that kills its
// process each time. It is given up after five attempts.
func TestAPoisonThoughtIsQuarantined(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for _, phase := range []string{"reflect", "remember"} {
			tidy, _ := counting("tidy")
			w := newWorld(t, e, nil, tidy)
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			w.set(t, `{}`)
			w.automate(t, "tidy up", "tidy", "")
			w.Skew.Advance(time.Hour)
			if phase == "reflect" {
				w.beat(t, slot(-1)) // activity to reflect on
			}
			w.thinks(t, map[string]int{"reflect": 24}[phase], map[string]int{"remember": 4}[phase])
			asked := 0
			quiet := w.Log
			w.think(pilot(func(context.Context, task) (llmtest.Step, error) {
				asked++
				w.force(t, lane.Heartbeat) // the process dies and cannot write any more
				w.force(t, lane.Name("heartbeat:"+phase))
				return llmtest.Say("never heard"), nil
			}))
			n := 0
			for ; n < 5; n++ {
				if r := w.beat(t, slot(n)); r.Outcome != heartbeat.Lost {
					t.Fatalf("%s: beat %d is %+v", phase, n, r)
				}
			}
			w.Log = quiet
			r := w.beat(t, slot(n))
			if r.Outcome != heartbeat.Completed || asked != 5 {
				t.Errorf("%s: after %d tries the beat is %+v", phase, asked, r)
			}
			if got := w.the(t, lane.Name("heartbeat:"+phase)); got.Status != execution.Failed || got.Error != "given up: it was cut off in attempt 5" || got.Attempt != 5 {
				t.Errorf("%s: it is %+v", phase, got)
			}
			w.think(idle(t))
			if r := w.beat(t, slot(n+1)); r.Outcome != heartbeat.Idle {
				t.Errorf("%s: the next is %+v", phase, r)
			}
		}
	})
}

// TestAPoisonAutomationIsQuarantined covers an automation whose call kills the process each time.
func TestAPoisonAutomationIsQuarantined(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		var w *world
		var id string
		ran := 0
		w = newWorld(t, e, idle(t), skill.Skill{Name: "tidy", Parameters: []byte(`{"type": "object"}`), Keyed: true, Do: func(context.Context, skill.Call) (any, error) {
			ran++
			w.force(t, lane.Automation(id))
			w.force(t, lane.Heartbeat)
			return "never heard", nil
		}})
		id = w.automate(t, "tidy up", "tidy", "")
		w.Skew.Advance(time.Hour)
		for n := range 5 {
			if r := w.beat(t, slot(n)); r.Outcome != heartbeat.Lost {
				t.Fatalf("beat %d is %+v", n, r)
			}
		}
		if r := w.beat(t, slot(5)); r.Outcome != heartbeat.Completed || r.Phases[2].Failed != 1 || ran != 5 {
			t.Errorf("after %d calls the beat is %+v", ran, r)
		}
		if got := w.the(t, lane.Automation(id)); got.Status != execution.Failed || got.Attempt != 5 || got.Error != "given up: it was cut off in attempt 5" {
			t.Errorf("it is %+v", got)
		}
		if a := w.automation(t, id); a.LastStatus != "error" {
			t.Errorf("the automation is %+v", a)
		}
		if got := w.actions(t, activity.Filter{Skill: "tidy", Status: activity.Error}); len(got) != 1 || got[0].Error != "it was cut off in attempt 5" {
			t.Errorf("the log says %+v", got)
		}
		w.mustBeFree(t)
	})
}

// TestAnUncertainCallPausesItsObjective covers an interrupted call whose effect is unknown. A
// person has to check before the step is tried again.
func TestAnUncertainCallPausesItsObjective(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		var w *world
		var id string
		ran := 0
		w = newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			switch {
			case tk.Kind == "plan":
				return obedient(ctx, tk)
			case tk.Answers == 0:
				return llmtest.Call("order", `{}`), nil
			}
			return llmtest.Say("I don't know"), nil
		}), skill.Skill{Name: "order", Parameters: []byte(`{"type": "object"}`), Do: func(context.Context, skill.Call) (any, error) {
			if ran++; ran == 1 { // the process dies during the call
				w.force(t, lane.Objective(id))
				w.force(t, lane.Heartbeat)
			}
			return "ordered", nil
		}})
		id = w.plan(t, w.addObjective(t, "x", 5), "one", "two")
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Lost {
			t.Fatalf("it is %+v", r)
		}
		w.beat(t, slot(2))
		o := w.objective(t, id)
		if o.Status != objective.Paused || !strings.Contains(o.StatusReason, "not known whether a call had its effect") || !strings.Contains(o.StatusReason, "order") || ran != 1 {
			t.Errorf("after %d calls the objective is %s: %s", ran, o.Status, o.StatusReason)
		}
		if r := w.beat(t, slot(3)); r.Outcome != heartbeat.Idle || ran != 1 {
			t.Errorf("after %d calls the next is %+v", ran, r)
		}
	})
}
