package thread

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
)

// ErrAnswered means that there is nothing to wait for: the person has spoken already.
var ErrAnswered = errors.New("the person has spoken since: read it and go on")

// Park keeps a thread for the execution that holds it while the execution waits for the person's
// answer, for at most limit, and parks the execution. Meanwhile others may do what the thread's
// policy allows. It returns [ErrNotHeld] when the execution does not hold the thread. It returns
// [ErrAnswered] when the person has spoken since the message after, which must be one of the
// person's, or, when after is empty, since the last message was sent. After an error the caller
// must roll back the transaction.
func (s *Store) Park(ctx context.Context, tx execution.Tx, thread, execution, after string, limit time.Duration) error {
	s.runs.Park(tx.Later(), execution)
	was, err := s.head(ctx, tx, thread)
	if err == nil && was.Holder != execution {
		err = ErrNotHeld
	}
	if err == nil {
		var n int64
		n, err = tx.Exec(ctx, s.q.Park, thread, execution, limit.Milliseconds(), db.Null(after), queueBase)
		if err == nil && n == 0 {
			err = ErrAnswered
		}
	}
	if err != nil {
		return fmt.Errorf("park thread %s: %w", thread, err)
	}
	return nil
}

// resume queues the end of a thread's parking and wakes the execution that parked it. The caller
// has locked the thread's row.
func (s *Store) resume(b *db.Batch, thread, owner string) {
	b.Exec(s.q.Unpark, thread)
	b.Exec(s.q.Rouse, owner)
}
