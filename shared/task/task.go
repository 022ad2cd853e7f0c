// Package task stores durable work for agents: tasks with their status, attempts, dependencies and
// append-only log.
//
// A task's status changes by [Store] methods only. Each locks the task's row, decides in a new
// statement whether the change is legal, and writes the change together with its row of the log. A
// trigger adds the event. An attempt number is the fence of a task: a report that names another
// attempt than the present one changes nothing.
package task

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.sql
var files embed.FS

// Status is the status of a task.
type Status string

// The statuses of a task.
const (
	Pending   Status = "PENDING"
	Assigned  Status = "ASSIGNED"
	Running   Status = "RUNNING"
	Paused    Status = "PAUSED"
	Completed Status = "COMPLETED"
	Failed    Status = "FAILED"
	Aborted   Status = "ABORTED" // requeued after a backoff, unless it is cancelled
	Archived  Status = "ARCHIVED"
)

// transitions has the legal transitions. A cancelled task may only be archived.
var transitions = map[Status][]Status{
	Pending:   {Assigned, Paused, Aborted, Failed},
	Assigned:  {Running, Pending, Paused, Aborted, Failed, Completed},
	Running:   {Completed, Failed, Aborted, Paused},
	Paused:    {Pending, Aborted, Failed},
	Aborted:   {Pending, Failed, Archived},
	Failed:    {Pending, Archived},
	Completed: {Archived},
}

// Active reports whether an attempt is under way.
func (s Status) Active() bool { return s == Assigned || s == Running }

// Task is one row, with the ids of its dependencies.
type Task struct {
	ID           string
	Title        string
	Description  string
	Type         string
	Status       Status
	StatusReason string // of a task that is paused or cancelled, where one was given
	Cancelled    bool   // ABORTED for good
	Priority     int    // 1 to 10; 10 comes first
	Agent        string
	Session      string
	Attempt      int // the number of the latest attempt; 0: there was none

	Progress    int // percent
	CurrentStep string

	EstimatedMinutes int // 0: not known
	EstimatedAt      *time.Time

	Retries        int
	MaxRetries     int
	BackoffSeconds int
	NextAttemptAt  *time.Time // of an aborted task: when its backoff is over
	LastError      string
	Summary        string

	// Input, Output and Checkpoint are JSON. Listings leave them out.
	Input, Output, Checkpoint json.RawMessage
	// Sealed is, of a new task, the input as it was given, encrypted, if it holds secrets. It is not read.
	Sealed            []byte
	CheckpointVersion int
	Metadata          json.RawMessage
	Tags              []string

	Project, Milestone, Thread string
	DependsOn, Blocks          []string // sorted

	Untrusted   bool // created by an execution that had read untrusted text, or from such text
	Version     int  // counts all changes
	CreatedBy   string
	CreatedAt   time.Time
	UpdatedAt   time.Time
	AssignedAt  *time.Time
	StartedAt   *time.Time
	CompletedAt *time.Time
	FailedAt    *time.Time

	due   bool // the time of NextAttemptAt has come
	rests bool // nothing of it has changed for a second
}

// Legal lists the statuses that the task may change to now: an aborted task returns to PENDING only
// once its backoff is over, and never if it is cancelled.
func (t Task) Legal() []Status {
	switch {
	case t.Status == Aborted && t.Cancelled:
		return []Status{Archived}
	case t.Status == Aborted && !t.due:
		return []Status{Failed, Archived}
	}
	return slices.Clone(transitions[t.Status])
}

// StatusError says that a task's status does not allow a change.
type StatusError struct {
	Status Status   // the present one
	Legal  []Status // those that the task may change to
	What   string   // was asked for, such as "complete"
	Why    string   // in words; empty: the status says it
}

func (e *StatusError) Error() string {
	if e.Why != "" {
		return e.Why
	}
	return fmt.Sprintf("the task is %s: %s is not possible now", e.Status, e.What)
}

func (t Task) illegal(what string) *StatusError {
	return &StatusError{Status: t.Status, Legal: t.Legal(), What: what}
}

