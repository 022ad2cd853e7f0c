package task

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// MaxNodes is the largest number of tasks of a [Graph].
const MaxNodes = 60

// A Node is a task of a graph.
type Node struct {
	Task
	Hops int // from the task in the middle
}

// An Edge says that From must be completed before To begins.
type Edge struct {
	From, To string
	Blocking bool // From is not completed, and To has not begun
}

// A Graph is the neighbourhood of a task, the nearest tasks first.
type Graph struct {
	Nodes     []Node
	Edges     []Edge
	Truncated bool // there are more tasks than MaxNodes
}

// Graph reads the tasks within some hops of a task, in both directions. It runs one statement a hop and
// two more. It returns [db.ErrNoRows] if there is no such task.
func (s *Store) Graph(ctx context.Context, ws db.Workspace, id string, hops int) (Graph, error) {
	var g Graph
	order, at := []string{id}, map[string]int{id: 0}
	frontier := []string{id}
	for hop := 1; hop <= hops && len(frontier) > 0 && !g.Truncated; hop++ {
		var next []string
		err := s.edges(ctx, ws, s.q.Near, func(edge [2]string) {
			for _, other := range edge {
				if _, known := at[other]; known {
					continue
				}
				if len(order) == MaxNodes {
					g.Truncated = true
					continue
				}
				at[other] = hop
				order, next = append(order, other), append(next, other)
			}
		}, db.Encode(frontier), 2*MaxNodes)
		if err != nil {
			return Graph{}, err
		}
		frontier = next
	}
	tasks := map[string]Task{}
	var found []Task
	if err := s.db.Each(ctx, ws, collect(&found), s.q.GetSome, db.Encode(order), false); err != nil {
		return Graph{}, fmt.Errorf("read the graph of a task: %w", err)
	}
	for _, t := range found {
		tasks[t.ID] = t
	}
	if _, ok := tasks[id]; !ok {
		return Graph{}, fmt.Errorf("read the graph of a task: %w", db.ErrNoRows)
	}
	for _, of := range order {
		if t, ok := tasks[of]; ok {
			g.Nodes = append(g.Nodes, Node{t, at[of]})
		}
	}
	err := s.edges(ctx, ws, s.q.Within, func(edge [2]string) {
		to, from := tasks[edge[0]], tasks[edge[1]]
		waits := to.Status == Pending || to.Status == Paused || to.Status == Aborted && !to.Cancelled
		g.Edges = append(g.Edges, Edge{From: from.ID, To: to.ID, Blocking: waits && from.CompletedAt == nil})
	}, db.Encode(order))
	return g, err
}

// edges reads pairs of a task and one that it depends on.
func (s *Store) edges(ctx context.Context, ws db.Workspace, q db.Query, each func([2]string), args ...any) error {
	err := s.db.Each(ctx, ws, func(scan db.Scan) error {
		var edge [2]string
		if err := scan(&edge[0], &edge[1]); err != nil {
			return err
		}
		each(edge)
		return nil
	}, q, args...)
	if err != nil {
		return fmt.Errorf("read the graph of a task: %w", err)
	}
	return nil
}
