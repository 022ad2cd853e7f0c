package heartbeat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// Topic is what the rows of the outbox are handled by that stand for beats put off.
const Topic = "heartbeat"

const (
	// turnEnds is after how long a beat looks again for which a turn is in the way.
	turnEnds = 2 * time.Minute
	// minBeat is the least time in which a beat that was put off is worth beginning.
	minBeat = time.Minute
	// maxKicks is how often a beat that was put off is tried where it fails.
	maxKicks = 3

	atWork = "a person works in operate"
)

// putOff is the payload of the row in the outbox by which a beat is run later, in its first
// format. A beat by hand has no slot.
type putOff struct {
	Slot time.Time `json:"slot,omitzero"`
	Hand bool      `json:"hand,omitempty"`
	Full bool      `json:"full,omitempty"`
}

// putOffKey is what the rows of beats that were put off have in common: a slot that is put
// off takes the place of the one before it.
const putOffKey = "heartbeat:put-off"

// kickOf is the key of the row by which a beat goes on that was cut off.
func kickOf(e execution.Execution) string { return "beat:" + e.ID }

// leaveKick adds the row by which the beat goes on if its process dies: it is due when the
// hold ends unless that is renewed, and withdrawn when the beat ends.
func (b *beat) leaveKick(ctx context.Context, tx lane.Tx) {
	b.Outbox.Enqueue(ctx, tx.Later(), outbox.Row{
		Kind: outbox.Kick, Topic: Topic, Key: kickOf(b.exec), Payload: encode(putOff{b.tick.Slot, b.tick.byHand(), b.tick.Full}),
		MaxAttempts: maxKicks, Delay: b.hold.Lease(ctx), Execution: b.exec.ID, Trace: b.exec.Trace,
	})
}

// byHand reports whether a person asked for the beat.
func (t Tick) byHand() bool { return t.Slot.IsZero() }

// inTheWay reports whether lane operate keeps the beat off: a turn does while it runs,
// and keeps scheduled beats off for the grace after it.
func (b *beat) inTheWay(operate *lane.Info) bool {
	return operate.Held() || !b.tick.byHand() && operate.InUse()
}

// later puts the beat off, under its slot, to the end of the grace after a person's
// turn: a row of the outbox, due then, in the transaction that records the skip. A
// beat by hand is skipped.
func (b *beat) later(ctx context.Context, operate lane.Info) error {
	if b.tick.byHand() {
		return b.skip(ctx, atWork, operate)
	}
	left := operate.Lingers()
	if operate.Held() {
		left = turnEnds
	}
	return b.putOff(ctx, atWork, operate, left)
}

// taken leaves a beat whose lane another holds. One of a slot is put off to the end of that
// hold: if its holder is dead, nobody else may run the slot, or go on with what it began.
func (b *beat) taken(ctx context.Context, by lane.Info) error {
	const why = "the lane is taken"
	if b.tick.byHand() {
		return b.skip(ctx, why, by)
	}
	return b.putOff(ctx, why, by, by.Remaining)
}

// putOff skips a beat for which a lane is in the way, and adds a row to the outbox by which
// its slot is run after left.
func (b *beat) putOff(ctx context.Context, why string, by lane.Info, left time.Duration) error {
	left = left.Truncate(time.Millisecond) + time.Millisecond
	at := by.LockedAt.Add(by.Age + left).UTC()
	b.report.PutOffTo = &at
	return b.skip(ctx, why, by, func(batch *db.Batch) {
		b.Outbox.Enqueue(ctx, batch, outbox.Row{
			Kind: outbox.Kick, Topic: Topic, Key: b.report.Slot + ":" + b.IDs(), SupersedeKey: putOffKey,
			Payload: encode(putOff{Slot: b.tick.Slot, Full: b.tick.Full}), MaxAttempts: maxKicks, Delay: left,
		})
	})
}

// Handle runs a beat that was put off, or cut off, under its slot and its trace. Where too
// little time is left for one, it is put off once more; the next slot ends it. It makes a
// Heartbeat an [outbox.Handler].
func (h *Heartbeat) Handle(ctx context.Context, c outbox.Claimed) error {
	var p putOff
	if err := json.Unmarshal(c.Payload, &p); err != nil || p.Slot.IsZero() != p.Hand {
		return outbox.Permanently(fmt.Errorf("read which slot was put off: %s", c.Payload))
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < minBeat {
		return outbox.LaterIn(minBeat, fmt.Errorf("begin a beat that was put off: less than %s is left of the invocation", minBeat))
	}
	t := Tick{Workspace: c.Workspace, Slot: p.Slot, Full: p.Full, Trace: c.Trace}
	if p.Hand {
		t.ExecutionID = c.Execution
		return h.again(ctx, t)
	}
	_, err := h.Run(ctx, t)
	return err
}

// again goes on with a beat by hand that was cut off, unless another beat has gone on with it by
// now. The tries of the row limit how often that is.
func (h *Heartbeat) again(ctx context.Context, t Tick) error {
	e, err := h.Runs.Get(ctx, t.Workspace, t.ExecutionID)
	if errors.Is(err, db.ErrNoRows) || err == nil && e.Status != execution.Running {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := h.Run(ctx, t)
	if err == nil && r.Outcome == Skipped && r.Holder != "" {
		return outbox.LaterIn(minBeat, fmt.Errorf("go on with a beat that was cut off: %s", r.Reason))
	}
	return err
}

const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// await waits until no turn holds lane operate, and no longer than until the time.
func (b *beat) await(ctx context.Context, until time.Time) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		operate, err := b.Lanes.Peek(ctx, b.tick.Workspace, lane.Operate)
		left := time.Until(until)
		if err != nil || !operate.Held() || left <= 0 {
			return err
		}
		jittered := pause/2 + rand.N(pause/2+1) //nolint:gosec // spreads looks, keeps no secret
		timer := time.NewTimer(min(jittered, left))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait for lane operate: %w", ctx.Err())
		}
	}
}

// skip leaves politely: one line in the log that names who is in the way. also adds
// what goes with that to its transaction.
func (b *beat) skip(ctx context.Context, why string, by lane.Info, also ...func(*db.Batch)) error {
	b.report.Outcome, b.report.Reason, b.report.Holder = Skipped, why, string(by.Holder)
	var batch db.Batch
	b.record(ctx, &batch, activity.Skipped, b.Clock().Sub(b.begun))
	for _, add := range also {
		add(&batch)
	}
	if b.hold != nil {
		b.Lanes.ReleaseIn(&batch, b.hold)
	}
	if err := b.DB.Do(ctx, b.tick.Workspace, &batch); err != nil {
		return fmt.Errorf("record the skipped beat: %w", err)
	}
	return nil
}