// StaleError says that a report names an attempt that is not the present one. Whoever works on that
// attempt must stop.
type StaleError struct {
	Task             string
	Attempt, Present int
	Actor            string // who reported
	Status           Status // of the task; may be empty
}

func (e *StaleError) Error() string {
	if e.Attempt == e.Present && e.Status != "" && !e.Status.Active() {
		return fmt.Sprintf("attempt %d is over, and the task is %s: stop working on it", e.Attempt, e.Status)
	}
	if e.Attempt == e.Present {
		return fmt.Sprintf("attempt %d of the task is over or another agent's: stop working on it", e.Attempt)
	}
	return fmt.Sprintf("attempt %d is not the present attempt of the task: stop working on it", e.Attempt)
}

// MissingError names fields with ids of things that are not in the workspace.
type MissingError struct{ Field, What string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("the %s that %s names is not in this workspace", e.What, e.Field)
}

type queries struct {
	Get, GetSome, List, ListOldest, ListUrgent   db.Query
	Insert, AddTags, DeleteTags, Lock            db.Query
	Patch, Pause, Resume, Cancel, Retry, Archive db.Query
	Unwarn                                       db.Query
	Complete, Abort, Fail, Progress              db.Query
	EndAttempt, EndCompleted, NoteCheckpoint     db.Query
	Unassign, LatestOf, EndedLately, HeardLately db.Query
	LockNamed, Named, Some, LockGraph, LockSome  db.Query
	Edges, AddEdges, DeleteEdges                 db.Query
	Touch, TouchSome, Conflict                   db.Query
	Log, Logs, OpenDependencies, ThreadTask      db.Query
	OfEntry                                      db.Query
	FirstDependencies, ThreadTasks, Near, Within db.Query
	Origin, Wanted                               db.Query
	SealedInput, SealedInputs, ResealInput       db.Query
}

// Store stores the tasks of all workspaces. Methods that write take a transaction, in which the
// caller also records who asked for the change.
type Store struct {
	// Wake adds to a transaction's last batch what wakes the coordinator, after a task was created, or its
	// status or what it depends on has changed. It is set once; nil: nothing wakes it before its schedule does.
	Wake func(context.Context, *db.Batch)

	// Stopped adds to a transaction that the attempts at tasks are not wanted any more, because the tasks were
	// paused or have ended: who works on them, waits for a person, or has a run of an earlier attempt open is to
	// look at once. It is set once; nil: they hear of it later.
	Stopped func(b *db.Batch, tasks ...string)

	// Converse opens the thread of a task that a call of [CreateSkill] creates, appends what was said there
	// under a key, and returns its id. It is set once; nil: such calls name no thread.
	Converse func(ctx context.Context, tx lane.Tx, with Conversation, key string) (string, error)

	db     *db.DB
	q      queries
	ids    func() string
	random func() float64 // 0 to 1, for jitter
}

// New returns a store. ids returns time-ordered ids, and random numbers from 0 to 1.
func New(d *db.DB, ids func() string, random func() float64) (*Store, error) {
	s := &Store{db: d, ids: ids, random: random}
	if err := db.Load(files, &s.q); err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	return s, nil
}

// Tx is an open transaction: a [db.Tx] or a lane's.
type Tx = db.Writer

// Get reads a task. It returns [db.ErrNoRows] if there is none.
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Task, error) {
	var found []Task
	err := s.db.Each(ctx, ws, collect(&found), s.q.Get, id, true)
	return first(found, err)
}

// OfEntry returns which attempt of which task an entry of the log is about; empty: there is no such entry.
func (s *Store) OfEntry(ctx context.Context, ws db.Workspace, id string) (task string, attempt int, err error) {
	err = s.db.Each(ctx, ws, func(scan db.Scan) error { return scan(&task, &attempt) }, s.q.OfEntry, id)
	if err != nil {
		return "", 0, fmt.Errorf("read what an entry of a task's log is about: %w", err)
	}
	return task, attempt, nil
}

// Origin returns the trace in which a task was created; empty: none is known.
func (s *Store) Origin(ctx context.Context, ws db.Workspace, id string) (origin trace.ID, err error) {
	err = s.db.Each(ctx, ws, func(scan db.Scan) error { return scan(&origin) }, s.q.Origin, id)
	if err != nil {
		return "", fmt.Errorf("read where a task comes from: %w", err)
	}
	return origin, nil
}

