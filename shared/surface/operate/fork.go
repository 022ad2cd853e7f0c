package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Topic is the outbox's for executions that are to be worked on.
const Topic = "execution"

// goesOn is what an outbox row of the topic says.
type goesOn struct {
	Execution string `json:"execution"`
}

// Fork begins an execution from what a run of a trace did before a step, edited,
// and leaves a row in the outbox that it is to go on. What was finished is not run
// again. It is called by POST /api/v1/traces/{traceId}/fork.
func (o *Operate) Fork(ctx context.Context, ws db.Workspace, id trace.ID, from string, step int, edits reason.Edits) (execution.Execution, error) {
	runs, err := o.steps(ctx, ws, id, from)
	if err != nil {
		return execution.Execution{}, err
	}
	if len(runs) > 1 {
		return execution.Execution{}, ErrSeveral
	}
	of := runs[0]
	entries, err := o.Runs.Journal(ctx, ws, of.ID, 0)
	if err != nil {
		return execution.Execution{}, err
	}
	kept, err := reason.Prefix(entries, step, edits)
	if err != nil {
		return execution.Execution{}, err
	}
	e := execution.Execution{
		ID: o.IDs(), Agent: of.Agent, Surface: of.Surface, Trace: of.Trace, Parent: of.ID, Attempt: 1,
		Input: encode(map[string]any{"task": "fork", "forked_from": of.ID, "step": step}),
	}
	e.Subject = lane.Execution(e.ID)
	return e, o.under(ctx, ws, e, func(ctx context.Context, hold *lane.Hold) error {
		return o.Lanes.InHold(ctx, hold, func(ctx context.Context, tx lane.Tx) error {
			if err := o.Reason.Fork(tx, e, kept); err != nil {
				return err
			}
			o.Outbox.Enqueue(ctx, tx.Later(), outbox.Row{
				Kind: outbox.Kick, Topic: Topic, Key: kickOf(e.ID), Payload: encode(goesOn{e.ID}), MaxAttempts: maxAttempts,
				Trace: e.Trace, Execution: e.ID,
			})
			o.Activity.Record(ctx, tx.Later(), activity.Entry{
				Agent: activity.Operator, Surface: trace.Operate, Skill: "trace.fork", Status: activity.Success, Input: e.Input,
				Trace: e.Trace, Execution: e.ID, ParentExecution: of.ID,
			})
			tx.Release(o.Lanes, hold)
			return nil
		})
	})
}

// Handle works on an execution that an outbox row asks to go on with, until it has
// ended. It is called by the outbox's sender.
func (o *Operate) Handle(ctx context.Context, c outbox.Claimed) error {
	var asked goesOn
	if err := json.Unmarshal(c.Payload, &asked); err != nil || asked.Execution == "" {
		return outbox.Permanently(errors.New("the row names no execution"))
	}
	e, err := o.Runs.Get(ctx, c.Workspace, asked.Execution)
	if err != nil || e.Status.Ended() {
		return err
	}
	ctx = trace.WithExecution(trace.With(ctx, e.Trace), e.ID)
	goOn := o.goOn
	if _, ok := askedOf(e); ok {
		goOn = o.talkOn
	}
	var status execution.Status
	err = o.under(ctx, c.Workspace, e, func(ctx context.Context, hold *lane.Hold) (err error) {
		if e, err = o.Runs.Get(ctx, c.Workspace, e.ID); err != nil || e.Status.Ended() {
			return err
		}
		status, err = goOn(ctx, e, hold)
		return err
	})
	if err == nil && status == execution.Parked {
		return outbox.Unfinished(fmt.Errorf("execution %s parked", e.ID))
	}
	if busy, ok := errors.AsType[*lane.BusyError](err); ok { // whoever holds the lane works on it, or is dead
		if ctx.Err() != nil { // the process ends: the next one need not wait
			return outbox.LaterIn(time.Millisecond, err)
		}
		return outbox.LaterIn(max(time.Second, min(busy.Remaining, lookAgain)), err)
	}
	if err != nil && ctx.Err() != nil {
		return outbox.Unfinished(err)
	}
	return err
}

// lookAgain is after how long it is looked again whether an execution is worked on.
const lookAgain = 10 * time.Second

// goOn goes on with an execution that is no turn, until it has ended.
func (o *Operate) goOn(ctx context.Context, e execution.Execution, hold *lane.Hold) (execution.Status, error) {
	if waits, err := o.stillWaits(ctx, hold.Workspace, e); err != nil || waits {
		return e.Status, err
	}
	settings, err := o.settings(ctx, hold.Workspace)
	if err != nil {
		return "", err
	}
	entries, err := o.Runs.Journal(ctx, hold.Workspace, e.ID, 0)
	if err != nil {
		return "", err
	}
	skills, err := o.Skills(ctx, hold.Workspace, e.Surface)
	if err != nil {
		return "", err
	}
	job := o.job(e, hold, skills, settings)
	var names []string
	if job.System, names, err = reason.StartOf(entries); err != nil {
		return "", err
	}
	job.Skills, job.Journal = skills.Only(names...), entries
	if err := o.Lanes.InHold(ctx, hold, func(ctx context.Context, tx lane.Tx) error { return o.Runs.Resume(ctx, tx, &job.Execution) }); err != nil {
		return "", err
	}
	out, err := o.through(job.Under(ctx), job)
	if err != nil {
		return "", err
	}
	if err := o.close(ctx, job, out); err != nil {
		return "", err
	}
	if out.Halted { // tried again later: what halts it does not end at once
		return out.Status, fmt.Errorf("execution %s is halted: %s", e.ID, out.Reason)
	}
	return out.Status, nil
}
