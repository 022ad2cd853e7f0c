package task

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// RecoverAll ends attempts whose agent is gone, and returns how many of them were still open. A task
// that had not begun returns to PENDING and spends no retry. Any other is ABORTED until its backoff is
// over, or FAILED when its retries are spent; its checkpoint stays. The caller has locked the agent.
// RecoverAll locks all the tasks before it changes one, and wakes the coordinator once, at the end: who
// holds one of the tasks may wait for the row that wakes. Errors: [db.ErrNoRows].
func (s *Store) RecoverAll(ctx context.Context, tx Tx, all []Report, why string) (recovered int, err error) {
	if len(all) == 0 {
		return 0, nil
	}
	ids := make([]string, len(all))
	for i, r := range all {
		ids[i] = r.Task
	}
	tx.Later().Exec(s.q.LockSome, db.Encode(ids))
	silent := *s
	silent.Wake = nil
	for _, r := range all {
		did, err := silent.recover(ctx, tx, r.Task, r.Attempt, r.Actor, why)
		if err != nil {
			return recovered, err
		}
		if did {
			recovered++
		}
	}
	if recovered > 0 {
		s.wake(ctx, tx)
	}
	return recovered, nil
}

func (s *Store) recover(ctx context.Context, tx Tx, id string, attempt int, actor, why string) (bool, error) {
	t, err := s.head(ctx, tx, id)
	if err != nil || t.Attempt != attempt || !t.Status.Active() {
		return false, err
	}
	s.log(ctx, tx, t, Entry{Level: Warn, Event: Recovery, Message: why, Actor: actor})
	e := Entry{Level: Warn, Actor: actor, Details: json.RawMessage(db.Encode(map[string]any{"error": why}))}
	switch {
	case t.Status == Assigned:
		e.To, e.Message = Pending, "the task waits for another agent"
		_, err = s.move(ctx, tx, t, "aborted", why, e, s.q.Unassign)
	case t.Retries < t.MaxRetries:
		wait := Backoff(t.BackoffSeconds, t.Retries, s.random())
		e.To, e.Message = Aborted, fmt.Sprintf("the attempt is lost; the next begins in %s at the earliest", wait.Round(time.Second))
		_, err = s.move(ctx, tx, t, "aborted", why, e, s.q.Abort, why, wait.Milliseconds(), 1)
	default:
		e.Level, e.To, e.Message = Error, Failed, fmt.Sprintf("max retries exceeded (%d/%d)", t.Retries, t.MaxRetries)
		_, err = s.move(ctx, tx, t, "aborted", why, e, s.q.Fail, why)
	}
	return err == nil, err
}

// GiveBack ends an attempt that can't begin or go on, for a reason that is not its agent's. The task is ABORTED for as
// long as after its first failure, and at least for the given time, and spends no retry. An attempt that is over stays
// as it is. Errors: [db.ErrNoRows].
func (s *Store) GiveBack(ctx context.Context, tx Tx, r Report, why string, least time.Duration) (Task, error) {
	t, err := s.head(ctx, tx, r.Task)
	if err != nil || t.Attempt != r.Attempt || !t.Status.Active() {
		return t, err
	}
	wait := max(least, Backoff(t.BackoffSeconds, 0, s.random()))
	e := Entry{
		Level: Warn, To: Aborted, Actor: r.Actor, Details: json.RawMessage(db.Encode(map[string]any{"error": why})),
		Message: fmt.Sprintf("the attempt was given back; the next begins in %s at the earliest", wait.Round(time.Second)),
	}
	return s.move(ctx, tx, t, "aborted", why, e, s.q.Abort, why, wait.Milliseconds(), 0)
}

// GetOf is [Store.Get] for an agent: it returns [db.ErrNoRows], too, unless the agent has an attempt of
// the task, which may be over.
func (s *Store) GetOf(ctx context.Context, ws db.Workspace, id, agent string) (Task, error) {
	var found []Task
	var latest int
	var b db.Batch
	b.Each(collect(&found), s.q.Get, id, true)
	b.Each(func(scan db.Scan) error { return scan(&latest) }, s.q.LatestOf, id, agent)
	err := s.db.Read(ctx, ws, &b)
	if err == nil && latest == 0 {
		err = db.ErrNoRows
	}
	return first(found, err)
}

// EndedLately returns which agent had an attempt, and in which session, if it ended within the given time. Else it
// returns [db.ErrNoRows].
func (s *Store) EndedLately(ctx context.Context, tx Tx, id string, attempt int, within time.Duration) (agent, session string, err error) {
	read := func(scan db.Scan) error { return scan(&agent, db.Optional(&session)) }
	err = tx.Each(ctx, read, s.q.EndedLately, id, attempt, within.Milliseconds())
	if err == nil && agent == "" {
		err = db.ErrNoRows
	}
	if err != nil {
		return "", "", fmt.Errorf("look for an attempt that has ended: %w", err)
	}
	return agent, session, nil
}

// notHeld refuses the report of an agent that does not hold the present attempt.
func (s *Store) notHeld(ctx context.Context, tx Tx, r Report, t Task) error {
	var latest int
	if err := tx.Each(ctx, func(scan db.Scan) error { return scan(&latest) }, s.q.LatestOf, r.Task, r.Agent); err != nil {
		return fmt.Errorf("look for an agent's attempt: %w", err)
	}
	switch {
	case latest == 0:
		return fmt.Errorf("look for an agent's attempt: %w", db.ErrNoRows)
	case r.Attempt == 0:
		r.Attempt = latest
	}
	return &StaleError{Task: t.ID, Attempt: r.Attempt, Present: t.Attempt, Actor: r.Actor, Status: t.Status}
}
