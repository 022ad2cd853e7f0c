package heartbeat_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// history fills a workspace with rows that earlier beats left: activities, and as many executions,
// with the numbers from from up to to.
func (w *world) history(t testing.TB, from, to int) {
	t.Helper()
	var b db.Batch
	b.Exec(w.q.PastActivity, from, to)
	b.Exec(w.q.PastExecutions, from, to)
	if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
}

func TestAnIdleBeatCostsTwoRoundTripsWhateverTheLog(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		from := 1
		for i, grown := range []int{10, 5_000} {
			w.history(t, from, grown)
			from = grown + 1
			for name, c := range map[string]struct {
				tick heartbeat.Tick
				want db.Stats
			}{
				"by hand":       {heartbeat.Tick{}, db.Stats{Statements: 8, RoundTrips: 2}},
				"by a schedule": {slot(i), db.Stats{Statements: 8, RoundTrips: 2}},
			} {
				before := w.DB.Stats()
				r := w.beat(t, c.tick)
				if got := w.DB.Stats().Sub(before); got != c.want {
					t.Errorf("%s, after %d: it takes %+v, want %+v", name, grown, got, c.want)
				}
				if r.Outcome != heartbeat.Idle || r.Tokens != 0 || len(r.Phases) != 0 || r.ExecutionID == "" {
					t.Errorf("%s: the report is %+v", name, r)
				}
				story := w.story(t, r.TraceID)
				if len(story) != 1 || story[0].Skill != "heartbeat" || story[0].Status != activity.Success || story[0].Execution != r.ExecutionID {
					t.Errorf("%s: the story is %+v", name, story)
				}
			}
		}
		w.mustBeFree(t)
		for _, e := range w.executions(t) {
			if e.Status != execution.Completed {
				t.Errorf("an execution is left %+v", e)
			}
		}
	})
}

func TestABusyLaneIsOneSkippedActivityThatNamesTheHolder(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		w.addObjective(t, "x", 5)
		h := w.acquire(t, lane.Heartbeat)
		r := w.beat(t, slot(1))
		w.wasSkipped(t, r, "the lane is taken")
		if len(w.executions(t)) != 0 {
			t.Errorf("it left %+v", w.executions(t))
		}
		w.release(t, h)
		w.think(pilot(obedient))
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Completed { // a skip does not use up its slot
			t.Errorf("afterwards it is %+v", r)
		}
	})
}

// wasSkipped fails unless the beat left one skipped activity and nothing else.
func (w *world) wasSkipped(t testing.TB, r heartbeat.Report, why string) {
	t.Helper()
	if r.Outcome != heartbeat.Skipped || r.Reason != why || r.Holder != "ada at her console" || r.ExecutionID != "" {
		t.Errorf("the report is %+v", r)
	}
	actions := w.actions(t, activity.Filter{Trace: trace.ID(r.TraceID)})
	if len(actions) != 1 || actions[0].Status != activity.Skipped || actions[0].Skill != "heartbeat" || actions[0].Usage != nil {
		t.Fatalf("the log says %+v", actions)
	}
	var output struct{ Outcome, Reason, Holder string }
	if err := json.Unmarshal(actions[0].Output, &output); err != nil {
		t.Fatal(err)
	}
	if output.Outcome != "skipped" || output.Reason != why || output.Holder != r.Holder {
		t.Errorf("the log says %s", actions[0].Output)
	}
}

func TestTheBeatKeepsOffWhileAPersonWorks(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		w.addObjective(t, "x", 5)
		h := w.acquire(t, lane.Operate)
		for range 2 {
			before := w.DB.Stats()
			w.wasSkipped(t, w.beat(t, slot(1)), "a person works in operate")
			if got := w.DB.Stats().Sub(before); got.RoundTrips > 4 { // includes the test's read of the activity log
				t.Errorf("it takes %+v", got)
			}
		}
		w.release(t, h)
		w.mustBeFree(t)
		w.think(pilot(obedient))
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Completed {
			t.Errorf("afterwards it is %+v", r)
		}
	})
}

// TestAnOperatorSaysThatNobodyWorks checks that a forced release of a turn's hold leaves no grace.
func TestAnOperatorSaysThatNobodyWorks(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		w.turn(t)
		w.force(t, lane.Operate)
		if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Idle {
			t.Errorf("it is %+v", r)
		}
	})
}

func TestABeatByHandWaitsForItsLane(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		h := w.acquire(t, lane.Heartbeat)
		ended := make(chan heartbeat.Report, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			r, err := w.Run(t.Context(), heartbeat.Tick{Workspace: w.Workspace, Wait: time.Minute, ExecutionID: ids(), Trace: "op_0mh8c1v2q_a7x2p1k9d4"})
			if err != nil {
				t.Error(err)
			}
			ended <- r
		})
		for h.WantedBy() == "" { // the renewal reports it
			if err := w.Lanes.Renew(t.Context(), h, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		w.release(t, h)
		wg.Wait()
		if r := <-ended; r.Outcome != heartbeat.Idle || r.TraceID != "op_0mh8c1v2q_a7x2p1k9d4" {
			t.Errorf("it is %+v", r)
		}
		if e := w.the(t, lane.Heartbeat); e.Trace != "op_0mh8c1v2q_a7x2p1k9d4" || e.Slot != "" {
			t.Errorf("the execution is %+v", e)
		}
	})
}

