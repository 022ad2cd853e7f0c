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
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// edit runs fn as a person does, without a hold, and returns the result.
func (w world) edit(t testing.TB, fn func(context.Context, *db.Tx) (objective.Objective, error)) (o objective.Objective, err error) {
	t.Helper()
	err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		o, err = fn(ctx, tx)
		return err
	})
	return o, err
}

func (w world) pause(t testing.TB, id string) (objective.Objective, error) {
	t.Helper()
	return w.edit(t, func(ctx context.Context, tx *db.Tx) (objective.Objective, error) {
		return w.admin.Pause(ctx, tx, id, "not now")
	})
}

func (w world) resume(t testing.TB, id string) (objective.Objective, error) {
	t.Helper()
	return w.edit(t, func(ctx context.Context, tx *db.Tx) (objective.Objective, error) {
		return w.admin.Resume(ctx, tx, id)
	})
}

func (w world) complete(t testing.TB, id string) (objective.Objective, error) {
	t.Helper()
	return w.edit(t, func(ctx context.Context, tx *db.Tx) (objective.Objective, error) {
		return w.admin.Complete(ctx, tx, id, "enough")
	})
}

func (w world) replace(t testing.TB, o objective.Objective, titles ...string) (objective.Objective, error) {
	t.Helper()
	steps := make([]objective.Step, len(titles))
	for i, title := range titles {
		steps[i] = objective.Step{Title: title}
	}
	return w.edit(t, func(ctx context.Context, tx *db.Tx) (objective.Objective, error) {
		return w.admin.ReplaceSteps(ctx, tx, o, steps)
	})
}

func TestAPersonCreatesAndChangesAnObjective(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		made, err := w.edit(t, func(ctx context.Context, tx *db.Tx) (objective.Objective, error) {
			return w.admin.Create(ctx, tx, objective.Objective{Title: " x ", Description: "a\x00b", Priority: 7, DoneCriterion: "c", CreatedBy: "local:admin"})
		})
		if err != nil || made.Title != "x" || made.Description != "a\ufffdb" || made.Priority != 7 || made.Status != objective.Active || made.Version != 1 {
			t.Errorf("it is %+v (%v)", made, err)
		}
		title, priority := "y", 9
		patch := func(o objective.Objective) (objective.Objective, error) {
			return w.edit(t, func(ctx context.Context, tx *db.Tx) (objective.Objective, error) {
				return w.admin.Patch(ctx, tx, o, objective.Patch{Title: &title, Priority: &priority})
			})
		}
		w.plan(t, made.ID, "one") // an agent's change does not change the version
		changed, err := patch(made)
		if err != nil || changed.Title != "y" || changed.Priority != 9 || changed.Description != made.Description || changed.DoneCriterion != "c" ||
			changed.Version != 2 || len(changed.Plan) != 1 {
			t.Errorf("it is %+v (%v)", changed, err)
		}
		if diff := cmp.Diff(changed, w.get(t, made.ID)); diff != "" {
			t.Error(diff)
		}
		if _, err := patch(made); !errors.Is(err, objective.ErrChanged) {
			t.Errorf("of the version before: %v", err)
		}
		if _, err := w.replace(t, made, "two"); !errors.Is(err, objective.ErrChanged) {
			t.Errorf("a plan for the version before: %v", err)
		}
	})
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		o := w.get(t, w.create(t, "x", 5))
		long := strings.Repeat("ü", 8001)
		for name, c := range map[string]struct {
			want string
			do   func(context.Context, *db.Tx) error
		}{
			"create": {"title description doneCriterion priority", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.admin.Create(ctx, tx, objective.Objective{Description: long, DoneCriterion: long})
				return err
			}},
			"patch": {"title", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.admin.Patch(ctx, tx, o, objective.Patch{Title: new(string)})
				return err
			}},
			"no steps": {"steps", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.admin.ReplaceSteps(ctx, tx, o, nil)
				return err
			}},
			"31 steps": {"steps", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.admin.ReplaceSteps(ctx, tx, o, make([]objective.Step, objective.MaxSteps+1))
				return err
			}},
			"steps": {"steps[0].title steps[1].skill steps[1].inputs steps[2].inputs steps[3].inputs", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.admin.ReplaceSteps(ctx, tx, o, []objective.Step{
					{}, {Title: "x", Skill: long, Inputs: json.RawMessage(`[]`)}, {Title: "x", Inputs: json.RawMessage(`null`)},
					{Title: "x", Inputs: json.RawMessage(`{"a": "` + strings.Repeat("x", 33<<10) + `"}`)}, {Title: "x", Inputs: json.RawMessage(" {}")},
				})
				return err
			}},
			"pause": {"reason", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.admin.Pause(ctx, tx, o.ID, " ")
				return err
			}},
			"complete": {"summary", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.admin.Complete(ctx, tx, o.ID, long)
				return err
			}},
		} {
			err := w.DB.Tx(t.Context(), w.Workspace, c.do)
			invalid, ok := errors.AsType[*problem.InvalidError](err)
			if !ok {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var got []string
			for _, f := range invalid.Fields {
				got = append(got, f.Field)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s: wrong is %q, want %s", name, got, c.want)
			}
		}
		if diff := cmp.Diff(o, w.get(t, o.ID)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAStatusIsTurnedByPeople(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		for i, step := range []struct {
			do      func(testing.TB, string) (objective.Objective, error)
			status  objective.Status
			changed bool
			err     error
		}{
			{w.resume, objective.Active, false, nil},
			{w.pause, objective.Paused, true, nil},
			{w.pause, objective.Paused, false, nil},
			{w.resume, objective.Active, true, nil},
			{w.pause, objective.Paused, true, nil},
			{w.complete, objective.Completed, true, nil},
			{w.complete, objective.Completed, false, nil},
			{w.pause, objective.Completed, false, objective.ErrCompleted},
			{w.resume, objective.Completed, false, objective.ErrCompleted},
		} {
			before := w.get(t, id)
			_, err := step.do(t, id)
			o := w.get(t, id)
			changed := !o.UpdatedAt.Equal(before.UpdatedAt)
			if o.Status != step.status || changed != step.changed || !errors.Is(err, step.err) || (o.StatusReason == "not now") != (o.Status == objective.Paused) {
				t.Errorf("%d: it is %+v, changed: %v, %v", i, o, changed, err)
			}
		}
		if o := w.get(t, id); o.Summary != "enough" || o.CompletedAt == nil {
			t.Errorf("it is %+v", o)
		}
		if _, err := w.replace(t, w.get(t, id), "one"); !errors.Is(err, objective.ErrCompleted) {
			t.Errorf("a plan for a completed one: %v", err)
		}
		for _, do := range []func(testing.TB, string) (objective.Objective, error){w.pause, w.resume, w.complete} {
			if _, err := do(t, ids()); !errors.Is(err, db.ErrNoRows) {
				t.Errorf("one that is not there: %v", err)
			}
		}
	})
}

