package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// Defaults of a new task.
const (
	DefaultPriority = 5
	DefaultRetries  = 3
	DefaultBackoff  = 300 // seconds
)

// Create adds a PENDING task and returns it. It uses the fields that describe the work: title,
// description, type, priority, estimates, retries, input, metadata, tags, project, milestone,
// thread, dependencies both ways, trust and creator, and the id where there is one. Errors: [problem.InvalidError],
// [MissingError], [CycleError], [StatusError] of a task that it is to block.
func (s *Store) Create(ctx context.Context, tx Tx, t Task) (Task, error) {
	if err := t.check(ctx); err != nil {
		return Task{}, err
	}
	t.ID = cmp.Or(t.ID, s.ids())
	if err := s.resolve(ctx, tx, &t); err != nil {
		return Task{}, err
	}
	b := tx.Later()
	b.Exec(s.q.Insert, t.ID, t.Title, t.Description, db.Null(t.Type), t.Priority, db.Null(t.EstimatedMinutes), t.EstimatedAt, t.MaxRetries,
		t.BackoffSeconds, string(t.Input), string(t.Metadata), encode(t.Tags), db.Null(t.Project), db.Null(t.Milestone), db.Null(t.Thread),
		t.Untrusted, t.CreatedBy)
	if len(t.Tags) > 0 {
		b.Exec(s.q.AddTags, t.ID, encode(t.Tags))
	}
	edges := [][2]string{}
	for _, id := range t.DependsOn {
		edges = append(edges, [2]string{t.ID, id})
	}
	for _, id := range t.Blocks {
		edges = append(edges, [2]string{id, t.ID})
	}
	if len(edges) > 0 {
		b.Exec(s.q.AddEdges, encode(edges))
	}
	if len(t.Blocks) > 0 {
		b.Exec(s.q.TouchSome, encode(t.Blocks)) // who replaces their dependencies must have read these
	}
	s.log(ctx, tx, t, Entry{Event: Created, Message: "the task was created", To: Pending, Actor: t.CreatedBy})
	made, err := s.read(ctx, tx, t.ID)
	if err != nil {
		return Task{}, fmt.Errorf("create a task: %w", err)
	}
	return made, nil
}

// resolve checks that everything a new task names is there, and that its dependencies close no
// cycle.
func (s *Store) resolve(ctx context.Context, tx Tx, t *Task) error {
	if len(t.DependsOn)+len(t.Blocks) > 0 {
		tx.Later().Exec(s.q.LockGraph)
	}
	if len(t.Blocks) > 0 {
		tx.Later().Exec(s.q.LockSome, encode(t.Blocks))
	}
	if t.Thread+t.Project+t.Milestone != "" {
		if err := s.named(ctx, tx, t); err != nil {
			return err
		}
	}
	if len(t.DependsOn)+len(t.Blocks) == 0 {
		return nil
	}
	from := t.DependsOn
	if len(t.Blocks) == 0 {
		from = nil // nothing that it depends on can depend on it
	}
	some, on, err := s.graph(ctx, tx, slices.Concat(t.DependsOn, t.Blocks), from)
	if err != nil {
		return err
	}
	if err := some.all("dependsOn", t.DependsOn); err != nil {
		return err
	}
	if err := some.all("blocks", t.Blocks); err != nil {
		return err
	}
	for _, id := range t.Blocks {
		if of := some[id]; of.Status != Pending && of.Status != Paused {
			e := of.illegal("a new dependency")
			e.Why = fmt.Sprintf("task %s, which blocks names, is %s: only a PENDING or PAUSED task gets dependencies", id, of.Status)
			return e
		}
		if some[id].dependsOn >= MaxEdges {
			return problem.Invalid("blocks", "names task %s, which depends on %d tasks already: more it can't", id, MaxEdges)
		}
	}
	if err := some.room(t.DependsOn, nil); err != nil {
		return err
	}
	if path := shortest(on, from, t.Blocks); path != nil {
		return &CycleError{slices.Concat([]string{t.ID}, path, []string{t.ID})}
	}
	return nil
}

// named checks the thread, the project and the milestone that a task names. The project of a task
// with a milestone is the milestone's.
func (s *Store) named(ctx context.Context, tx Tx, t *Task) error {
	var thread, project, closed, archived bool
	var of *string
	err := tx.Each(ctx, func(scan db.Scan) error { return scan(&thread, &project, &closed, &of, &archived) }, s.q.Named, db.Null(t.Thread), db.Null(t.Project), db.Null(t.Milestone))
	switch {
	case err != nil:
		return fmt.Errorf("look for what a task names: %w", err)
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
