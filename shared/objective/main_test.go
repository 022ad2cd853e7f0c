package objective_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine with its objectives.
type world struct {
	dbtest.Env
	s      *objective.Store
	admin  *objective.Admin
	lanes  *lane.Store
	runs   *execution.Store
	skills *skill.Set
	ended  *[]string // executions whose threads were released
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e, ended: new([]string)}
	var err1, err2, err3, err4 error
	w.s, err1 = objective.New(e.DB, ids)
	w.lanes, err2 = lane.New(e.DB)
	w.runs, err4 = execution.New(e.DB)
	w.admin = objective.NewAdmin(w.s, w.lanes, w.runs, func(_ context.Context, _ execution.Tx, id string) (int, error) {
		*w.ended = append(*w.ended, id)
		return 0, nil
	})
	all, err := objective.Skills(w.s)
	w.skills, err3 = skill.NewSet(all...)
	if err := errors.Join(err, err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

// neighbour returns another workspace of the same database.
func (w world) neighbour(t testing.TB) world {
	t.Helper()
	w.Workspace = dbtest.NewWorkspace(t, w.DB)
	return w
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

func (w world) create(t testing.TB, title string, priority int) string {
	t.Helper()
	var b db.Batch
	id := w.s.Create(&b, objective.Objective{Title: title, Priority: priority, CreatedBy: "test"})
	if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	return id
}

func (w world) get(t testing.TB, id string) objective.Objective {
	t.Helper()
	o, err := w.s.Get(t.Context(), w.Workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (w world) due(t testing.TB, limit int) []objective.Due {
	t.Helper()
	var b db.Batch
	due := w.s.Due(&b, limit)
	if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	return *due
}

func (w world) hold(t testing.TB, name lane.Name) *lane.Hold {
	t.Helper()
	h, err := w.lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: name, Holder: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// in runs fn under an objective's lane.
func (w world) in(t testing.TB, id string, fn func(context.Context, lane.Tx) error) error {
	t.Helper()
	request := lane.Request{Workspace: w.Workspace, Lane: lane.Objective(id), Holder: "test"}
	return w.lanes.Do(t.Context(), request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
		return w.lanes.InHold(ctx, h, fn)
	})
}

func (w world) must(t testing.TB, id string, fn func(context.Context, lane.Tx) error) {
	t.Helper()
	if err := w.in(t, id, fn); err != nil {
		t.Fatal(err)
	}
}

// plan gives an objective a plan of steps with these titles.
func (w world) plan(t testing.TB, id string, titles ...string) (version int) {
	t.Helper()
	w.must(t, id, func(ctx context.Context, tx lane.Tx) (err error) {
		steps := make([]objective.Step, len(titles))
		for i, title := range titles {
			steps[i] = objective.Step{Title: title}
		}
		version, err = w.s.Plan(ctx, tx, id, steps)
		return err
	})
	return version
}

func (w world) end(t testing.TB, id string, number int, status objective.StepStatus) error {
	t.Helper()
	return w.in(t, id, func(ctx context.Context, tx lane.Tx) error {
		return w.s.EndStep(ctx, tx, id, number, status, "so it is")
	})
}

// use runs a skill as the reasoning loop does.
func (w world) use(t testing.TB, name, arguments string) (any, error) {
	t.Helper()
	k, ok := w.skills.Find(name)
	if !ok {
		t.Fatalf("there is no skill %s", name)
	}
	if v := k.Check(t.Context(), []byte(arguments)); len(v) > 0 {
		t.Fatalf("the arguments of %s: %v", name, v)
	}
	call := skill.Call{Workspace: w.Workspace, Agent: "flowpilot", Arguments: []byte(arguments)}
	lanes := []lane.Name{"heartbeat"}
	if k.Lanes != nil {
		lanes = k.Lanes(call)
	}
	if len(lanes) != 1 {
		t.Fatalf("%s needs the lanes %v", name, lanes)
	}
	var value any
	request := lane.Request{Workspace: w.Workspace, Lane: lanes[0], Holder: "test"}
	err := w.lanes.Do(t.Context(), request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
		return w.lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) (err error) {
			value, err = k.Run(ctx, tx, call)
			return err
		})
	})
	return value, err
}
