package task_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// many stores tasks. Each has the edges that fn returns.
func (w world) many(t testing.TB, n int, edge func(id string) (task, on string)) {
	t.Helper()
	var b db.Batch
	for range n {
		id := ids()
		b.Exec(w.q.AddTask, id)
		from, on := edge(id)
		b.Exec(w.q.AddEdge, from, on)
	}
	if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
}

// TestANewEdgeIsAChange of the task that gets it: who read it before may not replace its dependencies.
func TestANewEdgeIsAChange(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		x := w.create(t, draft("x"))
		d := draft("comes first")
		d.Blocks = []string{x.ID}
		first := w.create(t, d)
		stale := errors.New("another version")
		_, err := w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
			return w.s.SetDependencies(ctx, tx, x.ID, func(at task.Task) error {
				if at.Version != x.Version {
					return stale
				}
				return nil
			}, nil)
		})
		if got := w.get(t, x.ID); !errors.Is(err, stale) || len(got.DependsOn) != 1 || got.DependsOn[0] != first.ID || got.Version != x.Version+1 {
			t.Errorf("%v, and it depends on %v", err, got.DependsOn)
		}
	})
}

// TestDependenciesAreBounded over all requests.
func TestDependenciesAreBounded(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		full := func(err error, field string) {
			t.Helper()
			if wrong, ok := errors.AsType[*problem.InvalidError](err); !ok || wrong.Fields[0].Field != field {
				t.Errorf("%v, want a problem of %s", err, field)
			}
		}
		try := func(d task.Task) error {
			_, err := w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) { return w.s.Create(ctx, tx, d) })
			return err
		}
		waits := w.create(t, draft("waits")).ID
		w.many(t, task.MaxEdges-1, func(id string) (string, string) { return waits, id })
		d := draft("one more")
		d.Blocks = []string{waits}
		if err := try(d); err != nil {
			t.Fatal(err)
		}
		full(try(d), "blocks")
		summary, reasons, err := w.s.Why(t.Context(), w.Workspace, waits)
		if err != nil || len(reasons) != 20 || !strings.HasSuffix(summary, ", and for 99 more") {
			t.Errorf("%q, %d reasons, %v", summary, len(reasons), err)
		}

		hub, other := w.create(t, draft("hub")).ID, w.create(t, draft("other")).ID
		w.many(t, task.MaxDependents-1, func(id string) (string, string) { return id, hub })
		d = draft("the last one")
		d.DependsOn = []string{hub}
		last := w.create(t, d)
		full(try(d), "dependsOn")
		_, err = w.depend(t, other, hub)
		full(err, "dependsOn")
		if _, err := w.depend(t, last.ID, hub, other); err != nil { // it had this one
			t.Error(err)
		}
	})
}
