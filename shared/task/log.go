package task

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Level is how much a row of the log matters.
type Level string

// The levels.
const (
	Debug    Level = "DEBUG"
	Info     Level = "INFO"
	Warn     Level = "WARN"
	Error    Level = "ERROR"
	Critical Level = "CRITICAL"
)

// Event is what a row of the log is about.
type Event string

// The events.
const (
	Created         Event = "created"
	Transition      Event = "state_transition"
	TaskAssigned    Event = "task_assigned"
	ProgressUpdate  Event = "progress_update"
	CheckpointSaved Event = "checkpoint"
	Recovery        Event = "task_recovery"
	Timeout         Event = "timeout"
	Conflict        Event = "conflict"
	DependencyCycle Event = "dependency_cycle"
	BudgetEvent     Event = "budget"
)

// Entry is one row of a task's log. Rows never change.
type Entry struct {
	ID         string
	Level      Level // empty: INFO
	Event      Event
	Message    string
	Details    json.RawMessage
	From, To   Status // of a transition
	Attempt    int
	Agent      string
	Session    string
	StackTrace string
	Actor      string // who did it, such as user:…
	Trace      trace.ID
	CreatedAt  time.Time
}

// logRow is a row of the log as the database gets it.
type logRow struct {
	ID      string   `json:"id"`
	Task    string   `json:"task"`
	Level   Level    `json:"level"`
	Event   Event    `json:"event"`
	Message string   `json:"message"`
	Details string   `json:"details,omitempty"`
	Was     Status   `json:"was,omitempty"`
	Becomes Status   `json:"becomes,omitempty"`
	Attempt int      `json:"attempt,omitempty"`
	Agent   string   `json:"agent,omitempty"`
	Session string   `json:"session,omitempty"`
	Stack   string   `json:"stack,omitempty"`
	Actor   string   `json:"actor"`
	Trace   trace.ID `json:"trace,omitempty"`
}

// entry returns a row about a task, without secrets.
func (s *Store) entry(ctx context.Context, t Task, e Entry) logRow {
	id, _ := trace.From(ctx)
	known := redact.From(ctx).Values()
	return logRow{
		ID: s.ids(), Task: t.ID, Level: cmp.Or(e.Level, Info), Event: e.Event, Message: known.Text(e.Message),
		Details: string(known.JSON(activity.Storable(e.Details))), Was: e.From, Becomes: e.To, Attempt: t.Attempt, Agent: t.Agent,
		Session: t.Session, Stack: known.Text(e.StackTrace), Actor: e.Actor, Trace: id,
	}
}

// log queues a row about a task.
func (s *Store) log(ctx context.Context, tx Tx, t Task, e Entry) {
	s.logAll(tx, []logRow{s.entry(ctx, t, e)})
}

func (s *Store) logAll(tx Tx, rows []logRow) { tx.Later().Exec(s.q.Log, db.Encode(rows)) }

// conflicts is the name space of the ids of conflicts.
var conflicts = uuid.MustParse("5b0d7c1e-6f0a-4c3e-9a53-0f4d0c6d9e21")

// NoteConflict logs that a report named another attempt than the present one: once for each attempt,
// and once for all that never began. The report's own transaction is over by then.
func (s *Store) NoteConflict(ctx context.Context, ws db.Workspace, e *StaleError) error {
	key, message := e.Attempt, fmt.Sprintf("a report on attempt %d came, and attempt %d is the present one", e.Attempt, e.Present)
	switch {
	case e.Attempt > e.Present:
		key, message = 0, fmt.Sprintf("a report on attempt %d came, which has not begun: the latest is attempt %d", e.Attempt, e.Present)
	case e.Attempt == e.Present:
		message = fmt.Sprintf("a report on attempt %d came, which is over or another agent's", e.Attempt)
	}
	traced, _ := trace.From(ctx)
	id := uuid.NewSHA1(conflicts, fmt.Appendf(nil, "%s:%d", e.Task, key)).String()
	details := db.Encode(map[string]int{"named_attempt": e.Attempt, "present_attempt": e.Present})
	if _, err := s.db.Exec(ctx, ws, s.q.Conflict, id, e.Task, message, details, e.Attempt, e.Actor, db.Null(traced)); err != nil {
		return fmt.Errorf("log a report on attempt %d of task %s: %w", e.Attempt, e.Task, err)
	}
	return nil
}

// LogFilter narrows a log. Empty fields match everything.
type LogFilter struct {
	Level  Level
	Event  Event
	Before db.Position
	Limit  int
}

// Logs reads a task's log, newest first. It returns [db.ErrNoRows] if there is no such task.
func (s *Store) Logs(ctx context.Context, ws db.Workspace, id string, f LogFilter) ([]Entry, error) {
	var b db.Batch
	var task []Task
	var found []Entry
	b.Each(collect(&task), s.q.Get, id, false)
	b.Each(db.Append(&found, func(scan db.Scan, e *Entry) error {
		var details string
		err := scan(&e.ID, &e.Level, &e.Event, &e.Message, db.Optional(&details), db.Optional(&e.From), db.Optional(&e.To),
			db.Optional(&e.Attempt), db.Optional(&e.Agent), db.Optional(&e.Session), db.Optional(&e.StackTrace), &e.Actor,
			db.Optional(&e.Trace), &e.CreatedAt)
		e.Details = raw(details)
		return err
	}), s.q.Logs, append(f.Before.Args(id, db.Null(f.Level), db.Null(f.Event)), f.Limit)...)
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return nil, fmt.Errorf("read the log of a task: %w", err)
	}
	if len(task) == 0 {
		return nil, fmt.Errorf("read the log of a task: %w", db.ErrNoRows)
	}
	return found, nil
}
