package heartbeat_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/retain"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// stop sets a kill switch and returns the function that releases it.
func (w *world) stop(t testing.TB, scope halt.Scope, target string) (release func()) {
	t.Helper()
	var on halt.Switch
	tx := func(fn func(context.Context, *db.Tx) error) {
		t.Helper()
		if err := w.DB.Tx(context.Background(), w.Workspace, fn); err != nil {
			t.Fatal(err)
		}
	}
	tx(func(ctx context.Context, tx *db.Tx) (err error) {
		on, err = w.Switches.Set(ctx, tx, halt.Switch{Scope: scope, Target: target, SetBy: "ada"})
		return err
	})
	return func() {
		tx(func(ctx context.Context, tx *db.Tx) error {
			_, _, err := w.Switches.Release(ctx, tx, on.ID, "ada")
			return err
		})
	}
}

// switched makes the world's runs check kill switches.
func (w *world) switched() {
	w.Reason.Switches = func(ctx context.Context, ws db.Workspace) (reason.Halts, error) {
		var b db.Batch
		on := w.Switches.On(&b)
		err := w.DB.Read(ctx, ws, &b)
		return *on, err
	}
}

func TestAKillSwitchSkipsBeats(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for scope, target := range map[halt.Scope]string{halt.Workspace: "", halt.Agent: activity.Operator} {
			w := newWorld(t, e, idle(t))
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			w.set(t, `{}`)
			id := w.plan(t, w.addObjective(t, "x", 5), "one")
			release := w.stop(t, scope, target)
			if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Skipped || !strings.HasPrefix(r.Reason, "a kill switch stops the "+string(scope)) {
				t.Errorf("%s: it is %+v", scope, r)
			}
			w.mustBeFree(t)
			release()
			w.think(pilot(obedient))
			if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed || w.objective(t, id).Plan[0].Status != objective.Done {
				t.Errorf("%s: released it is %+v", scope, r)
			}
		}
	})
}

func TestAModelThatIsStoppedIsNotAskedAgain(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for _, name := range []string{"pilot", "us.maker.big-1"} { // the provider's name, and the model's own
			w := newWorld(t, e, nil)
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			w.set(t, `{}`)
			w.switched()
			w.Reason.ModelID = "us.maker.big-1"
			id := w.plan(t, w.addObjective(t, "x", 5), "one")
			asked := 0
			var release func()
			w.think(pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
				if asked++; asked == 1 {
					release = w.stop(t, halt.Model, name)
				}
				return obedient(ctx, tk)
			}))
			r := w.beat(t, slot(1))
			if r.Outcome != heartbeat.Parked || r.Reason != "a kill switch stops the model "+name || asked != 1 || w.the(t, lane.Objective(id)).Status != execution.Parked {
				t.Errorf("after %d answers it is %+v", asked, r)
			}
			w.mustBeFree(t)
			release()
			if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed || asked != 2 || w.the(t, lane.Objective(id)).Status != execution.Completed {
				t.Errorf("released, after %d answers, it is %+v", asked, r)
			}
		}
	})
}

func TestASkillThatIsStoppedIsNotCalled(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, ran := counting("tidy")
		w := newWorld(t, e, idle(t), k)
		w.switched()
		id := w.automate(t, "tidy up", "tidy", "")
		release := w.stop(t, halt.Skill, "tidy")
		w.Skew.Advance(time.Hour)
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Completed || r.Phases[2].Failed != 1 || *ran != 0 || w.automation(t, id).LastStatus != "error" {
			t.Errorf("after %d runs it is %+v", *ran, r)
		}
		for n := range 3 { // a skill that a person has stopped needs no healing
			w.Skew.Advance(time.Hour)
			if w.beat(t, slot(2+n)); !w.automation(t, id).Enabled {
				t.Errorf("beat %d left %+v", 2+n, w.automation(t, id))
			}
		}
		release()
		w.Skew.Advance(time.Hour)
		if w.beat(t, slot(5)); *ran != 1 || w.automation(t, id).LastStatus != "success" {
			t.Errorf("released it ran %d times: %+v", *ran, w.automation(t, id))
		}
	})
}

