package wire

import (
	"context"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
)

// NewWorker builds the worker of built-in agents. again starts another invocation for a task that is
// handed on. kick has another function do what is due after a task. It is called by functions/worker.
func NewWorker(
	core *app.Core, instance string, again func(context.Context, worker.Tick) error, kick func(context.Context, db.Workspace),
) (*worker.Worker, error) {
	s, err := New(core, instance)
	if err != nil {
		return nil, err
	}
	s.Work.Again, s.Work.Kick = again, kick
	return s.Work, nil
}
