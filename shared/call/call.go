// Package call makes one call of a skill under its holds. It knows neither who asked for the call nor
// where the caller records it.
//
// A skill that works in the database commits together with the record of its result, or not at all. If
// its writes need a further lane, the call takes that lane and releases it in the same transaction.
//
// For a skill with an effect outside the database, the call first records that it begins, so that a call
// that is cut off is not forgotten. It then keeps the holds for as long as the skill may take, asks the
// skill, and records the result. A call whose outcome is unknown is made again only under the key of its
// effect. Without a key its result says that the outcome is uncertain.
package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/span"
)

// A Call is one call that [Make] makes. The fields without a default are required.
type Call struct {
	Name  string // names the fault points Name.begun and Name.ran
	Skill *skill.Skill
	Input skill.Call
	Lanes *lane.Store
	Holds lane.Holds    // every transaction proves them; a further lane is taken under the first one
	Limit time.Duration // how long the skill may take
	Clock func() time.Time
	Spans *span.Exporter // records the call; nil: nothing is recorded

	// Begun says that an earlier attempt has recorded the beginning, so that the effect may have happened.
	Begun bool
	// Once says that a call which has begun is not made again, even if it has a key: its result is uncertain.
	Once bool
	// Tries is how often a call with a key is made while its outcome stays unknown; 0: once.
	Tries int
	// Again leaves a call with a key open if its outcome stays unknown: Make returns the error and
	// records nothing. The caller makes the call again later.
	Again bool

	// Further refuses a further lane by an error. It may be nil.
	Further func(lane.Name) error
	// Busy returns the error for a further lane that stays busy. It may be nil: then Make returns the
	// [lane.BusyError].
	Busy func(*lane.BusyError) error

	// Commit runs a transaction that proves holds. It may be nil: then [lane.Store.InHold] does.
	Commit func(ctx context.Context, holds lane.Holds, fn func(context.Context, lane.Tx) error) error
	// Cover keeps the holds for a try. It may be nil: then [lane.Store.Cover] does.
	Cover func(ctx context.Context, limit time.Duration) error
	// Begin records that a call with an effect outside begins.
	Begin func(lane.Tx) error
	// Result records the result. The transaction may be rolled back, so Result calls nobody else.
	Result func(context.Context, lane.Tx, Result) error
}

// Result is the result of a call.
type Result struct {
	Status    execution.StepStatus // succeeded, failed or uncertain; empty: none is known
	Output    json.RawMessage
	Message   string        // why the call did not succeed, for whoever asked for it
	Err       error         // the error of a call that did not succeed
	Untrusted bool          // the result contains untrusted text
	Asked     bool          // the skill was asked for an effect outside, so the effect may have happened
	Took      time.Duration // from the beginning of this attempt
}

// CutOff is the message of a call that was cut off and can't be made again.
const CutOff = "the call was cut off, and may have had its effect"

// Make makes a call and records its result. It returns the result as far as it is known, also with an
// error. A refusal of the skill is a result, no error. After an error nothing was recorded, except
// perhaps the beginning.
func Make(ctx context.Context, c Call) (Result, error) {
	if c.Commit == nil {
		c.Commit = func(ctx context.Context, holds lane.Holds, fn func(context.Context, lane.Tx) error) error {
			return c.Lanes.InHold(ctx, holds, fn)
		}
	}
	if c.Cover == nil {
		c.Cover = func(ctx context.Context, limit time.Duration) error { return c.Lanes.Cover(ctx, c.Holds, limit) }
	}
	begun := c.Clock()
	took := func(r Result) Result {
		r.Took = c.Clock().Sub(begun)
		return r
	}
	if c.Spans != nil {
		return c.recorded(ctx, took)
	}
	return c.make(ctx, took)
}

func (c Call) make(ctx context.Context, took func(Result) Result) (Result, error) {
	if c.Skill.Remote() {
		return c.reach(ctx, took)
	}
	return c.run(ctx, took)
}

// run makes a call that works in the database.
func (c Call) run(ctx context.Context, took func(Result) Result) (Result, error) {
	var r Result
	var err error
	if c.Input, err = c.Skill.Ready(ctx, c.Limit, c.Input); err != nil {
		return c.refused(ctx, took, err)
	}
	err = c.withLanes(ctx, func(ctx context.Context, holds lane.Holds, release func(lane.Tx)) error {
		return c.Commit(ctx, holds, func(ctx context.Context, tx lane.Tx) error {
			output, untrusted, err := c.Skill.Invoke(ctx, c.Limit, tx, c.Input)
			if err != nil {
				return err
			}
			fault.Effect(ctx, "skill.ran", c.Input.Key)
			release(tx)
			r = took(Result{Status: execution.Succeeded, Output: output, Untrusted: untrusted})
			return c.Result(ctx, tx, r)
		})
	})
	if err == nil {
		return r, nil
	}
	return c.refused(ctx, took, err)
}

// refused records an error that concerns its call only. It returns other errors.
func (c Call) refused(ctx context.Context, took func(Result) Result, err error) (Result, error) {
	message := explain(err)
	if message == "" || errors.Is(err, lane.ErrLost) {
		return Result{}, err
	}
	return c.record(ctx, took(Result{Status: execution.Errored, Message: message, Err: err}))
}

// explain returns the text about an error that concerns its call only. It returns an empty text for
// other errors.
func explain(err error) string {
	if refusal, ok := errors.AsType[*skill.RefusalError](err); ok {
		return cmp.Or(refusal.Reason, "refused")
	}
	if errors.Is(err, db.ErrCheck) {
		return "the database refused a value of the call"
	}
	return ""
}

// withLanes takes the further lane that the call's writes need. It calls fn with all holds to prove.
// release adds the release of the further lane to a transaction.
func (c Call) withLanes(ctx context.Context, fn func(ctx context.Context, holds lane.Holds, release func(lane.Tx)) error) error {
	names, err := c.Skill.LanesOf(c.Input)
	if err != nil {
		return err
	}
	own := c.Holds[0]
	names = slices.DeleteFunc(slices.Clone(names), func(n lane.Name) bool { return n == own.Lane })
	if c.Further != nil {
		for _, name := range names {
			if err := c.Further(name); err != nil {
				return err
			}
		}
	}
	switch len(names) {
	case 0:
		return fn(ctx, c.Holds, func(lane.Tx) {})
	case 1:
	default:
		return fmt.Errorf("skill %s needs %d further lanes: one is the most", c.Skill.Name, len(names))
	}
	request := lane.Request{Workspace: c.Input.Workspace, Lane: names[0], Holder: own.Holder, Under: own}
	err = c.Lanes.Do(ctx, request, lane.Wait{Limit: min(laneWait, c.Limit)}, func(ctx context.Context, h *lane.Hold) error {
		return fn(ctx, append(slices.Clone(c.Holds), h), func(tx lane.Tx) { tx.Release(c.Lanes, h) })
	})
	if busy, ok := errors.AsType[*lane.BusyError](err); ok && c.Busy != nil {
		return c.Busy(busy)
	}
	return err
}

// laneWait is how long a call waits for a further lane.
const laneWait = 5 * time.Second

// record records a result that was not recorded together with the effect, also after the time of the
// call has ended.
func (c Call) record(ctx context.Context, r Result) (Result, error) {
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	return r, c.Commit(last, c.Holds, func(ctx context.Context, tx lane.Tx) error { return c.Result(ctx, tx, r) })
}
