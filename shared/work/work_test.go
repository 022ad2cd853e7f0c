package work_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

var errDied = errors.New("the process died")

// TestAUnitIsBegunAndEnded checks that the kick waits while the unit runs, and that one transaction
// writes the end, the unit's own last writes and the release.
func TestAUnitIsBegunAndEnded(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var before db.Stats
		w.act = func(_ context.Context, job reason.Job) (reason.Outcome, error) {
			w.is(t, execution.Running, 1)
			w.kicks(t, outbox.Ready, false)
			if row, _ := w.row(t); row.Execution != w.id || row.Trace != job.Execution.Trace || job.Hold.Lane != w.lane() || len(job.Outer) != 0 {
				t.Errorf("the row is %+v, the job %+v", row, job)
			}
			before = w.DB.Stats()
			return reason.Outcome{Status: execution.Completed, Answer: "42"}, nil
		}
		out := w.once(t, w.unit())
		if got := w.DB.Stats().Sub(before); got != (db.Stats{Statements: 5, RoundTrips: 1}) { // proof, end, kick, End, release
			t.Errorf("the end takes %+v", got)
		}
		if out.Answer != "42" || out.Execution.ID != w.id || out.Execution.Status != execution.Completed || out.Poison {
			t.Errorf("it answers %+v", out)
		}
		w.is(t, execution.Completed, 1)
		w.kicks(t, outbox.Superseded, false)
		if w.logged(t) != 1 || len(w.ends) != 1 {
			t.Errorf("it ended %d times", len(w.ends))
		}
		w.mustBeFree(t)
	})
}

// TestWithNothingToDoItCostsTwoRoundTrips checks this for Enter and for Begin.
func TestWithNothingToDoItCostsTwoRoundTrips(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		entered, begun := w.unit(), w.unit()
		entered.Enter = func(context.Context, *work.Entry) error { return work.ErrNothing }
		begun.Begin = func(context.Context, *work.Start) error { return nil }
		for name, u := range map[string]work.Unit{"Enter": entered, "Begin": begun} {
			before := w.DB.Stats()
			out := w.once(t, u)
			if got := w.DB.Stats().Sub(before); got.RoundTrips != 2 || out.Execution.ID != "" || w.acted+len(w.ends) != 0 {
				t.Errorf("%s: it takes %+v and answers %+v", name, got, out)
			}
			w.mustBeFree(t)
		}
	})
}

// TestABusyLaneIsLeftAlone checks that nothing is written.
func TestABusyLaneIsLeftAlone(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := w.acquire(t, w.lane())
		_, err := w.Do(t.Context(), w.unit())
		if busy, is := errors.AsType[*lane.BusyError](err); !is || busy.Holder != "another" || w.acted != 0 {
			t.Errorf("it is %v", err)
		}
		if err := w.Lanes.Release(t.Context(), h); err != nil {
			t.Error(err)
		}
	})
}

// TestPoisonIsGivenUp covers a unit that ends its process each time. It is tried five times. One
// transaction gives it up and calls End.
func TestPoisonIsGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.act = does("", errDied)
		for n := range 5 {
			if _, err := w.Do(t.Context(), w.unit()); !errors.Is(err, errDied) {
				t.Fatalf("try %d: %v", n, err)
			}
			w.is(t, execution.Running, n+1)
			w.mustBeFree(t)
		}
		out := w.once(t, w.unit())
		if !out.Poison || out.Status != execution.Failed || out.Reason != "it was cut off in attempt 5" || w.acted != 5 || len(w.ends) != 1 {
			t.Errorf("after %d tries it is %+v", w.acted, out)
		}
		w.is(t, execution.Failed, 5)
		if e := w.stored(t); e.Error != "given up: it was cut off in attempt 5" {
			t.Errorf("it says %q", e.Error)
		}
		w.kicks(t, outbox.Superseded, false)
		if w.logged(t) != 1 {
			t.Error("End is not written")
		}
		w.mustBeFree(t)
	})
}

// TestWhatIsParkedGoesOnAtOnce checks also that a unit parked 48 times is given up.
func TestWhatIsParkedGoesOnAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.act = does(execution.Parked, nil)
		for n := range 48 {
			if out := w.once(t, w.unit()); out.Status != execution.Parked || out.Poison {
				t.Fatalf("%d: it is %+v", n, out)
			}
			if n == 0 {
				w.is(t, execution.Parked, 1)
				w.kicks(t, outbox.Ready, true)
				w.mustBeFree(t)
			}
		}
		if out := w.once(t, w.unit()); !out.Poison || out.Reason != "it was left for later 48 times without progress" || w.acted != 48 {
			t.Errorf("after %d tries it is %+v", w.acted, out)
		}
		w.is(t, execution.Failed, 48)
	})
}

