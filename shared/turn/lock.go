package turn

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// lockThread takes the lock of the thread for the turn, which has its lanes by then. It waits a
// while for another execution that speaks there; false: that speaks still. A turn that continues by
// itself does not wait, because it occupies a place of the outbox's sender.
func (s *turn) lockThread(ctx context.Context) (bool, error) {
	patient, cancel := context.WithTimeout(ctx, cmp.Or(s.Patience, patience))
	defer cancel()
	ended, stop := s.ends.listen(s.ws)
	defer stop()
	for {
		drain(ended)
		err := s.holdThread(ctx)
		_, held := errors.AsType[*thread.HeldError](err)
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case !held && !errors.Is(err, db.ErrUnavailable): // a transaction may work under the lock
			return err == nil, err
		case held && s.resumed:
			return false, nil
		case !signalled(patient, cmp.Or(s.Poll, poll), ended, 1):
			return false, context.Cause(ctx)
		}
	}
}

// holdThread locks the thread, or refreshes its lock. It proves the turn's lanes in the same
// transaction: one that has lost them locks no thread.
func (s *turn) holdThread(ctx context.Context) error {
	var outcome func(context.Context) (thread.Outcome, error)
	err := s.Lanes.InHold(ctx, lane.Holds{s.hold, s.lane}, func(_ context.Context, tx lane.Tx) error {
		outcome = s.Threads.LockIn(tx.Later(), s.Thread, s.exec.ID)
		return nil
	})
	if err == nil {
		_, err = outcome(ctx)
	}
	return err
}

// refreshEvery is how often a turn refreshes the lock of its thread: often enough that none is taken
// for idle, with time for tries that fail.
const refreshEvery = thread.Idle / 4

// keepThread refreshes the lock of the thread while the turn works. It cancels the turn when another
// execution has the thread, after which the turn goes on, or when the turn has lost its lanes.
func (s *turn) keepThread(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := s.holdThread(ctx)
		if _, held := errors.AsType[*thread.HeldError](err); held || errors.Is(err, lane.ErrLost) {
			cancel(err)
		}
	}
}
