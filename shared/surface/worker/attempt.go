package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// attempt is the work of one invocation on one attempt.
type attempt struct {
	*Worker
	tick  Tick
	title string
	trace trace.ID    // of a new execution
	agent agent.Agent // that has the attempt; empty: there is none

	// The following fields are set by Begin.
	number  int    // of the attempt
	thread  string // of the task; may be empty
	version int    // of the checkpoint, when this invocation began
	begun   bool   // its execution began here
	left    checkpoint

	exec  execution.Execution
	hold  *lane.Hold    // of the task's lane
	saved bool          // this invocation has stored a checkpoint
	limit time.Duration // of the invocation; 0: it has none
	due   bool          // too little of it is left for another step
	spent bool          // the work stopped because it is up, and not because the process ends

	stuck bool      // it is quarantined
	done  task.Task // as it was completed here

	mu      sync.Mutex // guards what follows
	stopped *stop      // an order that ends the work
	late    bool       // the agent was warned
	told    bool       // of that, the model
	seen    reason.Progress

	refreshed time.Time // when the lock of the thread was taken or refreshed
}

// input is the input of an execution.
type input struct {
	Task   string `json:"task"`
	Title  string `json:"title"` // for people
	TaskID string `json:"task_id"`
}

func (a *attempt) unit() work.Unit {
	return work.Unit{
		Name: "worker",
		Lane: lane.Request{
			Workspace: a.tick.Workspace, Lane: lane.Task(a.tick.Task), Holder: lane.NewHolder("worker", a.Instance, a.trace),
		},
		Kick:  kickFor(a.tick.Task),
		Keeps: true,
		Begin: a.begin, Act: a.act, End: a.end,
	}
}

// report is a report on the attempt.
func (a *attempt) report() task.Report {
	return task.Report{Task: a.tick.Task, Attempt: a.number, Actor: "agent:" + a.agent.ID, Agent: a.agent.ID}
}

// begin locks the task, and begins or resumes its execution if the agent has an attempt under way. The
// execution of a task that has ended is closed.
func (a *attempt) begin(ctx context.Context, s *work.Start) error {
	t, err := a.Tasks.Present(ctx, s.Tx, task.Report{Task: a.tick.Task})
	switch {
	case isOver(err):
		return a.close(ctx, s)
	case err != nil:
		return err
	case t.Agent != a.agent.ID || !builtin(a.agent):
		return nil // it is another's by now
	}
	a.number, a.version, a.thread = t.Attempt, t.CheckpointVersion, t.Thread
	a.Outbox.Began(s.Later(), KeyOf(t.ID))
	if t.Status == task.Assigned {
		if err := a.Begin(ctx, s.Tx, t.ID, t.Attempt, a.agent.ID, sessionOf(t.ID, t.Attempt)); err != nil {
			return err
		}
	}
	if len(s.Open) > 0 {
		a.exec = s.Open[0]
		a.exec.Agent = a.agent.Name // it may be that of an earlier attempt, by another agent
		return s.Resume(ctx, a.exec)
	}
	raw, err := json.Marshal(input{"work", a.title, a.tick.Task})
	if err != nil {
		return fmt.Errorf("encode the input of an execution: %w", err)
	}
	a.begun = true
	a.exec = execution.Execution{
		ID: a.IDs(), Agent: a.agent.Name, Surface: trace.Worker, Trace: a.trace, Subject: lane.Task(a.tick.Task), Attempt: 1, Input: raw,
		Persona: persona.Flowpilot,
	}
	return s.New(ctx, a.exec)
}

// sessionOf names the session of an attempt.
func sessionOf(id string, number int) string { return fmt.Sprintf("task:%s:%d", id, number) }

// close ends the open execution of a task that has ended. That of any other task continues with the next
// attempt.
func (a *attempt) close(ctx context.Context, s *work.Start) error {
	if len(s.Open) == 0 {
		return nil
	}
	t, err := a.Tasks.GetIn(ctx, s.Tx, a.tick.Task)
	if err != nil || !ended(t) {
		return err
	}
	for _, id := range waitsOf(s.Open[0]) {
		if _, err := a.Approvals.RejectIn(ctx, s.Tx, id, coordinate.Actor, "the task is "+string(t.Status)); err != nil && !errors.Is(err, db.ErrNoRows) {
			return err
		}
	}
	return s.Close(s.Open[0], execution.Cancelled, "the task is "+string(t.Status))
}