// TestAStoppedModelStopsNoAutomation checks that a stopped model leaves automations alone, since
// they ask none. A stopped agent stops them until its release.
func TestAStoppedModelStopsNoAutomation(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, ran := counting("tidy")
		w := newWorld(t, e, pilot(obedient), k)
		w.switched()
		id := w.automate(t, "tidy up", "tidy", "")
		release := w.stop(t, halt.Model, "pilot")
		w.Skew.Advance(time.Hour)
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Completed || *ran != 1 {
			t.Errorf("after %d runs it is %+v", *ran, r)
		}
		release()
		w.Reason.Switches = func(context.Context, db.Workspace) (reason.Halts, error) {
			return halt.Switches{{Scope: halt.Agent, Target: activity.Operator}}, nil
		}
		w.Skew.Advance(time.Hour)
		w.beat(t, slot(2))
		parked := w.ofSubject(t, lane.Automation(id))[1]
		must(w.DB.Exec(t.Context(), w.Workspace, w.q.Attempts, parked.ID, 9))(t)
		if r := w.beat(t, slot(3)); r.Outcome != heartbeat.Parked || parked.Status != execution.Parked || *ran != 1 {
			t.Errorf("after %d runs it is %+v, the execution %+v", *ran, r, parked)
		}
		w.Reason.Switches = nil
		if r := w.beat(t, slot(4)); r.Outcome != heartbeat.Completed || *ran != 2 || w.automation(t, id).LastStatus != "success" {
			t.Errorf("after %d runs it is %+v", *ran, r)
		}
	})
}

// waiting stores calls that wait for an approval, like package app.
type waiting struct{ *approval.Store }

func (q waiting) Request(ctx context.Context, tx lane.Tx, w reason.Waiting) (string, error) {
	return q.Store.Request(ctx, tx, approval.Approval{
		Skill: w.Skill.Name, SkillID: w.Skill.ID, Arguments: w.Call.Arguments, Why: w.Why, Execution: w.Execution.ID, Call: w.CallID,
		Subject: w.Execution.Subject, Agent: w.Call.Agent, Surface: w.Call.Surface, Trace: w.Execution.Trace,
	})
}

func TestAnAutomationWaitsForAPerson(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, ran := counting("pay")
		k.RequiresApproval = true
		w := newWorld(t, e, idle(t), k)
		w.Reason.Approvals = waiting{w.Approvals}
		id := w.automate(t, "pay up", "pay", "")
		w.Skew.Advance(time.Hour)
		r := w.beat(t, slot(1))
		pending, _, err := w.Approvals.List(t.Context(), w.Workspace, approval.Filter{Limit: 5})
		if r.Phases[2].Done != 1 || *ran != 0 || w.automation(t, id).LastStatus != "pending_approval" {
			t.Errorf("after %d runs it is %+v", *ran, r)
		}
		if got := w.actions(t, activity.Filter{Skill: "pay"}); err != nil || len(pending) != 1 || pending[0].Skill != "pay" || len(got) != 1 || got[0].Status != activity.PendingApproval {
			t.Errorf("there wait %+v, %v; the log says %+v", pending, err, got)
		}
	})
}