// Resume resets the attempts.
func TestResumeGivesAllTriesBack(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		w.plan(t, id, "one", "two")
		if err := w.end(t, id, 1, objective.Done); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			w.must(t, id, func(_ context.Context, tx lane.Tx) error {
				return errors.Join(w.s.CountStep(tx, id, w.step(2), ids()), w.s.CountPlanning(tx, id))
			})
		}
		if o := w.get(t, id); o.PlanAttempts != 3 || o.Plan[1].Attempts != 3 {
			t.Fatalf("it is %+v", o)
		}
		_, err := w.pause(t, id)
		o, err2 := w.resume(t, id)
		if err := errors.Join(err, err2); err != nil || o.PlanAttempts != 0 || o.Plan[1].Attempts != 0 || o.Plan[0].Status != objective.Done || o.StatusReason != "" {
			t.Errorf("it is %+v (%v)", o, err)
		}
	})
}

func (world) step(n int) objective.Step { return objective.Step{PlanVersion: 1, Number: n} }

// beat begins work on the first step of an objective, as a heartbeat does.
func (w world) beat(t testing.TB, id string) (*lane.Hold, execution.Execution) {
	t.Helper()
	h := w.hold(t, lane.Objective(id))
	e := execution.Execution{ID: ids(), Agent: "flowpilot", Surface: trace.Heartbeat, Trace: "hb_0mh8c1v2q_a7x2p1k9d4", Subject: h.Lane}
	err := w.lanes.InHold(t.Context(), h, func(_ context.Context, tx lane.Tx) error {
		return errors.Join(w.runs.Start(tx, e), w.s.CountStep(tx, id, w.step(1), e.ID))
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, e
}

// A beat that works on a paused objective records its finished step, but nothing that needs an
// active objective. At its next proof it learns that someone waits.
func TestABeatAtWorkOnAPausedObjective(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for name, turn := range map[string]func(testing.TB, string) (objective.Objective, error){"paused": w.pause, "completed": w.complete} {
			id := w.create(t, "x", 5)
			w.plan(t, id, "one", "two")
			h, e := w.beat(t, id)
			if _, err := turn(t, id); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := w.admin.Interrupt(t.Context(), w.Workspace, id, "ada"); err != nil {
				t.Fatal(err)
			}
			for what, write := range map[string]func(context.Context, lane.Tx) error{
				"complete": func(ctx context.Context, tx lane.Tx) error { return w.s.Complete(ctx, tx, id, "x") },
				"pause":    func(ctx context.Context, tx lane.Tx) error { return w.s.Pause(ctx, tx, id, "x") },
				"plan": func(ctx context.Context, tx lane.Tx) error {
					_, err := w.s.Plan(ctx, tx, id, []objective.Step{{Title: "x"}})
					return err
				},
			} {
				if err := w.lanes.InHold(t.Context(), h, write); !errors.Is(err, objective.ErrNotActive) {
					t.Errorf("%s: %s by the beat: %v", name, what, err)
				}
			}
			if by := h.WantedBy(); by != "ada" {
				t.Errorf("%s: the beat knows that %q waits", name, by)
			}
			err := w.lanes.InHold(t.Context(), h, func(ctx context.Context, tx lane.Tx) error {
				if err := w.s.EndStep(ctx, tx, id, 1, objective.Done, "done it is"); err != nil {
					return err
				}
				tx.Release(w.lanes, h)
				return w.runs.Leave(tx, e, execution.Completed, nil, "")
			})
			o := w.get(t, id)
			if err != nil || o.Plan[0].Status != objective.Done || string(o.Status) != name || o.Summary == "x" || o.StatusReason == "x" {
				t.Errorf("%s: it is %+v (%v)", name, o, err)
			}
			if err := w.admin.Interrupt(t.Context(), w.Workspace, id, "ada"); err != nil {
				t.Errorf("nobody is at it: %v", err)
			}
		}
	})
}

