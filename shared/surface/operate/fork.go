package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
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
	_, err = o.do(ctx, ws, e, work.Unit{
		Name: "fork", Fresh: true, Kick: kickFor(e, 0),
		Begin: func(ctx context.Context, s *work.Start) error {
			if err := s.New(ctx, e); err != nil {
				return err
			}
			for _, entry := range kept {
				if err := o.Runs.Append(s.Tx, e, entry); err != nil {
					return err
				}
			}
			o.Activity.Record(ctx, s.Later(), activity.Entry{
				Agent: activity.Operator, Surface: trace.Operate, Skill: "trace.fork", Status: activity.Success, Input: e.Input,
				Trace: e.Trace, Execution: e.ID, ParentExecution: of.ID,
			})
			return nil
		},
	})
	return e, err
}

// kickFor is the row by which an execution goes on, first due after a while.
func kickFor(e execution.Execution, after time.Duration) outbox.Row {
	return outbox.Row{
		Kind: outbox.Kick, Topic: Topic, Key: kickOf(e.ID), Payload: encode(goesOn{e.ID}), MaxAttempts: maxAttempts, Delay: after,
	}
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
	out, err := goOn(ctx, c.Workspace, e)
	if err == nil && out.Status == execution.Parked { // how often that may be is the unit's to say
		return outbox.LaterIn(time.Millisecond, fmt.Errorf("execution %s parked", e.ID))
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

// goOn goes on with an execution that is no turn, until it has ended. The row that has it
// go on is its kick.
func (o *Operate) goOn(ctx context.Context, ws db.Workspace, e execution.Execution) (work.Outcome, error) {
	waits := o.waitsOf(e)
	out, err := o.do(ctx, ws, e, work.Unit{
		Name: "fork", Look: waits.look, Enter: waits.enter, Begin: resume,
		Act: func(ctx context.Context, job reason.Job) (out reason.Outcome, err error) {
			settings, err := o.settings(ctx, ws)
			if err != nil {
				return out, err
			}
			if job.Journal, err = o.Runs.Journal(ctx, ws, e.ID, 0); err != nil {
				return out, err
			}
			skills, err := o.Skills(ctx, ws, e.Surface)
			if err != nil {
				return out, err
			}
			var names []string
			if job.System, names, err = reason.StartOf(job.Journal); err != nil {
				return out, err
			}
			return o.through(ctx, o.bounded(job, skills.Only(names...), settings))
		},
	})
	if err == nil && out.Halted { // tried again later: what halts it does not end at once
		err = fmt.Errorf("execution %s is halted: %s", e.ID, out.Reason)
	}
	return out, err
}

// resume takes up what is open still.
func resume(ctx context.Context, s *work.Start) error { return s.Resume(ctx, s.Open[0]) }

// waits are what the calls of an execution wait for, as they stood when its lane was taken.
type waits struct {
	*Operate
	ids   []string
	found []*[]approval.Approval
}

func (o *Operate) waitsOf(e execution.Execution) *waits {
	return &waits{Operate: o, ids: replyOf(e).Approvals} // none, unless it is waiting
}

func (w *waits) look(b *db.Batch) {
	w.found = nil
	for _, id := range w.ids {
		w.found = append(w.found, w.Approvals.Look(b, id))
	}
}

// enter finds nothing to do where the execution has ended, or nothing was decided of what
// it waits for.
func (w *waits) enter(_ context.Context, e *work.Entry) error {
	if len(e.Open) == 0 {
		return work.ErrNothing
	}
	if ids := replyOf(e.Open[0]).Approvals; len(ids) == 0 || !slices.Equal(ids, w.ids) {
		return nil
	}
	for _, found := range w.found {
		for _, a := range *found {
			if text, _ := decided(a); text != "" {
				return nil
			}
		}
	}
	return work.ErrNothing
}
