package heartbeat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/run"
	"github.com/lanekeeper/lanekeeper/shared/skill"
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

		if got, want := w.skills(t, r.TraceID), "plan_objective heartbeat.plan advance_plan advance_plan complete_objective heartbeat.advance heartbeat"; got != want {
			t.Errorf("the story is %s, want %s", got, want)
		}
		beat := w.the(t, lane.Heartbeat)
		for _, l := range w.story(t, r.TraceID) {
			ofBeat := strings.HasPrefix(l.Skill, "heartbeat")
			if l.Status != activity.Success || (l.Execution == beat.ID) != ofBeat {
				t.Errorf("the story has %+v", l)
			}
		}
		if r.Outcome != heartbeat.Completed || r.Tokens != 6*15 || r.Left != 0 || len(r.Phases) != 2 {
			t.Errorf("the report is %+v", r)
		}
		for i, want := range []heartbeat.Phase{
			{Name: "plan", Considered: 1, Done: 1, ModelCalls: 2, Tokens: 30}, {Name: "advance", Considered: 2, Done: 2, ModelCalls: 4, Tokens: 60},
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
			if e.Trace != beat.Trace || e.Status != run.Completed || e.ID != beat.ID && (e.Parent != beat.ID || e.Tokens != 30) {
				t.Errorf("an execution is %+v", e)
			}
		}
		if want := (db.Stats{Statements: 119, RoundTrips: 35}); cost != want {
			t.Errorf("it takes %+v, want %+v", cost, want)
		}
		w.mustBeFree(t)
	})
}