// TestWhatIsHaltedWaitsForItsKick checks that it is not due at once, because the next run would end
// the same way.
func TestWhatIsHaltedWaitsForItsKick(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.act = func(context.Context, reason.Job) (reason.Outcome, error) {
			return reason.Outcome{Status: execution.Parked, Reason: "the budget is used up", Halted: true}, nil
		}
		w.once(t, w.unit())
		w.is(t, execution.Parked, 1)
		w.kicks(t, outbox.Ready, false)
		w.mustBeFree(t)
	})
}

// TestToWaitForAPersonIsNoAttempt checks this for many waits.
func TestToWaitForAPersonIsNoAttempt(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.act = does(execution.Waiting, nil)
		for range 50 {
			w.once(t, w.unit())
		}
		w.is(t, execution.Waiting, 1)
		w.act = does("", errDied)
		for range 4 {
			_, _ = w.Do(t.Context(), w.unit())
		}
		w.is(t, execution.Running, 4)
		w.act = does(execution.Completed, nil)
		if out := w.once(t, w.unit()); out.Poison {
			t.Errorf("it is %+v", out)
		}
		w.is(t, execution.Completed, 5)
	})
}

// TestWhatCannotBeBegunIsCounted checks that such a unit becomes poison. A failure of the database
// is not counted.
func TestWhatCannotBeBegunIsCounted(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.act = does("", errDied)
		_, _ = w.Do(t.Context(), w.unit())
		u := w.unit()
		odd := errors.New("of the future")
		for _, lasting := range []error{&db.OpError{Query: "x", Err: db.ErrCheck}, db.ErrNoRows} {
			if !work.OwnError(t.Context(), lasting) {
				t.Errorf("%v is not counted", lasting)
			}
		}
		for _, not := range []error{db.ErrUnavailable, db.ErrUncertain, &db.OpError{Query: "x", Err: errors.New("odd")}, lane.ErrLost} {
			u.Begin = func(context.Context, *work.Start) error { return not }
			if _, err := w.Do(t.Context(), u); !errors.Is(err, not) {
				t.Errorf("%v: it is %v", not, err)
			}
		}
		w.is(t, execution.Running, 1)
		u.Begin = func(ctx context.Context, s *work.Start) error {
			var v struct{ Task int }
			return errors.Join(s.Open[0].Asked(&v), odd)
		}
		for n := range 4 {
			if n == 2 { // the other attempts begin while waiting for a further lane
				u.Enter = func(ctx context.Context, e *work.Entry) error { return e.Begin(ctx) }
			}
			if _, err := w.Do(t.Context(), u); !errors.Is(err, odd) {
				t.Errorf("it is %v", err)
			}
			w.is(t, execution.Running, n+2)
			w.mustBeFree(t)
		}
		out := w.once(t, u)
		if !out.Poison || out.Reason != "it was cut off in attempt 5" || len(w.ends) != 1 {
			t.Errorf("it is %+v", out)
		}
		w.is(t, execution.Failed, 5)
		w.mustBeFree(t)
	})
}

// TestWhatWasTakenUpAlreadyIsCountedOnce checks that a failure after [work.Entry.Begin] counts no
// further attempt.
func TestWhatWasTakenUpAlreadyIsCountedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.act = does("", errDied)
		_, _ = w.Do(t.Context(), w.unit())
		u := w.second(t, w.unit(), "further")
		u.Enter = func(ctx context.Context, e *work.Entry) error { return e.Begin(ctx) }
		begin := u.Begin
		u.Begin = func(ctx context.Context, s *work.Start) error {
			if s.Begun {
				return errDied
			}
			return begin(ctx, s)
		}
		if _, err := w.Do(t.Context(), u); !errors.Is(err, errDied) {
			t.Errorf("it is %v", err)
		}
		w.is(t, execution.Running, 2)
		w.mustBeFree(t)
	})
}

