package lane_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestAHoldHasATokenAFenceAndAnEnd(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("heartbeat"))
		if _, err := uuid.Parse(h.Token); err != nil {
			t.Errorf("token: %v", err)
		}
		if h.Fence <= 0 || h.WantedBy() != "" {
			t.Errorf("fence %d, wanted by %q", h.Fence, h.WantedBy())
		}
		if i := w.peek(t, "heartbeat"); !i.Held() || i.Fence != h.Fence || !i.ExpiresAt.Equal(h.Until()) {
			t.Errorf("the hold says fence %d until %v, the row %+v", h.Fence, h.Until(), i)
		}
	})
}

func TestAnotherIsRefusedAndToldWhoHoldsTheLaneAndUntilWhen(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id, execution := trace.NewSource(time.Now, rand.Reader).New(trace.Heartbeat), uuid.NewString()
		ctx := trace.WithExecution(trace.With(t.Context(), id), execution)
		h, err := w.s.Acquire(ctx, lane.Request{Workspace: w.Workspace, Lane: "x", Holder: "first", TTL: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(4 * time.Minute)
		i := refused(t, w.s, w.request("x"))
		if i.Lane != "x" || i.Holder != "first" || i.Fence != h.Fence || !i.ExpiresAt.Equal(h.Until()) {
			t.Errorf("refused by %+v", i)
		}
		if !i.Held() || !about(i.Age, 4*time.Minute) || !about(i.Remaining, 6*time.Minute) || i.TTL != 10*time.Minute {
			t.Errorf("age %v, remaining %v, TTL %v", i.Age, i.Remaining, i.TTL)
		}
		if i.Trace != string(id) || i.Execution != execution {
			t.Errorf("trace %q, execution %q", i.Trace, i.Execution)
		}
	})
}

func TestTheSameHolderNameIsRefusedLikeAnyOther(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		r := lane.Request{Workspace: w.Workspace, Lane: "heartbeat", Holder: "heartbeat-cron"}
		h := acquire(t, w.s, r)
		if i := refused(t, w.s, r); i.Holder != "heartbeat-cron" || i.Fence != h.Fence || !i.ExpiresAt.Equal(h.Until()) {
			t.Errorf("refused by %+v", i)
		}
	})
}

func TestARefusalChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		acquire(t, w.s, w.request("x"))
		before := w.peek(t, "x")
		w.Skew.Advance(time.Minute)
		refused(t, w.s, w.request("x"))
		after := w.peek(t, "x")
		before.Age, before.Remaining, after.Age, after.Remaining = 0, 0, 0, 0
		if before != after {
			t.Errorf("before %+v\nafter  %+v", before, after)
		}
	})
}

func TestTheRetryOfALostAnswerIsTheSameHoldWithTheSameFence(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		r := w.request("x")
		r.Token = uuid.NewString()
		first := acquire(t, w.s, r)
		if err := w.s.Want(t.Context(), w.Workspace, w.peek(t, "x"), "somebody"); err != nil {
			t.Fatal(err)
		}
		before := w.peek(t, "x")
		w.Skew.Advance(time.Minute)
		again := acquire(t, w.s, r)
		if again.Fence != first.Fence || again.Token != r.Token {
			t.Errorf("fence went from %d to %d, token from %s to %s", first.Fence, again.Fence, r.Token, again.Token)
		}
		if !about(again.Until().Sub(first.Until()), time.Minute) {
			t.Errorf("the end went from %v to %v", first.Until(), again.Until())
		}
		after := w.peek(t, "x")
		if !after.LockedAt.Equal(before.LockedAt) || after.WantedBy != "somebody" || again.WantedBy() != "somebody" {
			t.Errorf("locked at %v, wanted by %q", after.LockedAt, after.WantedBy)
		}
		if err := w.s.Release(t.Context(), first); err != nil {
			t.Errorf("first and retry are one hold, but: %v", err)
		}
	})
}

func TestATokenIsAUUIDInAnyOfItsForms(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		r := w.request("x")
		r.Token = "secret"
		if _, err := w.s.Acquire(t.Context(), r); !errors.Is(err, lane.ErrToken) {
			t.Errorf("got %v", err)
		}
		r.Token = "6BA7B810-9DAD-11D1-80B4-00C04FD430C8"
		first := acquire(t, w.s, r)
		r.Token = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
		if again := acquire(t, w.s, r); again.Fence != first.Fence || again.Token != first.Token {
			t.Errorf("fence %d and %d, token %s and %s", first.Fence, again.Fence, first.Token, again.Token)
		}
	})
}

func TestATTLThatIsNotPositiveOrAbsurdIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, ttl := range []time.Duration{-5 * time.Second, -1, 1, time.Millisecond - 1, lane.MaxTTL + 1, 1 << 62} {
			r := w.request("x")
			r.TTL = ttl
			if _, err := w.s.Acquire(t.Context(), r); !errors.Is(err, lane.ErrTTL) {
				t.Errorf("acquire for %v: %v", ttl, err)
			}
			if _, err := w.s.AcquireAll(t.Context(), w.request("a"), r); !errors.Is(err, lane.ErrTTL) {
				t.Errorf("acquire all for %v: %v", ttl, err)
			}
		}
		w.mustBeFree(t, "x", "a")
		for _, ttl := range []time.Duration{time.Millisecond, lane.MaxTTL} {
			r := w.request(lane.Name("for-" + ttl.String()))
			r.TTL = ttl
			acquire(t, w.s, r)
		}
	})
}