// Over returns why a call of a task is not made although it was approved: the task has ended since. It is
// empty for any other call.
func (w *Worker) Over(ctx context.Context, ws db.Workspace, of approval.Approval) (string, error) {
	id, ok := lane.TaskOf(of.Subject)
	if !ok || of.Surface != trace.Worker {
		return "", nil
	}
	t, err := w.Tasks.Get(ctx, ws, id)
	if errors.Is(err, db.ErrNoRows) {
		return "its task is gone", nil
	}
	if err != nil || !ended(t) {
		return "", err
	}
	return "its task is " + string(t.Status), nil
}

// ended reports whether no further attempt at a task begins by itself.
func ended(t task.Task) bool {
	return t.Cancelled || t.Status == task.Completed || t.Status == task.Failed || t.Status == task.Archived
}

// end writes what the execution's end means for the task, in the transaction of that end.
func (a *attempt) end(ctx context.Context, tx lane.Tx, out *work.Outcome) error {
	switch {
	case a.order() != nil:
		return a.leaveThread(ctx, tx, out.Status) // the attempt is over already
	case out.Poison:
		return a.fail(ctx, tx, "quarantined: "+out.Reason, true)
	case out.Status == execution.Completed:
		if why, failed := strings.CutPrefix(strings.TrimSpace(out.Answer), givenUp); failed {
			out.Answer = strings.TrimSpace(why)
			return a.giveUp(ctx, tx, out.Outcome)
		}
		return a.complete(ctx, tx, out.Outcome)
	case out.Status == execution.Stalled, out.Status == execution.Failed:
		return a.fail(ctx, tx, out.Reason, a.stuck || len(out.Uncertain) > 0)
	}
	step := out.Reason
	if out.Status == execution.Waiting {
		step = "waits for a person's approval"
	}
	if out.Status == execution.Waiting || out.Halted {
		if err := a.leaveThread(ctx, tx, out.Status); err != nil {
			return err
		}
	}
	before := a.version
	after, err := a.save(ctx, tx, out.Progress, step, out.Answer)
	if err == nil && out.Status == execution.Parked && !out.Halted && a.spent && after <= before {
		return errNoProgress
	}
	if err == nil && out.Short && a.halts() >= shortRuns {
		_, err = a.Tasks.GiveBack(ctx, tx, a.report(), out.Reason, haltedAgain)
	}
	return err
}

// shortRuns is after how many halted runs in a row an attempt is given back for whose next call a budget has too
// little left: its agent has a place for other tasks meanwhile.
const shortRuns = 4

// halts returns how many runs before this one were halted in a row.
func (a *attempt) halts() int {
	var before reason.Halt
	_ = json.Unmarshal(a.exec.Result, &before) // a new execution has none
	return before.Halts
}

// errNoProgress is a hand-over that raised no checkpoint.
var errNoProgress = errors.New("a hand-over must have raised the checkpoint's version")

// maxAnswer is the longest answer that is stored with a task, in bytes.
const maxAnswer = 64 << 10

// complete stores the result of the task.
func (a *attempt) complete(ctx context.Context, tx lane.Tx, out reason.Outcome) error {
	result := struct {
		Answer      string   `json:"answer"`
		Note        string   `json:"note,omitempty"`
		ExecutionID string   `json:"executionId"`
		TraceID     trace.ID `json:"traceId"`
	}{activity.Clip(out.Answer, maxAnswer), out.Reason, a.exec.ID, a.exec.Trace}
	raw, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode the result of a task: %w", err)
	}
	if a.done, err = a.Tasks.Complete(ctx, tx, a.report(), raw, activity.Clip(out.Answer, maxSummary)); err != nil {
		return err
	}
	return a.answer(ctx, tx, out)
}

// maxSummary is the longest summary of a task, in bytes.
const maxSummary = 1000

// givenUp begins the answer of a model that can't do the task; its prompt says so.
const givenUp = "FAILED:"

// giveUp ends the task as failed, because its agent says that it can't be done, and tells the conversation why.
func (a *attempt) giveUp(ctx context.Context, tx lane.Tx, out reason.Outcome) error {
	if err := a.fail(ctx, tx, cmp.Or(out.Answer, "the agent says that it can't be done"), true); err != nil {
		return err
	}
	return a.answer(ctx, tx, out)
}

// fail ends the attempt as failed. final says that no retry helps.
func (a *attempt) fail(ctx context.Context, tx lane.Tx, why string, final bool) error {
	_, err := a.Tasks.Fail(ctx, tx, a.report(), task.Failure{Error: activity.Clip(why, maxSummary), Final: final})
	return err
}
