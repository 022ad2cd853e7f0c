package task

import (
	"context"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// newEdges are the dependencies that new tasks bring.
type newEdges struct {
	all     [][2]string // a task, and one that it depends on
	blocked []string    // the tasks that were there and depend on a new one now
}

// resolve checks that everything new tasks name is there, and that their dependencies close no cycle.
// It notes the project of each milestone in its task.
func (s *Store) resolve(ctx context.Context, tx Tx, tasks []Task) (newEdges, error) {
	e, outside, named := newEdges{}, []string{}, false
	is := map[string]bool{}
	for _, t := range tasks {
		is[t.ID] = true
		named = named || t.Thread+t.Project+t.Milestone != ""
	}
	inside := false // whether new tasks depend on each other
	for _, t := range tasks {
		for _, id := range t.DependsOn {
			e.all = append(e.all, [2]string{t.ID, id})
			if inside = inside || is[id]; !is[id] {
				outside = append(outside, id)
			}
		}
		for _, id := range t.Blocks {
			e.all = append(e.all, [2]string{id, t.ID})
			if inside = inside || is[id]; !is[id] {
				e.blocked = append(e.blocked, id)
			}
		}
	}
	slices.SortFunc(e.all, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	e.all, e.blocked, outside = slices.Compact(e.all), distinct(e.blocked), distinct(outside)
	if len(e.all) > 0 {
		tx.Later().Exec(s.q.LockGraph)
	}
	if len(e.blocked) > 0 {
		tx.Later().Exec(s.q.LockSome, db.Encode(e.blocked))
	}
	if named {
		if err := s.named(ctx, tx, tasks); err != nil {
			return newEdges{}, err
		}
	}
	some, on := known{}, map[string][]string{}
	if len(outside)+len(e.blocked) > 0 {
		from := outside
		if len(e.blocked) == 0 {
			from = nil // nothing that new tasks depend on can depend on them
		}
		var err error
		if some, on, err = s.graph(ctx, tx, slices.Concat(outside, e.blocked), from); err != nil {
			return newEdges{}, err
		}
	}
	for _, t := range tasks {
		some[t.ID] = node{Task: Task{ID: t.ID, Status: Pending}}
	}
	for i, t := range tasks {
		if err := some.allow(t); err != nil {
			return newEdges{}, ofOne(tasks, i, err)
		}
	}
	if err := some.bound(e.all); err != nil {
		return newEdges{}, err
	}
	if len(e.blocked) == 0 && !inside {
		return e, nil
	}
	for _, edge := range e.all {
		on[edge[0]] = append(on[edge[0]], edge[1])
	}
	return e, cycleOf(tasks, on)
}

// cycleOf returns a [CycleError] if a chain of dependencies leads from one of some tasks back to it.
func cycleOf(tasks []Task, on map[string][]string) error {
	if len(tasks) > 1 && !cyclic(on) {
		return nil
	}
	for _, t := range tasks {
		if path := shortest(on, on[t.ID], []string{t.ID}); path != nil {
			return &CycleError{append([]string{t.ID}, path...)}
		}
	}
	return nil
}

// cyclic reports whether a graph has a cycle: then taking away tasks on which no other depends leaves
// some.
func cyclic(on map[string][]string) bool {
	waiting := map[string]int{} // how many depend on a task
	for id, next := range on {
		waiting[id] += 0
		for _, to := range next {
			waiting[to]++
		}
	}
	var free []string
	for id, n := range waiting {
		if n == 0 {
			free = append(free, id)
		}
	}
	gone := 0
	for ; len(free) > 0; gone++ {
		id := free[len(free)-1]
		free = free[:len(free)-1]
		for _, to := range on[id] {
			if waiting[to]--; waiting[to] == 0 {
				free = append(free, to)
			}
		}
	}
	return gone < len(waiting)
}

// allow refuses a new task that names tasks which are not there, or which can't depend on it.
func (k known) allow(t Task) error {
	if err := k.all("dependsOn", t.DependsOn); err != nil {
		return err
	}
	if err := k.all("blocks", t.Blocks); err != nil {
		return err
	}
	for _, id := range t.Blocks {
		if of := k[id]; of.Status != Pending && of.Status != Paused {
			e := of.illegal("a new dependency")
			e.Why = fmt.Sprintf("task %s, which blocks names, is %s: only a PENDING or PAUSED task gets dependencies", id, of.Status)
			return e
		}
	}
	return nil
}

// bound returns a [problem.InvalidError] if new edges give a task too many dependencies or dependents.
// The caller holds the lock of the graph.
func (k known) bound(edges [][2]string) error {
	for _, edge := range edges {
		from, on := k[edge[0]], k[edge[1]]
		if from.dependsOn >= MaxEdges {
			return problem.Invalid("blocks", "names task %s, which depends on %d tasks already: more it can't", edge[0], MaxEdges)
		}
		if on.dependents >= MaxDependents {
			return problem.Invalid("dependsOn", "names task %s, on which %d tasks depend already: more can't", edge[1], MaxDependents)
		}
		from.dependsOn++
		k[edge[0]] = from
		on = k[edge[1]]
		on.dependents++
		k[edge[1]] = on
	}
	return nil
}

// named checks the threads, the projects and the milestones that tasks name. The project of a task
// with a milestone is the milestone's.
func (s *Store) named(ctx context.Context, tx Tx, tasks []Task) error {
	type names struct {
		Place     int    `json:"place"`
		Thread    string `json:"thread,omitempty"`
		Project   string `json:"project,omitempty"`
		Milestone string `json:"milestone,omitempty"`
	}
	given := make([]names, len(tasks))
	for i, t := range tasks {
		given[i] = names{i, t.Thread, t.Project, t.Milestone}
	}
	tx.Later().Exec(s.q.LockNamed, db.Encode(given))
	var wrong error
	err := tx.Each(ctx, func(scan db.Scan) error {
		var i int
		var thread, project, closed, archived bool
		var of *string
		if err := scan(&i, &thread, &project, &closed, &of, &archived); err != nil {
			return err
		}
		if err := tasks[i].belongs(thread, project, closed, of, archived); err != nil && wrong == nil {
			wrong = ofOne(tasks, i, err)
		}
		return nil
	}, s.q.Named, db.Encode(given))
	if err != nil {
		return fmt.Errorf("look for what tasks name: %w", err)
	}
	return wrong
}

// belongs takes what is there of what a task names: its thread and its project, whether that is
// archived, the project of its milestone, and whether the milestone or that project is archived.
func (t *Task) belongs(thread, project, closed bool, of *string, archived bool) error {
	switch {
	case !thread:
		return &MissingError{"threadId", "thread"}
	case !project:
		return &MissingError{"projectId", "project"}
	case closed:
		return problem.Invalid("projectId", "is archived: restore it first")
	case t.Milestone == "":
		return nil
	case of == nil:
		return &MissingError{"milestoneId", "milestone"}
	case t.Project != "" && t.Project != *of:
		return problem.Invalid("milestoneId", "belongs to another project")
	case archived:
		return problem.Invalid("milestoneId", "is archived, or its project is: restore it first")
	}
	t.Project = *of
	return nil
}

// known are tasks by id, as far as dependencies need them.
type known map[string]node

// node is a task in the graph of dependencies. dependsOn and dependents count its edges.
type node struct {
	Task
	dependsOn, dependents int
}

// all returns a [MissingError] unless all ids are known.
func (k known) all(field string, ids []string) error {
	for _, id := range ids {
		if _, ok := k[id]; !ok {
			return &MissingError{field, "task"}
		}
	}
	return nil
}

// room returns a [problem.InvalidError] if a task can't depend on one of ids because too many do. has
// are those that it depends on already. The caller holds the lock of the graph.
func (k known) room(ids, has []string) error {
	for _, id := range ids {
		if k[id].dependents >= MaxDependents && !slices.Contains(has, id) {
			return problem.Invalid("dependsOn", "names task %s, on which %d tasks depend already: more can't", id, MaxDependents)
		}
	}
	return nil
}
