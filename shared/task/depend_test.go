package task_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

func TestCyclesAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a, b, c := w.create(t, draft("a")).ID, w.create(t, draft("b")).ID, w.create(t, draft("c")).ID
		for _, edge := range [][]string{{b, a}, {c, b}} {
			if _, err := w.depend(t, edge[0], edge[1]); err != nil {
				t.Fatal(err)
			}
		}
		refused := func(err error, want ...string) {
			t.Helper()
			if cycle, ok := errors.AsType[*task.CycleError](err); !ok || !slices.Equal(cycle.Path, want) {
				t.Errorf("%v, want the cycle %q", err, want)
			}
		}
		_, err := w.depend(t, a, c)
		refused(err, a, c, b, a)
		_, err = w.depend(t, a, a)
		refused(err, a, a)
		d := draft("between")
		d.DependsOn, d.Blocks = []string{c}, []string{a}
		_, err = w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) { return w.s.Create(ctx, tx, d) })
		if cycle, ok := errors.AsType[*task.CycleError](err); !ok || len(cycle.Path) != 5 || !slices.Equal(cycle.Path[1:4], []string{c, b, a}) {
			t.Errorf("a new task that closes a cycle: %v", err)
		}
		d.DependsOn, d.Blocks = []string{a}, []string{c}
		between := w.create(t, d)
		if got := w.get(t, c); !slices.Equal(got.DependsOn, slices.Sorted(slices.Values([]string{b, between.ID}))) {
			t.Errorf("it depends on %v", got.DependsOn)
		}
		if got, err := w.depend(t, c); err != nil || len(got.DependsOn) != 0 {
			t.Errorf("%v, %v", got.DependsOn, err)
		}
		if _, err := w.depend(t, a, c); err != nil { // now it may
			t.Error(err)
		}
		if _, err := w.depend(t, a, ids()); err == nil {
			t.Error("it depends on what is not there")
		}
		if _, err := w.cancel(t, a); err != nil {
			t.Fatal(err)
		}
		if _, err := w.depend(t, a); err == nil {
			t.Error("an aborted task gets dependencies")
		}
		d.DependsOn, d.Blocks = nil, []string{a}
		if _, err := w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) { return w.s.Create(ctx, tx, d) }); err == nil {
			t.Error("a new task blocks an aborted one")
		}
	})
}

// TestNoCycleIsWrittenByTwoAtOnce: many writers on two handles set random dependencies, and the graph
// never has a cycle.
func TestNoCycleIsWrittenByTwoAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		second, _ := w.Open(t, 0)
		other := w
		other.DB = second
		var err error
		if other.s, err = task.New(second, ids, rand.Float64); err != nil {
			t.Fatal(err)
		}
		for range 25 { // the two halves of a cycle
			a, b := w.create(t, draft("a")).ID, w.create(t, draft("b")).ID
			var errs [2]error
			var halves sync.WaitGroup
			begin := make(chan struct{})
			halves.Go(func() { <-begin; _, errs[0] = w.depend(t, a, b) })
			halves.Go(func() { <-begin; _, errs[1] = other.depend(t, b, a) })
			close(begin)
			halves.Wait()
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Fatalf("of two halves of a cycle one must be taken: %v, %v", errs[0], errs[1])
			}
		}
		nodes := make([]string, 6)
		for i := range nodes {
			nodes[i] = w.create(t, draft("node")).ID
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		set, refused := 0, 0
		for writer := range 8 {
			from := []world{w, other}[writer%2]
			random := rand.New(rand.NewPCG(17, uint64(writer)))
			wg.Go(func() {
				for range 12 {
					order := random.Perm(len(nodes))
					_, err := from.depend(t, nodes[order[0]], nodes[order[1]], nodes[order[2]])
					_, cycle := errors.AsType[*task.CycleError](err)
					if err != nil && !cycle {
						t.Errorf("set dependencies: %v", err)
					}
					mu.Lock()
					if cycle {
						refused++
					} else {
						set++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		on := map[string][]string{}
		if err := w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
			var a, b string
			err := scan(&a, &b)
			on[a] = append(on[a], b)
			return err
		}, w.q.AllEdges); err != nil {
			t.Fatal(err)
		}
		if set == 0 || refused == 0 {
			t.Errorf("%d were set and %d refused", set, refused)
		}
		state := map[string]int{} // 1: being visited, 2: done
		var visit func(string)
		visit = func(id string) {
			if state[id] == 1 {
				t.Fatalf("the graph has a cycle at %s: %v", id, on)
			}
			if state[id] == 2 {
				return
			}
			state[id] = 1
			for _, next := range on[id] {
				visit(next)
			}
			state[id] = 2
		}
		for _, id := range nodes {
			visit(id)
		}
	})
}

// TestAChangeOfDependenciesWakesTheCoordinator: the task may be due at once.
func TestAChangeOfDependenciesWakesTheCoordinator(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a, b := w.create(t, draft("a")).ID, w.create(t, draft("b")).ID
		if _, err := w.depend(t, a, b); err != nil {
			t.Fatal(err)
		}
		wakes := 0
		w.s.Wake = func(context.Context, *db.Batch) { wakes++ }
		if _, err := w.depend(t, a); err != nil || wakes != 1 {
			t.Errorf("it is woken %d times, %v", wakes, err)
		}
	})
}