// TestALongWaitForATurnIsTold once, with who holds lane operate.
func TestALongWaitForATurnIsTold(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite), idle(t))
	h := w.acquire(t, lane.Operate)
	told, ended := make(chan lane.Request, 10), make(chan heartbeat.Report, 1)
	w.Lanes.Warn = func(_ context.Context, r lane.Request, held lane.Info, waited time.Duration) {
		if held.Holder != h.Holder || waited <= lane.WarnAfter {
			t.Errorf("held by %s for %s", held.Holder, waited)
		}
		told <- r
	}
	go func() {
		r, err := w.Run(t.Context(), heartbeat.Tick{Workspace: w.Workspace, Wait: time.Minute, ExecutionID: ids(), Trace: "op_0mh8c1v2q_a7x2p1k9d4"})
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	select {
	case r := <-told:
		if r.Workspace != w.Workspace || r.Lane != lane.Operate || !strings.HasPrefix(string(r.Holder), "heartbeat") {
			t.Errorf("told of %+v", r)
		}
		w.release(t, h)
	case r := <-ended:
		t.Fatalf("not told: %+v", r)
	}
	if r := <-ended; r.Outcome != heartbeat.Idle || len(told) > 0 {
		t.Errorf("it is %+v, and told %d times more", r, len(told))
	}
}

func TestAFullBeatRunsEveryPhase(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		r := w.beat(t, heartbeat.Tick{Full: true})
		if r.Outcome != heartbeat.Completed || len(r.Phases) != 6 {
			t.Errorf("it is %+v", r)
		}
		if got := w.skills(t, r.TraceID); got != "heartbeat.heal heartbeat.plan heartbeat.automate heartbeat.advance heartbeat.reflect heartbeat.remember heartbeat" {
			t.Errorf("the story is %s", got)
		}
	})
}

// TestOneSlotRunsOnceThoughDeliveredThreeTimes delivers a slot three times concurrently, and again
// later.
func TestOneSlotRunsOnceThoughDeliveredThreeTimes(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		id := w.plan(t, w.addObjective(t, "x", 5), "one", "two", "three")
		outcomes := map[heartbeat.Outcome]int{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 3 {
			other := w.another(t, pilot(obedient))
			wg.Go(func() {
				tick := slot(1)
				tick.Workspace = w.Workspace
				r, err := other.Run(t.Context(), tick)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				outcomes[r.Outcome]++
			})
		}
		wg.Wait()
		if outcomes[heartbeat.Completed] != 1 || outcomes[heartbeat.Skipped]+outcomes[heartbeat.Duplicate] != 2 {
			t.Errorf("outcomes are %v", outcomes)
		}
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Duplicate || r.ExecutionID != "" {
			t.Errorf("delivered later it is %+v", r)
		}
		if e := w.the(t, lane.Heartbeat); !strings.HasPrefix(e.Slot, "heartbeat:"+string(w.Workspace)+":2020-02-29T00:30Z") || e.Attempt != 1 {
			t.Errorf("the execution is %+v", e)
		}
		if got := w.actions(t, activity.Filter{Skill: "advance_plan"}); len(got) != 1 {
			t.Errorf("%d steps were advanced", len(got))
		}
		if o := w.objective(t, id); o.Plan[0].Status != objective.Done || o.Plan[1].Status != objective.Pending {
			t.Errorf("the plan is %+v", o.Plan)
		}
		w.mustBeFree(t)
	})
}

func TestASlotOlderThanOneThatRanIsADuplicate(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		w.beat(t, slot(5))
		before := len(w.executions(t))
		for _, n := range []int{5, 4, 0} {
			stats := w.DB.Stats()
			r := w.beat(t, slot(n))
			if r.Outcome != heartbeat.Duplicate || len(w.story(t, r.TraceID)) != 0 {
				t.Errorf("slot %d is %+v", n, r)
			}
			if got := w.DB.Stats().Sub(stats); got.RoundTrips > 4 { // includes the test's read of the activity log
				t.Errorf("slot %d takes %+v", n, got)
			}
		}
		if got := len(w.executions(t)); got != before {
			t.Errorf("%d executions became %d", before, got)
		}
		if r := w.beat(t, slot(6)); r.Outcome != heartbeat.Idle {
			t.Errorf("the next slot is %+v", r)
		}
		w.mustBeFree(t)
	})
}

func TestASlotInTheFutureIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		tick := heartbeat.Tick{Workspace: w.Workspace, Slot: time.Now().Add(48 * time.Hour)}
		if r, err := w.Run(t.Context(), tick); err == nil || len(w.executions(t)) != 0 {
			t.Errorf("it is %+v", r)
		}
		w.mustBeFree(t)
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Idle {
			t.Errorf("a slot of the past is %+v", r)
		}
	})
}

