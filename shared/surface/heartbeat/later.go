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

// Topic is the outbox topic of postponed and interrupted beats.
const Topic = "heartbeat"

const (
	// turnEnds is the delay before a beat that a running turn postponed is tried again.
	turnEnds = 2 * time.Minute
	// minBeat is the shortest remaining time in which a postponed beat may begin.
	minBeat = time.Minute
	// maxKicks is the number of attempts to run a postponed beat.
	maxKicks = 3

	atWork = "a person works in operate"
)

// putOff is the payload, in its first format, of an outbox row that runs a beat later. A beat by
// hand has no slot.
type putOff struct {
	Slot time.Time `json:"slot,omitzero"`
	Hand bool      `json:"hand,omitempty"`
	Full bool      `json:"full,omitempty"`
}

// putOffKey is the supersede key of all postponed beats: a postponed slot replaces the one that was
// postponed before it.
const putOffKey = "heartbeat:put-off"

// kickOf returns the key of the outbox row that resumes a beat whose process died.
func kickOf(e execution.Execution) string { return "beat:" + e.ID }

// leaveKick enqueues the row that resumes the beat if its process dies. The row is due when the
// hold expires without a renewal. The end of the beat withdraws it.
func (b *beat) leaveKick(ctx context.Context, tx lane.Tx) {
	b.Outbox.Enqueue(ctx, tx.Later(), outbox.Row{
		Kind: outbox.Kick, Topic: Topic, Key: kickOf(b.exec), Payload: encode(putOff{b.tick.Slot, b.tick.byHand(), b.tick.Full}),
		MaxAttempts: maxKicks, Delay: b.hold.Lease(ctx), Execution: b.exec.ID, Trace: b.exec.Trace,
	})
}

// byHand reports whether a person asked for the beat.
func (t Tick) byHand() bool { return t.Slot.IsZero() }

// inTheWay reports whether lane operate postpones the beat. A running turn postpones every beat.
// The grace after a turn postpones scheduled beats only.
func (b *beat) inTheWay(operate *lane.Info) bool {
	return operate.Held() || !b.tick.byHand() && operate.InUse()
}

// later postpones a scheduled beat to the end of the grace after a person's turn, under its slot.
// One transaction records the skip and enqueues the outbox row that is due then. A beat by hand is
// skipped.
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

// taken ends a beat whose lane is held by another. A scheduled beat is postponed to the end of that
// hold: if the holder is dead, nothing else would run the slot or resume its unfinished work.
func (b *beat) taken(ctx context.Context, by lane.Info) error {
	const why = "the lane is taken"
	if b.tick.byHand() {
		return b.skip(ctx, why, by)
	}
	return b.putOff(ctx, why, by, by.Remaining)
}

// putOff skips a beat because of a held lane, and enqueues an outbox row that runs its slot after
// left.
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

// Handle runs a postponed or interrupted beat under its slot and its trace. If less than minBeat of
// the invocation is left, it postpones the beat once more. The beat ends as a duplicate if a later
// slot was run. Handle implements [outbox.Handler].
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

// again resumes an interrupted beat by hand, unless another beat has resumed it already. The row's
// MaxAttempts limits how often that happens.
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

// await waits until no turn holds lane operate, or until the given time. A long wait is reported once, as one
// for a lane that the beat would take itself.
func (b *beat) await(ctx context.Context, until time.Time) error {
	begun, warned := time.Now(), b.Lanes.Warn == nil
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		operate, err := b.Lanes.Peek(ctx, b.tick.Workspace, lane.Operate)
		left := time.Until(until)
		if err != nil || !operate.Held() || left <= 0 {
			return err
		}
		if waited := time.Since(begun); waited > lane.WarnAfter && !warned {
			warned = true
			b.Lanes.Warn(ctx, lane.Request{Workspace: b.tick.Workspace, Lane: lane.Operate, Holder: b.hold.Holder}, operate, waited)
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

// skip ends the beat and writes one line to the activity log, which names the holder of the lane.
// The functions in also add further writes to its transaction.
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