// An interrupt that comes during the beat's transaction, which locks its lane, takes effect after
// the transaction.
func TestAnInterruptArrivesBehindATransaction(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		w.plan(t, id, "one")
		h, _ := w.beat(t, id)
		ended := make(chan error, 1)
		err := w.lanes.InHold(t.Context(), h, func(ctx context.Context, tx lane.Tx) error {
			if err := w.s.EndStep(ctx, tx, id, 1, objective.Done, "done"); err != nil {
				return err
			}
			before := w.DB.Stats().Statements
			go func() { ended <- w.admin.Interrupt(t.Context(), w.Workspace, id, "ada") }()
			for w.Engine != dbtest.OnSQLite && len(ended) == 0 && w.DB.Stats().Statements < before+4 { // it has tried and looks again
				time.Sleep(time.Millisecond)
			}
			return ctx.Err()
		})
		if err := errors.Join(err, <-ended); err != nil {
			t.Fatal(err)
		}
		if err := w.lanes.Renew(t.Context(), h, time.Minute); err != nil || h.WantedBy() != "ada" {
			t.Errorf("the hold: %v, wanted by %q", err, h.WantedBy())
		}
	})
}

// A beat that works on a replaced plan writes nothing more: its step number belongs to another step
// now.
func TestABeatAtWorkOnAReplacedPlan(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		w.plan(t, id, "one", "two")
		h, e := w.beat(t, id)
		if _, err := w.replace(t, w.get(t, id)); err == nil {
			t.Fatal("a plan of no steps is taken")
		}
		stale := w.get(t, id)
		stale.Version++
		if _, err := w.replace(t, stale, "a"); !errors.Is(err, objective.ErrChanged) {
			t.Fatal(err)
		}
		if err := w.lanes.InHold(t.Context(), h, func(context.Context, lane.Tx) error { return nil }); err != nil {
			t.Fatalf("what was refused ended the hold: %v", err)
		}
		o, err := w.replace(t, w.get(t, id), "a", "b", "c")
		if err != nil || o.PlanVersion != 2 || len(o.Plan) != 3 || o.Version != 2 || o.Status != objective.Active {
			t.Errorf("it is %+v (%v)", o, err)
		}
		for what, write := range map[string]func(context.Context, lane.Tx) error{
			"step": func(ctx context.Context, tx lane.Tx) error { return w.s.EndStep(ctx, tx, id, 1, objective.Done, "x") },
			"plan": func(ctx context.Context, tx lane.Tx) error {
				_, err := w.s.Plan(ctx, tx, id, []objective.Step{{Title: "x"}})
				return err
			},
			"halt":  func(_ context.Context, tx lane.Tx) error { return w.s.Halt(tx, id, "x") },
			"leave": func(_ context.Context, tx lane.Tx) error { return w.runs.Leave(tx, e, execution.Completed, nil, "") },
		} {
			if err := w.lanes.InHold(t.Context(), h, write); !errors.Is(err, lane.ErrLost) {
				t.Errorf("%s by the beat: %v", what, err)
			}
		}
		if diff := cmp.Diff(o, w.get(t, id)); diff != "" {
			t.Errorf("it changed: %s", diff)
		}
		if got, err := w.runs.Get(t.Context(), w.Workspace, e.ID); err != nil || got.Status != execution.Cancelled {
			t.Errorf("the run is %+v (%v)", got, err)
		}
		if !slices.Equal(*w.ended, []string{e.ID}) {
			t.Errorf("the threads of %v were released", *w.ended)
		}
		next, _ := w.beat(t, id) // the lane is free, and the subject has no unfinished execution
		if err := w.lanes.Release(t.Context(), next); err != nil {
			t.Error(err)
		}
	})
}

