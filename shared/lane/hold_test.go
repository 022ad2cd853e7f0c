package lane_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

func TestRenewExtendsAHold(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		w.Skew.Advance(9 * time.Minute)
		before := h.Until()
		if err := w.s.Renew(t.Context(), h, 20*time.Minute); err != nil {
			t.Fatal(err)
		}
		if i := w.peek(t, "x"); !i.ExpiresAt.Equal(h.Until()) || i.Fence != h.Fence || i.TTL != 20*time.Minute {
			t.Errorf("the hold ends at %v, the row says %+v", h.Until(), i)
		}
		if !about(h.Until().Sub(before), 19*time.Minute) {
			t.Errorf("from %v to %v", before, h.Until())
		}
		w.Skew.Advance(19 * time.Minute)
		refused(t, w.s, w.request("x"))
	})
}

func TestRenewRefusesAnAbsurdTTL(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		before := w.peek(t, "x").ExpiresAt
		for _, ttl := range []time.Duration{-time.Second, 0, 1, lane.MaxTTL + 1} {
			if err := w.s.Renew(t.Context(), h, ttl); !errors.Is(err, lane.ErrTTL) {
				t.Errorf("renew for %v: %v", ttl, err)
			}
		}
		if after := w.peek(t, "x").ExpiresAt; !after.Equal(before) {
			t.Errorf("the end moved from %v to %v", before, after)
		}
	})
}

func TestReleaseFreesALaneAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.release(t, acquire(t, w.s, w.request("x")))
		w.mustBeFree(t, "x")
		if i := w.peek(t, "x"); !about(i.ExpiresAt.Sub(i.LockedAt), 0) {
			t.Errorf("it ended at its release, and the row says %+v", i)
		}
		acquire(t, w.s, w.request("x"))
	})
}

// ends are the ways in which a hold ends.
var ends = map[string]func(*testing.T, world, *lane.Hold){
	"expired":         func(_ *testing.T, w world, _ *lane.Hold) { w.Skew.Advance(11 * time.Minute) },
	"released":        func(t *testing.T, w world, h *lane.Hold) { w.release(t, h) },
	"forced out":      func(t *testing.T, w world, h *lane.Hold) { w.force(t, h.Lane) },
	"never there":     func(_ *testing.T, _ world, h *lane.Hold) { h.Token = "6ba7b810-9dad-11d1-80b4-00c04fd430c8" },
	"no token at all": func(_ *testing.T, _ world, h *lane.Hold) { h.Token = "secret" },
	"expired and taken": func(t *testing.T, w world, _ *lane.Hold) {
		w.Skew.Advance(11 * time.Minute)
		acquire(t, w.s, w.request("x"))
	},
	"released and taken": func(t *testing.T, w world, h *lane.Hold) {
		w.release(t, h)
		acquire(t, w.s, w.request("x"))
	},
	"forced out and taken": func(t *testing.T, w world, h *lane.Hold) {
		w.force(t, h.Lane)
		acquire(t, w.s, w.request("x"))
	},
}

