package heartbeat_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// pausable is a model whose provider can be paused.
type pausable struct {
	pilot
	why *string
}

func (p pausable) Paused(context.Context) string { return *p.why }

// hears counts the logged errors that trigger the alarm.
func (w *world) hears() *int {
	heard := new(int)
	w.Log = slog.New(trace.NewHandler(slog.NewTextHandler(nowhere{func(line string) {
		if strings.Contains(line, "level=ERROR") && strings.Contains(line, "a person is needed") {
			*heard++
		}
	}}, nil)))
	return heard
}

type nowhere struct{ told func(string) }

func (n nowhere) Write(p []byte) (int, error) { n.told(string(p)); return len(p), nil }

// TestARefusedKeyPausesTheModelPhases checks that a refused key pauses the model phases, raises an
// alert, and loses no work.
func TestARefusedKeyPausesTheModelPhases(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, ran := counting("tidy")
		w := newWorld(t, e, nil, k)
		heard := w.hears()
		why, asked := "", 0
		w.think(pausable{pilot(func(context.Context, task) (llmtest.Step, error) {
			why, asked = "authentication", asked+1
			return nil, &llm.Error{Class: llm.ClassAuthentication, Provider: "pilot"}
		}), &why})
		w.addObjective(t, "new", 9)
		id := w.plan(t, w.addObjective(t, "old", 5), "one")
		w.automate(t, "tidy up", "tidy", "")
		w.Skew.Advance(time.Hour)
		for n := range 3 {
			if n == 2 {
				why = "" // the pause is over, so the model is tried again
			}
			r := w.beat(t, slot(n))
			if r.Outcome != heartbeat.Parked || len(r.Alerts) != 1 || !strings.Contains(r.Alerts[0], "authentication") || *heard != n+1 || asked != 1+n/2 || *ran != 1 {
				t.Errorf("beat %d is %+v; heard %d times, asked %d times, ran %d times", n, r, *heard, asked, *ran)
			}
		}
		why = ""
		w.think(pilot(obedient))
		if r := w.beat(t, slot(3)); r.Outcome != heartbeat.Completed || r.Alerts != nil || w.objective(t, id).Plan[0].Status != objective.Done {
			t.Errorf("put right it is %+v", r)
		}
	})
}

// TestWhatWasHaltedDoesNotCountAsTried checks that halted work is not given up, however long the
// halt lasts.
func TestWhatWasHaltedDoesNotCountAsTried(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(func(context.Context, task) (llmtest.Step, error) {
			return nil, &llm.Error{Class: llm.ClassBilling, Provider: "pilot"}
		}))
		id := w.plan(t, w.addObjective(t, "x", 5), "one")
		w.beat(t, slot(0))
		must(w.DB.Exec(t.Context(), w.Workspace, w.q.Attempts, w.the(t, lane.Objective(id)).ID, 47))(t)
		for n := range 3 {
			if r := w.beat(t, slot(1+n)); r.Outcome != heartbeat.Parked || w.the(t, lane.Objective(id)).Attempt != 47 {
				t.Errorf("beat %d is %+v, the execution %+v", n, r, w.the(t, lane.Objective(id)))
			}
		}
		w.think(pilot(obedient))
		if r := w.beat(t, slot(4)); r.Outcome != heartbeat.Completed || w.the(t, lane.Objective(id)).Status != execution.Completed {
			t.Errorf("at last it is %+v", r)
		}
	})
}

func TestOldApprovalsCallAPerson(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, _ := counting("pay")
		k.RequiresApproval = true
		w := newWorld(t, e, idle(t), k)
		heard := w.hears()
		w.Reason.Approvals = waiting{w.Approvals}
		id := w.automate(t, "pay up", "pay", "")
		w.Skew.Advance(time.Hour)
		w.beat(t, slot(1))
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.Automations.Delete(ctx, tx, id)
			return err
		})
		if r := w.beat(t, slot(2)); err != nil || r.Outcome != heartbeat.Idle || r.Alerts != nil || *heard != 0 {
			t.Errorf("an hour later it is %+v, %v", r, err)
		}
		w.Skew.Advance(25 * time.Hour)
		if r := w.beat(t, slot(3)); r.Outcome != heartbeat.Idle || len(r.Alerts) != 1 || !strings.Contains(r.Alerts[0], "approvals wait for an answer: 1") || *heard != 1 {
			t.Errorf("a day later it is %+v", r)
		}
	})
}

// TestAnApprovalThatHasExpiredCallsNobody: the age of one that a beat expires is not that of those that still wait.
func TestAnApprovalThatHasExpiredCallsNobody(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, _ := counting("pay")
		k.RequiresApproval = true
		w := newWorld(t, e, idle(t), k)
		heard := w.hears()
		w.Reason.Approvals = waiting{w.Approvals}
		w.automate(t, "pay up", "pay", "")
		w.Skew.Advance(time.Hour)
		w.beat(t, slot(1))
		w.Skew.Advance(70 * time.Hour)
		w.beat(t, slot(2))
		*heard = 0
		w.Skew.Advance(4 * time.Hour)
		if r := w.beat(t, slot(3)); r.Phases[0].Done != 1 || r.Alerts != nil || *heard != 0 {
			t.Errorf("it is %+v", r)
		}
	})
}
