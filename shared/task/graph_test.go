package task_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// graph is what some tasks, by their numbers, depend on.
type graph [][]int

// reaches reports whether one task depends on another, directly or not, or is the same.
func (g graph) reaches(from, to int, seen []bool) bool {
	if from == to {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	return slices.ContainsFunc(g[from], func(next int) bool { return g.reaches(next, to, seen) })
}

// TestEveryCycleIsFound sets the dependencies of random graphs in a random order: refused is what
// closes a cycle, with a path that is one, and nothing else. LK_FULL=1 makes the 1,000 graphs of up to
// 200 tasks of the promise on Postgres, and 200 on the others.
func TestEveryCycleIsFound(t *testing.T) {
	seed, most := promise.Seed(t), promise.Figure(20, 200)
	onEach(t, func(t *testing.T, w world) {
		graphs := promise.Figure(4, 200)
		if w.Engine == dbtest.OnPostgres {
			graphs = promise.Figure(4, 1000)
		}
		proof := promise.Of(t, "R17", "dependencies of random graphs that are set in random order, on "+w.Engine, "each cycle is refused with its path, and nothing else")
		random := rand.New(rand.NewPCG(17, seed))
		taken, refused := 0, 0
		for range graphs {
			of := make([]string, 2+random.IntN(most-1))
			number := map[string]int{}
			var b db.Batch
			for i := range of {
				of[i] = ids()
				number[of[i]] = i
				b.Exec(w.q.AddTask, of[i])
			}
			if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
			g := make(graph, len(of))
			for _, from := range random.Perm(len(of)) {
				var on []int
				var names []string
				for range random.IntN(4) {
					to := random.IntN(len(of))
					on, names = append(on, to), append(names, of[to])
				}
				closes := slices.ContainsFunc(on, func(to int) bool { return g.reaches(to, from, make([]bool, len(of))) })
				_, err := w.depend(t, of[from], names...)
				cycle, found := errors.AsType[*task.CycleError](err)
				if found != closes || err != nil && !found {
					t.Fatalf("%d depends on %v of %v: %v, closes a cycle: %t", from, on, g, err, closes)
				}
				if !closes {
					g[from] = on
					taken++
					continue
				}
				refused++
				path := cycle.Path
				if len(path) < 2 || number[path[0]] != from || path[len(path)-1] != path[0] || !slices.Contains(names, path[1]) {
					t.Fatalf("%d depends on %v: the path is %q", from, on, path)
				}
				for i, id := range path[1 : len(path)-1] {
					if !slices.Contains(g[number[id]], number[path[i+2]]) {
						t.Fatalf("the path %q is none: %s does not depend on %s", path, id, path[i+2])
					}
				}
			}
		}
		proof.Tell("%d graphs, %d sets of dependencies taken and %d refused", graphs, taken, refused)
	})
}
