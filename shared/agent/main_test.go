package agent_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

type statements struct {
	AddTask, Assign, Attempt, Start, Late, LongRun, Change, End, Put, Age, Begun, Routed, Happened db.Query
}

// world is a fresh workspace on one engine with its agents.
type world struct {
	dbtest.Env
	s *agent.Store
	q statements
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e}
	var err error
	if w.s, err = agent.New(e.DB, ids); err != nil {
		t.Fatal(err)
	}
	dbtest.Load(t, "testdata", &w.q)
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

// tx runs fn in a transaction.
func (w world) tx(t testing.TB, fn func(context.Context, *db.Tx) error) error {
	t.Helper()
	return w.DB.Tx(t.Context(), w.Workspace, fn)
}

// draft is an agent as a caller describes it.
func draft(name string) agent.Agent {
	return agent.Agent{ID: ids(), Name: name, CoordinatorEnabled: true, CreatedBy: "user:ada"}
}

func (w world) register(t testing.TB, d agent.Agent) (is agent.Agent, added bool, err error) {
	t.Helper()
	err = w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
		is, added, err = w.s.Register(ctx, tx, d)
		return err
	})
	return is, added, err
}

// registered returns a new agent.
func (w world) registered(t testing.TB, d agent.Agent) agent.Agent {
	t.Helper()
	is, added, err := w.register(t, d)
	if err != nil || !added {
		t.Fatalf("register: added %t, %v", added, err)
	}
	return is
}

func (w world) get(t testing.TB, id string) agent.Agent {
	t.Helper()
	is, err := w.s.Get(t.Context(), w.Workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

func (w world) exec(t testing.TB, q db.Query, args ...any) {
	t.Helper()
	if n, err := w.DB.Exec(t.Context(), w.Workspace, q, args...); err != nil || n == 0 {
		t.Fatalf("%s: %d rows, %v", q.Name(), n, err)
	}
}

// assigned adds a task that is assigned to an agent; start has it run.
func (w world) assigned(t testing.TB, to string) (task string) {
	t.Helper()
	task = ids()
	w.exec(t, w.q.AddTask, task)
	w.assign(t, task, to)
	return task
}

func (w world) assign(t testing.TB, task, to string) {
	t.Helper()
	w.exec(t, w.q.Assign, task, to)
	w.exec(t, w.q.Attempt, task)
}

// running is assigned with a task that runs.
func (w world) running(t testing.TB, on string) (task string) {
	t.Helper()
	task = w.assigned(t, on)
	w.exec(t, w.q.Start, task)
	return task
}

// ended ends the open attempt of a task.
func (w world) ended(t testing.TB, task, status, outcome, reason string, cancelled bool) {
	t.Helper()
	w.exec(t, w.q.Change, task, status, cancelled, db.Null(reason))
	w.exec(t, w.q.End, task, outcome)
}

func (w world) beat(t testing.TB, b agent.Beat) []agent.Order {
	t.Helper()
	orders, err := w.s.Beat(t.Context(), w.Workspace, b)
	if err != nil {
		t.Fatal(err)
	}
	return orders
}

func (w world) terminate(t testing.TB, id string, graceful bool) (is agent.Agent, open []agent.Attempt) {
	t.Helper()
	err := w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
		is, open, err = w.s.Terminate(ctx, tx, id, "enough", graceful)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return is, open
}
