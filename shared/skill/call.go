package skill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// Ready calls Prepare, if there is one, with the time limit, and returns the call with its result. It
// must not run in a transaction. Its errors are like those of [Skill.Invoke].
func (s *Skill) Ready(ctx context.Context, limit time.Duration, c Call) (_ Call, err error) {
	if s.Prepare == nil {
		return c, nil
	}
	defer recovered(&err)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	given := c
	given.Arguments = s.current(c.Arguments)
	c.Prepared, err = s.Prepare(limited, given)
	if limited.Err() != nil && ctx.Err() == nil {
		return c, tooLong(limit)
	}
	return c, err
}

func tooLong(limit time.Duration) error { return Fail(Ours, "the skill took longer than %s", limit) }

// Invoke calls Run with the time limit and encodes the result as JSON. outside is true if the
// result is [Untrusted] text. A call that exceeds limit returns a [RefusalError] of class [Ours]. A
// panic becomes a [PanicError].
func (s *Skill) Invoke(ctx context.Context, limit time.Duration, tx lane.Tx, c Call) (output json.RawMessage, outside bool, err error) {
	defer recovered(&err)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c.Arguments = s.current(c.Arguments)
	value, err := s.Run(limited, tx, c)
	if limited.Err() != nil && ctx.Err() == nil {
		return nil, false, tooLong(limit)
	}
	if err != nil {
		return nil, false, err
	}
	_, outside = value.(Untrusted)
	output, err = encoded(value)
	return output, outside, err
}

// Reach calls Do once with the time limit and encodes the result as JSON. A call that exceeds limit
// or panics may have had its effect, so its error is an [UncertainError].
func (s *Skill) Reach(ctx context.Context, limit time.Duration, c Call) (json.RawMessage, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	value, err := s.guarded(limited, c)
	if p, ok := errors.AsType[*PanicError](err); ok {
		return nil, errors.Join(&UncertainError{Reason: "the skill failed"}, p)
	}
	_, told := errors.AsType[*RefusalError](err)
	if err != nil && !told && limited.Err() != nil && ctx.Err() == nil {
		return nil, &UncertainError{Reason: fmt.Sprintf("the skill took longer than %s", limit)}
	}
	if err != nil {
		return nil, err
	}
	return encoded(value)
}

func (s *Skill) guarded(ctx context.Context, c Call) (value any, err error) {
	defer recovered(&err)
	return s.Do(ctx, c)
}

// LanesOf returns the lanes that the call's writes need beside the execution's own lane. A panic
// becomes a [PanicError].
func (s *Skill) LanesOf(c Call) (names []lane.Name, err error) {
	if s.Lanes == nil {
		return nil, nil
	}
	defer recovered(&err)
	c.Arguments = s.current(c.Arguments)
	return s.Lanes(c), nil
}

// encoded returns the JSON of a skill's result, in the form that the database can store.
func encoded(value any) (json.RawMessage, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, Fail(Ours, "the skill's result can't be written as JSON")
	}
	return activity.Storable(raw), nil
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = &PanicError{Value: p, Stack: debug.Stack()}
	}
}

// PanicError is the error of a skill that panicked. Its fields are for the log only.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("the skill panicked: %v", p.Value) }

// Unwrap returns a [RefusalError] of class [Ours]. It reveals nothing about the panic.
func (p *PanicError) Unwrap() error { return &RefusalError{Class: Ours, Reason: "the skill failed"} }
