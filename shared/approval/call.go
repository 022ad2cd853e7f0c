package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/call"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// outcome is the result of a call. A call without a message has succeeded.
type outcome struct {
	output    json.RawMessage
	message   string
	uncertain bool        // it may have had its effect
	class     skill.Class // who is responsible for the failure; empty: the caller
}

const maxResult = 256 << 10

// make makes the call, which commits together with its result or has its beginning recorded first.
func (e *Executor) make(ctx context.Context, j *job) error {
	r, err := call.Make(ctx, call.Call{
		Name: "approval", Skill: j.skill, Input: j.call, Lanes: e.Lanes, Holds: lane.Holds{j.hold}, Limit: j.limit, Clock: e.Clock,
		Begun: j.open, Again: !j.claimed.Last(), Spans: e.Spans,
		Begin: func(tx lane.Tx) error {
			tx.Later().Exec(e.Store.q.Start, j.ID)
			return nil
		},
		Result: func(ctx context.Context, tx lane.Tx, r call.Result) error {
			e.end(ctx, tx, j, outcomeOf(r), true)
			return nil
		},
	})
	err = e.Store.Outbox.Lost(err)
	j.open = j.open || r.Asked
	if r.Err != nil {
		e.failed(ctx, j, r.Err)
	}
	switch {
	case err == nil:
		return e.settled(ctx, j, outcomeOf(r))
	case errors.Is(err, outbox.ErrLost) && r.Status != "":
		return e.finish(ctx, j, outcomeOf(r))
	}
	return err
}

// outcomeOf returns what is recorded of a result.
func outcomeOf(r call.Result) outcome {
	o := outcome{output: r.Output, message: r.Message, uncertain: r.Status == execution.Uncertain}
	if r.Err != nil && !errors.Is(r.Err, db.ErrCheck) {
		o.class = skill.ClassOf(r.Err)
	}
	return o
}

// finish records the outcome of a call in one transaction, even after the call's time limit. If the
// claim on the outbox row is lost, it records the approval only: the next sender of the row finds
// the approval executed.
func (e *Executor) finish(ctx context.Context, j *job, o outcome) error {
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	write := func(claimed bool) error {
		return e.Lanes.InHold(last, j.hold, func(ctx context.Context, tx lane.Tx) error {
			e.end(ctx, tx, j, o, claimed)
			return nil
		})
	}
	err := e.Store.Outbox.Lost(write(true))
	if errors.Is(err, outbox.ErrLost) {
		err = write(false)
	}
	if err != nil {
		return err
	}
	return e.settled(ctx, j, o)
}

// end queues everything that ends a call: its result, the end of its outbox row, provided that it is
// still claimed, and the release of its lane.
func (e *Executor) end(ctx context.Context, tx lane.Tx, j *job, o outcome, claimed bool) {
	if o.uncertain {
		o.message, o.class = "uncertain: "+o.message, skill.Theirs
	}
	e.record(ctx, tx, j, o)
	switch {
	case claimed && o.uncertain:
		e.Store.Outbox.UncertainIn(tx.Later(), j.claimed, errors.New(o.message))
	case claimed:
		e.Store.Outbox.SentIn(tx.Later(), j.claimed)
	}
	tx.Release(e.Lanes, j.hold)
}

// settled logs that a call has ended, and returns the error which says that its outbox row has ended too.
func (e *Executor) settled(ctx context.Context, j *job, o outcome) error {
	as, why := outbox.Sent, error(nil)
	if o.uncertain {
		as, why = outbox.Uncertain, errors.New(o.message)
	}
	e.Log.InfoContext(ctx, "approval executed", "skill", j.Skill, "approval", j.ID, "status", as, "error", o.message,
		"duration_ms", e.Clock().Sub(j.begun).Milliseconds())
	return outbox.Settled(as, why)
}

// record queues a call's result and its line in the activity log.
func (e *Executor) record(ctx context.Context, tx lane.Tx, j *job, o outcome) {
	known := redact.From(ctx)
	if len(o.output) > 0 {
		o.output = known.JSON(o.output)
	}
	o.message = known.Text(o.message)
	status := activity.Success
	var message any
	if o.message != "" {
		status, message = activity.Error, activity.Text(o.message)
	}
	tx.Later().Exec(e.Store.q.Execute, j.ID, stored(o.output), message)
	if status == activity.Error && len(o.output) == 0 {
		o.output = skill.ErrorOutput(cmp.Or(o.class, skill.Input)) // self-healing reads who is responsible
	}
	e.Store.Activity.Record(ctx, tx.Later(), activity.Entry{
		Agent: j.Agent, Surface: j.Surface, Skill: j.Skill, SkillID: j.SkillID, Status: status, Input: j.Input(), Output: o.output,
		Error: o.message, Duration: e.Clock().Sub(j.begun), Trace: j.Trace, Execution: j.Execution,
	})
	e.Store.settled(ctx, tx.Later(), j.Approval)
}

// stored returns a result in the form that is stored. It replaces a result that is too long by a
// note about its length.
func stored(output json.RawMessage) json.RawMessage {
	if len(output) <= maxResult {
		return output
	}
	return object(map[string]any{"truncated": true, "bytes": len(output)})
}