// TestAStepHearsWhatAPersonDecided: a step whose call waits is neither tried again nor given up, and goes on with the decision.
func TestAStepHearsWhatAPersonDecided(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, ran := counting("pay")
		k.RequiresApproval = true
		asked := 0
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			switch last := tk.Messages[len(tk.Messages)-1]; {
			case tk.Kind != "advance":
				return obedient(ctx, tk)
			case strings.Contains(last.Text, "was rejected, and not made: too dear"):
				return llmtest.Call("advance_plan", fmt.Sprintf(`{"objectiveId": %q, "step": 1, "result": "not paid"}`, tk.Objective.ID)), nil
			case tk.Answers == 0:
				asked++
				return llmtest.Call("pay", "{}"), nil
			}
			return llmtest.Say("that is all"), nil
		}), k)
		w.Reason.Approvals = waiting{w.Approvals}
		id := w.plan(t, w.addObjective(t, "pay the bill", 5), "pay")
		for n := range 5 {
			w.Skew.Advance(time.Hour)
			w.beat(t, slot(n+1))
		}
		pending, _, err := w.Approvals.List(t.Context(), w.Workspace, approval.Filter{Limit: 5})
		if err != nil || len(pending) != 1 || asked != 1 || w.the(t, lane.Objective(id)).Status != execution.Waiting {
			t.Fatalf("asked %d times, there wait %d: %+v, %v", asked, len(pending), w.ofSubject(t, lane.Objective(id)), err)
		}
		if _, err := w.Approvals.Reject(t.Context(), w.Workspace, pending[0].ID, "user:ada", "too dear"); err != nil {
			t.Fatal(err)
		}
		w.beat(t, slot(6))
		step := w.objective(t, id).Plan[0]
		if step.Status != objective.Done || step.Attempts != 1 || asked != 1 || *ran != 0 ||
			w.the(t, lane.Objective(id)).Status != execution.Completed {
			t.Errorf("asked %d times, made %d calls, the step is %+v", asked, *ran, step)
		}
	})
}

// TestAStepWaitsForNoApprovalThatIsGone: a beat that comes when the decision has been purged does not wait for it for ever.
func TestAStepWaitsForNoApprovalThatIsGone(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, _ := counting("pay")
		k.RequiresApproval = true
		heard := false
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			heard = heard || strings.Contains(tk.Messages[len(tk.Messages)-1].Text, "is not known any more")
			if tk.Kind == "advance" && tk.Answers == 0 {
				return llmtest.Call("pay", "{}"), nil
			}
			return llmtest.Say("that is all"), nil
		}), k)
		w.Reason.Approvals = waiting{w.Approvals}
		id := w.plan(t, w.addObjective(t, "pay the bill", 5), "pay")
		w.beat(t, slot(1))
		pending, _, err := w.Approvals.List(t.Context(), w.Workspace, approval.Filter{Limit: 5})
		if err != nil || len(pending) != 1 {
			t.Fatal(pending, err)
		}
		if _, err := w.Approvals.Reject(t.Context(), w.Workspace, pending[0].ID, "user:ada", "too dear"); err != nil {
			t.Fatal(err)
		}
		const days = 24 * time.Hour
		w.Skew.Advance(100 * days)
		keep := retain.Retention{Activity: 90 * days, Events: 7 * days, Outbox: 30 * days, Inbox: 30 * days}
		if _, err := w.Retention.Purge(t.Context(), w.Workspace, keep); err != nil {
			t.Fatal(err)
		}
		w.beat(t, slot(2))
		if got := w.the(t, lane.Objective(id)); !heard || got.Status != execution.Completed {
			t.Errorf("heard of it: %t, it is %+v", heard, got)
		}
	})
}

// asksAndGoesOn asks for a call in the step pay, and says at once that the step is done.
func asksAndGoesOn(ctx context.Context, tk task) (llmtest.Step, error) {
	if tk.Kind == "advance" && tk.Answers == 0 && tk.Step.Title == "pay" {
		return llmtest.Call("pay", "{}", "advance_plan", fmt.Sprintf(`{"objectiveId": %q, "step": 1, "result": "asked"}`, tk.Objective.ID)), nil
	}
	return obedient(ctx, tk)
}

// TestAStepThatIsDoneWaitsForNobody: the plan goes on although a call of the step that is done still waits.
func TestAStepThatIsDoneWaitsForNobody(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, _ := counting("pay")
		k.RequiresApproval = true
		w := newWorld(t, e, pilot(asksAndGoesOn), k)
		w.Reason.Approvals = waiting{w.Approvals}
		id := w.plan(t, w.addObjective(t, "pay the bill", 5), "pay", "close")
		w.beat(t, slot(1))
		w.beat(t, slot(2))
		if o := w.objective(t, id); o.Status != objective.Completed {
			t.Errorf("it is %+v", o)
		}
	})
}

