package task

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// Report is whose report it is, and on which attempt.
type Report struct {
	Task    string
	Attempt int // 0: on the present one
	Actor   string
	Agent   string // that reports for itself: it must hold the present attempt
}

// present locks the task of a report by [Store.head] or [Store.whole], and refuses a report that is not
// on the present attempt.
func (s *Store) present(ctx context.Context, tx Tx, r Report, read func(context.Context, Tx, string) (Task, error), what string) (Task, error) {
	t, err := read(ctx, tx, r.Task)
	if err == nil {
		err = s.fits(ctx, tx, r, t, what)
	}
	if err != nil {
		return Task{}, err
	}
	return t, nil
}

// Present locks the task of a report and returns it without its input, output and checkpoint, if the
// report is on the present attempt. Errors: [db.ErrNoRows], [StaleError], [StatusError].
func (s *Store) Present(ctx context.Context, tx Tx, r Report) (Task, error) {
	return s.present(ctx, tx, r, s.head, "a report of usage")
}

// Wanted reports whether an attempt is under way. It only reads.
func (s *Store) Wanted(ctx context.Context, ws db.Workspace, id string, attempt int) (bool, error) {
	n := 0
	if err := s.db.One(ctx, ws, []any{&n}, s.q.Wanted, id, attempt); err != nil {
		return false, fmt.Errorf("look whether an attempt is wanted: %w", err)
	}
	return n > 0, nil
}

// fits refuses a report on an attempt that is not the present one of a locked task. An attempt is over
// as soon as its task is neither ASSIGNED nor RUNNING.
func (s *Store) fits(ctx context.Context, tx Tx, r Report, t Task, what string) error {
	switch {
	case r.Agent != "" && (r.Agent != t.Agent || !t.Status.Active()):
		return s.notHeld(ctx, tx, r, t)
	case r.Attempt != 0 && (r.Attempt != t.Attempt || !t.Status.Active()):
		return &StaleError{Task: t.ID, Attempt: r.Attempt, Present: t.Attempt, Actor: r.Actor, Status: t.Status}
	case !t.Status.Active():
		return t.illegal(what)
	}
	return nil
}

// Complete is [Store.CompleteAll] of one task.
func (s *Store) Complete(ctx context.Context, tx Tx, r Report, output json.RawMessage, summary string) (Task, error) {
	done, err := s.CompleteAll(ctx, tx, []Completion{{r, output, summary}})
	if err != nil {
		return Task{}, err
	}
	return done[0], nil
}

// Completion is a report that a task is done.
type Completion struct {
	Report
	Output  json.RawMessage
	Summary string
}

// CompleteAll ends tasks as done, in a number of statements that does not grow: all, or none. Errors:
// [db.ErrNoRows], [StaleError], [StatusError], [problem.InvalidError]. After an error the transaction
// must not be committed.
func (s *Store) CompleteAll(ctx context.Context, tx Tx, all []Completion) ([]Task, error) {
	if len(all) == 0 {
		return nil, nil
	}
	all, tasks := slices.Clone(all), make([]Task, len(all))
	for i := range all {
		c := &all[i]
		bad := &problem.InvalidError{}
		value(ctx, bad, "outputResult", &c.Output, MaxInput)
		text(ctx, bad, "summary", &c.Summary, 0, MaxDescription)
		bad.If(slices.ContainsFunc(all[:i], func(o Completion) bool { return o.Task == c.Task }), "id", "is named twice")
		if err := bad.OrNil(); err != nil {
			return nil, err
		}
		tasks[i].ID = c.Task
	}
	tx.Later().Exec(s.q.LockSome, db.Encode(idsOf(tasks)))
	tasks, err := s.readAll(ctx, tx, tasks, false)
	if err != nil {
		return nil, err
	}
	type row struct {
		ID      string  `json:"id"`
		Was     Status  `json:"was"`
		Attempt int     `json:"attempt"`
		Output  *string `json:"output,omitempty"`
		Summary string  `json:"summary,omitempty"`
	}
	rows, entries := make([]row, len(all)), make([]logRow, len(all))
	for i, t := range tasks {
		if err := s.fits(ctx, tx, all[i].Report, t, "completion"); err != nil {
			return nil, err
		}
		rows[i] = row{ID: t.ID, Was: t.Status, Attempt: t.Attempt, Summary: all[i].Summary}
		if all[i].Output != nil {
			rows[i].Output = new(string(all[i].Output))
		}
		entries[i] = s.entry(ctx, t, Entry{Event: Transition, From: t.Status, To: Completed, Message: "the task was completed", Actor: all[i].Actor})
	}
	completed := tx.Later().Exec(s.q.Complete, db.Encode(rows))
	tx.Later().Exec(s.q.EndCompleted, db.Encode(rows))
	s.stop(tx, tasks...)
	s.logAll(tx, entries)
	s.wake(ctx, tx)
	done, err := s.readAll(ctx, tx, tasks, true)
	if err == nil && completed.Affected() != int64(len(all)) {
		err = fmt.Errorf("complete tasks: %d of %d were locked and have changed", int64(len(all))-completed.Affected(), len(all))
	}
	return done, err
}

// Failure is how an attempt failed.
type Failure struct {
	Error      string
	StackTrace string
	Final      bool // no retry helps
}

