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
