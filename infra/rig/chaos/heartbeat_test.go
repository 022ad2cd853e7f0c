package chaos_test

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// reached names the n-th arrival at a fault point.
type reached struct {
	name string
	turn int
}

// learn works on a new workspace without faults. It lists the points that are reached until the
// objective is completed, including those of the last beat.
func (w *world) learn(t *testing.T) []reached {
	t.Helper()
	ws, objective := w.workspace(t)
	w.finish(t, ws)
	var points []reached
	turns := map[string]int{}
	for _, p := range w.faults.Points() {
		turns[p.Name]++
		points = append(points, reached{p.Name, turns[p.Name]})
	}
	w.verify(t, ws, objective)
	return points
}

// sample returns all points if promises are proven at their full figures, else the first arrival at each
// name, and as many others as make n. The others are taken at random.
func sample(t *testing.T, points []reached, n int) []reached {
	t.Helper()
	if promise.Full() {
		return points
	}
	random := rand.New(rand.NewPCG(promise.Seed(t), uint64(len(points))))
	points = slices.Clone(points)
	random.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	slices.SortStableFunc(points, func(a, b reached) int { return cmp.Compare(min(a.turn, 2), min(b.turn, 2)) })
	first := slices.IndexFunc(points, func(r reached) bool { return r.turn > 1 })
	if first < 0 {
		return points
	}
	return points[:min(max(first, n), len(points))]
}

// at returns a function that applies the action once, at that arrival.
func at(where reached, action rig.Action) func(rig.Point) rig.Action {
	var mu sync.Mutex
	turn := 0
	return func(p rig.Point) rig.Action {
		mu.Lock()
		defer mu.Unlock()
		if p.Name != where.name {
			return rig.Continue
		}
		if turn++; turn != where.turn {
			return rig.Continue
		}
		return action
	}
}

func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, rig.Config{})
	points := w.learn(t)
	proof := promise.Of(t, "R3", "SIGKILL of the built heartbeat at every named point", "lost 0, twice 0")
	if len(points) < 20 {
		t.Fatalf("only %d points came up: %v", len(points), points)
	}
	points = sample(t, points, 30)
	for _, where := range points {
		t.Run(where.name+"/"+strconv.Itoa(where.turn), func(t *testing.T) {
			ws, objective := w.workspace(t)
			w.faults.OnPoint(at(where, rig.Kill))
			killed := false
			for !killed {
				res, err := w.fn.Invoke(t.Context(), w.tick(ws))
				if err != nil {
					t.Fatal(err)
				}
				if killed = res.Killed; !killed {
					report(t, res, nil)
				}
			}
			w.settle(t)
			w.goesOn(t, ws, objective)
		})
	}
	proof.Tell("%d points, lost 0, twice 0", len(points))
}

func TestKilledAtRandomInstants(t *testing.T) {
	t.Parallel()
	w := newWorld(t, rig.Config{})
	w.learn(t)
	random := rand.New(rand.NewPCG(promise.Seed(t), 1))
	proof := promise.Of(t, "R3", "SIGKILL of the built heartbeat at random instants", "lost 0, twice 0")
	kills, want := 0, promise.Figure(30, 1000)
	for kills < want {
		ws, objective := w.workspace(t)
		for range random.IntN(3) { // the kill may hit any of the needed beats
			res, err := w.fn.Invoke(t.Context(), w.tick(ws))
			report(t, res, err)
		}
		inv, err := w.fn.Begin(t.Context(), w.tick(ws))
		if err != nil {
			t.Fatal(err)
		}
		<-inv.Started()
		instant := time.NewTimer(time.Duration(random.Int64N(int64(60 * time.Millisecond))))
		<-instant.C
		if err := inv.Kill(); err != nil && !errors.Is(err, rig.ErrFinished) {
			t.Fatal(err)
		}
		res, err := inv.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if res.Killed {
			kills++
			w.settle(t)
		}
		w.goesOn(t, ws, objective)
		if t.Failed() {
			t.Fatalf("after %d kills", kills)
		}
	}
	proof.Tell("%d kills, lost 0, twice 0", kills)
}