// TestAnObjectiveThatIsOverMakesNoCall: a person completed or deleted it while its run waited for another person. What
// nobody has decided is rejected.
func TestAnObjectiveThatIsOverMakesNoCall(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for _, c := range []struct {
			deleted, approved bool
			status            approval.Status
			why               string
		}{
			{false, true, approval.Executed, "its objective is completed"},
			{false, false, approval.Rejected, ""},
			{true, true, approval.Executed, "its objective is gone"},
		} {
			k, ran := counting("pay")
			k.RequiresApproval = true
			w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
				if tk.Kind == "advance" && tk.Answers == 0 {
					return llmtest.Call("pay", "{}"), nil
				}
				return llmtest.Say("that is all"), nil
			}), k)
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			w.set(t, `{}`)
			w.Reason.Approvals = waiting{w.Approvals}
			w.Approvals.Skills = w.Skills
			id := w.plan(t, w.addObjective(t, "pay the bill", 5), "pay")
			w.beat(t, slot(1))
			pending, _, err := w.Approvals.List(t.Context(), w.Workspace, approval.Filter{Limit: 5})
			if err != nil || len(pending) != 1 {
				t.Fatal(pending, err)
			}
			if c.approved {
				must(w.Approvals.Approve(t.Context(), w.Workspace, pending[0].ID, "user:ada", nil))(t)
			}
			admin := objective.NewAdmin(w.Objectives, w.Lanes, w.Runs, w.Threads.Release)
			err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				if c.deleted {
					return admin.Delete(ctx, tx, id)
				}
				_, err := admin.Complete(ctx, tx, id, "paid in cash")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if !c.approved {
				w.beat(t, slot(2))
			}
			w.drain(t)
			is := must(w.Approvals.Get(t.Context(), w.Workspace, pending[0].ID))(t)
			if *ran != 0 || is.Status != c.status || is.Error != c.why {
				t.Errorf("%+v: made %d times, it is %+v", c, *ran, is)
			}
		}
	})
}

// TestACallOfADoneStepIsMade: its run completed the objective while the call waited.
func TestACallOfADoneStepIsMade(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, ran := counting("pay")
		k.RequiresApproval = true
		w := newWorld(t, e, pilot(asksAndGoesOn), k)
		w.Reason.Approvals = waiting{w.Approvals}
		w.Approvals.Skills = w.Skills
		id := w.plan(t, w.addObjective(t, "pay the bill", 5), "pay", "close")
		w.beat(t, slot(1))
		w.beat(t, slot(2))
		pending, _, err := w.Approvals.List(t.Context(), w.Workspace, approval.Filter{Limit: 5})
		if err != nil || len(pending) != 1 || w.objective(t, id).Status != objective.Completed {
			t.Fatal(pending, err)
		}
		must(w.Approvals.Approve(t.Context(), w.Workspace, pending[0].ID, "user:ada", nil))(t)
		if w.drain(t); *ran != 1 {
			t.Errorf("made %d times", *ran)
		}
	})
}

