package task_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

type statements struct {
	Assign, Attempt, Start, Attempts, AddThread, EditLog, ClearLog, Remove, AllEdges, Happened, AddTask, AddEdge db.Query
}

// world is a fresh workspace on one engine with its tasks.
type world struct {
	dbtest.Env
	s *task.Store
	q statements
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e}
	var err error
	if w.s, err = task.New(e.DB, ids, func() float64 { return 0.5 }); err != nil {
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

// change runs fn in a transaction.
func (w world) change(t testing.TB, fn func(context.Context, *db.Tx) (task.Task, error)) (is task.Task, err error) {
	t.Helper()
	err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		is, err = fn(ctx, tx)
		return err
	})
	return is, err
}

func (w world) must(t testing.TB, fn func(context.Context, *db.Tx) (task.Task, error)) task.Task {
	t.Helper()
	is, err := w.change(t, fn)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// draft is a task as a caller describes it.
func draft(title string) task.Task {
	return task.Task{
		Title: title, Priority: task.DefaultPriority, MaxRetries: task.DefaultRetries, BackoffSeconds: task.DefaultBackoff, CreatedBy: "user:ada",
	}
}

func (w world) create(t testing.TB, d task.Task) task.Task {
	t.Helper()
	return w.must(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) { return w.s.Create(ctx, tx, d) })
}

func (w world) get(t testing.TB, id string) task.Task {
	t.Helper()
	is, err := w.s.Get(t.Context(), w.Workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// assign begins an attempt, as the coordinator does; start has it run.
func (w world) assign(t testing.TB, id string) {
	t.Helper()
	var b db.Batch
	b.Exec(w.q.Assign, id, ids())
	b.Exec(w.q.Attempt, id)
	if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
}

func (w world) start(t testing.TB, id string) {
	t.Helper()
	if n, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Start, id); err != nil || n != 1 {
		t.Fatalf("start: %d, %v", n, err)
	}
}

// running creates a task in its first attempt.
func (w world) running(t testing.TB, d task.Task) task.Task {
	t.Helper()
	is := w.create(t, d)
	w.assign(t, is.ID)
	w.start(t, is.ID)
	return w.get(t, is.ID)
}

func (w world) cancel(t testing.TB, id string) (task.Task, error) {
	return w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
		return w.s.Cancel(ctx, tx, id, "user:ada", "enough")
	})
}

func (w world) retry(t testing.TB, id string) (task.Task, error) {
	return w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) { return w.s.Retry(ctx, tx, id, "user:ada") })
}

func (w world) archive(t testing.TB, id string) (task.Task, error) {
	return w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) { return w.s.Archive(ctx, tx, id, "user:ada") })
}

func anything(task.Task) error { return nil }

func (w world) patch(t testing.TB, id string, p task.Patch) (task.Task, error) {
	return w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
		return w.s.Patch(ctx, tx, id, "user:ada", anything, p)
	})
}

func (w world) become(t testing.TB, id string, to task.Status) (task.Task, error) {
	return w.patch(t, id, task.Patch{Status: &to})
}

func (w world) complete(t testing.TB, id string, attempt int) (task.Task, error) {
	return w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
		return w.s.Complete(ctx, tx, task.Report{Task: id, Attempt: attempt, Actor: "agent:a"}, []byte(`{"n":1}`), "done")
	})
}

func (w world) fail(t testing.TB, id string, attempt int, final bool) (task.Task, error) {
	return w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
		return w.s.Fail(ctx, tx, task.Report{Task: id, Attempt: attempt, Actor: "agent:a"}, task.Failure{Error: "it broke", StackTrace: "at 1", Final: final})
	})
}

func (w world) advance(t testing.TB, id string, attempt int, p task.Progress) (task.Task, error) {
	return w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
		is, _, err := w.s.Advance(ctx, tx, task.Report{Task: id, Attempt: attempt, Actor: "agent:a"}, p)
		return is, err
	})
}

func (w world) depend(t testing.TB, id string, on ...string) (task.Task, error) {
	return w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
		return w.s.SetDependencies(ctx, tx, id, anything, on)
	})
}

func (w world) logs(t testing.TB, id string) []task.Entry {
	t.Helper()
	all, err := w.s.Logs(t.Context(), w.Workspace, id, task.LogFilter{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
