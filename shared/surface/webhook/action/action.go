// Package action performs the actions that the rules of a source define for its deliveries. A
// delivery is a unit of work under its own lane. It is claimed, ended and released together with
// that unit.
package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/parts"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// Runner is the outbox's handler of [inbox.Topic]. It keeps no state between calls and is safe for
// concurrent use.
type Runner struct {
	*parts.Parts
	Turns  *turn.Runner   // run the conversations of [Kind], among others
	Random func() float64 // spreads the retries
}

const (
	maxTries     = 6
	firstBackoff = 10 * time.Second
	maxBackoff   = 30 * time.Minute
	// haltedWait is the delay before the next check whether a kill switch was released.
	haltedWait = 5 * time.Minute
	// busyWait is the longest delay before a busy lane is requested again.
	busyWait = 10 * time.Second
)

// Handle performs the action of one delivery. The sender retries an action that failed. Handle
// parks the delivery when no attempt is left.
func (r *Runner) Handle(ctx context.Context, c outbox.Claimed) error {
	id, ok := inbox.DeliveryOf(c.Payload)
	if !ok {
		return outbox.Permanently(errors.New("the row names no delivery"))
	}
	try, err := r.prepare(ctx, c, id)
	if err != nil || try == nil {
		return r.answer(ctx, c, id, err)
	}
	ctx = trace.With(ctx, try.delivery.Trace)
	out, err := r.Worker.Do(ctx, try.unit())
	if err != nil {
		return r.answer(ctx, c, id, err)
	}
	try.log(ctx, out)
	switch {
	case try.early > 0:
		return outbox.LaterIn(try.early, errors.New("it is not time to try again yet"))
	case out.Status == execution.Parked && out.Halted:
		return outbox.LaterIn(haltedWait, fmt.Errorf("delivery %s is halted: %s", id, out.Reason))
	case out.Status == execution.Parked:
		return outbox.LaterIn(time.Millisecond, fmt.Errorf("delivery %s is left for later: %s", id, out.Reason))
	case try.ending.Status == inbox.Failed:
		return outbox.LaterIn(try.ending.Wait, fmt.Errorf("delivery %s failed: %s", id, try.ending.Error))
	}
	return nil
}

// answer returns the error that tells the outbox why the work on a delivery could not begin. After
// the last attempt it parks the delivery, so that a person sees it.
func (r *Runner) answer(ctx context.Context, c outbox.Claimed, id string, err error) error {
	if busy, is := errors.AsType[*lane.BusyError](err); is { // the holder of the lane works on it, or is dead
		return outbox.LaterIn(max(time.Second, min(busy.Remaining, busyWait)), err)
	}
	_, later := errors.AsType[*outbox.LaterError](err)
	if err == nil || later || errors.Is(err, lane.ErrLost) {
		return err
	}
	if ctx.Err() != nil && !c.Last() {
		return outbox.Unfinished(err)
	}
	if c.Last() {
		last, cancel := lane.LastWrites(ctx)
		defer cancel()
		if perr := r.Inbox.Park(last, c.Workspace, id, fmt.Sprintf("it could not be begun in %d tries: a person has to look",
			c.Attempt)); perr != nil {
			return errors.Join(err, perr)
		}
	}
	return err
}

// prepare reads a delivery and decides what to do. It returns nil if there is nothing to do.
func (r *Runner) prepare(ctx context.Context, c outbox.Claimed, id string) (*try, error) {
	d, err := r.Inbox.Delivery(ctx, c.Workspace, id)
	if errors.Is(err, db.ErrNoRows) || err == nil && d.Status.Ended() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if wait := d.Wait(); wait > 0 {
		return nil, outbox.LaterIn(wait, errors.New("it is not time to try again yet"))
	}
	t := &try{Runner: r, claimed: c, delivery: d, subject: lane.Execution(subjectOf(d))}
	var b db.Batch
	settings, source, open := r.Workspaces.Settings(&b), r.Inbox.SourceIn(&b, d.SourceID), r.Runs.Unfinished(&b, t.subject)
	if err := r.DB.Read(ctx, c.Workspace, &b); err != nil {
		return nil, fmt.Errorf("read the source of delivery %s: %w", id, err)
	}
	if t.settings, err = settings(); err != nil {
		return nil, err
	}
	if t.skills, err = r.Skills(ctx, c.Workspace, trace.Webhook); err != nil {
		return nil, err
	}
	t.refused = stopped(*source)
	if t.begun = len(*open) > 0; t.begun || t.refused != "" { // a begun attempt keeps its action
		return t, nil
	}
	return t, t.decide(ctx, (*source)[0].Rules)
}

// subjectOf returns the id whose lane protects the work on a delivery. It changes when the
// delivery's effects get a new key.
func subjectOf(d inbox.Delivery) string {
	if d.Replays == 0 {
		return d.ID
	}
	return uuid.NewSHA1(uuid.Nil, []byte(d.EffectKey())).String()
}

// backoff returns the delay after the n-th attempt: half of a bound that doubles with each attempt,
// plus a random part of the other half.
func backoff(n int, random float64) time.Duration {
	bound := min(maxBackoff, firstBackoff<<min(max(n-1, 0), 10))
	return bound/2 + time.Duration(random*float64(bound/2))
}

// encode returns v as JSON. Our own types always encode.
func encode(v any) json.RawMessage { return json.RawMessage(db.Encode(v)) }
