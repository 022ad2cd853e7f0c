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

// Take adds a further lane to the unit. Every later transaction proves its hold, and the last one
// releases it.
func (e *Entry) Take(h *lane.Hold) { e.d.further = append(e.d.further, h) }

// Begin stores the unit before it waits for a further lane. It calls the unit's Begin now. After
// Enter has returned, that is called again, with Start.Begun set. A second call of this method does
// nothing. The transaction first locks the rows of the lanes beside, which it does not hold.
func (e *Entry) Begin(ctx context.Context, beside ...lane.Name) error {
	if e.d.exec.ID != "" {
		return nil
	}
	e.d.beside = beside
	err := e.d.begin(ctx)
	e.d.beside = nil
	if err != nil {
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
	Open []execution.Execution // on the lane, when it was taken; at most one
	// Begun says that the unit was stored before, by [Entry.Begin].
	Begun bool

	d      *doing
	exec   execution.Execution
	fresh  bool // this transaction begins it
	poison string
}

// New begins an execution and enqueues its kick.
func (s *Start) New(ctx context.Context, e execution.Execution) error {
	if s.d.Act == nil {
		e.Cuts = -1 // the first resume of a unit that only begins does not count as a cut
	}
	if err := s.d.Runs.Start(s.Tx, e); err != nil {
		return err
	}
	if s.d.Kick.Key != "" {
		s.d.Outbox.Enqueue(ctx, s.Later(), s.kickOf(e))
	}
	e.Status = execution.Running
	s.exec, s.fresh = e, true
	return nil
}

// kickOf returns the outbox row that resumes an execution.
func (s *Start) kickOf(e execution.Execution) outbox.Row {
	row := s.d.Kick
	row.Trace, row.Execution = e.Trace, e.ID
	return row
}

const (
	// maxCuts is the number of consecutive interrupted attempts after which a unit is poison:
	// something in it ends the process.
	maxCuts = 5
	// maxParks is the number of consecutive parks without progress after which a unit is given up.
	// It is one day of half hours.
	maxParks = 48
)

// poisonOf returns why an execution must not be resumed; empty: it may. An execution may wait for a
// person any number of times.
func poisonOf(e execution.Execution) string {
	switch {
	case e.Status == execution.Running && e.Cuts+1 >= maxCuts:
		return fmt.Sprintf("it was cut off in attempt %d", e.Attempt)
	case e.Status == execution.Parked && e.Parks >= maxParks:
		return fmt.Sprintf("it was left for later %d times without progress", e.Parks)
	}
	return ""
}

// Resume resumes an execution and counts the attempt. It enqueues the kick again if that is missing
// or has ended. A poison execution is given up instead: this transaction ends it and calls the
// unit's End.
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

// Close ends an execution that has no work left, and records the reason.
func (s *Start) Close(e execution.Execution, as execution.Status, why string) error {
	result, err := json.Marshal(map[string]string{"reason": why})
	if err != nil {
		return fmt.Errorf("close execution %s: %w", e.ID, err)
	}
	return s.d.Runs.Leave(s.Tx, e, as, result, "")
}

// begin runs the first transaction, or its second part after [Entry.Begin]. If the open execution
// can't be resumed, the attempt is counted nevertheless.
func (d *doing) begin(ctx context.Context) error {
	uncounted := d.exec.ID == "" && len(*d.open) > 0
	err := d.first(ctx, func(ctx context.Context, s *Start) error { return d.Begin(inHook(ctx), s) })
	if err != nil && uncounted && ownError(ctx, err) {
		return d.count(ctx, err)
	}
	return err
}

// count resumes an execution whose unit could not be begun, so that the attempt is counted and a
// permanent failure becomes poison. It returns cause, unless the unit is over.
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

// first runs a transaction that chooses the unit's execution. If there is none, or no work for it
// now, the transaction releases the lanes. If the answer of a transaction that begins a fresh
// execution is lost, first repeats it. The proof of the hold waits for the earlier transaction. If
// that one has begun the execution, its id is taken already, and first accepts this as success,
// because nobody else has that id.
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
	err := d.Lanes.InHoldBeside(ctx, d.holds(), d.beside, write)
	if d.Fresh && d.Act != nil && errors.Is(err, db.ErrUncertain) {
		if err = d.Lanes.InHoldBeside(ctx, d.holds(), d.beside, write); errors.Is(err, db.ErrUnique) {
			err = nil
		}
	}
	if err != nil && s.poison != "" && !d.endless && ownError(ctx, err) {
		// End fails each time, so the execution ends without it.
		d.endless = true
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
	d.beginSpan(ctx, s.fresh)
	if s.poison != "" || s.exec.ID == "" || d.Act == nil {
		d.out, d.over = ended, true
	}
	return nil
}

// giveUp ends a poison execution.
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
	return d.last(ctx, tx, out, func(b *db.Batch) { d.kick(b, false) })
}

// ownError reports whether err would occur again. Such an error concerns the data that the unit
// read or wrote, and not the state of the database, the hold or the deadline.
func ownError(ctx context.Context, err error) bool {
	for _, lasting := range []error{execution.ErrUnreadable, db.ErrNoRows, db.ErrCheck, db.ErrUnique, db.ErrReference} {
		if errors.Is(err, lasting) {
			return ctx.Err() == nil
		}
	}
	_, failed := errors.AsType[*db.OpError](err)
	return !failed && ctx.Err() == nil && !errors.Is(err, lane.ErrLost) && !errors.Is(err, db.ErrUnavailable) &&
		!errors.Is(err, db.ErrUncertain)
}

func inHook(ctx context.Context) context.Context { return outbound.Bar(ctx) }

// InHook reports whether a context was passed to Begin or End. Code under such a context must not
// log or make remote calls. Remote calls fail with [outbound.ErrBarred].
func InHook(ctx context.Context) bool { return outbound.Barred(ctx) != nil }