func TestAHoldThatIsOverIsReportedAsLostAndChangesNothing(t *testing.T) {
	errOther := errors.New("other")
	uses := map[string]func(context.Context, world, *lane.Hold) error{
		"renew":   func(ctx context.Context, w world, h *lane.Hold) error { return w.s.Renew(ctx, h, time.Hour) },
		"ensure":  func(ctx context.Context, w world, h *lane.Hold) error { return w.s.Ensure(ctx, h, time.Hour) },
		"release": func(ctx context.Context, w world, h *lane.Hold) error { return w.s.Release(ctx, h) },
		"proof":   func(ctx context.Context, w world, h *lane.Hold) error { return w.s.InHold(ctx, h, nothing) },
		"write that travels with COMMIT": func(ctx context.Context, w world, h *lane.Hold) error {
			return w.s.InHold(ctx, h, func(_ context.Context, tx lane.Tx) error {
				w.put(tx, h, "stale")
				return nil
			})
		},
		"write that is awaited": func(ctx context.Context, w world, h *lane.Hold) error {
			return w.s.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
				_, err := tx.Exec(ctx, w.q.Put, register, h.Fence, "stale")
				return err
			})
		},
		"write that takes no notice of the error": func(ctx context.Context, w world, h *lane.Hold) error {
			return w.s.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
				for range 2 {
					_, _ = tx.Exec(ctx, w.q.Put, register, h.Fence, "stale")
				}
				return nil
			})
		},
		"write that calls the error by another name": func(ctx context.Context, w world, h *lane.Hold) error {
			return w.s.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
				if _, err := tx.Exec(ctx, w.q.Put, register, h.Fence, "stale"); err != nil {
					return errOther
				}
				return nil
			})
		},
		"read whose emptiness has a meaning": func(ctx context.Context, w world, h *lane.Hold) error {
			return w.s.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
				err := tx.One(ctx, []any{new(int64), new(string)}, w.q.Get, "nothing there")
				if errors.Is(err, db.ErrNoRows) {
					return errOther
				}
				return err
			})
		},
		"walk over rows": func(ctx context.Context, w world, h *lane.Hold) error {
			return w.s.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
				return tx.Each(ctx, func(db.Scan) error { return errOther }, w.q.Get, register)
			})
		},
		"release in a transaction": func(ctx context.Context, w world, h *lane.Hold) error {
			return w.s.InHold(ctx, h, func(_ context.Context, tx lane.Tx) error {
				w.put(tx, h, "stale")
				tx.Release(w.s, h)
				return nil
			})
		},
	}
	onEach(t, func(t *testing.T, w world) {
		for end, over := range ends {
			for use, try := range uses {
				w.Workspace = dbtest.NewWorkspace(t, w.DB)
				h := acquire(t, w.s, w.request("x"))
				over(t, w, h)
				before, until := w.peek(t, "x"), h.Until()
				if err := try(t.Context(), w, h); !errors.Is(err, lane.ErrLost) || !strings.Contains(err.Error(), "lane x") {
					t.Errorf("%s, %s: got %v", end, use, err)
				}
				after := w.peek(t, "x")
				before.Age, before.Remaining, after.Age, after.Remaining = 0, 0, 0, 0
				if before != after {
					t.Errorf("%s, %s: from %+v\nto %+v", end, use, before, after)
				}
				if v := w.value(t); v != "" {
					t.Errorf("%s, %s: %s", end, use, v)
				}
				if !h.Until().Equal(until) {
					t.Errorf("%s, %s: the hold believes to end at %v instead of %v", end, use, h.Until(), until)
				}
			}
		}
	})
}

func TestInHoldProvesRenewsAndWrites(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		w.Skew.Advance(9 * time.Minute)
		err := w.s.InHold(t.Context(), h, func(_ context.Context, tx lane.Tx) error {
			w.put(tx, h, "written")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if i := w.peek(t, "x"); w.value(t) != "written" || !about(i.Remaining, 10*time.Minute) || !i.ExpiresAt.Equal(h.Until()) {
			t.Errorf("value %q, row %+v, hold until %v", w.value(t), i, h.Until())
		}
	})
}

func TestAnErrorInsideUndoesTheWriteAndTheRenewal(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		until := h.Until()
		w.Skew.Advance(time.Minute)
		sorry := errors.New("sorry")
		err := w.s.InHold(t.Context(), h, func(ctx context.Context, tx lane.Tx) error {
			if _, err := tx.Exec(ctx, w.q.Put, register, h.Fence, "undone"); err != nil {
				return err
			}
			return sorry
		})
		if !errors.Is(err, sorry) {
			t.Errorf("got %v", err)
		}
		if i := w.peek(t, "x"); w.value(t) != "" || !i.ExpiresAt.Equal(until) || !h.Until().Equal(until) {
			t.Errorf("value %q, row until %v, hold until %v, want %v", w.value(t), i.ExpiresAt, h.Until(), until)
		}
	})
}

