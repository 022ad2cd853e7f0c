package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/activity"
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

// finish records the outcome of a call in one transaction, even after the call's time limit. If the
// claim on the outbox row is lost, it records the approval only: the next sender of the row finds
// the approval executed.
func (e *Executor) finish(ctx context.Context, j *job, o outcome) error {
	ctx, cancel := lane.LastWrites(ctx)
	defer cancel()
	if o.uncertain {
		o.message, o.class = "uncertain: "+o.message, skill.Theirs
	}
	write := func(mark func(lane.Tx)) error {
		return e.Lanes.InHold(ctx, j.hold, func(ctx context.Context, tx lane.Tx) error {
			e.record(ctx, tx, j, o)
			mark(tx)
			tx.Release(e.Lanes, j.hold)
			return nil
		})
	}
	as := outbox.Sent
	err := e.Store.Outbox.Lost(write(func(tx lane.Tx) {
		if o.uncertain {
			as = outbox.Uncertain
			e.Store.Outbox.UncertainIn(tx.Later(), j.claimed, errors.New(o.message))
		} else {
			e.Store.Outbox.SentIn(tx.Later(), j.claimed)
		}
	}))
	if errors.Is(err, outbox.ErrLost) {
		err = write(func(lane.Tx) {})
	}
	if err != nil {
		return err
	}
	e.Log.InfoContext(ctx, "approval executed", "skill", j.Skill, "approval", j.ID, "error", o.message)
	return outbox.Settled(as)
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

// withLanes acquires the additional lane that the call's writes need, as the reasoning loop does.
// It runs fn with all holds that must be proven. release queues the release of the additional lane.
// A lane that stays busy returns an error, and the call is retried later.
func (e *Executor) withLanes(ctx context.Context, j *job, fn func(ctx context.Context, holds lane.Holds, release func(lane.Tx)) error) error {
	names, err := j.skill.LanesOf(j.call)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(slices.Clone(names), func(n lane.Name) bool { return n == j.hold.Lane })
	switch len(names) {
	case 0:
		return fn(ctx, lane.Holds{j.hold}, func(lane.Tx) {})
	case 1:
	default:
		return fmt.Errorf("skill %s needs %d further lanes: one is the most", j.Skill, len(names))
	}
	request := lane.Request{Workspace: j.call.Workspace, Lane: names[0], Holder: j.hold.Holder, Under: j.hold}
	return e.Lanes.Do(ctx, request, lane.Wait{Limit: min(laneWait, j.limit)}, func(ctx context.Context, h *lane.Hold) error {
		return fn(ctx, lane.Holds{j.hold, h}, func(tx lane.Tx) { tx.Release(e.Lanes, h) })
	})
}
