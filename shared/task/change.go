package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// move changes the status of a task that [Store.head] has locked and read, writes the log, ends the
// attempt that was under way, and returns the stored task.
func (s *Store) move(ctx context.Context, tx Tx, t Task, outcome, failure string, e Entry, q db.Query, args ...any) (Task, error) {
	if !slices.Contains(t.Legal(), e.To) {
		return Task{}, fmt.Errorf("task %s: a change from %s to %s is not in the table", t.ID, t.Status, e.To)
	}
	moved := tx.Later().Exec(q, append([]any{t.ID, t.Status, t.Attempt}, args...)...)
	if t.Status.Active() {
		tx.Later().Exec(s.q.EndAttempt, t.ID, t.Attempt, outcome, db.Null(failure))
	}
	if e.To == Paused || e.To == Failed {
		s.stop(tx, t)
	}
	e.Event, e.From = Transition, t.Status
	s.log(ctx, tx, t, e)
	if e.To != Archived {
		s.wake(ctx, tx)
	}
	return s.after(ctx, tx, t.ID, moved)
}

// stop tells of tasks whose attempt is not wanted any more. A run of it, or of an earlier one, may be open.
func (s *Store) stop(tx Tx, tasks ...Task) {
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool { return t.Attempt == 0 })
	if s.Stopped != nil && len(tasks) > 0 {
		s.Stopped(tx.Later(), idsOf(tasks)...)
	}
}

func (s *Store) wake(ctx context.Context, tx Tx) {
	if s.Wake != nil {
		s.Wake(ctx, tx.Later())
	}
}

// after reads a task after a change, and returns an error if the change did not find it as it was.
func (s *Store) after(ctx context.Context, tx Tx, id string, change *db.Op) (Task, error) {
	is, err := s.read(ctx, tx, id)
	if err == nil && change.Affected() != 1 {
		err = fmt.Errorf("task %s was locked and has changed", id)
	}
	return is, err
}

// allowed refuses a change to a status that is not legal now.
func (t Task) allowed(to Status, what string) error {
	if !slices.Contains(t.Legal(), to) {
		return t.illegal(what)
	}
	return nil
}

// Patch is a change of a task by a person. A nil field stays as it is.
type Patch struct {
	Title, Description *string
	Priority           *int
	Tags               *[]string
	EstimatedAt        **time.Time
	MaxRetries         *int
	Status             *Status // PAUSED or PENDING
}

// Patch changes a task and returns the stored one. match may refuse the task as it is. Errors:
// [db.ErrNoRows], [problem.InvalidError], [StatusError].
func (s *Store) Patch(ctx context.Context, tx Tx, id, actor string, match func(Task) error, p Patch) (Task, error) {
	t, err := s.head(ctx, tx, id)
	if err == nil {
		err = match(t)
	}
	if err != nil {
		return Task{}, err
	}
	if p.Title != nil || p.Description != nil || p.Priority != nil || p.Tags != nil || p.EstimatedAt != nil || p.MaxRetries != nil {
		if err := s.patchFields(ctx, tx, &t, p); err != nil {
			return Task{}, err
		}
	}
	switch {
	case p.Status != nil && *p.Status == Paused && t.Status == Paused && t.StatusReason != "":
		held := tx.Later().Exec(s.q.Pause, t.ID, t.Status, t.Attempt, nil)
		s.log(ctx, tx, t, Entry{Event: Transition, Message: "the task stays paused until a person resumes it", Actor: actor})
		return s.after(ctx, tx, t.ID, held)
	case p.Status == nil || *p.Status == t.Status:
		return s.read(ctx, tx, id)
	case *p.Status == Paused:
		if err := t.allowed(Paused, "a pause"); err != nil {
			return Task{}, err
		}
		return s.move(ctx, tx, t, "paused", "", Entry{To: Paused, Message: "the task was paused", Actor: actor}, s.q.Pause, nil)
	case *p.Status == Pending && t.Status == Paused:
		return s.move(ctx, tx, t, "", "", Entry{To: Pending, Message: "the task was resumed", Actor: actor}, s.q.Resume)
	case *p.Status == Pending:
		return Task{}, t.illegal("a return to PENDING by hand")
	}
	return Task{}, problem.Invalid("status", "must be PAUSED or PENDING")
}

func (s *Store) patchFields(ctx context.Context, tx Tx, t *Task, p Patch) error {
	db.Patch(&t.Title, p.Title)
	db.Patch(&t.Description, p.Description)
	db.Patch(&t.Priority, p.Priority)
	db.Patch(&t.Tags, p.Tags)
	db.Patch(&t.EstimatedAt, p.EstimatedAt)
	db.Patch(&t.MaxRetries, p.MaxRetries)
	bad := &problem.InvalidError{}
	text(ctx, bad, "title", &t.Title, 1, MaxTitle)
	text(ctx, bad, "description", &t.Description, 0, MaxDescription)
	bad.If(t.Priority < 1 || t.Priority > 10, "priority", "must be 1 to 10")
	bad.If(t.MaxRetries < 0 || t.MaxRetries > MaxRetries, "maxRetries", "must be 0 to 100")
	bad.If(p.EstimatedAt != nil && !problem.Storable(t.EstimatedAt), "estimatedCompletionAt", problem.BadTime)
	t.Tags = tags(ctx, bad, t.Tags)
	if err := bad.OrNil(); err != nil {
		return err
	}
	b := tx.Later()
	b.Exec(s.q.Patch, t.ID, t.Title, t.Description, t.Priority, db.Encode(t.Tags), t.EstimatedAt, t.MaxRetries)
	if p.EstimatedAt != nil {
		b.Exec(s.q.Unwarn, t.ID, t.Attempt)
	}
	if p.Tags != nil {
		b.Exec(s.q.DeleteTags, t.ID)
		if rows := tagRows(*t); len(rows) > 0 {
			b.Exec(s.q.AddTags, db.Encode(rows))
		}
	}
	return nil
}

