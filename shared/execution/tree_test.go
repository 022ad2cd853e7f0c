package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func (w world) begin(t testing.TB, parent string, await bool) (execution.Execution, error) {
	t.Helper()
	e := execution.Execution{ID: ids(), Agent: activity.Operator, Surface: trace.Coordinator, Trace: traces.New(trace.Coordinator), Parent: parent}
	err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		var err error
		e, err = w.runs.Begin(ctx, tx, e, await)
		return err
	})
	return e, err
}

func (w world) began(t testing.TB, parent string, await bool) execution.Execution {
	t.Helper()
	e, err := w.begin(t, parent, await)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (w world) end(t testing.TB, id string, as execution.Status) error {
	t.Helper()
	return w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		return w.runs.End(ctx, tx, id, as, json.RawMessage(`{"a":1}`), "why")
	})
}

// TestAParentWaits: a parent waits for the children that it began to wait for. It continues when
// the last of them has ended, however it ended.
func TestAParentWaits(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		parent := w.began(t, "", true) // there is no parent to wait
		loose := w.began(t, parent.ID, false)
		if got := w.get(t, parent.ID); got.Status != execution.Running {
			t.Fatalf("the parent is %s", got.Status)
		}
		first, second := w.began(t, parent.ID, true), w.began(t, parent.ID, true)
		if first.Trace != parent.Trace || w.get(t, second.ID).Trace != parent.Trace {
			t.Error("a child is not in its parent's trace")
		}
		for _, step := range []struct {
			ends execution.Execution
			as   execution.Status
			want execution.Status
		}{{loose, execution.Completed, execution.Waiting}, {first, execution.Failed, execution.Waiting}, {second, execution.Cancelled, execution.Running}} {
			if err := w.end(t, step.ends.ID, step.as); err != nil {
				t.Fatal(err)
			}
			if got := w.get(t, parent.ID); got.Status != step.want {
				t.Errorf("the parent is %s, want %s", got.Status, step.want)
			}
			if got := w.get(t, step.ends.ID); got.Status != step.as || got.EndedAt == nil || got.Error != "why" {
				t.Errorf("%+v", got)
			}
		}
	})
}

func TestWhoCannotBeginOrEnd(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		protected := w.start(t, w.hold(t, subject), newExecution(subject))
		w.began(t, protected.ID, false)
		if _, err := w.begin(t, protected.ID, true); !errors.Is(err, execution.ErrProtected) {
			t.Errorf("under a lane: %v", err)
		}
		if err := w.end(t, protected.ID, execution.Completed); !errors.Is(err, execution.ErrProtected) {
			t.Errorf("under a lane: %v", err)
		}
		if got := w.get(t, protected.ID); got.Status != execution.Running {
			t.Errorf("it is %s", got.Status)
		}
		if _, err := w.begin(t, ids(), true); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("no parent: %v", err)
		}
		if err := w.end(t, ids(), execution.Completed); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("no execution: %v", err)
		}
		e := w.began(t, "", false)
		if err := w.end(t, e.ID, execution.Waiting); err == nil {
			t.Error("waiting is an end")
		}
		if err := w.end(t, e.ID, execution.Completed); err != nil {
			t.Fatal(err)
		}
		if err := w.end(t, e.ID, execution.Failed); !ended(err, execution.Completed) {
			t.Errorf("it ends twice: %v", err)
		}
		if _, err := w.begin(t, e.ID, true); !ended(err, execution.Completed) {
			t.Errorf("under one that has ended: %v", err)
		}
	})
}

func ended(err error, as execution.Status) bool {
	e, ok := errors.AsType[*execution.EndedError](err)
	return ok && e.Status == as
}
