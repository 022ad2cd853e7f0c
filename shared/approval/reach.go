package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// reach makes a call that has its effect outside the database, in no transaction.
func (e *Executor) reach(ctx context.Context, j *job) error {
	if j.open && !j.skill.Keyed {
		return e.finish(ctx, j, outcome{uncertain: true, message: cutOff})
	}
	if !j.open {
		err := e.Lanes.InHold(ctx, j.hold, func(_ context.Context, tx lane.Tx) error {
			tx.Later().Exec(e.Store.q.Start, j.ID)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := fault.Point(ctx, "approval.started", j.call.Key); err != nil {
		return err
	}
	if err := e.Lanes.Cover(ctx, j.hold, j.limit); err != nil {
		return err
	}
	j.open = true
	output, err := j.skill.Reach(ctx, j.limit, j.call)
	_, told := errors.AsType[*skill.RefusalError](err)
	if err != nil && !told && ctx.Err() != nil {
		return fmt.Errorf("call of skill %s: %w", j.Skill, context.Cause(ctx)) // the next attempt decides
	}
	fault.Effect(ctx, "skill.ran", j.call.Key)
	if err := fault.Point(ctx, "approval.called", j.call.Key); err != nil {
		return err
	}
	if err == nil {
		return e.finish(ctx, j, outcome{output: output})
	}
	e.failed(ctx, j, err)
	if open, ok := errors.AsType[*skill.UncertainError](err); ok {
		if j.skill.Keyed && !j.claimed.Last() {
			return fmt.Errorf("call of skill %s: %w", j.Skill, open) // retry with the same key
		}
		return e.finish(ctx, j, outcome{uncertain: true, message: open.Reason})
	}
	message := "the skill failed"
	if refusal, ok := errors.AsType[*skill.RefusalError](err); ok {
		message = cmp.Or(refusal.Reason, "refused")
	}
	return e.finish(ctx, j, outcome{class: skill.ClassOf(err), message: message})
}
