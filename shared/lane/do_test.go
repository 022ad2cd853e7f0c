package lane_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/lane"
)

func TestDoReleasesHoweverItsWorkEnds(t *testing.T) {
	sorry := errors.New("sorry")
	for name, end := range map[string]struct {
		work func(cancel func()) error
		want error
	}{
		"return": {func(func()) error { return nil }, nil},
		"error":  {func(func()) error { return sorry }, sorry},
		"cancellation": {func(cancel func()) error {
			cancel()
			return context.Canceled
		}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w world) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				err := w.s.Do(ctx, w.request("x"), lane.Wait{}, func(_ context.Context, h *lane.Hold) error {
					if i := w.peek(t, "x"); !i.Held() || i.Fence != h.Fence {
						t.Errorf("while it works: %+v", i)
					}
					return end.work(cancel)
				})
				if !errors.Is(err, end.want) || (err == nil) != (end.want == nil) {
					t.Errorf("got %v", err)
				}
				w.mustBeFree(t, "x")
			})
		})
	}
}

func TestDoReleasesWhenItsWorkPanicsOrItsGoroutineExits(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("oh") }, "exit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w world) {
				gone := make(chan any)
				go func() {
					defer func() { gone <- recover() }()
					_ = w.s.Do(context.Background(), w.request("x"), lane.Wait{}, func(context.Context, *lane.Hold) error {
						end()
						return nil
					})
				}()
				if got := <-gone; (got == "oh") != (name == "panic") {
					t.Errorf("it ended with %v", got)
				}
				w.mustBeFree(t, "x")
			})
		})
	}
}

func TestDoGivesUpAtOnceOnABusyLaneWithoutAMark(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		err := w.s.Do(t.Context(), w.request("x"), lane.Wait{}, mustNotRun(t))
		if busy, ok := errors.AsType[*lane.BusyError](err); !ok || busy.Fence != h.Fence {
			t.Errorf("got %v", err)
		}
		if i := w.peek(t, "x"); i.WantedBy != "" {
			t.Errorf("one who does not wait marked the lane: %+v", i)
		}
	})
}

func TestDoWaitsAndMarksSoThatTheHolderLearns(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		r := w.request("x")
		r.Holder = "waiter"
		done := make(chan error, 1)
		go func() {
			done <- w.s.Do(context.Background(), r, lane.Wait{Limit: time.Minute}, func(_ context.Context, mine *lane.Hold) error {
				if mine.Fence <= h.Fence {
					t.Errorf("fence %d after %d", mine.Fence, h.Fence)
				}
				return nil
			})
		}()
		for h.WantedBy() == "" {
			check(t, w.s.Renew(t.Context(), h, 10*time.Minute))
			select {
			case err := <-done:
				t.Fatalf("the waiter left without a mark: %v", err)
			default:
			}
		}
		if got := h.WantedBy(); got != "waiter" {
			t.Errorf("wanted by %q", got)
		}
		w.release(t, h)
		check(t, <-done)
		w.mustBeFree(t, "x")
	})
}

func TestDoReportsThatItsHoldWasOverBeforeItsEnd(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		expire := func(context.Context, *lane.Hold) error {
			w.Skew.Advance(11 * time.Minute)
			return nil
		}
		if err := w.s.Do(t.Context(), w.request("x"), lane.Wait{}, expire); !errors.Is(err, lane.ErrLost) {
			t.Errorf("got %v", err)
		}
		sorry := errors.New("sorry")
		err := w.s.Do(t.Context(), w.request("x"), lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
			return errors.Join(sorry, expire(ctx, h))
		})
		if !errors.Is(err, sorry) {
			t.Errorf("got %v", err)
		}
	})
}

func TestDoTakesAReleaseByItsLastWriteForOne(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		err := w.s.Do(t.Context(), w.request("x"), lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
			return w.s.InHold(ctx, h, func(_ context.Context, tx lane.Tx) error {
				w.put(tx, h, "last")
				tx.Release(w.s, h)
				return nil
			})
		})
		if err != nil || w.value(t) != "last" {
			t.Errorf("error %v, value %q", err, w.value(t))
		}
		w.mustBeFree(t, "x")
	})
}

func TestDoReleasesWhenTheReleaseByItsLastWriteWasUndone(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		sorry := errors.New("sorry")
		err := w.s.Do(t.Context(), w.request("x"), lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
			err := w.s.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
				tx.Release(w.s, h)
				if _, err := tx.Exec(ctx, w.q.Put, register, h.Fence, "undone"); err != nil {
					return err
				}
				return sorry
			})
			if !errors.Is(err, sorry) {
				t.Error(err)
			}
			return nil // fn ignores the error
		})
		if err != nil {
			t.Errorf("got %v", err)
		}
		w.mustBeFree(t, "x")
	})
}

func TestDoReleasesWhenItsLastWritePanicsBehindTheRelease(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		func() {
			defer func() { _ = recover() }()
			_ = w.s.Do(t.Context(), w.request("x"), lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
				return w.s.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
					tx.Release(w.s, h)
					_, _ = tx.Exec(ctx, w.q.Put, register, h.Fence, "undone")
					panic("oh")
				})
			})
		}()
		w.mustBeFree(t, "x")
	})
}

func mustNotRun(t *testing.T) func(context.Context, *lane.Hold) error {
	return func(context.Context, *lane.Hold) error {
		t.Error("it ran without the lane")
		return nil
	}
}
