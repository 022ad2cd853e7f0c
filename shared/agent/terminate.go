package agent

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// Attempt names an attempt of a task.
type Attempt struct {
	Task   string
	Number int
}

// Generation returns the generation of an agent's valid token. It returns [db.ErrNoRows] if there is
// no such agent, or if it is terminated.
func (s *Store) Generation(ctx context.Context, ws db.Workspace, id string) (n int, err error) {
	if err := s.db.One(ctx, ws, []any{&n}, s.q.Generation, id); err != nil {
		return 0, fmt.Errorf("read the generation of an agent's token: %w", err)
	}
	return n, nil
}

// Rotate makes all tokens of an agent invalid, and returns the agent with the generation of its next
// one. Errors: [db.ErrNoRows], [StatusError].
func (s *Store) Rotate(ctx context.Context, tx Tx, id string) (Agent, error) {
	a, err := s.head(ctx, tx, id)
	switch {
	case err != nil:
		return Agent{}, err
	case a.Status == Terminated:
		return Agent{}, &StatusError{Status: a.Status, What: "a new token"}
	}
	tx.Later().Exec(s.q.Rotate, id)
	return s.read(ctx, tx, id)
}

// Terminate ends an agent for good: its token becomes invalid, and it gets no further task. A graceful
// termination lets an agent with open attempts finish them first, as DRAINING. Otherwise Terminate
// returns the attempts that are open, in the order of their tasks: the caller ends these in the same
// transaction. An agent that is terminated stays as it is. Errors: [db.ErrNoRows],
// [problem.InvalidError].
func (s *Store) Terminate(ctx context.Context, tx Tx, id, reason string, graceful bool) (Agent, []Attempt, error) {
	bad := &problem.InvalidError{}
	text(ctx, bad, "reason", &reason, 0, MaxReason)
	if err := bad.OrNil(); err != nil {
		return Agent{}, nil, err
	}
	a, err := s.head(ctx, tx, id)
	if err != nil || a.Status == Terminated {
		return a, nil, err
	}
	if graceful && a.Tasks > 0 {
		tx.Later().Exec(s.q.Drain, id, db.Null(reason))
		a, err := s.read(ctx, tx, id)
		return a, nil, err
	}
	var open []Attempt
	tx.Later().Exec(s.q.Terminate, id, db.Null(reason))
	tx.Later().Each(db.Append(&open, func(scan db.Scan, at *Attempt) error { return scan(&at.Task, &at.Number) }), s.q.OpenAttempts, id)
	a, err = s.read(ctx, tx, id)
	return a, open, err
}

// EndIfDrained is [Store.EndDrained] for one agent, in a transaction of its own.
func (s *Store) EndIfDrained(ctx context.Context, ws db.Workspace, id string) error {
	_, err := s.db.Exec(ctx, ws, s.q.EndDrained, id, id)
	if err != nil {
		return fmt.Errorf("terminate an agent that has drained: %w", err)
	}
	return nil
}

// firstID is the id before those of all agents.
const firstID = "00000000-0000-0000-0000-000000000000"

// EndDrained terminates the agent with this id, if it drains and has no open attempt left; an empty id
// stands for all agents of the workspace. An agent that drains gets no task, so that nothing needs a
// lock first.
func (s *Store) EndDrained(ctx context.Context, tx Tx, id string) (int64, error) {
	n, err := tx.Exec(ctx, s.q.EndDrained, cmp.Or(id, firstID), cmp.Or(id, db.LastID))
	if err != nil {
		return 0, fmt.Errorf("terminate the agents that have drained: %w", err)
	}
	return n, nil
}
