package reason

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

// reach makes a call with an effect outside, outside of any transaction, and records its result. If
// the run's time ends during the call, the call stays without a result. A resumed run repeats the
// call with its idempotency key, or without one records that the effect is uncertain.
func (r *Runner) reach(ctx context.Context, job Job, s *state, v decision, call skill.Call) error {
	begun := r.Clock()
	if err := r.begin(ctx, job, s, v); err != nil {
		return err
	}
	o, err := r.tries(ctx, job, s, v.skill, call)
	if err != nil {
		return err
	}
	fault.Effect(ctx, "skill.ran", call.Key)
	if err := fault.Point(ctx, "skill.ran", call.Key); err != nil {
		return err
	}
	if o.err != nil {
		r.skillFailed(ctx, v, o.err)
	} else {
		r.Log.InfoContext(ctx, "skill done", "skill", v.skill.Name, "call", v.call.id, "duration_ms", r.Clock().Sub(begun).Milliseconds())
	}
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	return r.commit(last, s, job.holds(), func(ctx context.Context, tx lane.Tx) error {
		return r.writeResult(ctx, tx, job, s, v, outcome{
			status: o.status, input: v.arguments, output: o.output, message: o.message, err: o.err, outside: o.outside, took: r.Clock().Sub(begun),
		})
	})
}

// reached is the result of a call with an effect outside.
type reached struct {
	status  execution.StepStatus // succeeded, failed or uncertain
	output  []byte               // JSON
	message string               // text for the model, if the call did not succeed
	outside bool                 // the result contains untrusted text
	err     error                // for the log, if the call did not succeed
}

// tries makes a call of a skill that has Do, within its time limit. If the outcome is unknown, it
// repeats the call with the same idempotency key, provided the skill has one. It renews the holds
// before each try, so that they outlast it. An error means that nothing is known about the call:
// the context has ended, or a hold has.
func (r *Runner) tries(ctx context.Context, job Job, s *state, k *skill.Skill, call skill.Call) (reached, error) {
	limit, pause := job.limit(k), firstPause
	for try := 1; ; try++ {
		if err := r.cover(ctx, job, s, limit); err != nil {
			return reached{}, err
		}
		output, err := k.Reach(ctx, limit, call)
		if err == nil {
			return reached{status: execution.Succeeded, output: output, outside: true}, nil
		}
		_, told := errors.AsType[*skill.RefusalError](err)
		if ctx.Err() != nil && !told {
			return reached{}, fmt.Errorf("call of skill %s: %w", k.Name, context.Cause(ctx))
		}
		open, isOpen := errors.AsType[*skill.UncertainError](err)
		if !isOpen {
			return failed(err), nil
		}
		if !k.Keyed || try == maxReaches {
			return reached{
				status: execution.Uncertain, outside: true, err: err,
				message: open.Reason + ". It is not known whether the call had its effect: don't make it again; a person has to look.",
			}, nil
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

const (
	maxReaches = 3
	firstPause = 100 * time.Millisecond
)

// cover ensures the run's holds for a call. The mutex prevents a concurrent commit of another call,
// which would renew the holds for a shorter time.
func (r *Runner) cover(ctx context.Context, job Job, s *state, limit time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.Lanes.Cover(ctx, job.holds(), limit)
}

// failed returns the result of a call that is known to have failed.
func failed(err error) reached {
	r := reached{status: execution.Errored, message: "the skill failed", outside: true, err: err}
	if refusal, ok := errors.AsType[*skill.RefusalError](err); ok {
		r.message = cmp.Or(refusal.Reason, "refused")
		r.outside = refusal.Class == skill.Theirs || refusal.Class == skill.Input || refusal.Class == skill.RateLimit
	}
	return r
}
