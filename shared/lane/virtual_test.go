package lane_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// inVirtualTime runs a test on SQLite under a clock that only advances when all goroutines wait. It
// is also the database's clock.
func inVirtualTime(t *testing.T, fn func(t *testing.T, w world)) {
	synctest.Test(t, func(t *testing.T) { fn(t, newWorld(t, dbtest.New(t, dbtest.OnSQLite))) })
}

// byDefault returns a request whose TTL is set by the lane and the deadline.
func (w world) byDefault(name lane.Name) lane.Request {
	r := w.request(name)
	r.TTL = 0
	return r
}

func TestADeadlineShortensWhatTheLaneSays(t *testing.T) {
	for _, test := range []struct {
		name lane.Name
		left time.Duration
		want time.Duration
	}{
		{"x", 100 * time.Second, 105 * time.Second},
		{"x", 15 * time.Minute, 5 * time.Minute},
		{lane.Coordinator, 100 * time.Second, 30 * time.Second},
		{lane.Coordinator, time.Second, 6 * time.Second},
	} {
		inVirtualTime(t, func(t *testing.T, w world) {
			ctx, cancel := context.WithTimeout(t.Context(), test.left)
			defer cancel()
			inner, cancel := lane.WithInnerDeadline(ctx)
			defer cancel()
			if test.left <= 2*time.Second {
				inner = ctx // the inner deadline has passed
			}
			for _, ctx := range []context.Context{ctx, inner} {
				h, err := w.s.Acquire(ctx, w.byDefault(test.name))
				if err != nil {
					t.Fatal(err)
				}
				if got := time.Until(h.Until()); got != test.want {
					t.Errorf("%s with %v left is held for %v, want %v", test.name, test.left, got, test.want)
				}
				w.release(t, h)
			}
		})
	}
}

func TestWhatWasAskedForIsNotShortened(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w world) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r := w.request(lane.Coordinator)
		r.TTL = 50 * time.Minute
		h, err := w.s.Acquire(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Until(h.Until()); got != 50*time.Minute {
			t.Errorf("acquired for %v", got)
		}
		if err := w.s.InHold(ctx, h, nothing); err != nil {
			t.Fatal(err)
		}
		if got := time.Until(h.Until()); got != 50*time.Minute {
			t.Errorf("after a proof it ends in %v", got)
		}
	})
}

func TestAProofRenewsForAsLongAsTheLaneAndTheDeadlineSay(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w world) {
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
		defer cancel()
		err := w.s.Do(ctx, w.byDefault("x"), lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
			for _, want := range []time.Duration{5 * time.Minute, 4*time.Minute + 5*time.Second, 2*time.Minute + 5*time.Second} {
				if err := w.s.InHold(ctx, h, nothing); err != nil {
					return err
				}
				if got := time.Until(h.Until()); got != want {
					t.Errorf("the hold ends in %v, want %v", got, want)
				}
				time.Sleep(2 * time.Minute)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestWorkEndsBeforeTheInvocationDoes(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		100 * time.Second: 90 * time.Second, // a tenth
		10 * time.Second:  8 * time.Second,  // at least 2 s
		time.Second:       -time.Second,     // no time for work
	} {
		inVirtualTime(t, func(t *testing.T, w world) {
			ctx, cancel := context.WithTimeout(t.Context(), left)
			defer cancel()
			err := w.s.Do(ctx, w.byDefault("x"), lane.Wait{}, func(ctx context.Context, _ *lane.Hold) error {
				end, ok := ctx.Deadline()
				if got := time.Until(end); !ok || got != want {
					t.Errorf("of %v the work gets %v, want %v", left, got, want)
				}
				return w.s.Do(ctx, w.byDefault("y"), lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
					if again, _ := ctx.Deadline(); !again.Equal(end) {
						t.Errorf("inside an inner deadline it was shortened again, to %v", time.Until(again))
					}
					if got, want := time.Until(h.Until()), min(5*time.Minute, left+5*time.Second); got != want {
						t.Errorf("the inner lane is held for %v, want %v", got, want)
					}
					return nil
				})
			})
			if want > 0 && err != nil || want < 0 && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("with %v left: %v", left, err)
			}
			w.mustBeFree(t, "x", "y")
		})
	}
}