// GetIn is Get in a transaction, after what is queued there.
func (s *Store) GetIn(ctx context.Context, tx Tx, id string) (Task, error) {
	return s.read(ctx, tx, id)
}

// read reads a task in a transaction, after what is queued there.
func (s *Store) read(ctx context.Context, tx Tx, id string) (Task, error) {
	var found []Task
	err := tx.Each(ctx, collect(&found), s.q.Get, id, true)
	return first(found, err)
}

// head locks a task's row and then reads it in a new statement, without its edges, input, output and
// checkpoint: until the transaction ends, nobody else changes the task.
func (s *Store) head(ctx context.Context, tx Tx, id string) (Task, error) {
	tx.Later().Exec(s.q.Lock, id)
	var found []Task
	err := tx.Each(ctx, collect(&found), s.q.Get, id, false)
	return first(found, err)
}

// whole is [Store.head] with all of the task.
func (s *Store) whole(ctx context.Context, tx Tx, id string) (Task, error) {
	tx.Later().Exec(s.q.Lock, id)
	return s.read(ctx, tx, id)
}

// readAll reads the tasks with the ids of others, in their order, after what is queued. It returns
// [db.ErrNoRows] if one is not there.
func (s *Store) readAll(ctx context.Context, tx Tx, tasks []Task, whole bool) ([]Task, error) {
	var found []Task
	if err := tx.Each(ctx, collect(&found), s.q.GetSome, db.Encode(idsOf(tasks)), whole); err != nil {
		return nil, fmt.Errorf("read tasks: %w", err)
	}
	place := make(map[string]int, len(found))
	for i, t := range found {
		place[t.ID] = i
	}
	out := make([]Task, len(tasks))
	for i, t := range tasks {
		at, ok := place[t.ID]
		if !ok {
			return nil, fmt.Errorf("read task %s: %w", t.ID, db.ErrNoRows)
		}
		out[i] = found[at]
	}
	return out, nil
}

func idsOf(tasks []Task) []string {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return ids
}

func first(found []Task, err error) (Task, error) {
	return db.Found(found, err, "read a task", fmt.Errorf("read a task: %w", db.ErrNoRows))
}

func collect(into *[]Task) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, t *Task) error {
		var dependsOn, blocks *string
		var tags, metadata, input, output, checkpoint string
		if err := scan(&t.ID, &t.Title, &t.Description, db.Optional(&t.Type), &t.Status, db.Optional(&t.StatusReason), &t.Cancelled,
			&t.Priority, db.Optional(&t.Agent), db.Optional(&t.Session), &t.Attempt, &t.Progress, db.Optional(&t.CurrentStep),
			db.Optional(&t.EstimatedMinutes), &t.EstimatedAt, &t.Retries, &t.MaxRetries, &t.BackoffSeconds, &t.NextAttemptAt,
			db.Optional(&t.LastError), db.Optional(&t.Summary), &metadata, &t.CheckpointVersion, &tags, db.Optional(&t.Project),
			db.Optional(&t.Milestone), db.Optional(&t.Thread), &t.Untrusted, &t.Version, &t.CreatedBy, &t.CreatedAt, &t.UpdatedAt,
			&t.AssignedAt, &t.StartedAt, &t.CompletedAt, &t.FailedAt, &t.due, &t.rests, &dependsOn, &blocks,
			db.Optional(&input), db.Optional(&output), db.Optional(&checkpoint)); err != nil {
			return err
		}
		t.Metadata, t.Input, t.Output, t.Checkpoint = json.RawMessage(metadata), raw(input), raw(output), raw(checkpoint)
		t.DependsOn, t.Blocks = list(dependsOn), list(blocks)
		if err := json.Unmarshal([]byte(tags), &t.Tags); err != nil {
			return fmt.Errorf("the tags of task %s: %w", t.ID, err)
		}
		return nil
	})
}

// raw returns JSON that was stored, or nil for none.
func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

func list(text *string) []string {
	if text == nil {
		return nil
	}
	return strings.Split(*text, ",")
}
