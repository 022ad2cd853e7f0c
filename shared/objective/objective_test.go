package objective_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/objective"
)

func TestAnObjectiveIsReadBack(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		o := objective.Objective{
			ID: ids(), Title: "Schreib einen Gruß ☺", Description: "line\nline", Priority: 9, DoneCriterion: "it's there", CreatedBy: "ada",
		}
		var b db.Batch
		if id := w.s.Create(&b, o); id != o.ID {
			t.Errorf("it got the id %s", id)
		}
		if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		got := w.get(t, o.ID)
		if time.Since(got.CreatedAt).Abs() > time.Minute || got.UpdatedAt.Before(got.CreatedAt) {
			t.Errorf("created %s, updated %s", got.CreatedAt, got.UpdatedAt)
		}
		o.Status, o.Version, o.CreatedAt, o.UpdatedAt = objective.Active, 1, got.CreatedAt, got.UpdatedAt
		if diff := cmp.Diff(o, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOneThatIsNotThere(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "here", 5)
		there := w.neighbour(t)
		if _, err := there.s.Get(t.Context(), there.Workspace, id); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("a neighbour reads it: %v", err)
		}
		if got := there.due(t, 10); len(got) != 0 {
			t.Errorf("a neighbour has due %+v", got)
		}
		for name, err := range map[string]error{
			"plan": there.in(t, id, func(ctx context.Context, tx lane.Tx) error {
				_, err := w.s.Plan(ctx, tx, id, []objective.Step{{Title: "x"}})
				return err
			}),
			"complete": there.in(t, id, func(ctx context.Context, tx lane.Tx) error { return w.s.Complete(ctx, tx, id, "x") }),
			"pause":    there.in(t, id, func(ctx context.Context, tx lane.Tx) error { return w.s.Pause(ctx, tx, id, "x") }),
		} {
			if !errors.Is(err, objective.ErrNotActive) {
				t.Errorf("%s by a neighbour: %v", name, err)
			}
		}
		if err := there.end(t, id, 1, objective.Done); !errors.Is(err, objective.ErrNotPending) {
			t.Errorf("a step ended by a neighbour: %v", err)
		}
	})
}

func TestDueComesByPriorityThenAge(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for i, priority := range []int{5, 1, 10, 5, 10} {
			w.create(t, string(rune('a'+i)), priority)
		}
		titles := func(limit int) string {
			var out []string
			for _, d := range w.due(t, limit) {
				out = append(out, d.Title)
			}
			return strings.Join(out, "")
		}
		if got := titles(10); got != "ceadb" {
			t.Errorf("due are %s", got)
		}
		if got := titles(2); got != "ce" {
			t.Errorf("two due are %s", got)
		}
		top := w.due(t, 1)[0]
		w.must(t, top.ID, func(ctx context.Context, tx lane.Tx) error { return w.s.Pause(ctx, tx, top.ID, "later") })
		second := w.due(t, 1)[0]
		w.must(t, second.ID, func(ctx context.Context, tx lane.Tx) error { return w.s.Complete(ctx, tx, second.ID, "done") })
		if got := titles(10); got != "adb" {
			t.Errorf("after a pause and a completion due are %s", got)
		}
	})
}

func TestAPlanIsKeptAndReplaced(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		if d := w.due(t, 1)[0]; !d.NeedsPlan() || d.PlanVersion != 0 || w.get(t, id).Next() != nil {
			t.Errorf("without a plan it is due as %+v", d)
		}
		steps := []objective.Step{
			{Title: "look", Skill: "query_activity", Inputs: json.RawMessage(`{"limit": 5}`), DoneCriterion: "seen"}, {Title: "write"},
		}
		w.must(t, id, func(ctx context.Context, tx lane.Tx) error {
			version, err := w.s.Plan(ctx, tx, id, steps)
			if version != 1 {
				t.Errorf("the first plan has version %d", version)
			}
			return err
		})
		o := w.get(t, id)
		for i := range steps {
			steps[i].PlanVersion, steps[i].Number, steps[i].Status = 1, i+1, objective.Pending
		}
		steps[1].Inputs = json.RawMessage(`{}`)
		for i := range o.Plan { // a database may change the spacing
			o.Plan[i].Inputs = json.RawMessage(strings.ReplaceAll(string(o.Plan[i].Inputs), " ", ""))
			steps[i].Inputs = json.RawMessage(strings.ReplaceAll(string(steps[i].Inputs), " ", ""))
		}
		if diff := cmp.Diff(steps, o.Plan); diff != "" {
			t.Error(diff)
		}
		if n := o.Next(); n == nil || n.Number != 1 {
			t.Errorf("next is %+v", n)
		}
		if version := w.plan(t, id, "anew"); version != 2 {
			t.Errorf("the second plan has version %d", version)
		}
		if o := w.get(t, id); o.PlanVersion != 2 || len(o.Plan) != 1 || o.Plan[0].Title != "anew" {
			t.Errorf("the plan is %+v", o.Plan)
		}
		if d := w.due(t, 1)[0]; d.NextStep != 1 || d.PlanVersion != 2 || d.NeedsPlan() {
			t.Errorf("it is due as %+v", d)
		}
	})
}