// countedOnce fails unless the tokens of a beat stand in its phases' lines only,
// and add up to the executions'.
func (w *world) countedOnce(t testing.TB, r heartbeat.Report) {
	t.Helper()
	var logged, spent int64
	for _, a := range w.actions(t, activity.Filter{Trace: trace.ID(r.TraceID)}) {
		if a.Usage == nil {
			continue
		}
		if !strings.HasPrefix(a.Skill, "heartbeat.") {
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

func TestWhatOneObjectiveCosts(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		w.plan(t, w.addObjective(t, "x", 5), "one", "two")
		for n := range 2 {
			before := w.DB.Stats()
			w.beat(t, slot(n))
			if got, want := w.DB.Stats().Sub(before), (db.Stats{Statements: 48, RoundTrips: 14}); got != want {
				t.Errorf("a step takes %+v, want %+v", got, want)
			}
			w.history(t, 500)
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
			if got.Outcome != "completed" || got.DurationMS == nil || len(got.Phases) != 2 || got.Phases[1].ModelCalls != 2 || strings.Contains(string(raw), "modelCalls") {
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

func TestCapsParkTheBeat(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for settings, c := range map[string]struct {
			calls  int
			reason string
		}{
			`{"beat_model_calls": 3}`:                    {3, "the beat's model calls are used up"},
			`{"beat_tokens": 31}`:                        {3, "the beat's tokens are used up"},
			`{"beat_tokens": 30}`:                        {2, "the beat's tokens are used up"},
			`{"beat_model_calls": 0}`:                    {0, "the beat's model calls are used up"},
			`{"beat_model_calls": 1, "beat_tokens": 15}`: {1, "the beat's model calls are used up"},
		} {
			calls := 0
			w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
				calls++
				return obedient(ctx, tk)
			}))
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			w.set(t, settings)
			var objectives []string
			for i := range 3 {
				objectives = append(objectives, w.plan(t, w.addObjective(t, fmt.Sprint(i), 9-i), "one", "two"))
			}
			r := w.beat(t, slot(1))
			if calls != c.calls || r.Outcome != heartbeat.Parked || r.Reason != c.reason || r.Left != 3-c.calls/2 {
				t.Errorf("%s: after %d calls it is %+v", settings, calls, r)
			}
			w.countedOnce(t, r)
			w.mustBeFree(t)
			beat := w.the(t, lane.Heartbeat)
			if beat.Status != run.Parked {
				t.Errorf("%s: the execution is %+v", settings, beat)
			}
			w.set(t, `{}`)
			if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed {
				t.Errorf("%s: the next is %+v", settings, r)
			}
			if beats := w.ofSubject(t, lane.Heartbeat); len(beats) != 2 || beats[0].Status != run.Completed {
				t.Errorf("%s: the beats are %+v", settings, beats)
			}
			for _, id := range objectives {
				if o := w.objective(t, id); o.Plan[0].Status != objective.Done || o.Plan[0].Attempts != 1 {
					t.Errorf("%s: a plan is %+v", settings, o.Plan)
				}
			}
		}
	})
}

// TestABeatParksAtItsDeadlineAndTheNextGoesOn: the model hangs until the time of
// the invocation is nearly up.
func TestABeatParksAtItsDeadlineAndTheNextGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			if tk.Answers == 1 {
				<-ctx.Done()
				return nil, llm.Interrupted(ctx, "pilot")
			}
			return llmtest.Call("query_activity", `{}`), nil
		}))
		id := w.plan(t, w.addObjective(t, "x", 9), "one", "two")
		w.plan(t, w.addObjective(t, "y", 1), "one")
		ctx, cancel := context.WithTimeout(t.Context(), 2300*time.Millisecond) // 2 s are kept for the last writes
		defer cancel()
		tick := slot(1)
		tick.Workspace = w.Workspace
		begun := time.Now()
		r, err := w.Run(ctx, tick)
		if err != nil || r.Outcome != heartbeat.Parked || r.Reason != "the time was up" || r.Left != 2 {
			t.Errorf("it is %+v, %v", r, err)
		}
		if took := time.Since(begun); ctx.Err() != nil {
			t.Errorf("it took %s of 2.3 s", took)
		}
		w.mustBeFree(t)
		piece := w.the(t, lane.Objective(id))
		if piece.Status != run.Parked || len(w.journal(t, piece.ID)) != 3 {
			t.Errorf("the piece is %+v", piece)
		}
		if got := w.skills(t, r.TraceID); got != "query_activity heartbeat.plan heartbeat.advance heartbeat" && got != "heartbeat.plan query_activity heartbeat.advance heartbeat" {
			t.Errorf("the story is %s", got)
		}
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Duplicate {
			t.Errorf("the same slot again is %+v", r)
		}
		asked := 0
		w.think(pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			if asked++; asked == 1 && (tk.Objective.Title != "x" || tk.Answers != 1) {
				t.Errorf("the next beat begins with %s after %d answers", tk.Objective.Title, tk.Answers)
			}
			if tk.Objective.Title == "x" {
				tk.Answers--
			}
			return obedient(ctx, tk)
		}))
		r = w.beat(t, slot(2))
		after := w.the(t, lane.Objective(id))
		if r.Outcome != heartbeat.Completed || after.ID != piece.ID || after.Attempt != 2 || after.Status != run.Completed || after.Trace != piece.Trace {
			t.Errorf("the next is %+v, the piece %+v", r, after)
		}
		if o := w.objective(t, id); o.Plan[0].Status != objective.Done || o.Plan[0].Attempts != 1 {
			t.Errorf("the plan is %+v", o.Plan)
		}
	})
}

// TestAHangingSkillDoesNotOutliveTheDeadline: its call is undone and made again by
// the next beat.
func TestAHangingSkillDoesNotOutliveTheDeadline(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		hang, ran := mortal(0)
		inner := hang.Run
		hang.Run = func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
			value, err := inner(ctx, tx, c)
			if *ran == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return value, err
		}
		w := newWorld(t, e, pilot(risky), hang)
		id := w.plan(t, w.addObjective(t, "x", 9), "one", "two")
		ctx, cancel := context.WithTimeout(t.Context(), 2300*time.Millisecond)
		defer cancel()
		tick := slot(1)
		tick.Workspace = w.Workspace
		r, err := w.Run(ctx, tick)
		if err != nil || r.Outcome != heartbeat.Parked || ctx.Err() != nil {
			t.Errorf("it is %+v, %v", r, err)
		}
		w.mustBeFree(t)
		if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed || w.objective(t, id).Plan[0].Status != objective.Done || *ran != 2 {
			t.Errorf("the next is %+v after %d runs", r, *ran)
		}
	})
}

