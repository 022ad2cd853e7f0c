package task

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Code says for programs why a task does not run.
type Code string

// The codes.
const (
	WaitsForDependency Code = "dependency"        // one that may still be completed
	DependencyFailed   Code = "dependency_failed" // one that can't be completed any more by itself
	WaitsForThread     Code = "thread"            // another task is at work in its thread
	WaitsForAgent      Code = "no_agent"
	WaitsForCapacity   Code = "agents_full"
	WaitsForBudget     Code = "budget"
	IsPaused           Code = "paused"
	WaitsForBackoff    Code = "backoff"
	IsCancelled        Code = "cancelled"
	HasFailed          Code = "failed"
	HasEnded           Code = "ended"
	IsAssigned         Code = "assigned"
	IsRunning          Code = "running"
)

// Reason is one reason why a task does not run.
type Reason struct {
	Code    Code
	Message string
	Task    string // that it waits for
	Status  Status // of that task
	Thread  string
	Until   *time.Time
}

// maxReasons bounds the dependencies that an explanation names.
const maxReasons = 20

// Why explains why a task is not running: in one sentence, and as data. It returns [db.ErrNoRows] if
// there is no such task.
func (s *Store) Why(ctx context.Context, ws db.Workspace, id string) (string, []Reason, error) {
	var b db.Batch
	var found, open, busy []Task
	var waits int
	b.Each(collect(&found), s.q.Get, id, false)
	b.Each(db.Append(&open, func(scan db.Scan, t *Task) error {
		return scan(&t.ID, &t.Title, &t.Status, &t.Cancelled, &waits)
	}), s.q.OpenDependencies, id, maxReasons)
	b.Each(db.Append(&busy, func(scan db.Scan, t *Task) error { return scan(&t.ID, &t.Title, &t.Status) }), s.q.ThreadTask, id)
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return "", nil, fmt.Errorf("explain a task: %w", err)
	}
	t, err := first(found, nil)
	if err != nil {
		return "", nil, err
	}
	reasons := t.reasons(open, busy)
	summary := reasons[0].Message
	if more := waits - 1; t.Status == Pending && more > 0 {
		summary += fmt.Sprintf(", and for %d more", more)
	}
	return summary, reasons, nil
}

// Main returns the main reason of each task, by id, as [Store.Why] has it. It runs two statements in
// one round trip, for any number of tasks.
func (s *Store) Main(ctx context.Context, ws db.Workspace, tasks []Task) (map[string]Reason, error) {
	var b db.Batch
	open, busy, waits := map[string][]Task{}, map[string][]Task{}, map[string]int{}
	ids := db.Encode(idsOf(tasks))
	b.Each(func(scan db.Scan) error {
		var of string
		var t Task
		var n int
		err := scan(&of, &t.ID, &t.Title, &t.Status, &t.Cancelled, &n)
		open[of], waits[of] = append(open[of], t), n
		return err
	}, s.q.FirstDependencies, ids)
	b.Each(func(scan db.Scan) error {
		var of string
		var t Task
		err := scan(&of, &t.ID, &t.Title, &t.Status)
		busy[of] = append(busy[of], t)
		return err
	}, s.q.ThreadTasks, ids)
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return nil, fmt.Errorf("explain tasks: %w", err)
	}
	out := make(map[string]Reason, len(tasks))
	for _, t := range tasks {
		r := t.reasons(open[t.ID], busy[t.ID])[0]
		if more := waits[t.ID] - 1; t.Status == Pending && more > 0 {
			r.Message += fmt.Sprintf(", and for %d more", more)
		}
		out[t.ID] = r
	}
	return out, nil
}

// reasons lists why a task does not run, the main reason first.
func (t Task) reasons(open, busy []Task) (out []Reason) {
	add := func(r Reason, format string, args ...any) {
		r.Message = fmt.Sprintf(format, args...)
		out = append(out, r)
	}
	switch {
	case t.Status == Pending:
		for _, o := range open {
			r := Reason{Code: WaitsForDependency, Task: o.ID, Status: o.Status}
			switch {
			case o.Cancelled, o.Status == Failed, o.Status == Archived:
				r.Code = DependencyFailed
				add(r, "it can't begin: it depends on task \"%s\" (%s), which %s", o.Title, o.ID, o.ended())
			default:
				add(r, "it waits for task \"%s\" (%s), which is %s", o.Title, o.ID, o.Status)
			}
		}
		for _, o := range busy {
			add(Reason{Code: WaitsForThread, Task: o.ID, Status: o.Status, Thread: t.Thread},
				"it waits for its thread (%s), in which task \"%s\" (%s) is at work", t.Thread, o.Title, o.ID)
		}
		if out == nil {
			add(Reason{Code: WaitsForAgent}, "it could begin, and no agent has it yet")
		}
	case t.Status == Paused:
		add(Reason{Code: IsPaused}, "it is paused until somebody resumes it")
	case t.Status == Aborted && t.Cancelled:
		add(Reason{Code: IsCancelled}, "it was cancelled%s", because(t.StatusReason))
	case t.Status == Aborted && t.due:
		add(Reason{Code: WaitsForBackoff, Until: t.NextAttemptAt}, "its backoff is over, and nobody has put it back yet%s", because(t.LastError))
	case t.Status == Aborted && t.NextAttemptAt != nil:
		add(Reason{Code: WaitsForBackoff, Until: t.NextAttemptAt}, "it waits until %s, because its last attempt failed%s",
			t.NextAttemptAt.UTC().Format(time.RFC3339), because(t.LastError))
	case t.Status == Failed:
		add(Reason{Code: HasFailed}, "it failed%s", because(t.LastError))
	case t.Status == Assigned:
		add(Reason{Code: IsAssigned}, "it is assigned, and its agent has not begun attempt %d yet", t.Attempt)
	case t.Status == Running:
		add(Reason{Code: IsRunning}, "it is running, in attempt %d%s", t.Attempt, because(t.CurrentStep))
	default:
		add(Reason{Code: HasEnded}, "it has ended as %s", t.Status)
	}
	return out
}

// ended says how a task ended that was not completed.
func (t Task) ended() string {
	switch {
	case t.Cancelled:
		return "was cancelled"
	case t.Status == Archived:
		return "was archived before it was completed"
	}
	return "has failed"
}

// maxBecause bounds what a sentence repeats of an error, in characters.
const maxBecause = 200

func because(why string) string {
	if r := []rune(why); len(r) > maxBecause {
		why = string(r[:maxBecause]) + "…"
	}
	if why == "" {
		return ""
	}
	return ": " + why
}
