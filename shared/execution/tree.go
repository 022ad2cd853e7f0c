package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Tx is an open transaction: a [db.Tx] or a lane's.
type Tx = db.Writer

// ErrProtected means that a lane protects the execution: only the lane's holder may change its
// status.
var ErrProtected = errors.New("the execution works under a lane")

// An EndedError means that an execution has ended. It says how.
type EndedError struct {
	ID     string
	Status Status
}

func (e *EndedError) Error() string { return fmt.Sprintf("execution %s is %s", e.ID, e.Status) }

// Begin stores a running execution without a subject, which no lane protects. Agents outside of
// this process use it. The execution belongs to its parent's trace, if it has a parent. With await,
// the parent waits until the child has ended, and the child may speak under the parent's lock on a
// thread. Begin returns an [EndedError] or [db.ErrNoRows] when the parent has ended or does not
// exist, and [ErrProtected] when a parent that is to wait works under a lane.
func (s *Store) Begin(ctx context.Context, tx Tx, e Execution, await bool) (Execution, error) {
	if e.Parent != "" {
		if err := s.join(ctx, tx, &e, await); err != nil {
			return e, fmt.Errorf("begin execution under %s: %w", e.Parent, err)
		}
	}
	if len(e.Input) == 0 {
		e.Input = json.RawMessage("{}")
	}
	e.Status, e.Attempt, e.Subject, e.Slot = Running, 1, "", ""
	tx.Later().Exec(s.q.Begin, e.ID, e.Agent, e.Surface, e.Trace, db.Null(e.Parent), await && e.Parent != "",
		e.Input, db.Null(int(e.Timeout/time.Second)), sealed(e))
	return e, nil
}

// sealed returns the value of the column sealed_input.
func sealed(e Execution) any {
	if len(e.Sealed) == 0 {
		return nil
	}
	return e.Sealed
}

// join makes an execution's parent wait for it, with await, and takes the parent's trace.
func (s *Store) join(ctx context.Context, tx Tx, e *Execution, await bool) error {
	var id trace.ID
	var subject *lane.Name
	lives := false
	err := tx.Each(ctx, func(scan db.Scan) error { lives = true; return scan(&id, &subject) }, s.q.Seize, e.Parent)
	switch {
	case err != nil:
		return err
	case !lives:
		return s.standing(ctx, tx, e.Parent)
	case await && subject != nil:
		return ErrProtected
	}
	e.Trace = id
	if await {
		tx.Later().Exec(s.q.Await, e.Parent)
	}
	return nil
}

// End ends an execution that [Store.Begin] has begun. The parent continues when it waits for no
// other child. End returns an [EndedError] when the execution has already ended.
func (s *Store) End(ctx context.Context, tx Tx, id string, as Status, result json.RawMessage, message string) error {
	if !as.Ended() {
		return fmt.Errorf("end execution %s: %s is no end", id, as)
	}
	n, err := tx.Exec(ctx, s.q.End, id, as, result, db.Null(message))
	if err == nil && n == 0 {
		err = s.standing(ctx, tx, id)
	}
	if err != nil {
		return fmt.Errorf("end execution: %w", err)
	}
	tx.Later().Exec(s.q.SeizeParent, id)
	tx.Later().Exec(s.q.Rejoin, id)
	return nil
}

// standing returns the reason why an execution was not changed.
func (s *Store) standing(ctx context.Context, tx Tx, id string) error {
	e := &EndedError{ID: id}
	var subject *lane.Name
	if err := tx.One(ctx, []any{&e.Status, &subject}, s.q.Standing, id); err != nil {
		return err
	}
	if !e.Status.Ended() {
		return ErrProtected
	}
	return e
}

// Park queues that a running execution without a subject waits for a person's answer. It does not
// change any other execution.
func (s *Store) Park(b *db.Batch, id string) { b.Exec(s.q.Park, id) }