// TestTimeThatIsUpBetweenTwoPiecesParksTheBeat: also where no model and no skill
// notices, as when a piece of work is about to begin.
func TestTimeThatIsUpBetweenTwoPiecesParksTheBeat(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		for i := range 3 {
			w.plan(t, w.addObjective(t, fmt.Sprint(i), 5), "one")
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		named := 0
		w.IDs = func() string { // the second piece gets its id
			if named++; named == 3 {
				cancel()
			}
			return ids()
		}
		tick := slot(1)
		tick.Workspace = w.Workspace
		r, err := w.Run(ctx, tick)
		if err != nil || r.Outcome != heartbeat.Parked || r.Reason != "the time was up" || r.Phases[1].Done != 1 || r.Left != 2 {
			t.Errorf("it is %+v, %v", r, err)
		}
		w.mustBeFree(t)
		if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed || r.Left != 0 {
			t.Errorf("the next is %+v", r)
		}
	})
}

func TestSomebodyWhoWaitsParksTheBeatAtItsNextStep(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for _, ofBeat := range []bool{true, false} {
			w := newWorld(t, e, nil)
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			urgent := w.plan(t, w.addObjective(t, "x", 9), "one")
			other := w.plan(t, w.addObjective(t, "y", 1), "one")
			wanted := map[bool]lane.Name{true: lane.Heartbeat, false: lane.Objective(urgent)}[ofBeat]
			w.think(first("advance", func() { w.want(t, wanted) }))
			r := w.beat(t, slot(1))
			if r.Outcome != heartbeat.Parked || !strings.Contains(r.Reason, "ada waits for lane "+string(wanted)) {
				t.Errorf("%s wanted: it is %+v", wanted, r)
			}
			piece := w.the(t, lane.Objective(urgent))
			if piece.Status != run.Parked || piece.Tokens != 15 || w.objective(t, urgent).Plan[0].Status != objective.Done {
				t.Errorf("%s wanted: the piece is %+v", wanted, piece)
			}
			served := w.objective(t, other).Plan[0].Status == objective.Done
			if served == ofBeat || r.Left != map[bool]int{true: 2, false: 1}[ofBeat] {
				t.Errorf("%s wanted: the other objective is served: %v; the report is %+v", wanted, served, r)
			}
			w.mustBeFree(t)
			if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed {
				t.Errorf("%s wanted: the next is %+v", wanted, r)
			}
		}
	})
}

func TestAPersonWhoComesInMidBeatParksIt(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, nil)
		var operate *lane.Hold
		w.think(first("plan", func() { operate = w.acquire(t, lane.Operate) }))
		var last string
		for i := range 4 {
			last = w.addObjective(t, fmt.Sprint(i), 5)
		}
		r := w.beat(t, slot(1))
		if r.Outcome != heartbeat.Parked || r.Reason != "a person works in operate" || r.Phases[0].Done != 1 || r.Phases[0].Left != 3 || r.Phases[1].Done != 0 {
			t.Errorf("it is %+v", r)
		}
		if got := len(w.executions(t)); got != 2 {
			t.Errorf("%d executions", got)
		}
		if _, err := w.Lanes.Peek(t.Context(), w.Workspace, lane.Objective(last)); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("it goes on to take lanes: %v", err)
		}
		w.release(t, operate)
		w.mustBeFree(t)
		if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed {
			t.Errorf("the next is %+v", r)
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
		if r.Outcome != heartbeat.Completed || r.Left != 1 || r.Phases[1].Left != 1 || r.Phases[1].Done != 1 {
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
		if r.Outcome != heartbeat.Completed || r.Phases[1].Done != 1 || len(w.ofSubject(t, lane.Objective(paused))) != 0 {
			t.Errorf("it is %+v", r)
		}
		w.mustBeFree(t)
	})
}

