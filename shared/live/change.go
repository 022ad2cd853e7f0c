package live

import (
	"context"
	"encoding/json"

	"github.com/lanekeeper/lanekeeper/shared/task"
)

// A Change is one change of a task: [Patch], [Progress], [Complete], [Fail], [Cancel], [Retry] or
// [Archive].
type Change interface {
	apply(ctx context.Context, s *task.Store, tx task.Tx, of task.Report) (task.Task, error)
}

type (
	// Patch changes what a person may change.
	Patch task.Patch
	// Progress reports how far an attempt is.
	Progress task.Progress
	// Complete reports that an attempt has done the task.
	Complete struct {
		Output  json.RawMessage
		Summary string
	}
	// Fail reports that an attempt has failed.
	Fail task.Failure
	// Cancel aborts a task for good.
	Cancel struct{ Reason string }
	// Retry gives a failed task its retries again.
	Retry struct{}
	// Archive puts a task away that has ended.
	Archive struct{}
)

func (p Patch) apply(ctx context.Context, s *task.Store, tx task.Tx, of task.Report) (task.Task, error) {
	return s.Patch(ctx, tx, of.Task, of.Actor, func(task.Task) error { return nil }, task.Patch(p))
}

func (p Progress) apply(ctx context.Context, s *task.Store, tx task.Tx, of task.Report) (task.Task, error) {
	t, _, err := s.Advance(ctx, tx, of, task.Progress(p))
	return t, err
}

func (c Complete) apply(ctx context.Context, s *task.Store, tx task.Tx, of task.Report) (task.Task, error) {
	return s.Complete(ctx, tx, of, c.Output, c.Summary)
}

func (f Fail) apply(ctx context.Context, s *task.Store, tx task.Tx, of task.Report) (task.Task, error) {
	return s.Fail(ctx, tx, of, task.Failure(f))
}

func (c Cancel) apply(ctx context.Context, s *task.Store, tx task.Tx, of task.Report) (task.Task, error) {
	return s.Cancel(ctx, tx, of.Task, of.Actor, c.Reason)
}

func (Retry) apply(ctx context.Context, s *task.Store, tx task.Tx, of task.Report) (task.Task, error) {
	return s.Retry(ctx, tx, of.Task, of.Actor)
}

func (Archive) apply(ctx context.Context, s *task.Store, tx task.Tx, of task.Report) (task.Task, error) {
	return s.Archive(ctx, tx, of.Task, of.Actor)
}
