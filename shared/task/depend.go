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
	t, err := s.head(ctx, tx, id)
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
		some, err := s.some(ctx, tx, dependsOn)
		if err == nil {
			err = some.all("dependsOn", dependsOn)
		}
		if err == nil {
			err = some.room(dependsOn, t.DependsOn)
		}
		if err != nil {
			return Task{}, err
		}
		path, err := s.path(ctx, tx, dependsOn, []string{t.ID})
		if err != nil {
			return Task{}, err
		}
		if path != nil {
			return Task{}, &CycleError{append([]string{t.ID}, path...)}
		}
	}
	edges := make([][2]string, len(dependsOn))
	for i, on := range dependsOn {
		edges[i] = [2]string{t.ID, on}
	}
	tx.Later().Exec(s.q.DeleteEdges, t.ID)
	tx.Later().Exec(s.q.AddEdges, encode(edges))
	tx.Later().Exec(s.q.Touch, t.ID)
	return s.read(ctx, tx, t.ID)
}

// path finds a chain of dependencies from one of some tasks to one of others, both included. It
// returns nil if there is none. The caller holds the lock of the graph.
func (s *Store) path(ctx context.Context, tx Tx, from, to []string) ([]string, error) {
	on := map[string][]string{}
	err := tx.Each(ctx, func(scan db.Scan) error {
		var task, dependsOn string
		err := scan(&task, &dependsOn)
		on[task] = append(on[task], dependsOn)
		return err
	}, s.q.Edges, encode(from))
	if err != nil {
		return nil, fmt.Errorf("read the dependencies of tasks: %w", err)
	}
	return shortest(on, from, to), nil
}

// shortest finds a shortest path in a graph by breadth.
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