func TestAnErrorOfTheWorkItselfIsNotALostHold(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		for what, try := range map[string]struct {
			work func(context.Context, lane.Tx) error
			want error
		}{
			"a row that is not there": {func(ctx context.Context, tx lane.Tx) error {
				return tx.One(ctx, []any{new(int64), new(string)}, w.q.Get, "nothing there")
			}, db.ErrNoRows},
			"a value the database refuses": {func(_ context.Context, tx lane.Tx) error {
				tx.Later().Exec(w.q.Put, register, h.Fence, "")
				return nil
			}, db.ErrCheck},
		} {
			if err := w.s.InHold(t.Context(), h, try.work); !errors.Is(err, try.want) || errors.Is(err, lane.ErrLost) {
				t.Errorf("%s: %v", what, err)
			}
		}
		w.release(t, h)
	})
}

func TestAPanicInsideUndoesTheWrite(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = w.s.InHold(t.Context(), h, func(ctx context.Context, tx lane.Tx) error {
				_, _ = tx.Exec(ctx, w.q.Put, register, h.Fence, "undone")
				panic("oh")
			})
		}()
		if v := w.value(t); v != "" {
			t.Error(v)
		}
		if err := w.s.InHold(t.Context(), h, nothing); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestATransactionProvesItsLanesAndNoOther(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a, b := acquire(t, w.s, w.request("a")), acquire(t, w.s, w.request("b"))
		err := w.s.InHold(t.Context(), lane.Holds{b, a}, func(_ context.Context, tx lane.Tx) error {
			if err := errors.Join(tx.Proves("a"), tx.Proves("b")); err != nil {
				t.Error(err)
			}
			if err := tx.Proves("c"); !errors.Is(err, lane.ErrNotProven) || !strings.Contains(err.Error(), "c") {
				t.Errorf("c: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if err := w.s.InHold(t.Context(), lane.Holds{}, nothing); err == nil {
			t.Error("no hold at all was accepted")
		}
	})
	if err := (lane.Tx{}).Proves("a"); !errors.Is(err, lane.ErrNotProven) {
		t.Errorf("a transaction made by hand: %v", err)
	}
}

func TestOneLostHoldOfSeveralUndoesAllAndIsNamed(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, lost := range []lane.Name{"a", "b", "c"} {
			var holds lane.Holds
			for _, name := range []lane.Name{"c", "a", "b"} {
				h := acquire(t, w.s, w.request(name))
				holds = append(holds, h)
			}
			w.force(t, lost)
			err := w.s.InHold(t.Context(), holds, func(_ context.Context, tx lane.Tx) error {
				w.put(tx, holds[0], "undone")
				return nil
			})
			if !errors.Is(err, lane.ErrLost) || !strings.Contains(err.Error(), "lane "+string(lost)) {
				t.Errorf("lost %s: %v", lost, err)
			}
			if v := w.value(t); v != "" {
				t.Error(v)
			}
			for _, h := range holds {
				if h.Lane != lost {
					w.release(t, h)
				}
			}
		}
	})
}

func TestHoldsInAnyOrderAreProvenWithoutDeadlock(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		holds := lane.Holds{acquire(t, w.s, w.request("a")), acquire(t, w.s, w.request("b")), acquire(t, w.s, w.request("c"))}
		done := make(chan error)
		for i := range 6 {
			mine := slices.Concat(holds[i%3:], holds[:i%3])
			go func() {
				var errs []error
				for range 20 {
					errs = append(errs, w.s.InHold(context.Background(), mine, func(_ context.Context, tx lane.Tx) error {
						w.put(tx, mine[0], "x")
						return nil
					}))
				}
				done <- errors.Join(errs...)
			}()
		}
		for range 6 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAReleaseJoinsTheLastWrite(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		err := w.s.InHold(t.Context(), h, func(_ context.Context, tx lane.Tx) error {
			w.put(tx, h, "last")
			tx.Release(w.s, h)
			return nil
		})
		if err != nil || w.value(t) != "last" {
			t.Errorf("value %q, error %v", w.value(t), err)
		}
		w.mustBeFree(t, "x")
	})
}