// goesOn lets the dead process's leases expire, beats again, and checks that no result was lost and
// no call that had a result was run again.
func (w *world) goesOn(t *testing.T, ws, objective string) {
	t.Helper()
	w.faults.OnPoint(nil)
	recorded := w.recorded(t, ws)
	ran := map[string]int{}
	for key := range recorded {
		ran[key] = w.faults.Ledger().Count(key)
	}
	w.advance(t, 10*time.Minute)
	w.finish(t, ws)
	w.verify(t, ws, objective)
	for key, before := range ran {
		if now := w.faults.Ledger().Count(key); now != before {
			t.Errorf("call %s had a result and ran again: %d times, then %d", key, before, now)
		}
	}
}

// settle waits until the server has finished the requests of the only process, which was killed. A
// request that the server runs after the clock is advanced would renew a hold from the new time.
func (w *world) settle(t *testing.T) {
	t.Helper()
	for w.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'lanekeeper_login'`) > 0 {
		w.exec(t, `SELECT pg_sleep(0.002)`)
	}
}

// snapshot returns all rows of a workspace that a beat may write.
func (w *world) snapshot(t *testing.T, ws string) []string {
	t.Helper()
	var all []string
	for _, table := range []string{"executions", "execution_steps", "agent_activity", "agent_objectives", "objective_steps", "agent_memory", "agent_locks"} {
		all = append(all, w.texts(t, `SELECT '`+table+` ' || to_jsonb(x)::text FROM `+table+` x WHERE workspace_id = $1 ORDER BY 1`, ws)...)
	}
	return all
}

func TestFrozenPastItsLease(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{false, true} {
		name := map[bool]string{false: "nobody came", true: "another beat took over"}[taken]
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, rig.Config{})
			points := sample(t, w.learn(t), 20)
			proof := promise.Of(t, "R2", "SIGSTOP of the built heartbeat at every named point until its lease is over, and SIGCONT; "+name, "0 stale effects in tables or ledger")
			for _, where := range points {
				t.Run(where.name+"/"+strconv.Itoa(where.turn), func(t *testing.T) { w.freeze(t, where, taken) })
			}
			proof.Tell("%d freezes, 0 stale effects", len(points))
		})
	}
}

func (w *world) freeze(t *testing.T, where reached, taken bool) {
	ws, objective := w.workspace(t)
	stands := make(chan rig.Point, 1)
	decide := at(where, rig.Freeze)
	w.faults.OnPoint(func(p rig.Point) rig.Action {
		action := decide(p)
		if action == rig.Freeze {
			stands <- p
		}
		return action
	})
	defer w.faults.OnPoint(nil)
	ended, point := w.untilFrozen(t, ws, stands)
	w.advance(t, 10*time.Minute)
	if taken {
		w.finish(t, ws)
	}
	before := w.snapshot(t, ws)
	w.faults.Thaw(point)
	r := report(t, <-ended, nil)
	if r.Outcome != heartbeat.Lost {
		t.Errorf("the thawed beat says %q (%s), want %q", r.Outcome, r.Reason, heartbeat.Lost)
	}
	if after := w.snapshot(t, ws); !slices.Equal(before, after) {
		t.Errorf("the thawed beat wrote:\n%s", difference(before, after))
	}
	w.faults.OnPoint(nil)
	w.finish(t, ws)
	w.verify(t, ws, objective)
}

// untilFrozen beats until the process is frozen at the point, which may only be reached in the last
// beat.
func (w *world) untilFrozen(t *testing.T, ws string, stands <-chan rig.Point) (<-chan *rig.Result, rig.Point) {
	t.Helper()
	for range 5 {
		inv, err := w.fn.Begin(t.Context(), w.tick(ws))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan *rig.Result, 1)
		go func() {
			if res, err := inv.Wait(t.Context()); err == nil {
				ended <- res
			}
		}()
		select {
		case point := <-stands:
			for p := (rig.Point{}); p.Seq != point.Seq; {
				if p, err = w.faults.WaitFor(t.Context(), point.Name); err != nil {
					t.Fatal(err)
				}
			}
			return ended, point
		case res := <-ended:
			report(t, res, nil)
		}
	}
	t.Fatal("the point did not come up")
	return nil, rig.Point{}
}

func difference(before, after []string) string {
	out := ""
	for _, row := range after {
		if !slices.Contains(before, row) {
			out += "+ " + row + "\n"
		}
	}
	for _, row := range before {
		if !slices.Contains(after, row) {
			out += "- " + row + "\n"
		}
	}
	return out
}
