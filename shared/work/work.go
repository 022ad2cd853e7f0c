// Package work runs a piece of work under a lane: it takes the lane, begins or resumes an
// execution, works, and writes the end and the release in one transaction. A surface describes the
// work as a [Unit], and [Worker.Do] runs it. A process that has lost the lane writes nothing.
// Nothing is begun twice. Work that ends its process in each attempt is given up. Parked work
// continues.
package work

import (
	"context"
	"errors"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/span"
)

// Worker runs units of work. It keeps no state between them and is safe for concurrent use.
type Worker struct {
	Lanes  *lane.Store
	Runs   *execution.Store
	Reason *reason.Runner
	Outbox *outbox.Store // for units with a kick
}

// Unit is one piece of work. Hooks that are nil do nothing.
//
// Begin and End run inside a transaction. They must write through it only, and must not make remote
// calls or log: a reader of the log line could wait for the transaction. They may run and be rolled
// back, so values that they set in memory are valid only after [Worker.Do] has returned without an
// error. [InHook] recognises their context.
type Unit struct {
	// Name is the prefix of the fault points, Name.begun and Name.ending.
	Name string
	// Lane is taken first. Every transaction proves it, and Lane.Under.
	Lane lane.Request
	Wait lane.Wait
	// Fresh says that no other process can have begun the unit, because the lane has the id of an
	// execution that is created now.
	Fresh bool
	// Kick, if it has a key, is the outbox row that resumes an interrupted unit. New enqueues it.
	// It is due at once when the unit is parked, or when it fails in the Do that began it. After a
	// later failure it is due after the row's usual pause.
	Kick outbox.Row
	// Keeps says that the kick is kept while the unit waits for a person: its handler looks whether that
	// person has decided, who may do so while the unit is about to wait. Without it another row resumes
	// the unit.
	Keeps bool
	// Look adds reads that run after the acquire, in the same round trip. It is called again for
	// each attempt to acquire.
	Look func(*db.Batch)
	// Enter decides outside of a transaction, from the results of Look, whether there is work
	// ([ErrNothing] if not), and takes further lanes.
	Enter func(context.Context, *Entry) error
	// Begin chooses the work in the first transaction. If it neither begins nor resumes an
	// execution, there is no work.
	Begin func(context.Context, *Start) error
	// Act works. The job has the execution, its agent and the holds; Act adds the rest. If it is
	// nil, the unit only begins, and another Do works on it.
	Act func(context.Context, reason.Job) (reason.Outcome, error)
	// End adds the unit's own last writes to those that end the execution.
	End func(context.Context, lane.Tx, *Outcome) error
}

// Outcome is the result of a unit. Without an execution id there was no work.
type Outcome struct {
	reason.Outcome
	Execution execution.Execution
	// Poison says that the unit was given up and is not tried again.
	Poison bool
}

// ErrNothing is what Enter returns if there is no work.
var ErrNothing = errors.New("there is nothing to do")

// ParkedError is what Enter returns to park a begun execution. Its kick resumes it.
type ParkedError struct{ Why string }

func (e *ParkedError) Error() string { return e.Why }

// Do runs a unit. It returns a [*lane.BusyError], [lane.ErrLost] (nothing was written after the
// loss), errors of the hooks, and errors of the database. After an error the execution stays open
// with its attempt counted, and the lanes are released. If the context has ended, a unit with a
// kick is parked instead, which is no error. All last writes together may take 5 s after the
// context's end.
func (w *Worker) Do(ctx context.Context, u Unit) (out Outcome, err error) {
	ctx, cancel := lane.WithLastWrites(ctx)
	defer cancel()
	d := &doing{Worker: w, Unit: u}
	if d.hold, err = w.Lanes.Take(ctx, u.Lane, u.Wait, d.look); err != nil {
		return Outcome{}, err
	}
	d.taken = d.Reason.Spans.Now()
	ended := false
	defer func() { d.endSpan(ended, out, err) }()
	defer func() { err = d.leave(ctx, err) }() // also after a panic
	inner, done := lane.WithInnerDeadline(ctx)
	defer done()
	out, err = d.do(inner)
	ended = true
	return out, err
}

// doing is a unit that is running.
type doing struct {
	*Worker
	Unit
	hold    *lane.Hold
	further []*lane.Hold
	beside  []lane.Name            // whose rows the first transaction locks
	open    *[]execution.Execution // on the lane, when it was taken
	exec    execution.Execution    // begun or resumed; no ID: none
	over    bool                   // the last transaction is committed
	endless bool                   // End is skipped, because it fails for a poison execution
	out     Outcome                // valid when over
	taken   time.Time              // when the lane was taken
	span    *span.Span             // of the run, when the execution is known
}

func (d *doing) look(b *db.Batch) {
	d.open = new([]execution.Execution)
	if !d.Fresh {
		d.open = d.Runs.Unfinished(b, d.Unit.Lane.Lane)
	}
	if d.Look != nil {
		d.Look(b)
	}
}