func TestSecondsDoNotMakeAnotherSlot(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		at := slot(1).Slot
		w.beat(t, heartbeat.Tick{Slot: at.Add(3 * time.Second).In(time.FixedZone("east", 7200))})
		if r := w.beat(t, heartbeat.Tick{Slot: at.Add(59 * time.Second)}); r.Outcome != heartbeat.Duplicate {
			t.Errorf("it is %+v", r)
		}
	})
}

func TestBrokenSettingsFailTheBeatAndLeaveTheLaneFree(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		w.set(t, `{"steps_per_run": "many"}`)
		if r, err := w.Run(t.Context(), heartbeat.Tick{Workspace: w.Workspace}); err == nil || !strings.Contains(err.Error(), string(w.Workspace)) {
			t.Errorf("it is %+v, %v", r, err)
		}
		w.mustBeFree(t)
	})
}

func TestATickOfNoWorkspaceBeatsForEach(t *testing.T) {
	for _, engine := range []string{dbtest.OnSQLite, dbtest.OnPostgres} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, dbtest.Alone(t, engine), pilot(obedient))
			w.addObjective(t, "x", 5)
			r, err := w.Run(t.Context(), slot(1)) // one workspace: not handed to another invocation
			if err != nil || r.Outcome != heartbeat.Completed || r.Workspace != string(w.Workspace) || r.Workspaces != nil {
				t.Errorf("one workspace: %+v, %v", r, err)
			}
			there := *w
			there.Workspace = dbtest.NewWorkspace(t, w.DB)
			there.addObjective(t, "y", 5)
			r, err = w.Run(t.Context(), slot(2))
			if err != nil || r.Outcome != heartbeat.Fanned || len(r.Workspaces) != 2 {
				t.Fatalf("two workspaces: %+v, %v", r, err)
			}
			for _, one := range r.Workspaces {
				if one.Outcome != heartbeat.Completed {
					t.Errorf("one of two workspaces: %+v", one)
				}
			}
			there.acquire(t, lane.Heartbeat)
			if r, err = w.Run(t.Context(), slot(3)); err != nil || len(r.Workspaces) != 2 {
				t.Errorf("one of two is busy: %+v, %v", r, err)
			}
			there.set(t, `{"steps_per_run": "many"}`)
			there.force(t, lane.Heartbeat)
			r, err = w.Run(t.Context(), slot(4))
			if err == nil || len(r.Workspaces) != 2 {
				t.Errorf("one of two fails: %+v, %v", r, err)
			}
			for _, one := range r.Workspaces {
				if one.Workspace == string(w.Workspace) && one.Outcome != heartbeat.Idle {
					t.Errorf("the other of two: %+v", one)
				}
			}
		})
	}
}

func TestATickIsHandedOnOnceAWorkspace(t *testing.T) {
	for _, engine := range []string{dbtest.OnSQLite, dbtest.OnPostgres} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, dbtest.Alone(t, engine), idle(t))
			want := map[db.Workspace]int{w.Workspace: 1}
			for range 4 {
				want[dbtest.NewWorkspace(t, w.DB)] = 1
			}
			got := map[db.Workspace]int{}
			var mu sync.Mutex // Fan is called concurrently
			w.Fan = func(_ context.Context, tick heartbeat.Tick) error {
				mu.Lock()
				defer mu.Unlock()
				got[tick.Workspace]++
				if !tick.Slot.Equal(slot(1).Slot) || tick.ExecutionID != "" || tick.Trace != "" {
					t.Errorf("handed on is %+v", tick)
				}
				if len(got) == 2 {
					return errDied
				}
				return nil
			}
			r, err := w.Run(t.Context(), slot(1))
			if r.Outcome != heartbeat.Fanned || err == nil || len(w.executions(t)) != 0 {
				t.Errorf("it is %+v, %v", r, err)
			}
			if len(got) != len(want) {
				t.Errorf("handed on to %v", got)
			}
			for ws, n := range got {
				if n != want[ws] {
					t.Errorf("workspace %s got %d", ws, n)
				}
			}
		})
	}
}

func TestAPlannerAnswersForItsPlan(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		var tools []string
		var prompts []string
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			if tk.Answers == 0 {
				prompts = append(prompts, tk.Messages[0].Text)
				for _, tool := range tk.Tools {
					tools = append(tools, tk.Kind+" "+tool.Name)
				}
			}
			return obedient(ctx, tk)
		}))
		w.addObjective(t, "Say “hello”", 5)
		w.beat(t, slot(1))
		if got := strings.Join(tools, ", "); !strings.HasPrefix(got, "plan plan_objective, plan query_activity, advance ") || !strings.Contains(got, "advance save_memory") {
			t.Errorf("the tools are %s", got)
		}
		if len(prompts) != 2 || !strings.Contains(prompts[0], `"skills":["set_objective"`) || !strings.Contains(prompts[1], `"step":{"number":1,"title":"work"`) {
			t.Errorf("the briefs are %s", prompts)
		}
	})
}