// Pause pauses a task for a reason that says who may resume it, and logs why in a sentence. Errors:
// [db.ErrNoRows], [StatusError].
func (s *Store) Pause(ctx context.Context, tx Tx, id, actor, reason, why string) (Task, error) {
	t, err := s.head(ctx, tx, id)
	if err == nil {
		err = t.allowed(Paused, "a pause")
	}
	if err != nil {
		return Task{}, err
	}
	return s.move(ctx, tx, t, "paused", "", Entry{Level: Warn, To: Paused, Message: why, Actor: actor}, s.q.Pause, reason)
}

// Match locks a task, and returns [db.ErrNoRows] if there is none or it no longer is as a filter says.
// What nobody changes, and the text, are not compared.
func (s *Store) Match(ctx context.Context, tx Tx, id string, f Filter) error {
	t, err := s.head(ctx, tx, id)
	if err == nil && !f.matches(t) {
		err = db.ErrNoRows
	}
	if err != nil {
		return fmt.Errorf("match task %s: %w", id, err)
	}
	return nil
}

func (f Filter) matches(t Task) bool {
	for _, tag := range f.Tags {
		if !slices.Contains(t.Tags, tag) {
			return false
		}
	}
	return (f.Status == "" || t.Status == f.Status) && (f.Agent == "" || t.Agent == f.Agent) &&
		(f.MinPriority == 0 || t.Priority >= f.MinPriority) && (f.MaxPriority == 0 || t.Priority <= f.MaxPriority)
}

// Cancel aborts a task for good: it is never requeued. An attempt under way is over. A task that
// waits for the end of its backoff may be cancelled, too. Errors: [db.ErrNoRows], [StatusError],
// [problem.InvalidError].
func (s *Store) Cancel(ctx context.Context, tx Tx, id, actor, reason string) (Task, error) {
	bad := &problem.InvalidError{}
	text(ctx, bad, "reason", &reason, 0, MaxReason)
	if err := bad.OrNil(); err != nil {
		return Task{}, err
	}
	t, err := s.head(ctx, tx, id)
	if err != nil {
		return Task{}, err
	}
	s.stop(tx, t)
	e := Entry{Level: Warn, To: Aborted, Message: cmp.Or(reason, "the task was cancelled"), Details: []byte(`{"cancelled":true}`), Actor: actor}
	if t.Status == Aborted && !t.Cancelled {
		done := tx.Later().Exec(s.q.Cancel, t.ID, t.Status, t.Attempt, db.Null(reason))
		e.Event, e.To = Recovery, "" // it is called off; the status stays
		s.log(ctx, tx, t, e)
		return s.after(ctx, tx, t.ID, done)
	}
	if err := t.allowed(Aborted, "a cancellation"); err != nil {
		return Task{}, err
	}
	return s.move(ctx, tx, t, "cancelled", "", e, s.q.Cancel, db.Null(reason))
}

// Retry gives a failed task all its retries again and makes it PENDING. An aborted one may be
// retried once its backoff is over, unless it is cancelled. Errors: [db.ErrNoRows], [StatusError].
func (s *Store) Retry(ctx context.Context, tx Tx, id, actor string) (Task, error) {
	t, err := s.head(ctx, tx, id)
	if err != nil {
		return Task{}, err
	}
	if t.Status != Failed && (t.Status != Aborted || t.Cancelled || !t.due) {
		e := t.illegal("a retry")
		if t.Status == Aborted && !t.Cancelled && t.NextAttemptAt != nil {
			e.Why = fmt.Sprintf("the task is ABORTED, and its backoff is over at %s: retry it then", t.NextAttemptAt.UTC().Format(time.RFC3339))
		}
		return Task{}, e
	}
	return s.move(ctx, tx, t, "", "", Entry{To: Pending, Message: "the task is tried again", Actor: actor}, s.q.Retry)
}

// Archive puts a task away that has ended. Errors: [db.ErrNoRows], [StatusError].
func (s *Store) Archive(ctx context.Context, tx Tx, id, actor string) (Task, error) {
	t, err := s.head(ctx, tx, id)
	if err == nil {
		err = t.allowed(Archived, "archiving")
	}
	if err != nil {
		return Task{}, err
	}
	if t.Status == Aborted {
		s.stop(tx, t) // a run of its last attempt may be open
	}
	return s.move(ctx, tx, t, "", "", Entry{To: Archived, Message: "the task was archived", Actor: actor}, s.q.Archive)
}
