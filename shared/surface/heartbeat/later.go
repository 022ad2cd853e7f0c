package heartbeat

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
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

// putOff is the payload of a put-off beat's row in the outbox, in its first format.
type putOff struct {
	Slot time.Time `json:"slot"`
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
	left := operate.Lingers().Truncate(time.Millisecond) + time.Millisecond
	if operate.Held() {
		left = turnEnds
	}
	at := operate.LockedAt.Add(operate.Age + left).UTC()
	b.report.PutOffTo = &at
	return b.skip(ctx, atWork, operate, func(batch *db.Batch) {
		b.Outbox.Enqueue(ctx, batch, outbox.Row{
			Kind: outbox.Kick, Topic: Topic, Key: b.report.Slot + ":" + b.IDs(), SupersedeKey: b.report.Slot,
			Payload: encode(putOff{b.tick.Slot}), MaxAttempts: maxKicks, Delay: left,
		})
	})
}

// Handle runs a beat that was put off, under its slot and its trace. Where too little time
// is left for one, it is put off once more; the next slot ends it. It makes a Heartbeat an
// [outbox.Handler].
func (h *Heartbeat) Handle(ctx context.Context, c outbox.Claimed) error {
	var p putOff
	if err := json.Unmarshal(c.Payload, &p); err != nil || p.Slot.IsZero() {
		return outbox.Permanently(fmt.Errorf("read which slot was put off: %s", c.Payload))
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < minBeat {
		return outbox.LaterIn(minBeat, fmt.Errorf("begin a beat that was put off: less than %s is left of the invocation", minBeat))
	}
	_, err := h.Run(ctx, Tick{Workspace: c.Workspace, Slot: p.Slot, Trace: c.Trace})
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