// TestTheKickIsThereAgain checks that a resume restores a kick in any ended state. A kick that
// waits or is being handled stays unchanged.
func TestTheKickIsThereAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.act = does("", errDied)
		_, _ = w.Do(t.Context(), w.unit())
		first, _ := w.row(t)
		for n, status := range []outbox.Status{outbox.Superseded, outbox.Failed, outbox.Uncertain} {
			w.becomes(t, status)
			_, _ = w.Do(t.Context(), w.unit())
			row, due := w.row(t)
			if row.Status != outbox.Ready || due || row.ID != first.ID || row.Attempts != 0 || row.Execution != w.id {
				t.Errorf("%d: once %s it is %+v, due %v", n, status, row, due)
			}
		}
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Forget); err != nil {
			t.Fatal(err)
		}
		claimed := func() []outbox.Claimed {
			var b db.Batch
			w.Outbox.DueNow(&b, w.kick())
			err := w.DB.Do(t.Context(), w.Workspace, &b)
			got, bad := w.Outbox.Claim(t.Context(), outbox.Request{Workspace: w.Workspace, Topics: []string{"test"}, Holder: "test", Limit: 1, Lease: time.Minute})
			if err := errors.Join(err, bad); err != nil {
				t.Fatal(err)
			}
			return got
		}
		w.act = does(execution.Completed, nil)
		u := w.unit()
		act := u.Act
		u.Act = func(ctx context.Context, job reason.Job) (reason.Outcome, error) {
			row, due := w.row(t)
			if row.ID == first.ID || row.Status != outbox.Ready || due || row.Execution != w.id || row.Trace == "" {
				t.Errorf("lost, it is %+v, due %v", row, due)
			}
			if got := claimed(); len(got) != 1 {
				t.Errorf("claimed are %+v", got)
			}
			return reason.Outcome{}, errDied
		}
		_, _ = w.Do(t.Context(), u)
		w.is(t, execution.Running, 5)
		u.Act = act
		w.once(t, w.unit())
		if row, _ := w.row(t); row.Status != outbox.Sending || row.Attempts != 1 {
			t.Errorf("while it is handled it is %+v", row)
		}
	})
}

// TestPoisonEndsThoughItsLastWritesFail checks that a permanent failure does not keep a lane busy
// for ever.
func TestPoisonEndsThoughItsLastWritesFail(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.act = does("", errDied)
		for range 5 {
			_, _ = w.Do(t.Context(), w.unit())
		}
		u := w.unit()
		u.End = func(context.Context, lane.Tx, *work.Outcome) error { return errors.New("not pending any more") }
		if out := w.once(t, u); !out.Poison {
			t.Errorf("it is %+v", out)
		}
		w.is(t, execution.Failed, 5)
		w.mustBeFree(t)
	})
}

// TestALostLaneWritesNothing checks also that begun work continues at once.
func TestALostLaneWritesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.act = func(context.Context, reason.Job) (reason.Outcome, error) {
			w.force(t, w.lane())
			return reason.Outcome{Status: execution.Completed}, nil
		}
		u := w.unit()
		u.Fresh = true
		if out, err := w.Do(t.Context(), u); !errors.Is(err, lane.ErrLost) || out.Execution.ID != "" {
			t.Errorf("it is %+v, %v", out, err)
		}
		w.is(t, execution.Running, 1)
		w.kicks(t, outbox.Ready, true)
		if w.logged(t) != 0 {
			t.Error("End is written")
		}
	})
}

// TestALostOuterLaneWritesNothing checks that the enclosing hold of a unit is proven too.
func TestALostOuterLaneWritesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		u := w.unit()
		u.Lane.Under = w.acquire(t, "outer")
		w.act = func(context.Context, reason.Job) (reason.Outcome, error) {
			w.force(t, "outer")
			return reason.Outcome{Status: execution.Completed}, nil
		}
		if _, err := w.Do(t.Context(), u); !errors.Is(err, lane.ErrLost) {
			t.Errorf("it is %v", err)
		}
		w.is(t, execution.Running, 1)
		w.mustBeFree(t)
	})
}

// TestWhatFailsGoesOnAtOnce checks that the release makes the kick due, if the unit was begun here.
func TestWhatFailsGoesOnAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var before db.Stats
		w.act = func(context.Context, reason.Job) (reason.Outcome, error) {
			before = w.DB.Stats()
			return reason.Outcome{}, errDied
		}
		u := w.unit()
		u.Fresh = true
		if _, err := w.Do(t.Context(), u); !errors.Is(err, errDied) {
			t.Errorf("it is %v", err)
		}
		if got := w.DB.Stats().Sub(before); got != (db.Stats{Statements: 2, RoundTrips: 1}) {
			t.Errorf("to leave takes %+v", got)
		}
		w.kicks(t, outbox.Ready, true)
		w.mustBeFree(t)
	})
}

// TestAPanicReleases checks that a panic releases all lanes.
func TestAPanicReleases(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.act = func(context.Context, reason.Job) (reason.Outcome, error) { panic("odd") }
		func() {
			defer func() { _ = recover() }()
			_, _ = w.Do(t.Context(), w.unit())
		}()
		w.is(t, execution.Running, 1)
		w.mustBeFree(t)
	})
}
