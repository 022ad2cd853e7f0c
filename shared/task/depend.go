package task

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// CycleError says that a task would depend on itself. Path begins and ends with the same task, and
// each of its tasks depends on the next.
type CycleError struct{ Path []string }

func (e *CycleError) Error() string {
	return "the dependencies would form a cycle: " + strings.Join(e.Path, " → ")
}

// SetDependencies replaces what a PENDING or PAUSED task depends on. match may refuse the task as it
// is. Errors: [db.ErrNoRows], [StatusError], [MissingError], [CycleError], [problem.InvalidError].
func (s *Store) SetDependencies(ctx context.Context, tx Tx, id string, match func(Task) error, dependsOn []string) (Task, error) {
	dependsOn = distinct(dependsOn)
	if len(dependsOn) > MaxEdges {
		return Task{}, problem.Invalid("dependsOn", "may be %d tasks at most", MaxEdges)
	}
	tx.Later().Exec(s.q.LockGraph) // before the task's row: so everyone locks
	t, err := s.whole(ctx, tx, id)
	if err == nil {
		err = match(t)
	}
	if err != nil {
		return Task{}, err
	}
	if t.Status != Pending && t.Status != Paused {
		return Task{}, t.illegal("a change of its dependencies")
	}
	if len(dependsOn) > 0 {
		some, on, err := s.graph(ctx, tx, dependsOn, dependsOn)
		if err == nil {
			err = some.all("dependsOn", dependsOn)
		}
		if err == nil {
			err = some.room(dependsOn, t.DependsOn)
		}
		if err != nil {
			return Task{}, err
		}
		if path := shortest(on, dependsOn, []string{t.ID}); path != nil {
			return Task{}, &CycleError{append([]string{t.ID}, path...)}
		}
	}
	edges := make([][2]string, len(dependsOn))
	for i, on := range dependsOn {
		edges[i] = [2]string{t.ID, on}
	}
	tx.Later().Exec(s.q.DeleteEdges, t.ID)
	tx.Later().Exec(s.q.AddEdges, db.Encode(edges))
	tx.Later().Exec(s.q.Touch, t.ID)
	s.wake(ctx, tx) // it may be due now
	return s.read(ctx, tx, t.ID)
}

// graph reads tasks by their ids, and all that some of them depend on, directly or not. The caller
// holds the lock of the graph.
func (s *Store) graph(ctx context.Context, tx Tx, ids, from []string) (known, map[string][]string, error) {
	found, on := known{}, map[string][]string{}
	tasks := func(scan db.Scan) error {
		var n node
		err := scan(&n.ID, &n.Status, &n.dependsOn, &n.dependents)
		found[n.ID] = n
		return err
	}
	if len(from) > 0 {
		tx.Later().Each(func(scan db.Scan) error {
			var task, dependsOn string
			err := scan(&task, &dependsOn)
			on[task] = append(on[task], dependsOn)
			return err
		}, s.q.Edges, db.Encode(from))
	}
	err := tx.Each(ctx, tasks, s.q.Some, db.Encode(ids))
	if err != nil {
		return nil, nil, fmt.Errorf("read the dependencies of tasks: %w", err)
	}
	return found, on, nil
}

// shortest finds a shortest chain of dependencies from one of some tasks to one of others, both
// included, by breadth. It returns nil if there is none.
func shortest(on map[string][]string, from, to []string) []string {
	before := map[string]string{}
	queue := slices.Clone(from)
	for _, id := range from {
		before[id] = ""
	}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		if slices.Contains(to, id) {
			path := []string{}
			for at := id; at != ""; at = before[at] {
				path = append(path, at)
			}
			slices.Reverse(path)
			return path
		}
		for _, next := range on[id] {
			if _, seen := before[next]; !seen {
				before[next] = id
				queue = append(queue, next)
			}
		}
	}
	return nil
}