func TestABeatAtWorkOnADeletedObjective(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		w.plan(t, id, "one", "two")
		h, e := w.beat(t, id)
		drop := func(w world) error {
			return w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error { return w.admin.Delete(ctx, tx, id) })
		}
		there := w
		there.Workspace = dbtest.NewWorkspace(t, w.DB)
		if err := drop(there); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("by a neighbour: %v", err)
		}
		if err := w.lanes.InHold(t.Context(), h, func(context.Context, lane.Tx) error { return nil }); err != nil {
			t.Fatalf("what a neighbour was refused ended the hold: %v", err)
		}
		if err := drop(w); err != nil {
			t.Fatal(err)
		}
		err := w.lanes.InHold(t.Context(), h, func(ctx context.Context, tx lane.Tx) error {
			return w.s.EndStep(ctx, tx, id, 1, objective.Done, "x")
		})
		if !errors.Is(err, lane.ErrLost) {
			t.Errorf("the beat's step: %v", err)
		}
		if _, err := w.s.Get(t.Context(), w.Workspace, id); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("it is still there: %v", err)
		}
		if got, err := w.runs.Get(t.Context(), w.Workspace, e.ID); err != nil || got.Status != execution.Cancelled {
			t.Errorf("the run is %+v (%v)", got, err)
		}
		if !slices.Equal(*w.ended, []string{e.ID}) {
			t.Errorf("the threads of %v were released", *w.ended)
		}
		if err := drop(w); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("once more: %v", err)
		}
	})
}

// A beat that asks for the lane during a person's change gets it after the change, and sees the
// change.
func TestABeatThatBeginsWhileThePlanIsReplaced(t *testing.T) {
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnSQLite} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, dbtest.New(t, engine))
			id := w.create(t, "x", 5)
			w.plan(t, id, "one")
			o := w.get(t, id)
			seen, done := make(chan []objective.Objective, 1), make(chan struct{})
			err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				if _, err := w.admin.ReplaceSteps(ctx, tx, o, []objective.Step{{Title: "new"}}); err != nil {
					return err
				}
				go func() {
					defer close(done)
					var found *[]objective.Objective
					request := lane.Request{Workspace: w.Workspace, Lane: lane.Objective(id), Holder: "beat"}
					err := w.lanes.DoAfter(t.Context(), request, lane.Wait{}, func(b *db.Batch) { found = w.s.GetIn(b, id) },
						func(context.Context, *lane.Hold) error { return nil })
					if err != nil {
						t.Errorf("the beat: %v", err)
					}
					seen <- *found
				}()
				dbtest.AwaitBlocked(ctx, t, w.DB.Dialect(), tx, done)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if found := <-seen; len(found) != 1 || found[0].PlanVersion != 2 || found[0].Plan[0].Title != "new" {
				t.Errorf("the beat sees %+v", found)
			}
		})
	}
}