// TestAStepThatNeverAdvancesIsGivenUpAndPlannedAnew: three runs that end without
// the step being done.
func TestAStepThatNeverAdvancesIsGivenUpAndPlannedAnew(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			if tk.Kind == "advance" && tk.Step.Title == "impossible" {
				return llmtest.Say("I can't"), nil
			}
			return obedient(ctx, tk)
		}))
		id := w.plan(t, w.addObjective(t, "x", 5), "fine", "impossible", "close")
		for n := range 4 { // one for the first step, three tries
			w.beat(t, slot(n))
		}
		if o := w.objective(t, id); o.Plan[1].Status != objective.Pending || o.Plan[1].Attempts != 3 {
			t.Fatalf("after three tries the step is %+v", o.Plan[1])
		}
		r := w.beat(t, slot(4))
		if r.Phases[1].Failed != 1 || r.Tokens != 0 {
			t.Errorf("the fourth try is %+v", r)
		}
		o := w.objective(t, id)
		if o.Plan[1].Status != objective.Failed || o.Plan[1].Result != "given up: it was tried 3 times" || o.Next() != nil {
			t.Errorf("the plan is %+v", o.Plan)
		}
		r = w.beat(t, slot(5))
		if o := w.objective(t, id); o.PlanVersion != 2 || r.Phases[0].Done != 1 || o.Plan[0].Status != objective.Done {
			t.Errorf("the next beat left %+v and %+v", r, o)
		}
		w.beat(t, slot(6))
		if o := w.objective(t, id); o.Status != objective.Completed {
			t.Errorf("at last the objective is %+v", o)
		}
	})
}

// TestTheLastTryIsResumed: what is given up is a fourth try, not a third one that
// was parked.
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
		if r := w.beat(t, slot(3)); r.Outcome != heartbeat.Completed || r.Phases[1].Done != 1 || w.objective(t, id).Plan[0].Status != objective.Done {
			t.Errorf("resumed it is %+v", r)
		}
	})
}

func TestAnObjectiveWithoutAPlanIsPausedForAPerson(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(func(context.Context, task) (llmtest.Step, error) { return llmtest.Say("I don't know how"), nil }))
		id := w.addObjective(t, "x", 5)
		for n := range 3 {
			if r := w.beat(t, slot(n)); r.Outcome != heartbeat.Completed || r.Phases[0].Considered != 1 {
				t.Errorf("beat %d is %+v", n, r)
			}
		}
		if o := w.objective(t, id); o.Status != objective.Active || o.PlanAttempts != 3 {
			t.Fatalf("after three tries the objective is %+v", o)
		}
		w.think(idle(t))
		r := w.beat(t, slot(3))
		o := w.objective(t, id)
		if o.Status != objective.Paused || o.StatusReason != "no plan came about: it was tried 3 times" || r.Phases[0].Failed != 1 {
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
			w.plan(t, id) // one without steps: it is used up
		}
		w.think(idle(t))
		w.beat(t, slot(1))
		if o := w.objective(t, id); o.Status != objective.Paused || o.StatusReason != "no plan came about: it was planned 10 times" {
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
			if r.Outcome != heartbeat.Completed || r.Phases[1].Failed+r.Phases[1].Done != 1 || r.Phases[1].Done == 1 != (n == 2) {
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
		if e := w.the(t, lane.Objective(id)); e.Status != run.Stalled || e.Error != "stalled: the limit of 3 steps was reached" || r.Phases[1].ModelCalls != 3 {
			t.Errorf("the execution is %+v, the beat %+v", e, r)
		}
	})
}
