package heartbeat_test

import (
	"math/rand/v2"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/run"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// TestDuplicateLateAndShuffledTicks: 2,000 slots, each delivered one to three times
// and up to ten slots late. A slot that comes after a later one is superseded; every
// other runs once.
func TestDuplicateLateAndShuffledTicks(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test that can be run again
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite), idle(t))
	const slots, late = 2_000, 10
	at := make([][]int, slots+late+1) // the slots that are delivered at a time
	for n := range slots {
		for range 1 + r.IntN(3) {
			when := n + r.IntN(late+1)
			at[when] = append(at[when], n)
		}
	}
	newest, runs := -1, 0
	for _, arrived := range at {
		r.Shuffle(len(arrived), func(i, j int) { arrived[i], arrived[j] = arrived[j], arrived[i] })
		for _, n := range arrived {
			want := heartbeat.Duplicate
			if n > newest {
				newest, want = n, heartbeat.Idle
				runs++
			}
			if got := w.beat(t, slot(n)); got.Outcome != want {
				t.Fatalf("slot %d after slot %d is %+v, want %s", n, newest, got, want)
			}
		}
	}
	once := map[string]bool{}
	for _, e := range w.ofSubject(t, lane.Heartbeat) {
		if once[e.Slot] || e.Slot == "" || e.Status != run.Completed {
			t.Errorf("there is %+v", e)
		}
		once[e.Slot] = true
	}
	if len(once) != runs {
		t.Errorf("%d slots ran, want %d", len(once), runs)
	}
	w.mustBeFree(t)
}