// Fail ends an attempt as failed. While the task has retries left it is ABORTED until its backoff is
// over, else FAILED. Errors: [db.ErrNoRows], [StaleError], [StatusError], [problem.InvalidError].
func (s *Store) Fail(ctx context.Context, tx Tx, r Report, f Failure) (Task, error) {
	bad := &problem.InvalidError{}
	text(ctx, bad, "error", &f.Error, 1, MaxError)
	text(ctx, bad, "stackTrace", &f.StackTrace, 0, MaxTrace)
	if err := bad.OrNil(); err != nil {
		return Task{}, err
	}
	t, err := s.present(ctx, tx, r, s.head, "failure")
	if err != nil {
		return Task{}, err
	}
	e := Entry{Level: Error, StackTrace: f.StackTrace, Details: json.RawMessage(db.Encode(map[string]any{"error": f.Error})), Actor: r.Actor}
	if !f.Final && t.Retries < t.MaxRetries {
		wait := Backoff(t.BackoffSeconds, t.Retries, s.random())
		e.To, e.Message = Aborted, fmt.Sprintf("the attempt failed; the next begins in %s at the earliest", wait.Round(time.Second))
		return s.move(ctx, tx, t, "failed", f.Error, e, s.q.Abort, f.Error, wait.Milliseconds(), 1)
	}
	e.To, e.Message = Failed, "the task failed, and no retry would help"
	if !f.Final {
		e.Message = fmt.Sprintf("max retries exceeded (%d/%d)", t.Retries, t.MaxRetries)
	}
	return s.move(ctx, tx, t, "failed", f.Error, e, s.q.Fail, f.Error)
}

// Backoff is how long a task waits after its retry with this number: base × 2^number with 20 %
// jitter either way, and six hours at most. random is 0 to 1.
func Backoff(base, number int, random float64) time.Duration {
	seconds := float64(base) * math.Pow(2, float64(number)) * (0.8 + 0.4*random)
	return time.Duration(min(seconds, MaxBackoff) * float64(time.Second))
}

// Progress is how far an attempt is. A nil field stays as it was.
type Progress struct {
	Percent    *int
	Step       *string
	Checkpoint json.RawMessage
}

// Advance stores the progress of an attempt, and reports whether anything was written. Where nothing differs, that is
// a line of the log now and then, a sign of life of an agent that sends no heartbeats. Errors: [db.ErrNoRows], [StaleError], [StatusError],
// [problem.InvalidError].
func (s *Store) Advance(ctx context.Context, tx Tx, r Report, p Progress) (Task, bool, error) {
	bad := &problem.InvalidError{}
	bad.If(p.Percent != nil && (*p.Percent < 0 || *p.Percent > 100), "progressPercent", "must be 0 to 100")
	if p.Step != nil {
		step := *p.Step
		text(ctx, bad, "currentStep", &step, 0, MaxStep)
		p.Step = &step
	}
	value(ctx, bad, "checkpointData", &p.Checkpoint, MaxInput)
	if err := bad.OrNil(); err != nil {
		return Task{}, false, err
	}
	t, err := s.present(ctx, tx, r, s.whole, "progress")
	if err != nil {
		return Task{}, false, err
	}
	if bytes.Equal(p.Checkpoint, t.Checkpoint) {
		p.Checkpoint = nil
	}
	percent, step := t.Progress, t.CurrentStep
	db.Patch(&t.Progress, p.Percent)
	db.Patch(&t.CurrentStep, p.Step)
	if t.Progress == percent && t.CurrentStep == step && p.Checkpoint == nil {
		return s.still(ctx, tx, t, r.Actor)
	}
	stored := tx.Later().Exec(s.q.Progress, t.ID, t.Status, t.Attempt, p.Percent, p.Step, p.Checkpoint)
	e := Entry{Event: ProgressUpdate, Level: Debug, Actor: r.Actor, Message: cmp.Or(t.CurrentStep, "progress: "+strconv.Itoa(t.Progress)+" %"),
		Details: json.RawMessage(db.Encode(map[string]any{"progressPercent": t.Progress}))}
	if p.Checkpoint != nil {
		e.Event, e.Message = CheckpointSaved, fmt.Sprintf("checkpoint %d was stored", t.CheckpointVersion+1)
		tx.Later().Exec(s.q.NoteCheckpoint, t.ID, t.Attempt, t.CheckpointVersion+1)
	}
	s.log(ctx, tx, t, e)
	is, err := s.after(ctx, tx, t.ID, stored)
	return is, err == nil, err
}

// still logs that an attempt is where it was, unless that was logged lately or the task has just changed, and reports
// whether it did. The coordinator takes an attempt for lost after a longer silence.
func (s *Store) still(ctx context.Context, tx Tx, t Task, actor string) (Task, bool, error) {
	lately := !t.rests
	if !lately {
		if err := tx.Each(ctx, func(scan db.Scan) error { return scan(&lately) }, s.q.HeardLately, t.ID, t.Attempt, db.Null(t.Agent)); err != nil {
			return Task{}, false, fmt.Errorf("look when an attempt was heard of: %w", err)
		}
	}
	if !lately {
		s.log(ctx, tx, t, Entry{Event: ProgressUpdate, Level: Debug, Actor: actor, Message: "it is where it was"})
	}
	return t, !lately, nil
}
