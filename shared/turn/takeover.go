package turn

import (
	"cmp"
	"context"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// Effect is a call that an ended turn has made.
type Effect struct {
	Call   string `json:"call"`
	Skill  string `json:"skill"`
	Status string `json:"status"` // succeeded, uncertain, or approved: the call will still be made
}

// errMoved says that the lane's holder has changed in the meantime.
var errMoved = errors.New("the lane's holder has changed")

// takeOver ends the running turn, if there is one, and acquires its lane before all waiting turns.
// It ends at most one turn: the first one that it finds. If another turn has the lane afterwards,
// it waits for that one.
func (s *turn) takeOver(ctx context.Context, entry *work.Entry) error {
	for met := ""; ; {
		var b db.Batch
		present, in := s.Lanes.PeekIn(&b, s.Lane), new([]thread.Thread)
		if s.kind.LocksThread && met == "" {
			in = s.Threads.GetIn(&b, s.Thread)
		}
		if err := s.DB.Read(ctx, s.ws, &b); err != nil {
			return err
		}
		if !present.Held() {
			if met == "" {
				last := present.Execution // had the lane
				if len(*in) > 0 {
					last = cmp.Or((*in)[0].Lock.Holder, last)
				}
				stopped, err := s.stopCutOff(ctx, last)
				if errors.Is(err, db.ErrUnavailable) && pause(ctx, firstPause) { // it goes on now
					continue
				}
				if met = stopped; err != nil {
					return err
				}
			}
			h, err := s.Lanes.Acquire(ctx, s.request())
			if _, busy := errors.AsType[*lane.BusyError](err); busy {
				continue
			}
			s.lane = h
			return err
		}
		if present.Execution == "" { // the holder has no turn
			return &lane.BusyError{Info: *present}
		}
		if met = cmp.Or(met, present.Execution); met != present.Execution {
			return s.await(ctx, entry, s.front)
		}
		e, err := s.Runs.Get(ctx, s.ws, present.Execution)
		if errors.Is(err, db.ErrNoRows) { // it is about to begin, or was cut off before it began
			e = execution.Execution{ID: present.Execution, Subject: lane.Execution(present.Execution)}
			switch own, err := s.Lanes.Peek(ctx, s.ws, e.Subject); {
			case err == nil && own.Held() && pause(ctx, firstPause):
				continue
			case ctx.Err() != nil:
				return &lane.BusyError{Info: *present}
			case err != nil && !errors.Is(err, db.ErrNoRows): // no row: its own lane was never acquired
				return err
			}
		} else if err != nil {
			return err
		}
		was, ok := s.askedOf(e)
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

// stopCutOff ends the turn that had the lane last, or has the lock of the thread, if it is one of this conversation,
// whose lane is free: its process is gone, and it would go on behind this turn, or keep the lock until then. stopCutOff
// returns its execution, or nothing if there is no such turn.
func (s *turn) stopCutOff(ctx context.Context, last string) (string, error) {
	if last == "" || last == s.exec.ID {
		return "", nil
	}
	e, err := s.Runs.Get(ctx, s.ws, last)
	if err != nil {
		if errors.Is(err, db.ErrNoRows) {
			err = nil
		}
		return "", err
	}
	was, ok := s.askedOf(e)
	switch {
	case !ok || was.Lane != s.Lane || e.Status != execution.Running && e.Status != execution.Parked:
		return "", nil
	case s.Limited && was.By != s.By:
		return "", ErrNotYours
	}
	stays, err := s.stop(ctx, s.ws, stopRequest{Execution: e.ID, Mode: s.multitask, By: s.By, Next: s.exec.ID})
	if errors.Is(err, ErrNoTurn) { // it has ended meanwhile
		return "", nil
	}
	if err == nil {
		s.stays = stays
	}
	return e.ID, err
}

// insist stores this turn and a request to stop the running one, in one transaction. It is used
// while a transaction under the running turn's hold prevents an immediate stop. Both happen even if
// this process dies.
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

// seize ends a turn's holds and its execution, undoes and records its effects, and acquires the
// lane, in one transaction. Afterwards the turn's process can write nothing more, and no other turn
// can come between. It returns [db.ErrUnavailable] while a transaction works under one of the
// holds.
func (s *turn) seize(ctx context.Context, present lane.Info, e execution.Execution, was asked) error {
	skills, err := s.Skills(ctx, s.ws, s.kind.Surface)
	if err != nil {
		return err
	}
	request := s.request()
	request.Under, request.Token = nil, s.IDs()
	var ticket *lane.Ticket
	err = s.DB.Tx(ctx, s.ws, func(ctx context.Context, tx *db.Tx) error {
		s.Lanes.Hurry(tx.Later())
		if _, err := s.Lanes.ForceRelease(ctx, tx, e.Subject); err != nil { // locks in the order of names
			return err
		}
		held, err := s.Lanes.ForceRelease(ctx, tx, s.Lane)
		if err != nil {
			return err
		}
		now := s.Lanes.PeekIn(tx.Later(), s.Lane)
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
		if errors.Is(err, db.ErrUncertain) { // the lane may have been acquired
			last, cancel := lane.LastWrites(ctx)
			defer cancel()
			unknown := &lane.Hold{Workspace: s.ws, Lane: s.Lane, Token: request.Token}
			if failed := s.Lanes.Drop(last, unknown); failed != nil && !errors.Is(failed, lane.ErrLost) {
				err = errors.Join(err, failed)
			}
		}
		return err
	}
	s.lane, err = s.Lanes.Answer(ctx, ticket)
	return err
}