func TestAPlanIsOfBoundedLength(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		err := w.in(t, id, func(ctx context.Context, tx lane.Tx) error {
			_, err := w.s.Plan(ctx, tx, id, make([]objective.Step, objective.MaxSteps+1))
			return err
		})
		if err == nil || w.get(t, id).PlanVersion != 0 {
			t.Errorf("31 steps: %v", err)
		}
	})
}

func TestTriesAreCounted(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		for range 2 {
			w.must(t, id, func(_ context.Context, tx lane.Tx) error { return w.s.CountPlanning(tx, id) })
		}
		if o := w.get(t, id); o.PlanAttempts != 2 {
			t.Errorf("planned %d times", o.PlanAttempts)
		}
		w.plan(t, id, "a", "b")
		if o := w.get(t, id); o.PlanAttempts != 0 {
			t.Errorf("a plan leaves %d tries", o.PlanAttempts)
		}
		execution := ids()
		first := w.get(t, id).Plan[0]
		count := func() {
			before := w.get(t, id).UpdatedAt
			w.must(t, id, func(_ context.Context, tx lane.Tx) error { return w.s.CountStep(tx, id, first, execution) })
			if !w.get(t, id).UpdatedAt.After(before) {
				t.Error("a try at a step is no change")
			}
		}
		count()
		count()
		if st := w.get(t, id).Plan[0]; st.Attempts != 2 || st.Execution != execution {
			t.Errorf("the step is %+v", st)
		}
		if err := w.end(t, id, 1, objective.Done); err != nil {
			t.Fatal(err)
		}
		count() // a finished step is not counted
		w.plan(t, id, "c")
		count() // nor is one of an earlier plan
		if st := w.get(t, id).Plan[0]; st.Attempts != 0 {
			t.Errorf("the step of the new plan is %+v", st)
		}
	})
}

func TestOnlyAPendingStepEnds(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		if err := w.end(t, id, 1, objective.Done); !errors.Is(err, objective.ErrNotPending) {
			t.Errorf("without a plan: %v", err)
		}
		w.plan(t, id, "a", "b", "c")
		before := w.get(t, id).UpdatedAt
		if err := w.end(t, id, 1, objective.Done); err != nil {
			t.Fatal(err)
		}
		o := w.get(t, id)
		if st := o.Plan[0]; st.Status != objective.Done || st.Result != "so it is" || st.EndedAt == nil {
			t.Errorf("the step is %+v", st)
		}
		if !o.UpdatedAt.After(before) {
			t.Error("the objective was not touched")
		}
		if n := o.Next(); n == nil || n.Number != 2 || w.due(t, 1)[0].NextStep != 2 {
			t.Errorf("next is %+v, due %+v", n, w.due(t, 1))
		}
		for _, status := range []objective.StepStatus{objective.Done, objective.Failed} {
			if err := w.end(t, id, 1, status); !errors.Is(err, objective.ErrNotPending) {
				t.Errorf("ended as %s again: %v", status, err)
			}
		}
		if err := w.end(t, id, 4, objective.Done); !errors.Is(err, objective.ErrNotPending) {
			t.Errorf("a step there is not: %v", err)
		}
		w.plan(t, id, "anew")
		if err := w.end(t, id, 2, objective.Done); !errors.Is(err, objective.ErrNotPending) {
			t.Errorf("a step of the earlier plan: %v", err)
		}
		if err := w.end(t, id, 1, "fine"); !errors.Is(err, db.ErrCheck) {
			t.Errorf("a foreign status: %v", err)
		}
	})
}

