package turn

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

const (
	firstPause = 50 * time.Millisecond
	poll       = time.Second
	// inLine is for how long the hold of a turn that waits in line stands at least.
	inLine = time.Minute
)

// request asks for the lane of the conversation. The row of the lane names the execution, so that
// others can take its place.
func (s *turn) request() lane.Request {
	return lane.Request{Workspace: s.ws, Lane: s.Lane, Holder: s.hold.Holder, Under: s.hold}
}

// ErrLine says that as many messages wait for their turn as may.
var ErrLine = errors.New("too many messages wait for their turn")

// stand takes the lane in the turn's way.
func (s *turn) stand(ctx context.Context, e *work.Entry) error {
	if s.multitask == Interrupt || s.multitask == Rollback {
		return s.takeOver(ctx, e)
	}
	return s.await(ctx, e, s.next)
}

// await waits for the lane in the way of next, written down, until the time is up.
func (s *turn) await(ctx context.Context, e *work.Entry, next attempt) error {
	busy, err := s.wait(ctx, next, func(ahead int, busy *lane.BusyError) error {
		if s.multitask == Reject {
			return busy
		}
		return s.queue(ctx, e, ahead)
	})
	if busy != nil {
		return errLater
	}
	return err
}

// attempt takes the lane when it is the turn's. busy says who has it, ahead how many turns
// come before.
type attempt func(context.Context) (ahead int, busy *lane.BusyError, err error)

// follow takes the lane for a turn that goes on. A [lane.BusyError] says that others
// which began before it come first, or that the lane was taken for a while: whoever
// stands here has a place of the outbox's sender, which the first in line may need.
func (s *turn) follow(ctx context.Context, _ *work.Entry) error {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	busy, err := s.wait(patient, s.next, func(ahead int, busy *lane.BusyError) error {
		if ahead > 0 {
			return busy
		}
		return nil
	})
	if busy != nil {
		return busy
	}
	return err
}

// wait waits until next takes the lane. It looks when a turn of this process ends, and now
// and then for those of others. waits is told each time that
// it is not its turn, how many turns come before it, and may end that. busy is who has
// the lane when the context ends.
func (s *turn) wait(ctx context.Context, next attempt, waits func(ahead int, busy *lane.BusyError) error) (busy *lane.BusyError, err error) {
	longest := cmp.Or(s.Poll, poll)
	for wait := longest / 20; ; wait = min(2*wait, longest) {
		ended := s.ends.next(s.ws)
		ahead, busy, err := next(ctx)
		if busy == nil {
			return nil, err
		}
		if err := waits(ahead, busy); err != nil {
			return nil, err
		}
		if ahead == 0 && busy.WantedAt == nil { // whoever holds it, and is no turn, learns so at its next step
			if err := s.Lanes.Want(ctx, s.ws, busy.Info, string(s.hold.Holder)); err != nil {
				return nil, err
			}
		}
		if err := s.Lanes.Ensure(ctx, s.hold, inLine); err != nil {
			return nil, err
		}
		if !signalled(ctx, wait, ended) {
			return busy, nil
		}
	}
}

// next takes the lane when no turn comes before this one. busy says who has it.
func (s *turn) next(ctx context.Context) (ahead int, busy *lane.BusyError, err error) {
	var b db.Batch
	before, present := s.Runs.Ahead(&b, s.line(), s.exec.ID), s.Lanes.PeekIn(&b, s.Lane)
	if err := s.DB.Read(ctx, s.ws, &b); err != nil {
		return 0, nil, err
	}
	if !present.Held() {
		*present = lane.Info{Lane: s.Lane} // who had it last says nothing
	}
	if *before > 0 {
		return *before, &lane.BusyError{Info: *present}, nil
	}
	return s.front(ctx)
}

// front takes the lane when it is free, whoever stands in line.
func (s *turn) front(ctx context.Context) (ahead int, busy *lane.BusyError, err error) {
	s.lane, err = s.Lanes.Acquire(ctx, s.request())
	if busy, is := errors.AsType[*lane.BusyError](err); is {
		return 0, busy, nil
	}
	return 0, nil, err
}

// pause waits for about d, and reports whether the context still lives.
func pause(ctx context.Context, d time.Duration) bool { return signalled(ctx, d, nil) }

// signalled waits until a signal comes, for about d at most, and reports whether the context
// still lives.
func signalled(ctx context.Context, d time.Duration, signal <-chan struct{}) bool {
	timer := time.NewTimer(d/2 + rand.N(d/2+1)) //nolint:gosec // spreads retries, keeps no secret
	defer timer.Stop()
	select {
	case <-signal:
		return true
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
