package task_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// TestATaskMatchesAsItIsNow: a filter that has found a task is asked again when the task is locked.
func TestATaskMatchesAsItIsNow(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d := draft("one")
		d.Priority, d.Tags = 5, []string{"a", "b"}
		is := w.create(t, d)
		match := func(f task.Filter) error {
			_, err := w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
				return task.Task{}, w.s.Match(ctx, tx, is.ID, f)
			})
			return err
		}
		pending := task.Filter{Status: task.Pending, MinPriority: 5, MaxPriority: 5, Tags: []string{"b"}}
		if err := match(pending); err != nil {
			t.Error(err)
		}
		for _, f := range []task.Filter{{Status: task.Failed}, {MinPriority: 6}, {MaxPriority: 4}, {Tags: []string{"c"}}, {Agent: ids()}} {
			if err := match(f); !errors.Is(err, db.ErrNoRows) {
				t.Errorf("%+v: %v", f, err)
			}
		}
		w.assign(t, is.ID)
		if err := match(pending); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("it is no longer PENDING: %v", err)
		}
		if err := match(task.Filter{}); err != nil {
			t.Error(err)
		}
	})
}

// TestAPersonsPauseLasts: a person pauses a task that a budget has paused already, and the budget no longer resumes it.
func TestAPersonsPauseLasts(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		is := w.create(t, draft("one"))
		w.assign(t, is.ID)
		if _, err := w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
			return w.s.Pause(ctx, tx, is.ID, "coordinator", "Budget exceeded", "it is spent")
		}); err != nil {
			t.Fatal(err)
		}
		got, err := w.become(t, is.ID, task.Paused)
		if err != nil || got.Status != task.Paused || got.StatusReason != "" {
			t.Errorf("%s, %q, %v", got.Status, got.StatusReason, err)
		}
		again, err := w.become(t, is.ID, task.Paused)
		if err != nil || again.Version != got.Version {
			t.Errorf("once more: version %d after %d, %v", again.Version, got.Version, err)
		}
		if got, err = w.become(t, is.ID, task.Pending); err != nil || got.Status != task.Pending {
			t.Errorf("resumed by hand: %s, %v", got.Status, err)
		}
	})
}
