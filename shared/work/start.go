package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
)

// Entry is a unit whose lane is held, before its first transaction.
type Entry struct {
	Hold *lane.Hold
	Open []execution.Execution // on the lane, when it was taken
	d    *doing
}

// Take gives the unit a further lane: every later transaction proves the hold, and the
// last one releases it.
func (e *Entry) Take(h *lane.Hold) { e.d.further = append(e.d.further, h) }

// Begin writes the unit down while it waits for a further lane. Begin of the unit is called
// now, and again, with Start.Begun, once Enter has returned. A second call does nothing.
func (e *Entry) Begin(ctx context.Context) error {
	if e.d.exec.ID != "" {
		return nil
	}
	if err := e.d.begin(ctx); err != nil {
		return err
	}
	if e.d.over {
		return ErrNothing
	}
	return nil
}

// Start is the first transaction of a unit.
type Start struct {
	lane.Tx
	Open []execution.Execution // on the lane, when it was taken: one at most
	// Begun says that the unit was written down before, by [Entry.Begin].
	Begun bool

	d      *doing
	exec   execution.Execution
	poison string
}

// New begins an execution, and adds its kick.
func (s *Start) New(ctx context.Context, e execution.Execution) error {
	if s.d.Act == nil {
		e.Cuts = -1 // to take it up for the first time is not to take up what was cut off
	}
	if err := s.d.Runs.Start(s.Tx, e); err != nil {
		return err
	}
	if s.d.Kick.Key != "" {
		s.d.Outbox.Enqueue(ctx, s.Later(), s.kickOf(e))
	}
	e.Status = execution.Running
	s.exec = e
	return nil
}

// kickOf is the row of the outbox by which an execution goes on.
func (s *Start) kickOf(e execution.Execution) outbox.Row {
	row := s.d.Kick
	row.Trace, row.Execution = e.Trace, e.ID
	return row
}

const (
	// maxCuts is the number of attempts in a row that may be cut off: something in a unit
	// with more ends the process.
	maxCuts = 5
	// maxParks is how often in a row one may be left for later without progress, a day of
	// half hours: what needs more gets nowhere.
	maxParks = 48
)

// poisonOf says why an execution is not taken up again; empty: it is. One that waits for a
// person may wait as often as it likes.
func poisonOf(e execution.Execution) string {
	switch {
	case e.Status == execution.Running && e.Cuts+1 >= maxCuts:
		return fmt.Sprintf("it was cut off in attempt %d", e.Attempt)
	case e.Status == execution.Parked && e.Parks >= maxParks:
		return fmt.Sprintf("it was left for later %d times without progress", e.Parks)
	}
	return ""
}

// Resume takes an execution up again, and counts the attempt. It adds the kick anew where
// that is gone, or has ended. One that is poison is given up instead: it is ended in this
// transaction, with End of the unit.
func (s *Start) Resume(ctx context.Context, e execution.Execution) error {
	if s.poison = poisonOf(e); s.poison == "" {
		if err := s.d.Runs.Resume(ctx, s.Tx, &e); err != nil {
			return err
		}
		if s.d.Kick.Key != "" {
			s.d.Outbox.Revive(ctx, s.Later(), s.kickOf(e))
		}
	}
	s.exec = e
	return nil
}

// Close ends an execution that there is nothing left to do for, and says why.
func (s *Start) Close(e execution.Execution, as execution.Status, why string) error {
	result, err := json.Marshal(map[string]string{"reason": why})
	if err != nil {
		return fmt.Errorf("close execution %s: %w", e.ID, err)
	}
	return s.d.Runs.Leave(s.Tx, e, as, result, "")
}

// begin is the first transaction, or its second part where [Entry.Begin] was the first. Where
// what was open can't be taken up, the attempt counts all the same.
func (d *doing) begin(ctx context.Context) error {
	uncounted := d.exec.ID == "" && len(*d.open) > 0
	err := d.first(ctx, func(ctx context.Context, s *Start) error { return d.Begin(inHook(ctx), s) })
	if err != nil && uncounted && ownError(ctx, err) {
		return d.count(ctx, err)
	}
	return err
}