func TestWithoutATTLTheLaneSaysHowLong(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for name, want := range map[lane.Name]time.Duration{
			lane.Heartbeat: 5 * time.Minute, lane.Operate: 5 * time.Minute, lane.Coordinator: 30 * time.Second,
			lane.Memory("flowpilot"): time.Minute, lane.Objective("7"): 5 * time.Minute, "anything": 5 * time.Minute,
		} {
			r := w.request(name)
			r.TTL = 0
			acquire(t, w.s, r)
			if i := w.peek(t, name); i.TTL != want || !about(i.Remaining, want) {
				t.Errorf("%s: TTL %v, remaining %v, want %v", name, i.TTL, i.Remaining, want)
			}
		}
	})
}

func TestALaneIsFreeAtItsExpiryAndNotBefore(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		first := acquire(t, w.s, w.request("x"))
		w.Skew.Advance(9 * time.Minute)
		refused(t, w.s, w.request("x"))
		w.Skew.Advance(time.Minute)
		if next := acquire(t, w.s, w.request("x")); next.Fence <= first.Fence {
			t.Errorf("fence %d after %d", next.Fence, first.Fence)
		}
	})
}

func TestLanesOfOtherWorkspacesAreOtherLanes(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := acquire(t, w.s, w.request("x"))
		other := dbtest.NewWorkspace(t, w.DB)
		acquire(t, w.s, lane.Request{Workspace: other, Lane: "x", Holder: "other"})
		stolen := &lane.Hold{Lane: "x", Workspace: other, Token: h.Token}
		if err := w.s.Renew(t.Context(), stolen, time.Minute); !errors.Is(err, lane.ErrLost) {
			t.Errorf("a token renews in another workspace: %v", err)
		}
		if err := w.s.Release(t.Context(), stolen); !errors.Is(err, lane.ErrLost) {
			t.Errorf("a token releases in another workspace: %v", err)
		}
		if i := w.peek(t, "x"); i.Holder != "holder" || !i.Held() {
			t.Errorf("the row is %+v", i)
		}
	})
}

func TestAcquireIsNotDoneInsideATransaction(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, _ *db.Tx) error {
			_, err := w.s.Acquire(ctx, w.request("x"))
			return err
		})
		if !errors.Is(err, db.ErrNested) {
			t.Errorf("got %v", err)
		}
	})
}

func TestReadsShareTheRoundTripOfTheAcquireAndRunBehindIt(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		before := w.DB.Stats()
		var seen *lane.Info
		h, err := w.s.Take(t.Context(), w.request("x"), lane.Wait{}, func(b *db.Batch) { seen = w.s.PeekIn(b, "x") })
		if err != nil {
			t.Fatal(err)
		}
		if seen.Fence != h.Fence || !seen.Held() {
			t.Errorf("the read saw %+v", seen)
		}
		if got := w.DB.Stats().Sub(before); got != (db.Stats{Statements: 2, RoundTrips: 1}) {
			t.Errorf("%+v", got)
		}
	})
}

func TestFencesRise(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var last int64
		rises := func(how string) *lane.Hold {
			t.Helper()
			h := acquire(t, w.s, w.request("x"))
			if h.Fence <= last {
				t.Fatalf("%s: fence %d after %d", how, h.Fence, last)
			}
			last = h.Fence
			return h
		}
		rises("at first")
		w.Skew.Advance(lane.MaxTTL)
		h := rises("after an expiry")
		w.release(t, h)
		h = rises("after a release")
		w.release(t, h)
		w.Skew.Advance(-2 * time.Hour)
		h = rises("when the clock has stepped back")
		w.release(t, h)
		w.Skew.Advance(-100 * 24 * time.Hour)
		rises("when the clock has stepped far back")
		w.force(t, "x")
		rises("after a release by force")
		w.Skew.Advance(120 * 24 * time.Hour)
		w.sweep(t, 1)
		rises("after a sweep")
	})
}

func TestAReleasedLaneIsFreeAlsoWhenTheClockStepsBack(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.release(t, acquire(t, w.s, w.request("x")))
		w.Skew.Advance(-time.Minute)
		w.mustBeFree(t, "x")
		if list, err := w.s.List(t.Context(), w.Workspace, 10); err != nil || len(list) != 0 {
			t.Errorf("listed: %v, %v", list, err)
		}
		acquire(t, w.s, w.request("x"))
	})
}

func TestTheRowOfALaneStaysUntilItHasBeenIdleForSevenDays(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.release(t, acquire(t, w.s, w.request("released")))
		acquire(t, w.s, w.request("expired"))
		w.Skew.Advance(6 * 24 * time.Hour)
		held := acquire(t, w.s, w.request("held"))
		w.sweep(t, 0)
		w.Skew.Advance(24*time.Hour + 2*lane.MaxTTL)
		acquire(t, w.s, w.request("held")) // again, after its expiry
		w.sweep(t, 2)
		if _, err := w.s.Peek(t.Context(), w.Workspace, "released"); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("the released lane: %v", err)
		}
		if i := w.peek(t, "held"); !i.Held() || i.Fence <= held.Fence {
			t.Errorf("the held lane: %+v", i)
		}
	})
}
