package task

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Defaults of a new task.
const (
	DefaultPriority = 5
	DefaultRetries  = 3
	DefaultBackoff  = 300 // seconds
)

// Create is [Store.CreateAll] of one task.
func (s *Store) Create(ctx context.Context, tx Tx, t Task) (Task, error) {
	made, err := s.CreateAll(ctx, tx, []Task{t})
	if err != nil {
		return Task{}, err
	}
	return made[0], nil
}

// CreateAll adds PENDING tasks and returns them, in a number of statements that does not grow. It uses
// the fields that describe the work: title, description, type, priority, estimates, retries, input
// (also sealed), metadata, tags, project, milestone, thread, dependencies both ways, trust and creator. Tasks that are
// given ids may depend on each other. Errors: [problem.InvalidError], [MissingError], [CycleError],
// [StatusError] of a task that one is to block. After an error the transaction must not be committed.
func (s *Store) CreateAll(ctx context.Context, tx Tx, tasks []Task) ([]Task, error) {
	tasks = slices.Clone(tasks)
	for i := range tasks {
		if err := tasks[i].check(ctx); err != nil {
			return nil, ofOne(tasks, i, err)
		}
		tasks[i].ID = cmp.Or(strings.ToLower(tasks[i].ID), s.ids())
	}
	if len(tasks) == 0 {
		return nil, nil
	}
	edges, err := s.resolve(ctx, tx, tasks)
	if err != nil {
		return nil, err
	}
	rows, entries, tags := make([]newRow, len(tasks)), make([]logRow, len(tasks)), [][2]string{}
	for i, t := range tasks {
		rows[i] = t.row()
		entries[i] = s.entry(ctx, t, Entry{Event: Created, Message: "the task was created", To: Pending, Actor: t.CreatedBy})
		tags = append(tags, tagRows(t)...)
	}
	b := tx.Later()
	b.Exec(s.q.Insert, db.Encode(rows))
	if len(tags) > 0 {
		b.Exec(s.q.AddTags, db.Encode(tags))
	}
	if len(edges.all) > 0 {
		b.Exec(s.q.AddEdges, db.Encode(edges.all))
	}
	if len(edges.blocked) > 0 {
		b.Exec(s.q.TouchSome, db.Encode(edges.blocked)) // who replaces their dependencies must have read these
	}
	s.logAll(tx, entries)
	s.wake(ctx, tx)
	made, err := s.readAll(ctx, tx, tasks, true)
	if err != nil {
		return nil, fmt.Errorf("create tasks: %w", err)
	}
	return made, nil
}

// ofOne says in an error which of several tasks it is about.
func ofOne(tasks []Task, i int, err error) error {
	if len(tasks) == 1 {
		return err
	}
	return fmt.Errorf("task %d of %d (%q): %w", i+1, len(tasks), tasks[i].Title, err)
}

// newRow is a new task as the database gets it.
type newRow struct {
	ID          string `json:"id"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Type        string `json:"type,omitempty"`
	Priority    int    `json:"priority"`
	Minutes     int    `json:"minutes,omitempty"`
	Estimated   *int64 `json:"estimated,omitempty"` // microseconds since 1970
	Retries     int    `json:"retries"`
	Backoff     int    `json:"backoff"`
	Input       string `json:"input"`
	Sealed      string `json:"sealed,omitempty"` // hexadecimal
	Metadata    string `json:"metadata"`
	Tags        string `json:"tags"`
	Project     string `json:"project,omitempty"`
	Milestone   string `json:"milestone,omitempty"`
	Thread      string `json:"thread,omitempty"`
	Untrusted   bool   `json:"untrusted"`
	Actor       string `json:"actor"`
}

func (t Task) row() newRow {
	r := newRow{
		ID: t.ID, Title: t.Title, Description: t.Description, Type: t.Type, Priority: t.Priority, Minutes: t.EstimatedMinutes, Retries: t.MaxRetries,
		Backoff: t.BackoffSeconds, Input: string(t.Input), Sealed: hex.EncodeToString(t.Sealed), Metadata: string(t.Metadata), Tags: db.Encode(t.Tags),
		Project:   t.Project,
		Milestone: t.Milestone, Thread: t.Thread, Untrusted: t.Untrusted, Actor: t.CreatedBy,
	}
	if t.EstimatedAt != nil {
		r.Estimated = new(t.EstimatedAt.UnixMicro())
	}
	return r
}

func tagRows(t Task) (rows [][2]string) {
	for _, tag := range t.Tags {
		rows = append(rows, [2]string{t.ID, tag})
	}
	return rows
}