func (d *doing) do(ctx context.Context) (Outcome, error) {
	if err := d.enter(ctx); err != nil || d.over {
		return d.out, err
	}
	if err := d.begin(ctx); err != nil || d.over {
		return d.out, err
	}
	if err := fault.Point(ctx, d.Name+".begun", d.exec.ID); err != nil {
		return Outcome{}, err
	}
	job := d.job()
	ctx = d.span.Under(job.Under(ctx))
	out, err := d.Act(ctx, job)
	if err != nil {
		if !d.parks(ctx, err) {
			return Outcome{}, err
		}
		out = parkedFor("its time was up")
	}
	if err := fault.Point(ctx, d.Name+".ending", d.exec.ID); err != nil {
		return Outcome{}, err
	}
	err = d.end(ctx, out)
	return d.out, err
}

// enter calls Enter, which decides and takes further lanes.
func (d *doing) enter(ctx context.Context) error {
	if d.Enter == nil {
		return nil
	}
	err := d.Enter(ctx, &Entry{Hold: d.hold, Open: *d.open, d: d})
	parked, is := errors.AsType[*ParkedError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNothing):
		d.over = true
		return nil
	case is && d.exec.ID != "":
		return d.end(d.job().Under(ctx), parkedFor(parked.Why))
	case d.parks(ctx, err):
		return d.end(d.job().Under(ctx), parkedFor("its time was up"))
	}
	return err
}

// parks reports whether work that err has interrupted is parked: its time has ended and its kick
// resumes it.
func (d *doing) parks(ctx context.Context, err error) bool {
	return ctx.Err() != nil && d.exec.ID != "" && d.Kick.Key != "" && !errors.Is(err, lane.ErrLost)
}

func parkedFor(why string) reason.Outcome {
	return reason.Outcome{Status: execution.Parked, Reason: why}
}

// holds returns all holds that every transaction proves.
func (d *doing) holds() lane.Holds {
	held := append(lane.Holds{d.hold}, d.further...)
	if d.Unit.Lane.Under != nil {
		held = append(held, d.Unit.Lane.Under)
	}
	return held
}

// job returns the job for Act.
func (d *doing) job() reason.Job {
	return reason.Job{Execution: d.exec, Hold: d.hold, Outer: d.holds()[1:], Agent: d.exec.Agent}
}

// end runs the last transaction: it ends the execution, updates its kick, adds the unit's own
// writes, and releases every lane.
func (d *doing) end(ctx context.Context, out reason.Outcome) error {
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	var ended Outcome
	err := d.Lanes.InHold(last, d.holds(), func(ctx context.Context, tx lane.Tx) error {
		ended = Outcome{Outcome: out, Execution: d.exec}
		if err := d.Reason.Close(ctx, tx, d.job(), out); err != nil {
			return err
		}
		halted := out.Status == execution.Parked && out.Halted // it waits for its backoff
		kept := halted || d.Keeps && out.Status == execution.Waiting
		return d.last(ctx, tx, &ended, func(b *db.Batch) {
			if !kept {
				d.kick(b, out.Status == execution.Parked)
			}
		})
	})
	if err == nil {
		d.out, d.over = ended, true
		d.out.Execution.Status = out.Status
	}
	return err
}

// kick makes the unit's kick due at once, or withdraws it.
func (d *doing) kick(b *db.Batch, goesOn bool) {
	switch {
	case d.Kick.Key == "":
	case goesOn:
		d.Outbox.DueNow(b, d.Kick.Key)
	default:
		d.Outbox.Withdraw(b, d.Kick.Key)
	}
}

// last adds the unit's own last writes, the change of its kick and the release of its lanes. Rows of the
// outbox are locked behind all others.
func (d *doing) last(ctx context.Context, tx lane.Tx, out *Outcome, kick func(*db.Batch)) error {
	if d.End != nil && !d.endless {
		if err := d.End(inHook(ctx), tx, out); err != nil {
			return err
		}
	}
	kick(tx.Later())
	d.release(tx)
	return nil
}

func (d *doing) release(tx lane.Tx) {
	for _, h := range append(lane.Holds{d.hold}, d.further...) {
		tx.Release(d.Lanes, h)
	}
}

// leave releases the lanes that no transaction of the unit has released. An execution that was
// begun here and did not end continues at once: the transaction of the release makes its kick due.
func (d *doing) leave(ctx context.Context, err error) error {
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	var goesOn func(*db.Batch)
	if d.Fresh && d.exec.ID != "" && !d.over {
		goesOn = func(b *db.Batch) { d.kick(b, true) }
	}
	left := d.Lanes.DropAll(last, append(lane.Holds{d.hold}, d.further...), goesOn)
	if left != nil && (err == nil || !errors.Is(left, lane.ErrLost)) {
		err = errors.Join(err, left)
	}
	return err
}