// TestAnObjectiveThatWaitsLeavesRoom: those that a beat can work on come first, whatever their priority.
func TestAnObjectiveThatWaitsLeavesRoom(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, _ := counting("pay")
		k.RequiresApproval = true
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			switch {
			case tk.Kind == "advance" && tk.Answers == 0 && tk.Step.Title == "pay":
				return llmtest.Call("pay", "{}"), nil
			case tk.Kind == "advance" && tk.Step.Title == "pay":
				return llmtest.Say("that is all"), nil
			}
			return obedient(ctx, tk)
		}), k)
		w.Reason.Approvals = waiting{w.Approvals}
		high := w.plan(t, w.addObjective(t, "pay the bill", 9), "pay")
		low := w.plan(t, w.addObjective(t, "x", 5), "one", "two", "three")
		first := func() string {
			t.Helper()
			var b db.Batch
			due := w.Objectives.Due(&b, 1)
			if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil || len(*due) != 1 {
				t.Fatal(*due, err)
			}
			return (*due)[0].ID
		}
		if got := first(); got != high {
			t.Errorf("before it waits %s is first", got)
		}
		w.beat(t, slot(1))
		if got := first(); got != low {
			t.Errorf("while it waits %s is first", got)
		}
		pending, _, err := w.Approvals.List(t.Context(), w.Workspace, approval.Filter{Limit: 5})
		if err != nil || len(pending) != 1 {
			t.Fatal(pending, err)
		}
		must(w.Approvals.Reject(t.Context(), w.Workspace, pending[0].ID, "user:ada", "too dear"))(t)
		if got := first(); got != high {
			t.Errorf("when it is decided %s is first", got)
		}
	})
}

// meter reserves in budgets, like package app.
type meter struct{ *budget.Store }

func (m meter) Reserve(ctx context.Context, c reason.Cost) (int, reason.Settle, error) {
	r, err := m.Store.Reserve(ctx, c.Workspace, budget.Request{
		Agent: c.Agent, Surface: c.Surface, Execution: c.Execution, Trace: c.Trace, Model: c.Model,
		Input: int64(c.Input), Output: int64(c.Output), Min: 256, Lease: time.Minute,
		Day: c.Day, DayMicroUSD: c.DayMicroUSD, Priced: c.Priced,
	})
	if refused, ok := errors.AsType[*budget.RefusedError](err); ok {
		return 0, nil, &reason.SpentError{Why: fmt.Sprintf("the budget of %s is used up", refused.Scope)}
	}
	if unpriced, ok := errors.AsType[*budget.UnpricedError](err); ok {
		return 0, nil, &reason.SpentError{Why: unpriced.Error()}
	}
	if err != nil {
		return 0, nil, err
	}
	return int(r.Output), func(ctx context.Context, used *llm.Response, skills []string) (int64, error) {
		if used == nil {
			return 0, m.Release(ctx, c.Workspace, r)
		}
		return m.Settle(ctx, c.Workspace, r, budget.Used{Usage: used.Usage, Model: used.Model, Operation: "reason", Skills: skills})
	}, nil
}

func (w *world) metered(t testing.TB) {
	t.Helper()
	w.Clock = func() time.Time { return time.Now().Add(w.Skew.Offset()) }
	w.Reason.Clock = w.Clock
	w.Reason.Meter = meter{must(budget.New(w.DB, ids, w.Clock))(t)}
}

func TestADayThatIsSpentEndsAtMidnight(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		e.Skew.Advance(time.Until(time.Now().UTC().Truncate(24 * time.Hour).Add(36 * time.Hour))) // noon
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			step, err := obedient(ctx, tk)
			return func(req llm.Request) (llm.Response, error) {
				resp, err := step(req)
				resp.Usage.PromptTokens = 9_900
				return resp, err
			}, err
		}))
		w.metered(t)
		w.set(t, `{"day_tokens": 10000}`)
		id := w.plan(t, w.addObjective(t, "x", 5), "one")
		for n := range 2 {
			if r := w.beat(t, slot(n)); r.Outcome != heartbeat.Parked || !strings.Contains(r.Reason, "used up") || w.the(t, lane.Objective(id)).Status != execution.Parked {
				t.Errorf("beat %d is %+v", n, r)
			}
		}
		w.Skew.Advance(24 * time.Hour)
		if r := w.beat(t, slot(3)); r.Outcome != heartbeat.Completed || w.the(t, lane.Objective(id)).Status != execution.Completed {
			t.Errorf("the next day it is %+v", r)
		}
	})
}