func TestObjectivesAreListed(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for i, title := range []string{"Grow 100%", "shrink", "grow_up", "rest"} {
			w.create(t, title, i*2+1)
			w.Skew.Advance(time.Second)
		}
		all, _, err := w.s.List(t.Context(), w.Workspace, objective.Filter{})
		if err != nil || len(all) != 4 {
			t.Fatalf("%d objectives, %v", len(all), err)
		}
		if _, err := w.pause(t, all[0].ID); err != nil {
			t.Fatal(err)
		}
		for want, f := range map[string]objective.Filter{
			"rest, grow_up, shrink, Grow 100%": {},
			"rest":                             {Status: objective.Paused},
			"grow_up, shrink, Grow 100%":       {Status: objective.Active},
			"rest, grow_up":                    {MinPriority: 5},
			"grow_up, Grow 100%":               {Text: "GROW"},
			"grow_up":                          {Text: "_"},
			"Grow 100%":                        {Text: "%"},
			"":                                 {Text: `\`},
			"shrink, Grow 100%":                {Before: db.Position{At: all[1].CreatedAt, ID: all[1].ID}},
		} {
			items, more, err := w.s.List(t.Context(), w.Workspace, f)
			var got []string
			for _, o := range items {
				got = append(got, o.Title)
			}
			if err != nil || more || strings.Join(got, ", ") != want {
				t.Errorf("%+v lists %q, and more: %v (%v)", f, got, more, err)
			}
		}
		if items, more, err := w.s.List(t.Context(), w.Workspace, objective.Filter{Limit: 3}); err != nil || len(items) != 3 || !more {
			t.Errorf("a page of three has %d, and more: %v (%v)", len(items), more, err)
		}
		if items, _, err := w.s.List(t.Context(), w.neighbour(t).Workspace, objective.Filter{}); err != nil || len(items) > 0 {
			t.Errorf("a neighbour lists %+v (%v)", items, err)
		}
	})
}

func TestANeighbourChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		w.plan(t, id, "one")
		h, _ := w.beat(t, id)
		there, o := w.neighbour(t), w.get(t, id)
		title := "stolen"
		_, err1 := there.edit(t, func(ctx context.Context, tx *db.Tx) (objective.Objective, error) {
			return there.admin.Patch(ctx, tx, o, objective.Patch{Title: &title})
		})
		_, err2 := there.replace(t, o, "stolen")
		if !errors.Is(err1, objective.ErrChanged) || !errors.Is(err2, objective.ErrChanged) {
			t.Errorf("patch: %v; replace: %v", err1, err2)
		}
		for _, do := range []func(testing.TB, string) (objective.Objective, error){there.pause, there.resume, there.complete} {
			if _, err := do(t, id); !errors.Is(err, db.ErrNoRows) {
				t.Errorf("a status: %v", err)
			}
		}
		if err := there.admin.Interrupt(t.Context(), there.Workspace, id, "they"); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(o, w.get(t, id)); diff != "" {
			t.Error(diff)
		}
		if err := w.lanes.InHold(t.Context(), h, func(context.Context, lane.Tx) error { return nil }); err != nil || h.WantedBy() != "" {
			t.Errorf("the hold: %v, wanted by %q", err, h.WantedBy())
		}
	})
}

// A listing says how far each plan is, with the same words as the objective alone.
func TestAListingSaysHowFarPlansAre(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		none, half, stale := w.create(t, "none", 5), w.create(t, "half", 5), w.create(t, "stale", 5)
		w.plan(t, half, "old")
		w.plan(t, half, "one", "two", "three")
		w.plan(t, stale, "one", "two")
		if err := errors.Join(w.end(t, half, 1, objective.Done), w.end(t, stale, 1, objective.Failed)); err != nil {
			t.Fatal(err)
		}
		listed, _, err := w.s.List(t.Context(), w.Workspace, objective.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]objective.Progress{none: {}, half: {Steps: 3, Done: 1, Next: "two"}, stale: {Steps: 2}}
		for _, o := range listed {
			if o.Progress != want[o.ID] || w.get(t, o.ID).Progress != want[o.ID] {
				t.Errorf("%s: listed %+v, alone %+v; want %+v", o.Title, o.Progress, w.get(t, o.ID).Progress, want[o.ID])
			}
		}
	})
}
