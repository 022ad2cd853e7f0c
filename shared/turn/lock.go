package turn

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// lockThread takes the lock of the thread for the turn, which has its lanes by then. It waits a
// while for another execution that speaks there; false: that speaks still. A turn that continues by
// itself does not wait, because it occupies a place of the outbox's sender.
func (s *turn) lockThread(ctx context.Context) (bool, error) {
	patient, cancel := context.WithTimeout(ctx, cmp.Or(s.Patience, patience))
	defer cancel()
	for {
		ended := s.ends.next(s.ws)
		_, err := s.Threads.Lock(ctx, s.ws, s.Thread, s.exec.ID)
		_, held := errors.AsType[*thread.HeldError](err)
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case !held && !errors.Is(err, db.ErrUnavailable): // a transaction may work under the lock
			return err == nil, err
		case held && s.resumed:
			return false, nil
		case !signalled(patient, cmp.Or(s.Poll, poll), ended):
			return false, context.Cause(ctx)
		}
	}
}

// refreshEvery is how often a turn refreshes the lock of its thread: often enough that none is taken
// for idle, with time for tries that fail.
const refreshEvery = thread.Idle / 4

// keepThread refreshes the lock of the thread while the turn works, and cancels the turn when
// another execution has the thread: it goes on once that lets go.
func (s *turn) keepThread(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		_, err := s.Threads.Lock(ctx, s.ws, s.Thread, s.exec.ID)
		if _, held := errors.AsType[*thread.HeldError](err); held {
			cancel(err)
		}
	}
}