// TestBeatsAreCappedInMoney uses answers that cost 105 millionths of a dollar.
func TestBeatsAreCappedInMoney(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for settings, c := range map[string]struct {
			model, reason string
			calls         int
		}{
			`{"beat_micro_usd": 315}`:          {"claude-sonnet-4", "the beat's money is used up", 3},
			`{"beat_micro_usd": 247}`:          {"claude-sonnet-4", "the phase's share of the beat's money is used up", 2},
			`{"day_micro_usd": 3000}`:          {"claude-sonnet-4", "the budget of agent is used up", 0},
			`{"beat_micro_usd": 1000000}`:      {"unheard-of", "money is capped, and the model unheard-of has no price", 0},
			`{"day_micro_usd": 1000000}`:       {"unheard-of", "money is capped, and the model unheard-of has no price", 0},
			`{"day_tokens": 0}`:                {"unheard-of", "the beat's tokens are used up", 0},
			`{"day_micro_usd": 1000000000}`:    {"claude-sonnet-4", "", 4},
			`{"beat_micro_usd": 1000000000}`:   {"claude-sonnet-4", "", 4},
			`{"day_tokens": 10000000, "x": 1}`: {"claude-sonnet-4", "", 4},
		} {
			w := newWorld(t, e, pilot(obedient))
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			w.metered(t)
			w.Reason.ModelID = c.model
			w.set(t, settings)
			for i := range 2 {
				w.plan(t, w.addObjective(t, fmt.Sprint(i), 5), "one")
			}
			r := w.beat(t, slot(1))
			p := r.Phases[3]
			cost := float64(105*c.calls) / 1e6
			if p.ModelCalls != c.calls || r.Reason != c.reason || r.CostUSD != cost || p.CostUSD != cost {
				t.Errorf("%s: after %d calls it is %+v", settings, p.ModelCalls, r)
			}
			if c.calls == 0 {
				continue
			}
			told := w.actions(t, activity.Filter{Skill: activity.ModelCall})
			if len(told) != c.calls || told[0].CostUSD == nil || *told[0].CostUSD != 105.0/1e6 {
				t.Errorf("%s: the log says %+v", settings, told)
			}
		}
	})
}

// TestWhatAKilledBeatReservedComesBack checks that a reservation is released when its lease
// expires.
func TestWhatAKilledBeatReservedComesBack(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, nil)
		w.metered(t)
		w.set(t, `{"day_tokens": 5000}`) // enough for one answer
		meter := w.Reason.Meter
		id := w.plan(t, w.addObjective(t, "x", 5), "one")
		w.Reason.Meter = dying{meter, func() {
			w.force(t, lane.Objective(id))
			w.force(t, lane.Heartbeat)
		}}
		w.think(idle(t))
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Lost {
			t.Fatalf("it is %+v", r)
		}
		w.Reason.Meter = meter
		w.think(pilot(obedient))
		if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Parked || !strings.Contains(r.Reason, "used up") {
			t.Errorf("at once it is %+v", r)
		}
		w.Skew.Advance(2 * time.Minute)
		if r := w.beat(t, slot(3)); r.Outcome != heartbeat.Completed {
			t.Errorf("later it is %+v", r)
		}
	})
}

// TestBudgetsThatCannotBeReachedTakeNoTry checks that the run is parked and continues later.
func TestBudgetsThatCannotBeReachedTakeNoTry(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		w.metered(t)
		meter := w.Reason.Meter
		id := w.plan(t, w.addObjective(t, "x", 5), "one")
		w.Reason.Meter = dying{meter, func() {}}
		for n := range 4 {
			r := w.beat(t, slot(n))
			if r.Outcome != heartbeat.Parked || r.Reason != "the budgets can't be reached" || w.the(t, lane.Objective(id)).Status != execution.Parked {
				t.Fatalf("beat %d is %+v", n, r)
			}
		}
		w.Reason.Meter = meter
		r := w.beat(t, slot(4))
		if o := w.objective(t, id); r.Outcome != heartbeat.Completed || o.Plan[0].Status != objective.Done || o.Plan[0].Attempts != 1 {
			t.Errorf("at last it is %+v, the objective %+v", r, o)
		}
	})
}