func TestWithoutADeadlineWorkHasNone(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w world) {
		err := w.s.Do(context.Background(), w.byDefault("x"), lane.Wait{}, func(ctx context.Context, _ *lane.Hold) error {
			if end, ok := ctx.Deadline(); ok {
				t.Errorf("a deadline at %v", end)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestAHoldIsRenewedInTheForegroundOnlyWhenTooLittleRemains(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w world) {
		ctx := t.Context()
		h := acquire(t, w.s, w.byDefault("x"))
		ensure := func(need time.Duration) (sent int64) {
			t.Helper()
			before := w.DB.Stats()
			if err := w.s.Ensure(ctx, h, need); err != nil {
				t.Fatal(err)
			}
			return w.DB.Stats().Sub(before).Statements
		}
		if n := ensure(5 * time.Minute); n != 0 {
			t.Errorf("%d statements although enough remains", n)
		}
		time.Sleep(4 * time.Minute)
		if n := ensure(time.Minute); n != 0 {
			t.Errorf("%d statements although just enough remains", n)
		}
		if n := ensure(time.Minute + 1); n != 1 || time.Until(h.Until()) != 5*time.Minute {
			t.Errorf("%d statements, and the hold ends in %v", n, time.Until(h.Until()))
		}
		if n := ensure(20 * time.Minute); n != 1 || time.Until(h.Until()) != 20*time.Minute {
			t.Errorf("%d statements, and the hold ends in %v", n, time.Until(h.Until()))
		}
		if err := w.s.Ensure(ctx, h, 2*time.Hour); !errors.Is(err, lane.ErrTTL) {
			t.Errorf("a step of two hours: %v", err)
		}
		time.Sleep(21 * time.Minute)
		if err := w.s.Ensure(ctx, h, time.Minute); !errors.Is(err, lane.ErrLost) {
			t.Errorf("after the expiry: %v", err)
		}
	})
}

// TestAHoldCoversAStep: a hold lasts as long as the step may take, whatever renews the hold in the
// meantime.
func TestAHoldCoversAStep(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w world) {
		a, b := acquire(t, w.s, w.byDefault("a")), acquire(t, w.s, w.byDefault("b"))
		if err := w.s.Cover(t.Context(), lane.Holds{a, b}, 15*time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := w.s.InHold(t.Context(), lane.Holds{a, b}, nothing); err != nil {
			t.Fatal(err)
		}
		for _, h := range []*lane.Hold{a, b} {
			if got := time.Until(h.Until()); got != 14*time.Minute+5*time.Second || !w.peek(t, h.Lane).ExpiresAt.Equal(h.Until()) {
				t.Errorf("with 14 minutes to go %s is held for another %s", h.Lane, got)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		if err := w.s.Cover(ctx, a, 2*time.Hour); err != nil || time.Until(a.Until()) != 20*time.Minute+5*time.Second {
			t.Errorf("within 20 minutes a is held for %s, %v", time.Until(a.Until()), err)
		}
		if err := w.s.Cover(t.Context(), b, 2*time.Hour); !errors.Is(err, lane.ErrTTL) {
			t.Errorf("a step of two hours: %v", err)
		}
		time.Sleep(14 * time.Minute)
		if err := w.s.InHold(t.Context(), b, nothing); err != nil || time.Until(b.Until()) != 5*time.Minute {
			t.Errorf("after it b is held for %s, %v", time.Until(b.Until()), err)
		}
	})
}

func TestARenewalThatWasUndoneIsNotTrusted(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w world) {
		ctx := t.Context()
		h := acquire(t, w.s, w.byDefault("x"))
		time.Sleep(4 * time.Minute)
		sorry := errors.New("sorry")
		err := w.s.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
			_, err := tx.Exec(ctx, w.q.Put, register, h.Fence, "undone")
			return errors.Join(err, sorry)
		})
		if !errors.Is(err, sorry) {
			t.Fatal(err)
		}
		before := w.DB.Stats()
		if err := w.s.Ensure(ctx, h, 2*time.Minute); err != nil {
			t.Fatal(err)
		}
		if n := w.DB.Stats().Sub(before).Statements; n != 1 {
			t.Error("one minute remains, two are needed, and nothing was renewed")
		}
	})
}

