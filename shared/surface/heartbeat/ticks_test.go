package heartbeat_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// TestDuplicateLateAndShuffledTicks delivers slots one to three times each, up to ten slots late. A slot
// that is delivered after a later one is superseded; every other slot runs once. With LK_FULL=1 it delivers
// 2,000 slots, else 500 on SQLite and 200 on Postgres.
func TestDuplicateLateAndShuffledTicks(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	for engine, slots := range map[string]int{dbtest.OnSQLite: 500, dbtest.OnPostgres: 200} {
		if promise.Full() {
			slots = 2_000
		}
		t.Run(engine, func(t *testing.T) { deliver(t, newWorld(t, dbtest.New(t, engine), idle(t)), engine, slots) })
	}
}

// TestTicksDeliveredAtOnce delivers each slot three times concurrently, together with the slot
// before it.
func TestTicksDeliveredAtOnce(t *testing.T) {
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnPgBouncer} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, dbtest.New(t, engine), idle(t))
			const slots = 60
			for n := range slots {
				var ran atomic.Int32
				var all sync.WaitGroup
				for _, s := range []int{n, n, n, n - 1} {
					all.Go(func() {
						tick := slot(s)
						tick.Workspace = w.Workspace
						r, err := w.Run(t.Context(), tick)
						if err != nil || r.Outcome != heartbeat.Idle && r.Outcome != heartbeat.Skipped && r.Outcome != heartbeat.Duplicate {
							t.Errorf("slot %d is %+v, %v", s, r, err)
						}
						if r.Outcome == heartbeat.Idle {
							ran.Add(1)
						}
					})
				}
				all.Wait()
				if got := w.beat(t, slot(n)); got.Outcome == heartbeat.Idle { // the slot before caused all skips
					ran.Add(1)
				}
				if n > 0 && ran.Load() != 1 {
					t.Errorf("slot %d ran %d times", n, ran.Load())
				}
			}
			if runs := len(w.ofSubject(t, lane.Heartbeat)); runs > slots+1 {
				t.Errorf("%d runs", runs)
			}
			w.mustBeFree(t)
		})
	}
}

func deliver(t *testing.T, w *world, engine string, slots int) {
	t.Helper()
	proof := promise.Of(t, "R7", "slots delivered one to three times, late, shuffled, on "+engine, "one run per slot")
	seed := promise.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test that can be run again
	const late = 10
	at := make([][]int, slots+late+1) // the slots that are delivered at each time
	for n := range slots {
		for range 1 + r.IntN(3) {
			when := n + r.IntN(late+1)
			at[when] = append(at[when], n)
		}
	}
	newest, runs, ticks := -1, 0, 0
	for _, arrived := range at {
		r.Shuffle(len(arrived), func(i, j int) { arrived[i], arrived[j] = arrived[j], arrived[i] })
		ticks += len(arrived)
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
		if once[e.Slot] || e.Slot == "" || e.Status != execution.Completed {
			t.Errorf("there is %+v", e)
		}
		once[e.Slot] = true
	}
	if len(once) != runs {
		t.Errorf("%d slots ran, want %d", len(once), runs)
	}
	w.mustBeFree(t)
	proof.Tell("%d slots in %d ticks, %d runs", slots, ticks, runs)
}