func TestAPlanWithAFailedStepIsStale(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		w.plan(t, id, "a", "b", "c")
		if err := errors.Join(w.end(t, id, 1, objective.Done), w.end(t, id, 2, objective.Failed)); err != nil {
			t.Fatal(err)
		}
		if o := w.get(t, id); o.Next() != nil || o.Status != objective.Active {
			t.Errorf("next is %+v of a %s objective", o.Next(), o.Status)
		}
		if d := w.due(t, 1)[0]; !d.NeedsPlan() || d.PlanVersion != 1 {
			t.Errorf("it is due as %+v", d)
		}
		w.plan(t, id, "anew")
		if d := w.due(t, 1)[0]; d.NeedsPlan() || d.NextStep != 1 || w.get(t, id).Next() == nil {
			t.Errorf("with a new plan it is due as %+v", d)
		}
	})
}

func TestAPlanThatIsUsedUpNeedsAnother(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		w.plan(t, id, "a")
		if err := w.end(t, id, 1, objective.Done); err != nil {
			t.Fatal(err)
		}
		if d := w.due(t, 1)[0]; !d.NeedsPlan() || w.get(t, id).Next() != nil {
			t.Errorf("it is due as %+v", d)
		}
	})
}

func TestAnObjectiveThatEndedStaysSo(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, how := range []objective.Status{objective.Completed, objective.Paused} {
			id := w.create(t, "x", 5)
			w.must(t, id, func(ctx context.Context, tx lane.Tx) error {
				if how == objective.Completed {
					return w.s.Complete(ctx, tx, id, "reached")
				}
				return w.s.Pause(ctx, tx, id, "waits for a person")
			})
			o := w.get(t, id)
			if o.Status != how || (o.CompletedAt != nil) != (how == objective.Completed) {
				t.Errorf("it is %+v", o)
			}
			if how == objective.Completed && o.Summary != "reached" || how == objective.Paused && o.StatusReason != "waits for a person" {
				t.Errorf("it is %+v", o)
			}
			for name, write := range map[string]func(context.Context, lane.Tx) error{
				"complete": func(ctx context.Context, tx lane.Tx) error { return w.s.Complete(ctx, tx, id, "again") },
				"pause":    func(ctx context.Context, tx lane.Tx) error { return w.s.Pause(ctx, tx, id, "again") },
				"plan": func(ctx context.Context, tx lane.Tx) error {
					_, err := w.s.Plan(ctx, tx, id, []objective.Step{{Title: "x"}})
					return err
				},
			} {
				if err := w.in(t, id, write); !errors.Is(err, objective.ErrNotActive) {
					t.Errorf("%s of one that is %s: %v", name, how, err)
				}
			}
			w.must(t, id, func(_ context.Context, tx lane.Tx) error { return w.s.CountPlanning(tx, id) })
			if diff := cmp.Diff(o, w.get(t, id)); diff != "" {
				t.Errorf("it changed: %s", diff)
			}
		}
	})
}

func TestTheWrongLaneProvesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		w.plan(t, id, "a")
		before := w.get(t, id)
		wrong := w.hold(t, lane.Objective(ids()))
		for name, write := range map[string]func(context.Context, lane.Tx) error{
			"count planning": func(_ context.Context, tx lane.Tx) error { return w.s.CountPlanning(tx, id) },
			"plan": func(ctx context.Context, tx lane.Tx) error {
				_, err := w.s.Plan(ctx, tx, id, []objective.Step{{Title: "x"}})
				return err
			},
			"count step": func(_ context.Context, tx lane.Tx) error { return w.s.CountStep(tx, id, before.Plan[0], ids()) },
			"end step":   func(ctx context.Context, tx lane.Tx) error { return w.s.EndStep(ctx, tx, id, 1, objective.Done, "x") },
			"complete":   func(ctx context.Context, tx lane.Tx) error { return w.s.Complete(ctx, tx, id, "x") },
			"pause":      func(ctx context.Context, tx lane.Tx) error { return w.s.Pause(ctx, tx, id, "x") },
		} {
			if err := w.lanes.InHold(t.Context(), wrong, write); !errors.Is(err, lane.ErrNotProven) {
				t.Errorf("%s: %v", name, err)
			}
			if err := write(t.Context(), lane.Tx{}); !errors.Is(err, lane.ErrNotProven) {
				t.Errorf("%s without any proof: %v", name, err)
			}
		}
		if diff := cmp.Diff(before, w.get(t, id)); diff != "" {
			t.Errorf("it changed: %s", diff)
		}
	})
}

func TestReadingAnObjectiveIsOneRoundTrip(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		w.plan(t, id, slices.Repeat([]string{"step"}, objective.MaxSteps)...)
		before := w.DB.Stats()
		w.get(t, id)
		if got := w.DB.Stats().Sub(before); got != (db.Stats{Statements: 2, RoundTrips: 1}) {
			t.Errorf("it takes %+v", got)
		}
	})
}