func TestTheLaneOfACrashedHolderIsFreeAtItsExpiryAndAtMostASecondLater(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w world) {
		crashed := acquire(t, w.s, w.request("x"))
		err := w.s.Do(t.Context(), w.request("x"), lane.Wait{Limit: time.Hour}, func(context.Context, *lane.Hold) error {
			if late := time.Since(crashed.Until()); late < 0 || late > time.Second {
				t.Errorf("the successor got the lane %v after the expiry", late)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestAWaiterGivesUpAtItsLimit(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		start, before := time.Now(), w.DB.Stats()
		err := w.s.Do(t.Context(), w.request("x"), lane.Wait{Limit: 2 * time.Minute}, mustNotRun(t))
		if busy, ok := errors.AsType[*lane.BusyError](err); !ok || busy.Fence != h.Fence {
			t.Errorf("got %v", err)
		}
		if got := time.Since(start); got != 2*time.Minute {
			t.Errorf("after %v", got)
		}
		// Each try makes two statements, on average at most every half second; one try also marks.
		if n := w.DB.Stats().Sub(before).Statements; n%2 != 1 || n > 2*300 {
			t.Errorf("%d statements", n)
		}
	})
}

func TestAWaiterThatIsCancelledLeavesWithoutTheLane(t *testing.T) {
	for name, end := range map[string]struct {
		after func(context.Context) (context.Context, context.CancelFunc)
		want  error
	}{
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Minute, cancel)
			return ctx, cancel
		}, context.Canceled},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		}, context.DeadlineExceeded},
	} {
		inVirtualTime(t, func(t *testing.T, w world) {
			acquire(t, w.s, w.request("x"))
			ctx, cancel := end.after(t.Context())
			defer cancel()
			start := time.Now()
			err := w.s.Do(ctx, w.request("x"), lane.Wait{Limit: time.Hour}, mustNotRun(t))
			if _, busy := errors.AsType[*lane.BusyError](err); busy || !errors.Is(err, end.want) {
				t.Errorf("%s: %v", name, err)
			}
			if got := time.Since(start); got != time.Minute {
				t.Errorf("%s: it left after %v", name, got)
			}
		})
	}
}

func TestAWaiterMarksEachHoldItMeets(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w world) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		first := acquire(t, w.s, w.request("x"))
		go func() {
			done <- w.s.Do(ctx, w.request("x"), lane.Wait{Limit: time.Hour}, mustNotRun(t))
		}()
		synctest.Wait()
		if i := w.peek(t, "x"); i.WantedBy != "holder" {
			t.Errorf("the first hold: %+v", i)
		}
		w.release(t, first)
		second := acquire(t, w.s, w.request("x")) // faster than the waiter
		time.Sleep(time.Minute)
		if err := w.s.Renew(ctx, second, time.Minute); err != nil || second.WantedBy() != "holder" {
			t.Errorf("the second hold: wanted by %q, %v", second.WantedBy(), err)
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("the cancelled waiter got the lane")
		}
	})
}

// TestTheReleaseHasAShortDeadlineOfItsOwn: a database that hangs delays nobody longer than the
// deadline of the release.
func TestTheReleaseHasAShortDeadlineOfItsOwn(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w world) {
		hang, hung := make(chan struct{}), make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		var start time.Time
		err := w.s.Do(ctx, w.request("x"), lane.Wait{}, func(context.Context, *lane.Hold) error {
			writing := make(chan struct{})
			go func() {
				hung <- w.DB.Tx(context.Background(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
					_, err := tx.Exec(ctx, w.q.Put, register, 1, "x")
					close(writing)
					<-hang
					return err
				})
			}()
			<-writing
			cancel()
			start = time.Now()
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("it took %v", got)
		}
		close(hang)
		if err := <-hung; err != nil {
			t.Error(err)
		}
	})
}

func TestAnExplanationIsOneSentence(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		time.Sleep(90 * time.Second)
		if err := w.s.Want(t.Context(), w.Workspace, w.peek(t, "x"), "operate"); err != nil {
			t.Fatal(err)
		}
		e, err := w.s.Explain(t.Context(), w.Workspace, h.Lane, nil)
		if want := "lane x is held by holder, since 1m30s; it ends in 8m30s at the latest unless renewed; operate waits for it"; err != nil || e.Summary != want {
			t.Errorf("got  %q, %v\nwant %q", e.Summary, err, want)
		}
	})
}
