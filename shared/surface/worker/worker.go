// Package worker is the built-in worker. It does tasks that are assigned to agents whose spawner is
// builtin, each with the reasoning loop as a unit of work under the lane of its task.
//
// An invocation works on the present attempt of a task until the attempt ends, waits for a person, or
// little of the invocation is left. It then leaves a checkpoint and hands on to another invocation. An
// outbox row for each task, whose handler is the [Supervisor], has a lost invocation made up for.
//
// Attempts share one execution as long as that is open: a task that was paused, or whose attempt was
// lost, continues after its last step, and none of its calls is made twice.
package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/parts"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// Worker works on tasks. It keeps no state between them and is safe for concurrent use.
type Worker struct {
	*parts.Parts
	Turns *turn.Runner // reports people's decisions on calls that waited
	// Begin makes an assignment RUNNING.
	Begin func(ctx context.Context, tx coordinate.Tx, task string, attempt int, agent, session string) error
	// Again starts another invocation for a task that is handed on; nil: the task's outbox row does.
	Again func(context.Context, Tick) error
	// Kick has what is due in a workspace done, after an attempt has ended: another task may begin; nil:
	// the next cycle does.
	Kick func(context.Context, db.Workspace)
	// Deliverable says whether a text reaches an address by a channel. The result of a task leaves by the
	// channel of its thread where it does; nil: it stays in the thread.
	Deliverable func(channel, address, body string) error
	// BeatEvery is how often the agent sends a heartbeat during a step; 0: each 10 s.
	BeatEvery time.Duration
}

// A Tick asks to work on the present attempt of a task.
type Tick struct {
	Workspace db.Workspace
	Task      string
}

// Outcome says what came of an invocation.
type Outcome string

// The outcomes of an invocation.
const (
	Ended    Outcome = "ended"     // the attempt is over
	HandedOn Outcome = "handed_on" // another invocation continues the attempt
	Waits    Outcome = "waits"     // for a person, for a model, or for a kill switch
	Stopped  Outcome = "stopped"   // the attempt was paused, cancelled or given to another agent
	Busy     Outcome = "busy"      // another invocation works on the task
	Nothing  Outcome = "nothing"   // the task has no attempt for this worker
)

// Report says what an invocation did.
type Report struct {
	Outcome     Outcome  `json:"outcome"`
	Task        string   `json:"taskId"`
	Attempt     int      `json:"attempt,omitempty"`
	ExecutionID string   `json:"executionId,omitempty"`
	TraceID     trace.ID `json:"traceId,omitempty"`
	Steps       int      `json:"steps"` // of the execution, in all invocations
	Reason      string   `json:"reason,omitempty"`
}

// Run works on the present attempt of a task. An error says that the attempt is still under way and
// that the task's outbox row continues it. It is called by functions/worker and by the local runner.
func (w *Worker) Run(ctx context.Context, t Tick) (Report, error) {
	ctx = trace.WithWorkspace(ctx, string(t.Workspace))
	r := Report{Outcome: Nothing, Task: t.Task}
	is, err := w.Tasks.Get(ctx, t.Workspace, t.Task)
	if errors.Is(err, db.ErrNoRows) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	a := &attempt{Worker: w, tick: t, title: is.Title}
	if is.Status.Active() {
		if a.agent, err = w.Agents.Get(ctx, t.Workspace, is.Agent); err != nil {
			return r, fmt.Errorf("read the agent of task %s: %w", t.Task, err)
		}
	}
	if a.trace, err = w.Tasks.Origin(ctx, t.Workspace, t.Task); err != nil {
		return r, err
	}
	if a.trace == "" {
		a.trace = w.Traces.New(trace.Worker)
	}
	ctx = trace.With(ctx, a.trace)
	out, err := w.Worker.Do(ctx, a.unit())
	if _, busy := errors.AsType[*lane.BusyError](err); busy {
		r.Outcome, r.Reason = Busy, err.Error()
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("work on task %s: %w", t.Task, err)
	}
	if out.Execution.ID == "" {
		return r, nil
	}
	r.Attempt, r.ExecutionID, r.TraceID, r.Steps, r.Reason = a.number, out.Execution.ID, out.Execution.Trace, out.Steps, out.Reason
	r.Outcome = a.outcome(out)
	a.logEnd(ctx, r, out)
	switch r.Outcome {
	case HandedOn:
		w.handOn(ctx, t)
	case Ended:
		w.Live.Ended(ctx, t.Workspace, a.done)
		if w.Kick != nil {
			w.Kick(ctx, t.Workspace)
		}
	}
	return r, nil
}

// handOn starts the next invocation. If that fails, the outbox row of the task does.
func (w *Worker) handOn(ctx context.Context, t Tick) {
	if w.Again == nil || fault.Point(ctx, "worker.handed_on", t.Task) != nil {
		return
	}
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	if err := w.Again(last, t); err != nil {
		w.Log.WarnContext(ctx, "a task could not be handed on: its outbox row does", "task", t.Task, "error", err)
	}
}

// outcome says what a unit that ended without an error means.
func (a *attempt) outcome(out work.Outcome) Outcome {
	switch {
	case a.order() != nil:
		return Stopped
	case out.Status.Ended():
		return Ended
	case out.Status == execution.Parked && !out.Halted:
		return HandedOn
	}
	return Waits
}

// logEnd logs what an invocation did.
func (a *attempt) logEnd(ctx context.Context, r Report, out work.Outcome) {
	ctx = trace.WithExecution(ctx, r.ExecutionID)
	about := []any{"title", a.title, "task", r.Task, "attempt", r.Attempt, "steps", r.Steps}
	switch {
	case r.Outcome == HandedOn:
		a.Log.InfoContext(ctx, "task handed on", append(about, "reason", r.Reason)...)
	case r.Outcome == Stopped:
		a.Log.InfoContext(ctx, "task stopped", append(about, "reason", r.Reason)...)
	case r.Outcome == Waits:
		a.Log.InfoContext(ctx, "task waits", append(about, "reason", r.Reason)...)
	case out.Status == execution.Completed:
		a.Log.InfoContext(ctx, "task done", append(about, "answer", out.Answer)...)
	default:
		a.Log.WarnContext(ctx, "task failed", append(about, "reason", r.Reason)...)
	}
}

// isOver reports whether an error says that an attempt is not under way any more.
func isOver(err error) bool {
	_, stale := errors.AsType[*task.StaleError](err)
	_, status := errors.AsType[*task.StatusError](err)
	return stale || status || errors.Is(err, db.ErrNoRows)
}

// builtin reports whether this worker does the tasks of an agent.
func builtin(a agent.Agent) bool { return a.Spawner == agent.SpawnBuiltin }
