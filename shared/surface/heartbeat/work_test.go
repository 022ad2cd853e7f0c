package heartbeat_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
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

func TestABeatTellsItsStory(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		planned := w.plan(t, w.addObjective(t, "planned", 5), "close")
		fresh := w.addObjective(t, "fresh", 9)
		before := w.DB.Stats()
		r := w.beat(t, slot(1))
		cost := w.DB.Stats().Sub(before)

		if got, want := w.skills(t, r.TraceID), "plan_objective heartbeat.heal heartbeat.plan advance_plan advance_plan complete_objective "+
			"heartbeat.automate heartbeat.advance heartbeat.reflect heartbeat.remember heartbeat"; got != want {
			t.Errorf("the story is %s, want %s", got, want)
		}
		beat := w.the(t, lane.Heartbeat)
		for _, l := range w.story(t, r.TraceID) {
			ofBeat := strings.HasPrefix(l.Skill, "heartbeat")
			if l.Status != activity.Success || (l.Execution == beat.ID) != ofBeat {
				t.Errorf("the story has %+v", l)
			}
		}
		if r.Outcome != heartbeat.Completed || r.Tokens != 6*15 || r.Left != 0 || len(r.Phases) != 6 {
			t.Errorf("the report is %+v", r)
		}
		for i, want := range []heartbeat.Phase{
			{Name: "heal"}, {Name: "plan", Considered: 1, Done: 1, ModelCalls: 2, Tokens: 30}, {Name: "automate"},
			{Name: "advance", Considered: 2, Done: 2, ModelCalls: 4, Tokens: 60}, {Name: "reflect"}, {Name: "remember"},
		} {
			got := r.Phases[i]
			if got.Name != want.Name || got.Considered != want.Considered || got.Done != want.Done || got.Failed+got.Left != 0 ||
				got.ModelCalls != want.ModelCalls || got.Tokens != want.Tokens {
				t.Errorf("phase %d is %+v, want %+v", i, got, want)
			}
		}
		w.countedOnce(t, r)
		if o := w.objective(t, planned); o.Status != objective.Completed {
			t.Errorf("the planned objective is %+v", o)
		}
		if o := w.objective(t, fresh); o.PlanVersion != 1 || o.Plan[0].Status != objective.Done {
			t.Errorf("the fresh objective is %+v", o)
		}
		for _, e := range w.executions(t) {
			if e.Trace != beat.Trace || e.Status != execution.Completed || e.ID != beat.ID && (e.Parent != beat.ID || e.Tokens != 30) {
				t.Errorf("an execution is %+v", e)
			}
		}
		if want := (db.Stats{Statements: 201, RoundTrips: 69}); cost != want {
			t.Errorf("it takes %+v, want %+v", cost, want)
		}
		w.mustBeFree(t)
	})
}

// countedOnce fails unless only the lines of model calls count the tokens of a beat, and these add
// up to the report's and to the executions'.
func (w *world) countedOnce(t testing.TB, r heartbeat.Report) {
	t.Helper()
	var logged, spent int64
	for _, a := range w.actions(t, activity.Filter{Trace: trace.ID(r.TraceID)}) {
		if a.Usage == nil {
			continue
		}
		if a.Skill != activity.ModelCall {
			t.Errorf("%s counts tokens", a.Skill)
		}
		if a.Usage.PromptTokens+a.Usage.CompletionTokens != a.Usage.TotalTokens || a.Usage.CompletionTokens*3 != a.Usage.TotalTokens {
			t.Errorf("%s counts %+v", a.Skill, a.Usage)
		}
		logged += a.Usage.TotalTokens
	}
	for _, e := range w.executions(t) {
		if string(e.Trace) == r.TraceID {
			spent += e.Tokens
		}
	}
	if logged != r.Tokens || spent != r.Tokens {
		t.Errorf("the report counts %d tokens, the log %d, the executions %d", r.Tokens, logged, spent)
	}
}

// TestWhatOneObjectiveCosts checks the cost of a beat that takes one step. The first beat of a process
// also reads the prices of models, and makes the budget of the beats.
func TestWhatOneObjectiveCosts(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		w.plan(t, w.addObjective(t, "x", 5), "one", "two")
		for n, want := range []db.Stats{{Statements: 93, RoundTrips: 29}, {Statements: 85, RoundTrips: 24}} {
			before := w.DB.Stats()
			w.beat(t, slot(n))
			if got := w.DB.Stats().Sub(before); got != want {
				t.Errorf("a step takes %+v, want %+v", got, want)
			}
			w.history(t, n*500+1, n*500+500)
		}
	})
}

