package thread

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/invalid"
	"github.com/lanekeeper/lanekeeper/shared/run"
)

// Park keeps a thread for the execution that has it while it waits for the person's
// answer, for at most [Parking] (zero: as long), and parks the execution. Meanwhile
// others may do what the thread's policy says. [ErrNotHeld] when it does not have it.
func (s *Store) Park(ctx context.Context, tx run.Tx, thread, execution string, limit time.Duration) error {
	if limit == 0 {
		limit = Parking
	}
	if limit < time.Second || limit > Parking {
		return invalid.New("seconds", "are 1 to %d", int(Parking/time.Second))
	}
	s.runs.Park(tx.Later(), execution)
	was, err := s.head(ctx, tx, thread)
	if err == nil && was.Holder != execution {
		err = ErrNotHeld
	}
	if err != nil {
		return fmt.Errorf("park thread %s: %w", thread, err)
	}
	tx.Later().Exec(s.q.Park, thread, execution, limit.Milliseconds())
	s.slog.InfoContext(ctx, "thread parked", "thread", thread, "execution", execution, "limit", limit)
	return nil
}

// Resume ends the parking of a thread, has its owner go on, and answers who that is;
// empty: it was not parked.
func (s *Store) Resume(ctx context.Context, tx run.Tx, thread string) (owner string, err error) {
	var found []Thread // read before it is locked: executions come first
	if err := tx.Each(ctx, collect(&found), s.q.Get, thread, -Idle.Milliseconds()); err != nil {
		return "", fmt.Errorf("resume thread %s: %w", thread, err)
	}
	if len(found) == 0 {
		return "", fmt.Errorf("resume thread %s: %w", thread, db.ErrNoRows)
	}
	if owner = found[0].Lock.ParkedBy; owner == "" {
		return "", nil
	}
	s.runs.Unpark(tx.Later(), owner)
	now, err := s.head(ctx, tx, thread)
	if err != nil {
		return "", fmt.Errorf("resume thread %s: %w", thread, err)
	}
	if now.ParkedBy != owner {
		return "", nil // somebody else was faster
	}
	tx.Later().Exec(s.q.Unpark, thread)
	s.slog.InfoContext(ctx, "thread resumed", "thread", thread, "execution", owner)
	return owner, nil
}