// count takes up what could not be begun: the attempt counts, so that what fails each time
// is given up. It answers why the beginning failed, unless the unit is over.
func (d *doing) count(ctx context.Context, cause error) error {
	err := d.first(ctx, func(ctx context.Context, s *Start) error {
		return s.Resume(ctx, s.Open[0])
	})
	if err != nil || !d.over {
		return errors.Join(cause, err)
	}
	d.Reason.Log.WarnContext(d.job().Under(ctx), "given up: it can't be begun", "unit", d.Name, "error", cause)
	return nil
}

// first is a transaction that chooses the unit's execution. Where there is none, or nothing
// more to do for it now, it releases the lanes. Where the answer of one that begins is lost it is
// sent again: the proof of the hold waits for what may be under way still, and if that has begun
// the execution, its id, which nobody else has, is taken.
func (d *doing) first(ctx context.Context, choose func(context.Context, *Start) error) error {
	var s Start
	var ended Outcome
	write := func(ctx context.Context, tx lane.Tx) error {
		s, ended = Start{Tx: tx, Open: *d.open, Begun: d.exec.ID != "", d: d, exec: d.exec}, Outcome{}
		if err := choose(ctx, &s); err != nil {
			return err
		}
		switch {
		case s.poison != "":
			ended = Outcome{Outcome: reason.Outcome{Status: execution.Failed, Reason: s.poison}, Execution: s.exec, Poison: true}
			return d.giveUp(ctx, tx, &ended)
		case s.exec.ID == "" || d.Act == nil:
			ended.Execution = s.exec
			d.release(tx)
		}
		return nil
	}
	err := d.Lanes.InHold(ctx, d.holds(), write)
	if d.Fresh && d.Act != nil && errors.Is(err, db.ErrUncertain) {
		if err = d.Lanes.InHold(ctx, d.holds(), write); errors.Is(err, db.ErrUnique) {
			err = nil
		}
	}
	if err != nil && s.poison != "" && !d.endless && ownError(ctx, err) {
		d.endless = true // End fails each time: the execution ends without it
		if again := d.first(ctx, choose); again != nil {
			return errors.Join(err, again)
		}
		d.Reason.Log.WarnContext(d.job().Under(ctx), "given up without its last writes: they fail", "unit", d.Name, "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	d.exec = s.exec
	if s.poison != "" || s.exec.ID == "" || d.Act == nil {
		d.out, d.over = ended, true
	}
	return nil
}

// giveUp ends an execution that is poison.
func (d *doing) giveUp(ctx context.Context, tx lane.Tx, out *Outcome) error {
	ctx = reason.Job{Execution: out.Execution}.Under(ctx)
	if err := d.Runs.Leave(tx, out.Execution, execution.Failed, nil, "given up: "+out.Reason); err != nil {
		return err
	}
	if d.Reason.Release != nil {
		if err := d.Reason.Release(ctx, tx, out.Execution.ID); err != nil {
			return err
		}
	}
	out.Execution.Status = execution.Failed
	d.kick(tx.Later(), false)
	return d.last(ctx, tx, out)
}

// ownError reports whether err would come again: it is about what the unit found or wrote,
// not about the database's state, the hold or the time.
func ownError(ctx context.Context, err error) bool {
	for _, lasting := range []error{execution.ErrUnreadable, db.ErrNoRows, db.ErrCheck, db.ErrUnique, db.ErrReference} {
		if errors.Is(err, lasting) {
			return ctx.Err() == nil
		}
	}
	_, failed := errors.AsType[*db.OpError](err)
	return !failed && ctx.Err() == nil && !errors.Is(err, lane.ErrLost) && !errors.Is(err, db.ErrUnavailable) && !errors.Is(err, db.ErrUncertain)
}

func inHook(ctx context.Context) context.Context { return outbound.Bar(ctx) }

// InHook reports whether a context is one that Begin or End was given: nothing is logged
// under it, and nobody outside is called, which fails ([outbound.ErrBarred]).
func InHook(ctx context.Context) bool { return outbound.Barred(ctx) != nil }
