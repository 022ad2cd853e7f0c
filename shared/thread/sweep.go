package thread

import (
	"context"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Swept counts what a sweep did.
type Swept struct {
	Cleared int // stale locks, whose holder has ended or was idle
	Woken   int // free threads whose queue nobody had woken
	// More says that the sweep stopped at its limit.
	More bool
}

// Due adds to a batch whether a sweep has something to do: 1, or 0.
func (s *Store) Due(b *db.Batch) *int {
	due := new(int)
	b.One([]any{due}, s.q.Due, -Idle.Milliseconds())
	return due
}

// Sweep clears the stale locks of at most limit threads, and wakes queues that nobody woke. It also
// wakes parked executions that no thread is parked for any more. It is needed because an expiry
// releases nothing by itself.
func (s *Store) Sweep(ctx context.Context, ws db.Workspace, limit int) (Swept, error) {
	var stale, holders, free []string
	err := s.db.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		tx.Later().Each(func(scan db.Scan) error {
			var id, holder string
			err := scan(&id, &holder)
			stale, holders = append(stale, id), append(holders, holder)
			return err
		}, s.q.Left, -Idle.Milliseconds(), limit)
		if err := tx.Each(ctx, db.Column(&free), s.q.Forgotten, limit); err != nil {
			return err
		}
		if all := slices.Concat(stale, free); len(all) > 0 {
			s.settle(tx.Later(), "", -Idle.Milliseconds(), all...)
		}
		tx.Later().Exec(s.q.Rouse, nil)
		tx.Later().Exec(s.q.Lapse, limit)
		return nil
	})
	if err != nil {
		return Swept{}, fmt.Errorf("sweep threads: %w", err)
	}
	for i, id := range stale {
		s.log.WarnContext(ctx, "stale thread cleared", "thread", id, "from", holders[i])
	}
	return Swept{Cleared: len(stale), Woken: len(free), More: len(stale) == limit || len(free) == limit}, nil
}
