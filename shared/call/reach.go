package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// firstPause is the time between the first two tries. Each further pause is four times as long.
const firstPause = 100 * time.Millisecond

// reach makes a call with an effect outside, in no transaction. If the context ends during the call, the
// call stays open: the next attempt makes it again under its key, or records that it is uncertain.
func (c Call) reach(ctx context.Context, took func(Result) Result) (Result, error) {
	if c.Begun && (c.Once || !c.Skill.Keyed) {
		return c.record(ctx, took(Result{Status: execution.Uncertain, Message: CutOff}))
	}
	if !c.Begun {
		if err := c.Commit(ctx, c.Holds, func(_ context.Context, tx lane.Tx) error { return c.Begin(tx) }); err != nil {
			return Result{}, err
		}
	}
	if err := fault.Point(ctx, c.Name+".begun", c.Input.Key); err != nil {
		return Result{}, err
	}
	r, err := c.try(ctx)
	if err != nil {
		return r, err
	}
	fault.Effect(ctx, "skill.ran", c.Input.Key)
	if err := fault.Point(ctx, c.Name+".ran", c.Input.Key); err != nil {
		return Result{Asked: r.Asked}, err
	}
	if r.Status == execution.Uncertain && c.Skill.Keyed && c.Again {
		return Result{Asked: true, Err: r.Err}, fmt.Errorf("call of skill %s: %w", c.Skill.Name, &skill.UncertainError{Reason: r.Message})
	}
	if r.Status == execution.Uncertain && c.Skill.Effect == skill.Read { // nothing can have been changed
		r.Status = execution.Errored
	}
	return c.record(ctx, took(r))
}

// try asks the skill, and asks it again while the outcome is unknown, as far as key and tries permit. It
// renews the holds before each try, so that they outlast it. An error means that the context has ended,
// or a hold has.
func (c Call) try(ctx context.Context) (r Result, err error) {
	pause := firstPause
	for try := 1; ; try++ {
		if err := c.Cover(ctx, c.Limit); err != nil {
			return r, err
		}
		r.Asked = true
		output, err := c.Skill.Reach(ctx, c.Limit, c.Input)
		if err == nil {
			return Result{Status: execution.Succeeded, Output: output, Untrusted: c.Skill.Results != skill.TrustedResults, Asked: true}, nil
		}
		_, refused := errors.AsType[*skill.RefusalError](err)
		if ctx.Err() != nil && !refused {
			return r, fmt.Errorf("call of skill %s: %w", c.Skill.Name, context.Cause(ctx))
		}
		unknown, ok := errors.AsType[*skill.UncertainError](err)
		if !ok {
			return failed(err), nil
		}
		if !c.Skill.Keyed || try >= c.Tries {
			return Result{Status: execution.Uncertain, Message: unknown.Reason, Err: err, Untrusted: true, Asked: true}, nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause *= 4
	}
}

// failed returns the result of a call that is known to have failed.
func failed(err error) Result {
	r := Result{Status: execution.Errored, Message: "the skill failed", Err: err, Untrusted: true, Asked: true}
	if refusal, ok := errors.AsType[*skill.RefusalError](err); ok {
		r.Message = cmp.Or(refusal.Reason, "refused")
		r.Untrusted = refusal.Class == skill.Theirs || refusal.Class == skill.Input || refusal.Class == skill.RateLimit
	}
	return r
}
