package turn

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

const (
	firstPause = 50 * time.Millisecond
	poll       = time.Second
	// inLine is the shortest remaining time of a waiting turn's hold.
	inLine = time.Minute
)

// request returns the request for the conversation's lane. The lane's row names the execution, so
// that another turn can take over.
func (s *turn) request() lane.Request {
	return lane.Request{Workspace: s.ws, Lane: s.Lane, Holder: s.hold.Holder, Under: s.hold}
}

// ErrLine says that the maximum number of messages waits already.
var ErrLine = errors.New("too many messages wait for their turn")

// stand acquires the lane according to the turn's strategy.
func (s *turn) stand(ctx context.Context, e *work.Entry) error {
	if s.multitask == Interrupt || s.multitask == Rollback {
		return s.takeOver(ctx, e)
	}
	return s.await(ctx, e, s.next)
}

// await waits until next has acquired the lane or the time is up. It stores the waiting turn.
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

// attempt tries to acquire the lane. busy names the present holder, and ahead is the number of
// turns that come before this one.
type attempt func(context.Context) (ahead int, busy *lane.BusyError, err error)

// follow acquires the lane for a turn that continues. It returns a [lane.BusyError] if earlier
// turns come first, or if the lane stays busy for patience. It does not wait longer, because it
// occupies a place of the outbox's sender that the first turn in line may need.
func (s *turn) follow(ctx context.Context, _ *work.Entry) error {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	busy, err := s.wait(patient, s.next, func(ahead int, busy *lane.BusyError) error {
		if s.kind.Waits { // the one before may wait for long, and its end is told
			busy.Remaining = max(busy.Remaining, lookAgain)
		}
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

// wait waits until next has acquired the lane. It retries when a turn of this process ends and,
// because of other processes, at intervals. After each failed attempt it calls waits with the
// number of turns ahead; an error of waits ends the wait. busy names the lane's holder if the
// context has ended. A turn looks again once as many turns have ended as were ahead of it: if all that
// wait looked at each end, they would occupy the database's connections.
func (s *turn) wait(ctx context.Context, next attempt, waits func(ahead int, busy *lane.BusyError) error) (busy *lane.BusyError, err error) {
	longest := cmp.Or(s.Poll, poll)
	ended, stop := s.ends.listen(s.ws)
	defer stop()
	for wait := longest / 20; ; wait = min(2*wait, longest) {
		drain(ended)
		ahead, busy, err := next(ctx)
		if busy == nil {
			return nil, err
		}
		if err := waits(ahead, busy); err != nil {
			return nil, err
		}
		if ahead == 0 && busy.WantedAt == nil { // a holder that is not a turn learns of the wait at its next step
			if err := s.Lanes.Want(ctx, s.ws, busy.Info, string(s.hold.Holder)); err != nil {
				return nil, err
			}
		}
		if err := s.Lanes.Ensure(ctx, s.hold, inLine); err != nil {
			return nil, err
		}
		most := wait
		if ahead > 1 { // the turns before the next one end one by one
			most = longest
		}
		if !signalled(ctx, most, ended, ahead) {
			return busy, nil
		}
	}
}

// asking is a request for the lane of a conversation in the batch that acquires the execution's.
type asking struct {
	request lane.Request
	ticket  *lane.Ticket // of the last try; nil: it was answered, or not made
	err     error
}

// askBeside returns a hook that asks for the lane of the conversation behind the execution's lane, in the
// same batch. No other turn was open when the thread was read.
func (s *turn) askBeside(ctx context.Context) func(*db.Batch) {
	s.asking.request = lane.Request{
		Workspace: s.ws, Lane: s.Lane, Holder: lane.NewHolder(s.kind.Name, s.Instance, s.exec.Trace),
		Token: uuid.NewString(), // the same in each try: one whose answer is lost may have acquired the lane
	}
	return func(b *db.Batch) { s.asking.ticket, s.asking.err = s.Lanes.Ask(ctx, b, s.asking.request) }
}

// forsake releases the lane of the conversation if its request may have acquired it, and nobody has read
// the answer.
func (s *turn) forsake(ctx context.Context) {
	if s.asking.ticket == nil {
		return
	}
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	err := s.Lanes.Drop(last, &lane.Hold{Workspace: s.ws, Lane: s.Lane, Token: s.asking.request.Token})
	if err != nil && !errors.Is(err, lane.ErrLost) {
		s.Log.WarnContext(ctx, "a lane is released later", "lane", s.Lane, "error", err)
	}
}

// next acquires the lane if no turn comes before this one. The first time it has asked for it already,
// unless others were open.
func (s *turn) next(ctx context.Context) (ahead int, busy *lane.BusyError, err error) {
	if s.asking.err != nil {
		return 0, nil, s.asking.err
	}
	if t := s.asking.ticket; t != nil {
		s.lane, err = s.Lanes.Answer(ctx, t)
		busy, is := errors.AsType[*lane.BusyError](err)
		if err == nil || is {
			s.asking.ticket = nil
		}
		if is {
			return 0, busy, nil
		}
		return 0, nil, err
	}
	var b db.Batch
	before, present := s.Runs.Ahead(&b, s.line(), s.exec.ID), s.Lanes.PeekIn(&b, s.Lane)
	if err := s.DB.Read(ctx, s.ws, &b); err != nil {
		return 0, nil, err
	}
	if !present.Held() {
		*present = lane.Info{Lane: s.Lane} // ignore the former holder
	}
	if *before > 0 {
		return *before, &lane.BusyError{Info: *present}, nil
	}
	return s.front(ctx)
}

// front acquires the lane if it is free, even if other turns wait.
func (s *turn) front(ctx context.Context) (ahead int, busy *lane.BusyError, err error) {
	s.lane, err = s.Lanes.Acquire(ctx, s.request())
	if busy, is := errors.AsType[*lane.BusyError](err); is {
		return 0, busy, nil
	}
	return 0, nil, err
}

// pause waits for about d. It returns false if the context has ended.
func pause(ctx context.Context, d time.Duration) bool { return signalled(ctx, d, nil, 1) }

// signalled waits for n signals, or for one if n is less, at most for about d. It returns false if the
// context has ended.
func signalled(ctx context.Context, d time.Duration, signal <-chan struct{}, n int) bool {
	timer := time.NewTimer(d/2 + rand.N(d/2+1)) //nolint:gosec // spreads retries, keeps no secret
	defer timer.Stop()
	for {
		select {
		case <-signal:
			if n--; n <= 0 {
				return true
			}
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}