func TestWhatTheLogKeepsOfABeatIsInSnakeCase(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		w.plan(t, w.addObjective(t, "x", 5), "one")
		r := w.beat(t, slot(1))
		stored := must(w.Runs.Get(t.Context(), w.Workspace, r.ExecutionID))(t)
		last := w.actions(t, activity.Filter{Trace: trace.ID(r.TraceID)})[0]
		for name, raw := range map[string]json.RawMessage{"result": stored.Result, "output": last.Output} {
			var got struct {
				Outcome    string
				DurationMS *int64 `json:"duration_ms"`
				Phases     []struct {
					ModelCalls int `json:"model_calls"`
				}
			}
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			if got.Outcome != "completed" || got.DurationMS == nil || len(got.Phases) != 6 || got.Phases[3].ModelCalls != 2 || strings.Contains(string(raw), "modelCalls") {
				t.Errorf("the %s is %s", name, raw)
			}
		}
	})
}

func TestTheMostUrgentComesFirst(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		var order []string
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			if tk.Answers == 0 {
				order = append(order, tk.Kind+" "+tk.Objective.Title)
			}
			return obedient(ctx, tk)
		}))
		for i, priority := range []int{3, 10, 3, 7} {
			id := w.addObjective(t, string(rune('a'+i)), priority)
			if i < 3 {
				w.plan(t, id, "one")
			}
		}
		w.addObjective(t, "e", 8)
		w.beat(t, slot(1))
		if want := []string{"plan e", "plan d", "advance b", "advance e", "advance d", "advance a", "advance c"}; !slices.Equal(order, want) {
			t.Errorf("worked on %q, want %q", order, want)
		}
	})
}

func TestAnObjectiveSomebodyElseWorksOnIsLeft(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		busy := w.plan(t, w.addObjective(t, "x", 9), "one")
		other := w.plan(t, w.addObjective(t, "y", 1), "one")
		h := w.acquire(t, lane.Objective(busy))
		r := w.beat(t, slot(1))
		if r.Outcome != heartbeat.Completed || r.Left != 1 || r.Phases[3].Left != 1 || r.Phases[3].Done != 1 {
			t.Errorf("it is %+v", r)
		}
		if w.objective(t, other).Plan[0].Status != objective.Done || w.objective(t, busy).Plan[0].Attempts != 0 {
			t.Error("the wrong one was served")
		}
		w.release(t, h)
		w.beat(t, slot(2))
		if w.objective(t, busy).Plan[0].Status != objective.Done {
			t.Error("the next beat did not serve it")
		}
	})
}

func TestAnObjectiveThatChangedSinceTheFirstLookIsLeft(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, nil)
		w.plan(t, w.addObjective(t, "x", 9), "one")
		paused := w.plan(t, w.addObjective(t, "y", 1), "one")
		w.think(first("advance", func() {
			request := lane.Request{Workspace: w.Workspace, Lane: lane.Objective(paused), Holder: "ada"}
			err := w.Lanes.Do(t.Context(), request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
				return w.Lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error { return w.Objectives.Pause(ctx, tx, paused, "not now") })
			})
			if err != nil {
				t.Error(err)
			}
		}))
		r := w.beat(t, slot(1))
		if r.Outcome != heartbeat.Completed || r.Phases[3].Done != 1 || len(w.ofSubject(t, lane.Objective(paused))) != 0 {
			t.Errorf("it is %+v", r)
		}
		w.mustBeFree(t)
	})
}

// TestDeliveriesAreKeptAsTheSettingsSay checks inboxDays and deliveryDays: a row of the inbox has the id of its
// delivery. The activity of the beat before is too old, so that each beat purges.
func TestDeliveriesAreKeptAsTheSettingsSay(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		must(w.DB.Exec(t.Context(), w.Workspace, w.q.PastDelivery, uuid.NewString(), 50, []byte("{}"), strings.Repeat("0", 64)))(t)
		w.beat(t, slot(1))
		for i, settings := range []string{
			`{"activity_days": 4, "inbox_days": 90}`, `{"activity_days": 4, "inbox_days": 40, "delivery_days": 90}`,
			`{"activity_days": 4, "inbox_days": 40, "delivery_days": 40}`,
		} {
			w.set(t, settings)
			w.Skew.Advance(10 * 24 * time.Hour)
			w.beat(t, slot(2+i))
			var left int
			err := w.DB.One(t.Context(), w.Workspace, []any{&left}, w.q.Deliveries)
			if want := 1 - i/2; err != nil || left != want {
				t.Errorf("with %s %d are left, want %d: %v", settings, left, want, err)
			}
		}
	})
}
