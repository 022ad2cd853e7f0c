package reason

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/run"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// reach makes a call that has its effect outside, in no transaction, and records
// what came of it. When the run's time ends meanwhile the call stays without a
// result: whoever resumes the run makes it again under its key, or, where it has
// none, records that its effect is uncertain.
func (r *Runner) reach(ctx context.Context, job Job, s *state, v verdict, call skill.Call) error {
	begun := r.Clock()
	o, err := Reach(ctx, job.limit(v.skill), v.skill, call)
	if err != nil {
		return err
	}
	fault.Effect(ctx, "skill.ran", call.Key)
	if err := fault.Point(ctx, "skill.ran", call.Key); err != nil {
		return err
	}
	if o.Err != nil {
		r.skillFailed(ctx, v, o.Err)
	} else {
		r.Slog.InfoContext(ctx, "skill done", "skill", v.skill.Name, "call", v.call.id, "duration_ms", r.Clock().Sub(begun).Milliseconds())
	}
	last, cancel := lastWrite(ctx)
	defer cancel()
	return r.commit(last, s, job.holds(), func(ctx context.Context, tx lane.Tx) error {
		return r.writeResult(ctx, tx, job, s, v, outcome{
			status: o.Status, input: v.arguments, output: o.Output, message: o.Message, err: o.Err, outside: o.Outside, took: r.Clock().Sub(begun),
		})
	})
}

// Reached is what came of a call with an effect outside.
type Reached struct {
	Status  run.StepStatus // succeeded, failed or uncertain
	Output  []byte         // JSON
	Message string         // for the model, where it did not succeed
	Outside bool           // it brings words from outside
	Err     error          // for the log, where it did not succeed
}

// Reach makes a call of a skill that has Do, within its limit, and again under the
// same key where its effect stayed open and a key says that this is harmless. An
// error is that of the context: nothing can be said of the call.
func Reach(ctx context.Context, limit time.Duration, k *skill.Skill, call skill.Call) (Reached, error) {
	pause := firstPause
	for try := 1; ; try++ {
		value, err := do(ctx, limit, k, call)
		if err == nil {
			var output []byte
			if output, err = encoded(value); err == nil {
				return Reached{Status: run.Succeeded, Output: output, Outside: true}, nil
			}
		}
		if ctx.Err() != nil {
			return Reached{}, fmt.Errorf("call of skill %s: %w", k.Name, context.Cause(ctx))
		}
		open, isOpen := errors.AsType[*skill.Uncertain](err)
		if !isOpen {
			return failed(err), nil
		}
		if !k.Keyed || try == maxReaches {
			return Reached{
				Status: run.Uncertain, Outside: true, Err: err,
				Message: open.Reason + ". It is not known whether the call had its effect: don't make it again; a person has to look.",
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

// failed is a call that is known to have failed.
func failed(err error) Reached {
	r := Reached{Status: run.Errored, Message: "the skill failed", Outside: true, Err: err}
	if refusal, ok := errors.AsType[*skill.Refusal](err); ok {
		r.Message = cmp.Or(refusal.Reason, "refused")
		r.Outside = refusal.Class == skill.Theirs || refusal.Class == skill.Input || refusal.Class == skill.RateLimit
	}
	return r
}

// do runs a skill once. What takes too long or panics may have had its effect.
func do(ctx context.Context, limit time.Duration, k *skill.Skill, call skill.Call) (value any, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	value, err = guarded(limited, k, call)
	if p, ok := errors.AsType[*panicked](err); ok {
		return nil, errors.Join(&skill.Uncertain{Reason: "the skill failed"}, p)
	}
	_, told := errors.AsType[*skill.Refusal](err)
	if err != nil && !told && limited.Err() != nil && ctx.Err() == nil {
		return nil, &skill.Uncertain{Reason: fmt.Sprintf("the skill took longer than %s", limit)}
	}
	return value, err
}

func guarded(ctx context.Context, k *skill.Skill, call skill.Call) (value any, err error) {
	defer recovered(&err)
	return k.Do(ctx, call)
}

// lastWrite is a context in which what has happened can still be recorded although
// the run's own has ended.
func lastWrite(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), lastWriteLimit)
}

const lastWriteLimit = 3 * time.Second
