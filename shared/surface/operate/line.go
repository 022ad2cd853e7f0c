package operate

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

const (
	firstPause = 50 * time.Millisecond
	poll       = time.Second
	// inLine is for how long the hold of a turn that waits in line stands at least.
	inLine = time.Minute
)

// line is that of the turns.
var line = execution.Line{Surface: trace.Operate, Task: talking, Topic: Topic}

// request asks for lane operate. The row of the lane names the execution, so that
// others can take its place.
func (s *turn) request() lane.Request {
	return lane.Request{Workspace: s.ws, Lane: lane.Operate, Holder: s.hold.Holder, Under: s.hold}
}

// ErrLine says that as many messages wait for their turn as may.
var ErrLine = errors.New("too many messages wait for their turn")

// stand takes lane operate in the turn's way.
func (s *turn) stand(ctx context.Context, e *work.Entry) error {
	if s.multitask == Interrupt || s.multitask == Rollback {
		return s.takeOver(ctx, e)
	}
	busy, err := s.wait(ctx, func(ahead int, busy *lane.BusyError) error {
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

// follow takes lane operate for a turn that goes on. A [lane.BusyError] says that others
// which began before it come first, or that the lane was taken for a while: whoever
// stands here has a place of the outbox's sender, which the first in line may need.
func (s *turn) follow(ctx context.Context, _ *work.Entry) error {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	busy, err := s.wait(patient, func(ahead int, busy *lane.BusyError) error {
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

// wait stands in line for lane operate until the turn has it. It looks when a turn of
// this process ends, and now and then for those of others. waits is told each time that
// it is not its turn, how many turns come before it, and may end that. busy is who has
// the lane when the context ends.
func (s *turn) wait(ctx context.Context, waits func(ahead int, busy *lane.BusyError) error) (busy *lane.BusyError, err error) {
	longest := cmp.Or(s.Poll, poll)
	for wait := longest / 20; ; wait = min(2*wait, longest) {
		ended := s.ends.next(s.ws)
		ahead, busy, err := s.next(ctx)
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
		if !await(ctx, wait, ended) {
			return busy, nil
		}
	}
}

// next takes lane operate when no turn comes before this one. busy says who has it.
func (s *turn) next(ctx context.Context) (ahead int, busy *lane.BusyError, err error) {
	var b db.Batch
	before, present := s.Runs.Ahead(&b, line, s.exec.ID), s.Lanes.PeekIn(&b, lane.Operate)
	if err := s.DB.Read(ctx, s.ws, &b); err != nil {
		return 0, nil, err
	}
	if !present.Held() {
		*present = lane.Info{Lane: lane.Operate} // who had it last says nothing
	}
	if *before > 0 {
		return *before, &lane.BusyError{Info: *present}, nil
	}
	s.operate, err = s.Lanes.Acquire(ctx, s.request())
	if busy, is := errors.AsType[*lane.BusyError](err); is {
		return 0, busy, nil
	}
	return 0, nil, err
}

// pause waits for about d, and reports whether the context still lives.
func pause(ctx context.Context, d time.Duration) bool { return await(ctx, d, nil) }

// await waits until a signal comes, for about d at most, and reports whether the context
// still lives.
func await(ctx context.Context, d time.Duration, signal <-chan struct{}) bool {
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

// Effect is a call that was made in a turn that was ended.
type Effect struct {
	Call   string `json:"call"`
	Skill  string `json:"skill"`
	Status string `json:"status"` // succeeded, uncertain, or approved: it will yet be made
}

// errMoved says that another turn runs by now.
var errMoved = errors.New("the lane's holder has changed")

// takeOver ends the running turn, if there is one, and takes its lane. It stands
// before those that wait in line.
func (s *turn) takeOver(ctx context.Context, entry *work.Entry) error {
	for {
		var b db.Batch
		present := s.Lanes.PeekIn(&b, lane.Operate)
		if err := s.DB.Read(ctx, s.ws, &b); err != nil {
			return err
		}
		if !present.Held() {
			h, err := s.Lanes.Acquire(ctx, s.request())
			if _, busy := errors.AsType[*lane.BusyError](err); busy {
				continue
			}
			s.operate = h
			return err
		}
		if present.Execution == "" { // somebody holds it who has no turn
			return &lane.BusyError{Info: *present}
		}
		e, err := s.Runs.Get(ctx, s.ws, present.Execution)
		if errors.Is(err, db.ErrNoRows) { // it begins just now, or was cut off before it did
			e = execution.Execution{ID: present.Execution, Subject: lane.Execution(present.Execution)}
			switch own, err := s.Lanes.Peek(ctx, s.ws, e.Subject); {
			case err == nil && own.Held() && pause(ctx, firstPause):
				continue
			case ctx.Err() != nil:
				return &lane.BusyError{Info: *present}
			}
		} else if err != nil {
			return err
		}
		was, ok := askedOf(e)
		switch {
		case !ok && e.Status != "":
			return &lane.BusyError{Info: *present}
		case s.Limited && was.By != s.By:
			return ErrNotYours
		}
		switch err := s.seize(ctx, *present, e, was); {
		case errors.Is(err, db.ErrUnavailable):
			if err := s.insist(ctx, entry, e); err != nil {
				return err
			}
		case !errors.Is(err, errMoved):
			return err
		}
	}
}

// insist writes the turn down, and that it takes another's place, under whose hold a
// transaction works: both come about, whatever becomes of this process.
func (s *turn) insist(ctx context.Context, entry *work.Entry, e execution.Execution) error {
	if ctx.Err() != nil {
		return errLater
	}
	stop := func(ctx context.Context, b *db.Batch) {
		s.requestStop(ctx, b, e, stopRequest{Execution: e.ID, Mode: s.multitask, By: s.By, Next: s.exec.ID})
	}
	var err error
	if s.started {
		err = s.Lanes.InHold(ctx, s.hold, func(ctx context.Context, tx lane.Tx) error { stop(ctx, tx.Later()); return nil })
	} else {
		s.also = stop
		err = entry.Begin(ctx)
		s.also = nil
	}
	if err != nil {
		return err
	}
	s.running()
	pause(ctx, firstPause)
	return nil
}

// seize ends a turn's holds and its execution, takes back what can be of one that is
// rolled back, writes down what became of it, and takes lane operate, in one
// transaction: whoever worked on it writes nothing any more, and nobody comes
// between. [db.ErrUnavailable]: a transaction works under one of the holds.
func (s *turn) seize(ctx context.Context, present lane.Info, e execution.Execution, was asked) error {
	skills, err := s.Skills(ctx, s.ws, trace.Operate)
	if err != nil {
		return err
	}
	request := s.request()
	request.Under, request.Token = nil, s.IDs()
	var ticket *lane.Ticket
	err = s.DB.Tx(ctx, s.ws, func(ctx context.Context, tx *db.Tx) error {
		s.Lanes.Hurry(tx.Later())
		if _, err := s.Lanes.ForceRelease(ctx, tx, e.Subject); err != nil { // in the order of names, as whoever proves both
			return err
		}
		held, err := s.Lanes.ForceRelease(ctx, tx, lane.Operate)
		if err != nil {
			return err
		}
		now := s.Lanes.PeekIn(tx.Later(), lane.Operate)
		if err := tx.Flush(ctx); err != nil {
			return err
		}
		if !held || now.Fence != present.Fence {
			return errMoved
		}
		if err := s.cancel(ctx, tx, skills, e, was); err != nil {
			return err
		}
		ticket, err = s.Lanes.Ask(ctx, tx.Later(), request)
		return err
	})
	if err != nil {
		s.stays = nil
		if errors.Is(err, db.ErrUncertain) { // it may have been granted
			last, cancel := lane.LastWrites(ctx)
			defer cancel()
			unknown := &lane.Hold{Workspace: s.ws, Lane: lane.Operate, Token: request.Token}
			if failed := s.Lanes.Drop(last, unknown); failed != nil && !errors.Is(failed, lane.ErrLost) {
				err = errors.Join(err, failed)
			}
		}
		return err
	}
	s.operate, err = s.Lanes.Answer(ctx, ticket)
	return err
}
