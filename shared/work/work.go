// Package work is how anything is done under a lane: take it, begin or resume an
// execution, work, and write the end and the release in one transaction. A surface
// describes a piece of work as a [Unit]; [Worker.Do] takes it through its life. Whoever
// has lost a lane writes nothing, nothing is begun twice, what ends its process each time
// is given up, and what is parked goes on.
package work

import (
	"context"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
)

// Worker does units of work. It keeps nothing between them and does several at once.
type Worker struct {
	Lanes  *lane.Store
	Runs   *execution.Store
	Reason *reason.Runner
	Outbox *outbox.Store // of units with a kick
}

// Unit is one piece of work. Hooks that are nil do nothing.
//
// Begin and End run inside a transaction: they write through it alone, call nobody outside,
// and do not log, since whoever reads such a line would wait for the transaction. They may
// run and be rolled back: what they set in memory holds only once [Worker.Do] has answered
// without an error. [InHook] tells their context.
type Unit struct {
	// Name is the prefix of the fault points, Name.begun and Name.ending.
	Name string
	// Lane is taken first. Every transaction proves it, and Lane.Under.
	Lane lane.Request
	Wait lane.Wait
	// Fresh says that nobody can have begun it before: the lane bears the id of an
	// execution that is made now.
	Fresh bool
	// Kick, where it has a key, is the row of the outbox by which the unit goes on when
	// it is cut off. New adds it; it is due at once when the unit is parked, or fails in
	// the Do that began it. One that fails later goes by the row's own pauses.
	Kick outbox.Row
	// Look adds reads that run behind the acquire, in its round trip. It is called anew
	// at each try to acquire.
	Look func(*db.Batch)
	// Enter decides outside of a transaction, by what Look has brought, whether there is
	// anything to do ([ErrNothing]), and takes further lanes.
	Enter func(context.Context, *Entry) error
	// Begin chooses what to do, in the first transaction. Where it begins and resumes
	// nothing, there is nothing to do.
	Begin func(context.Context, *Start) error
	// Act works. The job has the execution, its agent and the holds; Act adds the rest.
	// nil: the unit only begins, and is worked on later.
	Act func(context.Context, reason.Job) (reason.Outcome, error)
	// End adds the unit's own last writes to those that end the execution.
	End func(context.Context, lane.Tx, *Outcome) error
}

// Outcome is how a unit ended. Without an id of the execution there was nothing to do.
type Outcome struct {
	reason.Outcome
	Execution execution.Execution
	// Poison says that it was given up, and not tried again.
	Poison bool
}

// ErrNothing is what Enter returns when there is nothing to do.
var ErrNothing = errors.New("there is nothing to do")

// ParkedError is what Enter returns to leave an execution that was begun to its kick.
type ParkedError struct{ Why string }

func (e *ParkedError) Error() string { return e.Why }

// Do takes a unit through its life. Its errors are a [*lane.BusyError], [lane.ErrLost]
// after which nothing was written, what the hooks return, and failures of the database.
// After an error the execution is as it was, open, with its attempt counted, and the lanes
// are released. Where the context has ended, a unit with a kick is
// parked instead, which is no error. All last writes together have 5 s beyond the
// context.
func (w *Worker) Do(ctx context.Context, u Unit) (out Outcome, err error) {
	ctx, cancel := lane.WithLastWrites(ctx)
	defer cancel()
	d := &doing{Worker: w, Unit: u}
	if d.hold, err = w.Lanes.Take(ctx, u.Lane, u.Wait, d.look); err != nil {
		return Outcome{}, err
	}
	defer func() { err = d.leave(ctx, err) }() // also after a panic
	inner, done := lane.WithInnerDeadline(ctx)
	defer done()
	return d.do(inner)
}

// doing is a unit on its way.
type doing struct {
	*Worker
	Unit
	hold    *lane.Hold
	further []*lane.Hold
	open    *[]execution.Execution // on the lane, when it was taken
	exec    execution.Execution    // that was begun or resumed; no ID: none was
	over    bool                   // the last transaction is done
	endless bool                   // End is left out, because it fails for poison
	out     Outcome                // where it is over
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
	ctx = job.Under(ctx)
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
	return d.out, d.end(ctx, out)
}

// enter has the unit decide and take its further lanes.
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

// parks reports whether what err has interrupted is parked: its time is up, and it goes on
// by itself.
func (d *doing) parks(ctx context.Context, err error) bool {
	return ctx.Err() != nil && d.exec.ID != "" && d.Kick.Key != "" && !errors.Is(err, lane.ErrLost)
}

func parkedFor(why string) reason.Outcome {
	return reason.Outcome{Status: execution.Parked, Reason: why}
}

// holds are all that every transaction proves.
func (d *doing) holds() lane.Holds {
	held := append(lane.Holds{d.hold}, d.further...)
	if d.Unit.Lane.Under != nil {
		held = append(held, d.Unit.Lane.Under)
	}
	return held
}

// job is what Act works on.
func (d *doing) job() reason.Job {
	return reason.Job{Execution: d.exec, Hold: d.hold, Outer: d.holds()[1:], Agent: d.exec.Agent}
}

// end is the last transaction: the execution's end, its kick, the unit's own writes, and
// the release of every lane.
func (d *doing) end(ctx context.Context, out reason.Outcome) error {
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	var ended Outcome
	err := d.Lanes.InHold(last, d.holds(), func(ctx context.Context, tx lane.Tx) error {
		ended = Outcome{Outcome: out, Execution: d.exec}
		if err := d.Reason.Close(ctx, tx, d.job(), out); err != nil {
			return err
		}
		if out.Status != execution.Parked || !out.Halted { // what is halted waits for its backoff
			d.kick(tx.Later(), out.Status == execution.Parked)
		}
		return d.last(ctx, tx, &ended)
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

// last adds the unit's own last writes, and the release of its lanes.
func (d *doing) last(ctx context.Context, tx lane.Tx, out *Outcome) error {
	if d.End != nil && !d.endless {
		if err := d.End(inHook(ctx), tx, out); err != nil {
			return err
		}
	}
	d.release(tx)
	return nil
}

func (d *doing) release(tx lane.Tx) {
	for _, h := range append(lane.Holds{d.hold}, d.further...) {
		tx.Release(d.Lanes, h)
	}
}

// leave releases what no transaction of the unit has released. What was begun here and did
// not end goes on at once: its kick is due in the transaction of the release.
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
