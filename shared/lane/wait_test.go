package lane_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// TestAWaiterIsRefusedInTimeWhileTheHolderWorksUnderItsProof: the holder works in a transaction
// under its proof. No waiter waits longer than its limit, and no waiter reports a broken database.
func TestAWaiterIsRefusedInTimeWhileTheHolderWorksUnderItsProof(t *testing.T) {
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnPgBouncer} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, dbtest.New(t, engine))
			h := acquire(t, w.s, w.request("x"))
			err := w.s.InHold(t.Context(), h, func(ctx context.Context, tx lane.Tx) error {
				if err := tx.One(ctx, []any{new(int64), new(string)}, w.q.Get, "x"); err != nil { // the proof is sent
					return err
				}
				err := w.s.Do(t.Context(), w.request("x"), lane.Wait{Limit: 100 * time.Millisecond}, mustNotRun(t))
				busy, is := errors.AsType[*lane.BusyError](err)
				if !is {
					return fmt.Errorf("the waiter got %w", err)
				}
				patient, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if err := w.s.Want(patient, w.Workspace, busy.Info, "b"); err != nil { // it skips the row
					t.Errorf("who wants the lane waits: %v", err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAHoldTakenLateLivesItsWholeTime: a lane uses the clock of the statement, not of the
// transaction. A hold that is acquired late in a long transaction lives for its full TTL.
func TestAHoldTakenLateLivesItsWholeTime(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var q struct{ Now, SetFence db.Query }
		dbtest.Load(t, "testdata/clock", &q)
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			var begun, now time.Time
			if err := tx.One(ctx, []any{&begun}, q.Now); err != nil {
				return err
			}
			for tries := 0; !now.After(begun); tries++ {
				if err := tx.One(ctx, []any{&now}, q.Now); err != nil || tries == 10_000 {
					t.Errorf("the clock stands still at %s: %v", now, err)
					return err
				}
			}
			ticket, err := w.s.Ask(ctx, tx.Later(), w.request("x"))
			if err == nil {
				err = tx.Flush(ctx)
			}
			if err != nil {
				return err
			}
			h, err := w.s.Answer(ctx, ticket)
			if err == nil && h.Until().Before(now.Add(10*time.Minute)) {
				t.Errorf("taken after %s for 10 minutes, it ends at %s", now, h.Until())
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestAFenceIsNeverBelowTheClock: after a restore a row may have an older fence than one that was
// used since. The next fence is at least the clock.
func TestAFenceIsNeverBelowTheClock(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var q struct{ Now, SetFence db.Query }
		dbtest.Load(t, "testdata/clock", &q)
		used := acquire(t, w.s, w.request("x"))
		w.release(t, used)
		if _, err := w.DB.Exec(t.Context(), w.Workspace, q.SetFence, "x", 7); err != nil {
			t.Fatal(err)
		}
		var now time.Time
		if err := w.DB.One(t.Context(), w.Workspace, []any{&now}, q.Now); err != nil {
			t.Fatal(err)
		}
		if h := acquire(t, w.s, w.request("x")); h.Fence < now.UnixMilli() || h.Fence < used.Fence {
			t.Errorf("the fence is %d, after %d and at %d", h.Fence, used.Fence, now.UnixMilli())
		}
	})
}

// TestAHoldThatIsOverTakesNoFurtherLane: Request.Under with a hold that is over acquires nothing.
func TestAHoldThatIsOverTakesNoFurtherLane(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		r := w.request("y")
		r.Under = acquire(t, w.s, w.request("x"))
		w.force(t, "x")
		if h, err := w.s.Acquire(t.Context(), r); !errors.Is(err, lane.ErrLost) {
			t.Errorf("got %+v, %v", h, err)
		}
		w.mustBeFree(t, "x", "y")
	})
}
