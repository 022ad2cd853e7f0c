package coordinate

import (
	"cmp"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// edge says what a waiting task depends on that is not completed.
type edge struct {
	task, on string
	state    string // of on: dead can't be completed by itself, waits, or works
}

func edges(into *[]edge) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, e *edge) error { return scan(&e.task, &e.on, &e.state) })
}

// doomed is a waiting task that can't begin any more.
type doomed struct {
	task string
	on   string   // the dependency that can't be completed; empty in a cycle
	path []string // the cycle, which begins and ends with the same task
}

// graph is the waiting tasks by what they depend on and by what depends on them, with sorted keys.
type graph struct {
	order  []string
	on, by map[string][]string
}

func newGraph() *graph { return &graph{on: map[string][]string{}, by: map[string][]string{}} }

func (g *graph) add(task, on string) {
	for _, id := range []string{task, on} {
		if _, known := g.on[id]; !known {
			g.order = append(g.order, id)
			g.on[id] = nil
		}
	}
	g.on[task] = append(g.on[task], on)
	g.by[on] = append(g.by[on], task)
}

// doom finds all tasks that can't begin any more: those in a cycle, those that depend on one that
// can't be completed, and those that depend on these. The cycles come first, and each other task comes after the one
// because of which it can't begin.
func doom(all []edge) []doomed {
	slices.SortFunc(all, func(a, b edge) int { return cmp.Or(cmp.Compare(a.task, b.task), cmp.Compare(a.on, b.on)) })
	waiting := newGraph()
	found := map[string]bool{}
	var out []doomed
	note := func(d doomed) {
		if !found[d.task] {
			found[d.task] = true
			out = append(out, d)
		}
	}
	for _, e := range all {
		if e.state == "waits" {
			waiting.add(e.task, e.on)
		}
	}
	for _, path := range waiting.cycles() {
		for _, id := range path.members {
			note(doomed{task: id, path: path.path})
		}
	}
	for _, e := range all {
		if e.state == "dead" {
			note(doomed{task: e.task, on: e.on})
		}
	}
	for i := 0; i < len(out); i++ {
		for _, by := range waiting.by[out[i].task] {
			note(doomed{task: by, on: out[i].task})
		}
	}
	return out
}

// cycle is a set of tasks of which each depends on all others, and one path around some of them.
type cycle struct{ members, path []string }

// cycles finds the strongly connected parts of more than one task.
func (g *graph) cycles() (out []cycle) {
	left := g.peeled()
	if len(left) == 0 {
		return nil
	}
	// Kosaraju: in the reversed order in which a walk leaves the tasks, a walk against the edges
	// reaches one part at a time.
	var leaving []string
	seen := map[string]bool{}
	for _, root := range g.order {
		if left[root] && !seen[root] {
			leaving = append(leaving, walk(root, g.on, left, seen)...)
		}
	}
	seen = map[string]bool{}
	for _, root := range slices.Backward(leaving) {
		if seen[root] {
			continue
		}
		members := walk(root, g.by, left, seen)
		if len(members) == 1 && !slices.Contains(g.on[root], root) {
			continue
		}
		slices.Sort(members)
		out = append(out, cycle{members, g.around(members)})
	}
	return out
}

// peeled returns the tasks that are left when those without dependencies are taken away again and
// again: the tasks in cycles, and those that depend on them.
func (g *graph) peeled() map[string]bool {
	open := map[string]int{}
	left := map[string]bool{}
	var free []string
	for _, id := range g.order {
		left[id] = true
		if open[id] = len(g.on[id]); open[id] == 0 {
			free = append(free, id)
		}
	}
	for len(free) > 0 {
		id := free[len(free)-1]
		free = free[:len(free)-1]
		delete(left, id)
		for _, by := range g.by[id] {
			if open[by]--; open[by] == 0 {
				free = append(free, by)
			}
		}
	}
	return left
}

// walk visits all that can be reached from root within some tasks, and returns them in the order in
// which it leaves them.
func walk(root string, next map[string][]string, within, seen map[string]bool) (order []string) {
	type step struct {
		id string
		at int
	}
	seen[root] = true
	stack := []step{{root, 0}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if top.at == len(next[top.id]) {
			order = append(order, top.id)
			stack = stack[:len(stack)-1]
			continue
		}
		to := next[top.id][top.at]
		top.at++
		if within[to] && !seen[to] {
			seen[to] = true
			stack = append(stack, step{to, 0})
		}
	}
	return order
}

// around returns a shortest path from the first of some connected tasks back to it.
func (g *graph) around(members []string) []string {
	start := members[0]
	within := map[string]bool{}
	for _, id := range members {
		within[id] = true
	}
	before := map[string]string{}
	queue := []string{start}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		for _, to := range g.on[id] {
			if to == start {
				path := []string{start}
				for at := id; at != start; at = before[at] {
					path = append(path, at)
				}
				slices.Reverse(path[1:])
				return append(path, start)
			}
			if _, seen := before[to]; !seen && within[to] {
				before[to] = id
				queue = append(queue, to)
			}
		}
	}
	return members
}
