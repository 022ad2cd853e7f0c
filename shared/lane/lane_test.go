package lane_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

func open(t *testing.T, d *db.DB) *lane.Store {
	t.Helper()
	s, err := lane.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func acquire(t *testing.T, s *lane.Store, r lane.Request) *lane.Hold {
	t.Helper()
	h, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAcquireRefusesTheSameHolderName(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		s := open(t, e.DB)
		r := lane.Request{Workspace: e.Workspace, Lane: "heartbeat", Holder: "heartbeat-cron"}
		h := acquire(t, s, r)
		_, err := s.Acquire(t.Context(), r)
		busy, ok := errors.AsType[*lane.BusyError](err)
		if !ok {
			t.Fatalf("second acquire: got %v, want a BusyError", err)
		}
		if busy.Holder != "heartbeat-cron" || busy.Fence != h.Fence || busy.Remaining <= 0 {
			t.Errorf("busy tells %+v", busy.Info)
		}
	})
}

func TestRetryWithTheSameTokenIsTheSameHold(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		s := open(t, e.DB)
		first := acquire(t, s, lane.Request{Workspace: e.Workspace, Lane: "x", Holder: "a"})
		again := acquire(t, s, lane.Request{Workspace: e.Workspace, Lane: "x", Holder: "a", Token: first.Token})
		if again.Fence != first.Fence {
			t.Errorf("fence went from %d to %d", first.Fence, again.Fence)
		}
	})
}

func TestFencesRise(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		s := open(t, e.DB)
		r := lane.Request{Workspace: e.Workspace, Lane: "x", Holder: "a"}
		var last int64
		for range 5 {
			h := acquire(t, s, r)
			if h.Fence <= last {
				t.Fatalf("fence %d after %d", h.Fence, last)
			}
			last = h.Fence
			if err := s.Release(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestExpiry(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		s := open(t, e.DB)
		r := lane.Request{Workspace: e.Workspace, Lane: "x", Holder: "a", TTL: time.Minute}
		old := acquire(t, s, r)
		e.Skew.Advance(59 * time.Second)
		if _, err := s.Acquire(t.Context(), r); err == nil {
			t.Fatal("the lane was given away before its expiry")
		}
		e.Skew.Advance(2 * time.Second)
		if err := s.Renew(t.Context(), old, time.Minute); !errors.Is(err, lane.ErrLost) {
			t.Errorf("renew after expiry, before anybody took it: %v", err)
		}
		if err := s.InHold(t.Context(), old, func(context.Context, lane.Tx) error { return nil }); !errors.Is(err, lane.ErrLost) {
			t.Errorf("write after expiry: %v", err)
		}
		next := acquire(t, s, r)
		if err := s.Release(t.Context(), old); !errors.Is(err, lane.ErrLost) {
			t.Errorf("release of what somebody else holds: %v", err)
		}
		if err := s.Renew(t.Context(), next, time.Minute); err != nil {
			t.Errorf("the successor's hold: %v", err)
		}
	})
}

func TestOneWinner(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		s := open(t, e.DB)
		var mu sync.Mutex
		var wg sync.WaitGroup
		won := map[string]int64{}
		for i := range 64 {
			wg.Go(func() {
				holder := lane.Holder(fmt.Sprint("client-", i/2)) // every name twice
				h, err := s.Acquire(context.Background(), lane.Request{Workspace: e.Workspace, Lane: "x", Holder: holder})
				if _, busy := errors.AsType[*lane.BusyError](err); err != nil && !busy {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					won[h.Token] = h.Fence
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Errorf("%d of 64 won", len(won))
		}
	})
}
