package lane_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

func (w world) requests(names ...lane.Name) []lane.Request {
	var rs []lane.Request
	for _, name := range names {
		rs = append(rs, w.request(name))
	}
	return rs
}

func TestSeveralLanesAreTakenInSortedOrder(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		asked := w.requests("c", "a", "B", "b")
		holds, err := w.s.AcquireAll(t.Context(), asked...)
		if err != nil {
			t.Fatal(err)
		}
		var got []lane.Name
		for _, h := range holds {
			got = append(got, h.Lane)
			if i := w.peek(t, h.Lane); i.Fence != h.Fence || !i.ExpiresAt.Equal(h.Until()) {
				t.Errorf("the hold says fence %d until %v, the row %+v", h.Fence, h.Until(), i)
			}
		}
		if want := []lane.Name{"B", "a", "b", "c"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if asked[0].Lane != "c" {
			t.Error("the caller's requests were put in another order")
		}
		if err := w.s.InHold(t.Context(), holds, nothing); err != nil {
			t.Error(err)
		}
	})
}

func TestOfSeveralLanesAllAreTakenOrNone(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		r := w.request("b")
		r.Holder = "someone"
		taken := acquire(t, w.s, r)
		_, err := w.s.AcquireAll(t.Context(), w.requests("a", "b", "c")...)
		busy, ok := errors.AsType[*lane.BusyError](err)
		if !ok || busy.Lane != "b" || busy.Holder != "someone" || busy.Fence != taken.Fence || busy.Remaining <= 0 {
			t.Fatalf("got %v", err)
		}
		w.mustBeFree(t, "a", "c")
		w.release(t, taken)
		if _, err := w.s.AcquireAll(t.Context(), w.requests("a", "b", "c")...); err != nil {
			t.Error(err)
		}
	})
}

func TestTheRetryOfSeveralLanesIsTheSameHolds(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		rs := w.requests("b", "a")
		for i := range rs {
			rs[i].Token = uuid.NewString()
		}
		first, err := w.s.AcquireAll(t.Context(), rs...)
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.s.AcquireAll(t.Context(), rs...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range first {
			if first[i].Fence != again[i].Fence || first[i].Token != again[i].Token {
				t.Errorf("%s: fence %d, then %d", first[i].Lane, first[i].Fence, again[i].Fence)
			}
		}
	})
}

func TestLanesThatCannotBeTakenTogether(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		elsewhere := w.request("b")
		elsewhere.Workspace = dbtest.NewWorkspace(t, w.DB)
		for what, rs := range map[string][]lane.Request{
			"of two workspaces": {w.request("a"), elsewhere},
			"one twice":         w.requests("a", "b", "a"),
		} {
			_, err := w.s.AcquireAll(t.Context(), rs...)
			if _, busy := errors.AsType[*lane.BusyError](err); err == nil || busy {
				t.Errorf("%s: %v", what, err)
			}
		}
		w.mustBeFree(t, "a", "b")
		if holds, err := w.s.AcquireAll(t.Context()); err != nil || len(holds) != 0 {
			t.Errorf("no lanes at all: %v, %v", holds, err)
		}
	})
}

func TestOverlappingSetsNeverMeetAndNeverDeadlock(t *testing.T) {
	rounds := 15
	if testing.Short() {
		rounds = 5
	}
	lanes := []lane.Name{"a", "b", "c", "d", "e", "f"}
	onEach(t, func(t *testing.T, w world) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		var wg sync.WaitGroup
		var inside [6]atomic.Int32
		var won atomic.Int32
		for client := range 20 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(client)))
				for range rounds {
					mine := random.Perm(len(lanes))[:3]
					if err := enterAll(w, lanes, mine, &inside); err == nil {
						won.Add(1)
					} else if _, busy := errors.AsType[*lane.BusyError](err); !busy {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if won.Load() == 0 {
			t.Error("nobody ever got in")
		}
		w.mustBeFree(t, lanes...)
	})
}

// enterAll acquires the lanes with the given indices, counts who is inside, and releases them in
// one transaction.
func enterAll(w world, lanes []lane.Name, mine []int, inside *[6]atomic.Int32) error {
	ctx := context.Background()
	var rs []lane.Request
	for _, i := range mine {
		rs = append(rs, w.request(lanes[i]))
	}
	holds, err := w.s.AcquireAll(ctx, rs...)
	if err != nil {
		return err
	}
	var met error
	for _, i := range mine {
		if n := inside[i].Add(1); n != 1 {
			met = fmt.Errorf("%d inside lane %s", n, lanes[i])
		}
	}
	err = w.s.InHold(ctx, holds, func(ctx context.Context, tx lane.Tx) error {
		w.put(tx, holds[0], "x")
		err := tx.Each(ctx, func(db.Scan) error { return nil }, w.q.Get, register)
		for _, i := range mine { // before the others can know
			inside[i].Add(-1)
		}
		for _, h := range holds {
			tx.Release(w.s, h)
		}
		return err
	})
	return errors.Join(met, err)
}

// TestHoldsOfOthersAreEndedInTheOneOrder: whoever ends another's hold under its own waits for no
// lane while it has a later one.
func TestHoldsOfOthersAreEndedInTheOneOrder(t *testing.T) {
	var backend struct{ Backend db.Query }
	dbtest.Load(t, "testdata/backend", &backend)
	onEach(t, func(t *testing.T, w world) {
		other := w.another(t)
		theirs, mine := acquire(t, w.s, w.request("a")), acquire(t, other.s, other.request("x"))
		ended := make(chan error, 1)
		err := w.s.InHold(t.Context(), theirs, func(ctx context.Context, tx lane.Tx) error {
			var pid int
			if err := tx.One(ctx, []any{&pid}, backend.Backend); err != nil {
				return err
			}
			go func() {
				ended <- other.s.InHoldBeside(context.Background(), mine, []lane.Name{"a"}, func(_ context.Context, tx lane.Tx) error {
					other.s.ForceReleaseIn(tx.Later(), "a")
					return nil
				})
			}()
			if w.Engine != dbtest.OnSQLite { // there it waits for the writer's turn
				awaitBlocked(t, pid)
			}
			w.s.ForceReleaseIn(tx.Later(), "x")
			return nil
		})
		if err != nil {
			t.Errorf("who has the first lane and wants the second: %v", err)
		}
		if err := <-ended; !errors.Is(err, lane.ErrLost) {
			t.Errorf("who had the second and wants the first: %v", err)
		}
		if err := w.s.InHold(t.Context(), theirs, nothing); err != nil {
			t.Errorf("what the loser did is there: %v", err)
		}
	})
}
