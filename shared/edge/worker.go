package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
)

// Work works on a task, as [worker.Worker.Run] does.
type Work func(context.Context, worker.Tick) (worker.Report, error)

// StartWorker serves the invocations of functions/worker, until the process ends.
func (s *Sandbox) StartWorker(build func(*app.Core) (Work, error)) error {
	return s.start(s.worker(build))
}

func (s *Sandbox) worker(build func(*app.Core) (Work, error)) handler {
	open := newOpener(s, build)
	return s.handle(func(ctx context.Context, payload []byte) (any, error) {
		tick, err := DecodeWork(payload)
		if err != nil {
			return nil, err
		}
		return open.do(ctx, func(o *opened[Work]) (any, error) { return o.with(ctx, tick) })
	})
}

// DecodeWork decodes the event {"workspace", "task"}. Errors: [EventError].
func DecodeWork(payload []byte) (worker.Tick, error) {
	if len(payload) > maxEvent {
		return worker.Tick{}, &EventError{Problem: fmt.Sprintf("is larger than %d bytes", maxEvent)}
	}
	all, err := fields(payload)
	if err != nil {
		return worker.Tick{}, err
	}
	e := event{fields: all}
	t := worker.Tick{Workspace: e.workspace(), Task: e.text("task")}
	if id, err := uuid.Parse(t.Task); err != nil || len(t.Task) != len(uuid.Nil.String()) {
		e.fail("task", "is not the id of one")
	} else {
		t.Task = id.String()
	}
	if t.Workspace == "" {
		e.fail("workspace", "is missing")
	}
	if err := e.rest(); err != nil {
		return worker.Tick{}, err
	}
	return t, nil
}

// errNoWorker says that the environment does not name the worker's function.
var errNoWorker = errors.New("there is no function for the built-in worker: set WORKER_FUNCTION")

// KickWorker starts an invocation that works on a task, and does not wait for it. In functions/worker it
// invokes the function itself.
func (s *Sandbox) KickWorker(ctx context.Context, t worker.Tick) error {
	function := s.cfg.WorkerFunction
	if function == "" {
		return errNoWorker
	}
	payload, err := json.Marshal(struct {
		Workspace db.Workspace `json:"workspace"`
		Task      string       `json:"task"`
	}{t.Workspace, t.Task})
	if err == nil {
		err = s.invoke(ctx, function, payload)
	}
	if err != nil {
		return fmt.Errorf("invoke %s for task %s: %w", function, t.Task, err)
	}
	return nil
}