// dying is a meter that kills the process after a reservation.
type dying struct {
	reason.Meter
	die func()
}

func (d dying) Reserve(ctx context.Context, c reason.Cost) (int, reason.Settle, error) {
	if _, _, err := d.Meter.Reserve(ctx, c); err != nil {
		return 0, nil, err
	}
	d.die()
	return 0, nil, errDied
}

// TestAPhaseThatHasHadItsShareLeavesTheRest checks also that the later phases run.
func TestAPhaseThatHasHadItsShareLeavesTheRest(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		w.set(t, `{"beat_model_calls": 10}`) // planning may make 3 or 4 of them
		planned := w.plan(t, w.addObjective(t, "old", 1), "one")
		for i := range 4 {
			w.addObjective(t, fmt.Sprint(i), 5-i)
		}
		r := w.beat(t, slot(1))
		if r.Outcome != heartbeat.Parked || r.Phases[1].Done != 2 || r.Phases[1].Left != 2 || r.Phases[3].Done == 0 {
			t.Errorf("it is %+v", r)
		}
		for n := range 3 {
			r = w.beat(t, slot(2+n))
		}
		if w.objective(t, planned).Plan[0].Status != objective.Done || r.Phases[1].Left != 0 {
			t.Errorf("the last is %+v", r)
		}
	})
}

// TestASpentBudgetSlowsTheBeat: a throttled beat only goes on with what was begun, a stopped one with
// what is critical. By hand it does all.
func TestASpentBudgetSlowsTheBeat(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		w.plan(t, w.addObjective(t, "usual", 5), "one", "two", "three", "four", "five", "six")
		w.plan(t, w.addObjective(t, "critical", 9), "one", "two", "three", "four", "five", "six")
		now := time.Now().UTC()
		var made budget.Budget
		in := func(fn func(context.Context, *db.Tx) error) {
			t.Helper()
			if err := w.DB.Tx(t.Context(), w.Workspace, fn); err != nil {
				t.Fatal(err)
			}
		}
		in(func(ctx context.Context, tx *db.Tx) (err error) {
			made, err = w.Budgets.Create(ctx, tx, budget.Budget{
				Scope: budget.Global, Tokens: budget.Account{Allocated: 1_000_000}, Start: now.Add(-time.Hour), End: now.AddDate(0, 1, 0), CreatedBy: "ann",
			})
			return err
		})
		r, err := w.Budgets.Reserve(t.Context(), w.Workspace, budget.Request{
			Agent: "else", Surface: trace.Operate, Execution: ids(), Trace: "op_0mh8c1v2q_a7x2p1k9d4", Model: "demo", Output: 100_000, Lease: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Budgets.Settle(t.Context(), w.Workspace, r, budget.Used{Usage: llm.Usage{PromptTokens: 100_000}}); err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct {
			allocated int64
			full      bool
			pace      budget.Pace
			phases    string
			advanced  int
		}{
			{10_000_000, false, "", "heal plan automate advance reflect remember", 2},
			{500_000, false, budget.Throttle, "heal automate advance", 2},
			{150_000, false, budget.Stop, "heal advance", 1},
			{150_000, true, "", "heal plan automate advance reflect remember", 2},
		} {
			in(func(ctx context.Context, tx *db.Tx) error {
				_, err := w.Budgets.Patch(ctx, tx, made.ID, 0, budget.Allocation{Tokens: &c.allocated})
				return err
			})
			tick := slot(i)
			if c.full {
				tick = heartbeat.Tick{Full: true}
			}
			report := w.beat(t, tick)
			var ran []string
			done := 0
			for _, p := range report.Phases {
				ran = append(ran, p.Name)
				if p.Name == "advance" {
					done = p.Done
				}
			}
			if report.Pace != c.pace || strings.Join(ran, " ") != c.phases || done != c.advanced {
				t.Errorf("of %d: %q, phases %q, %d advanced; want %q, %q, %d", c.allocated, report.Pace, ran, done, c.pace, c.phases, c.advanced)
			}
		}
	})
}
