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

// reach makes a call that has its effect outside, in no transaction, and records
// what came of it. When the run's time ends meanwhile the call stays without a
// result: whoever resumes the run makes it again under its key, or, where it has
// none, records that its effect is uncertain.
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

// reached is what came of a call with an effect outside.
type reached struct {
	status  execution.StepStatus // succeeded, failed or uncertain
	output  []byte               // JSON
	message string               // for the model, where it did not succeed
	outside bool                 // it brings words from outside
	err     error                // for the log, where it did not succeed
}

// tries makes a call of a skill that has Do, within its limit, and again under the
// same key where its effect stayed open and a key says that this is harmless. The
// holds are renewed before each try, so that they outlast it. After an error nothing
// can be said of the call: the context has ended, or a hold.
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

// cover ensures the run's holds for a call. No commit of another call is under way
// meanwhile, which would renew them for less.
func (r *Runner) cover(ctx context.Context, job Job, s *state, limit time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.Lanes.Cover(ctx, job.holds(), limit)
}

// failed is a call that is known to have failed.
func failed(err error) reached {
	r := reached{status: execution.Errored, message: "the skill failed", outside: true, err: err}
	if refusal, ok := errors.AsType[*skill.RefusalError](err); ok {
		r.message = cmp.Or(refusal.Reason, "refused")
		r.outside = refusal.Class == skill.Theirs || refusal.Class == skill.Input || refusal.Class == skill.RateLimit
	}
	return r
}