func TestAReleaseInAnUndoneTransactionIsNone(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		sorry := errors.New("sorry")
		err := w.s.InHold(t.Context(), h, func(ctx context.Context, tx lane.Tx) error {
			tx.Release(w.s, h)
			if _, err := tx.Exec(ctx, w.q.Put, register, h.Fence, "undone"); err != nil {
				return err
			}
			return sorry
		})
		if !errors.Is(err, sorry) {
			t.Fatal(err)
		}
		refused(t, w.s, w.request("x"))
		w.release(t, h)
	})
}

// TestASuccessorWaitsUntilTheProvenTransactionHasEnded: a successor's acquire waits for the
// transaction that has proven the hold, even when the hold has expired in the meantime. After that
// the successor sees what the transaction wrote.
func TestASuccessorWaitsUntilTheProvenTransactionHasEnded(t *testing.T) {
	var backend struct{ Backend db.Query }
	dbtest.Load(t, "testdata/backend", &backend)
	onEach(t, func(t *testing.T, w world) {
		successor := w.another(t)
		h := acquire(t, w.s, w.request("x"))
		ended := make(chan struct{})
		type outcome struct {
			hold  *lane.Hold
			early bool
			err   error
		}
		taken := make(chan outcome, 1)
		err := w.s.InHold(t.Context(), h, func(ctx context.Context, tx lane.Tx) error {
			var pid int
			w.put(tx, h, "the predecessor's")
			if err := tx.One(ctx, []any{&pid}, backend.Backend); err != nil {
				return err
			}
			successor.Skew.Advance(11 * time.Minute) // past the renewed expiry
			asking := make(chan struct{})
			go func() {
				close(asking)
				next, err := successor.s.Acquire(context.Background(), w.request("x"))
				o := outcome{hold: next, err: err}
				select {
				case <-ended:
				default:
					o.early = true
				}
				taken <- o
			}()
			<-asking
			if w.Engine != dbtest.OnSQLite { // on SQLite it waits for the writer's turn instead
				awaitBlocked(t, pid)
			}
			select {
			case o := <-taken:
				t.Errorf("acquired before the commit: %+v", o)
				taken <- o
			default:
			}
			w.put(tx, h, "the predecessor's last")
			close(ended)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		o := <-taken
		if o.err != nil || o.early {
			t.Fatalf("the successor: early %v, error %v", o.early, o.err)
		}
		if v := successor.value(t); v != "the predecessor's last" {
			t.Errorf("the successor sees %q", v)
		}
		if o.hold.Fence <= h.Fence {
			t.Errorf("fence %d after %d", o.hold.Fence, h.Fence)
		}
		w.Skew.Advance(11 * time.Minute)
		err = w.s.InHold(t.Context(), h, func(_ context.Context, tx lane.Tx) error {
			w.put(tx, h, "stale")
			return nil
		})
		if v := w.value(t); !errors.Is(err, lane.ErrLost) || v != "the predecessor's last" {
			t.Errorf("the predecessor, after it was taken over: error %v, value %q", err, v)
		}
	})
}

// awaitBlocked returns when a session waits for a lock of the backend.
func awaitBlocked(t *testing.T, pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, dbtest.New(t, dbtest.OnPostgres).URL)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close(context.WithoutCancel(ctx))
	for blocked := false; !blocked; {
		err := c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND $1 = ANY (pg_blocking_pids(pid)))", pid).Scan(&blocked)
		if err != nil {
			t.Errorf("nobody came to wait for the transaction: %v", err)
			return
		}
	}
}

func TestAStaleHolderChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		frozen := acquire(t, w.s, w.request("x"))
		other := w.another(t)
		other.Skew.Advance(11 * time.Minute) // the frozen process's own clock does not notice
		next := acquire(t, other.s, w.request("x"))
		write := func(w world, h *lane.Hold, value string) error {
			return w.s.InHold(t.Context(), h, func(_ context.Context, tx lane.Tx) error {
				w.put(tx, h, value)
				return nil
			})
		}
		if err := write(other, next, "right"); err != nil {
			t.Fatal(err)
		}
		if err := write(w, frozen, "stale"); !errors.Is(err, lane.ErrLost) {
			t.Errorf("got %v", err)
		}
		if v := w.value(t); v != "right" {
			t.Error(v)
		}
	})
}

