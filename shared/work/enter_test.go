package work_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// second makes the unit take a further lane.
func (w *world) second(t testing.TB, u work.Unit, name lane.Name) work.Unit {
	u.Enter = func(ctx context.Context, e *work.Entry) error {
		if err := e.Begin(ctx); err != nil {
			return err
		}
		w.is(t, execution.Running, 1)
		e.Take(w.acquire(t, name))
		return e.Begin(ctx)
	}
	return u
}

// TestAFurtherLaneIsProvenAndReleased checks that it is handled like the first lane. The unit was
// stored before it took the further lane.
func TestAFurtherLaneIsProvenAndReleased(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.act = func(_ context.Context, job reason.Job) (reason.Outcome, error) {
			if len(job.Outer) != 1 || job.Outer[0].Lane != "further" {
				t.Errorf("the job is %+v", job)
			}
			return reason.Outcome{Status: execution.Completed}, nil
		}
		w.once(t, w.second(t, w.unit(), "further"))
		w.is(t, execution.Completed, 1)
		w.mustBeFree(t)

		w.id = ids()
		w.act = func(context.Context, reason.Job) (reason.Outcome, error) {
			w.force(t, "further")
			return reason.Outcome{Status: execution.Completed}, nil
		}
		if _, err := w.Do(t.Context(), w.second(t, w.unit(), "further")); !errors.Is(err, lane.ErrLost) {
			t.Errorf("with the further lane lost it is %v", err)
		}
		w.is(t, execution.Running, 1)
		w.mustBeFree(t)
	})
}

// TestWhatIsCutOffIsParked checks that a unit with a kick is parked, and all its lanes are
// released, in one transaction.
func TestWhatIsCutOffIsParked(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, kicked := range []bool{true, false} {
			w.id = ids()
			ctx, cut := context.WithCancel(t.Context())
			defer cut()
			var before db.Stats
			w.act = func(ctx context.Context, _ reason.Job) (reason.Outcome, error) {
				cut()
				before = w.DB.Stats()
				return reason.Outcome{}, ctx.Err()
			}
			u := w.second(t, w.unit(), "further")
			if !kicked {
				u.Kick = outbox.Row{}
			}
			out, err := w.Do(ctx, u)
			got := w.DB.Stats().Sub(before)
			w.mustBeFree(t)
			if !kicked {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("without a kick it is %+v, %v", out, err)
				}
				w.is(t, execution.Running, 1)
				continue
			}
			if err != nil || out.Status != execution.Parked || out.Reason != "its time was up" || got.RoundTrips != 1 {
				t.Errorf("it is %+v, %v, and takes %+v", out, err, got)
			}
			w.is(t, execution.Parked, 1)
			w.kicks(t, outbox.Ready, true)
		}
	})
}

// TestAUnitMayBeLeftBeforeItHasItsLanes checks that a stored unit is then parked.
func TestAUnitMayBeLeftBeforeItHasItsLanes(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		late := &work.ParkedError{Why: "others come first"}
		u := w.unit()
		u.Enter = func(context.Context, *work.Entry) error { return late }
		if _, err := w.Do(t.Context(), u); !errors.Is(err, late) {
			t.Errorf("not written down it is %v", err)
		}
		w.mustBeFree(t)
		u.Enter = func(ctx context.Context, e *work.Entry) error {
			if err := e.Begin(ctx); err != nil {
				return err
			}
			return late
		}
		if out := w.once(t, u); out.Status != execution.Parked || out.Reason != late.Why || w.acted != 0 {
			t.Errorf("it is %+v", out)
		}
		w.is(t, execution.Parked, 1)
		w.kicks(t, outbox.Ready, true)
		w.mustBeFree(t)
	})
}

// TestAUnitMayOnlyBegin checks that another Do works on what it has begun.
func TestAUnitMayOnlyBegin(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		u := w.unit()
		u.Act, u.Kick.Delay = nil, 0
		if out := w.once(t, u); out.Execution.ID != w.id || len(w.ends) != 0 {
			t.Errorf("it is %+v", out)
		}
		w.is(t, execution.Running, 1)
		w.kicks(t, outbox.Ready, true)
		w.mustBeFree(t)
	})
}

// TestNothingOfAHookThatFailsIsWritten checks also that the execution stays open.
func TestNothingOfAHookThatFailsIsWritten(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.act = does(execution.Completed, nil)
		u := w.unit()
		end := u.End
		u.End = func(ctx context.Context, tx lane.Tx, out *work.Outcome) error {
			return errors.Join(end(ctx, tx, out), errDied)
		}
		if out, err := w.Do(t.Context(), u); !errors.Is(err, errDied) || out.Execution.ID != "" {
			t.Errorf("it is %+v, %v", out, err)
		}
		w.is(t, execution.Running, 1)
		if w.logged(t) != 0 {
			t.Error("End is written")
		}
		w.mustBeFree(t)
	})
}