func TestAWaiterMarksAHoldOnceAndTheHolderLearnsAtRenewalAndProof(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		ctx := t.Context()
		h := acquire(t, w.s, w.request("x"))
		present := refused(t, w.s, w.request("x"))
		want := func(by string) {
			t.Helper()
			if err := w.s.Want(ctx, w.Workspace, present, by); err != nil {
				t.Fatal(err)
			}
		}
		want("first waiter")
		first := w.peek(t, "x")
		w.Skew.Advance(time.Minute)
		want("second waiter")
		if i := w.peek(t, "x"); i.WantedBy != "first waiter" || i.WantedAt == nil || !i.WantedAt.Equal(*first.WantedAt) {
			t.Errorf("wanted by %q at %v, first at %v", i.WantedBy, i.WantedAt, first.WantedAt)
		}
		if got := h.WantedBy(); got != "" {
			t.Errorf("before it looked, the holder knows %q", got)
		}
		if err := w.s.Renew(ctx, h, 10*time.Minute); err != nil || h.WantedBy() != "first waiter" {
			t.Errorf("at renewal: %q, %v", h.WantedBy(), err)
		}
		w.release(t, h)

		next := acquire(t, w.s, w.request("x"))
		if i := w.peek(t, "x"); next.WantedBy() != "" || i.WantedBy != "" || i.WantedAt != nil {
			t.Errorf("the next holder inherits the mark: %+v", i)
		}
		want("a waiter for the hold before")
		if i := w.peek(t, "x"); i.WantedBy != "" {
			t.Errorf("a mark for fence %d landed on fence %d", present.Fence, i.Fence)
		}
		present = w.peek(t, "x")
		want("third waiter")
		err := w.s.InHold(ctx, next, func(ctx context.Context, tx lane.Tx) error {
			_, err := tx.Exec(ctx, w.q.Put, register, next.Fence, "v")
			if got := next.WantedBy(); got != "third waiter" {
				t.Errorf("at the proof: %q", got)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}

		w.Skew.Advance(20 * time.Minute)
		if after := acquire(t, w.s, w.request("x")); after.WantedBy() != "" || w.peek(t, "x").WantedBy != "" {
			t.Errorf("the mark outlived the hold's expiry")
		}
	})
}

func TestAReleasedLaneIsWantedByNobody(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		present := w.peek(t, "x")
		w.release(t, h)
		if err := w.s.Want(t.Context(), w.Workspace, present, "late"); err != nil {
			t.Fatal(err)
		}
		if i := w.peek(t, "x"); i.WantedAt != nil {
			t.Errorf("marked: %+v", i)
		}
	})
}

func TestForceReleaseKillsTheToken(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		if !w.force(t, "x") {
			t.Error("there was a hold, and it says there was none")
		}
		w.mustBeFree(t, "x")
		if w.force(t, "x") || w.force(t, "never used") {
			t.Error("it ended a hold that was none")
		}
		next := acquire(t, w.s, w.request("x"))
		if next.Fence <= h.Fence {
			t.Errorf("fence %d after %d", next.Fence, h.Fence)
		}
		for what, err := range map[string]error{
			"renew": w.s.Renew(t.Context(), h, time.Minute), "release": w.s.Release(t.Context(), h), "write": w.s.InHold(t.Context(), h, nothing),
		} {
			if !errors.Is(err, lane.ErrLost) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := w.s.Renew(t.Context(), next, time.Minute); err != nil {
			t.Errorf("the next holder: %v", err)
		}
	})
}

func TestForceReleaseStandsOrFallsWithItsTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		sorry := errors.New("the reason could not be written down")
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			if _, err := w.s.ForceRelease(ctx, tx, "x"); err != nil {
				return err
			}
			return sorry
		})
		if !errors.Is(err, sorry) {
			t.Fatal(err)
		}
		w.release(t, h)
	})
}
