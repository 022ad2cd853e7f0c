package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/run"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
	// inLine is for how long the hold of a turn that waits in line stands at least.
	inLine = time.Minute
)

// request asks for lane operate. The row of the lane names the execution, so that
// others can take its place.
func (s *turn) request() lane.Request {
	return lane.Request{Workspace: s.ws, Lane: lane.Operate, Holder: s.hold.Holder, Under: s.hold}
}

// enter takes lane operate in the turn's way. A turn whose time ends while it waits
// goes on later.
func (s *turn) enter(ctx context.Context) (err error) {
	if s.multitask == Interrupt || s.multitask == Rollback {
		return s.takeOver(ctx)
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		var b db.Batch
		ahead, present := s.Runs.Ahead(&b, trace.Operate, talking, s.exec.ID), s.Lanes.PeekIn(&b, lane.Operate)
		if err := s.DB.Read(ctx, s.ws, &b); err != nil {
			return err
		}
		var busy error = &lane.BusyError{Info: *present}
		if *ahead == 0 {
			s.operate, busy = s.Lanes.Acquire(ctx, s.request())
			if _, is := errors.AsType[*lane.BusyError](busy); !is {
				return busy
			}
		}
		if s.multitask == Reject {
			return busy
		}
		if err := s.queue(ctx); err != nil {
			return err
		}
		if err := s.Lanes.Ensure(ctx, s.hold, inLine); err != nil {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2+1)) //nolint:gosec // spreads retries, keeps no secret
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return s.park(ctx)
		}
	}
}

// park leaves a turn that did not get its turn in time to its kick.
func (s *turn) park(ctx context.Context) error {
	last, cancel := lastly(ctx)
	defer cancel()
	err := s.Lanes.InHold(last, s.hold, func(_ context.Context, tx lane.Tx) error {
		if err := s.Runs.Leave(tx, s.exec, run.Parked, encode(map[string]string{"reason": "it waits for the turns before it"}), ""); err != nil {
			return err
		}
		tx.Release(s.Lanes, s.hold)
		return nil
	})
	if err != nil {
		return err
	}
	return errLater
}

// ended is a turn that another took the place of.
type ended struct {
	run.Execution
	asked
	effects []Effect // that stay
	undone  []Effect // that were taken back
	waits   []string // approvals
	said    string
	trust   run.Trust
}

// Effect is a call that was made in a turn that was ended.
type Effect struct {
	Call   string `json:"call"`
	Skill  string `json:"skill"`
	Status string `json:"status"` // succeeded or uncertain
}

// errMoved says that another turn runs by now.
var errMoved = errors.New("the lane's holder has changed")

// takeOver ends the running turn, if there is one, and takes its lane. It stands
// before those that wait in line.
func (s *turn) takeOver(ctx context.Context) error {
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
		if err != nil && !errors.Is(err, db.ErrNoRows) {
			return err
		}
		was, ok := askedOf(e)
		switch {
		case !ok:
			return &lane.BusyError{Info: *present}
		case s.Limited && was.By != s.By:
			return ErrNotYours
		}
		switch err := s.seize(ctx, *present, e, was); {
		case errors.Is(err, errMoved):
			continue
		case err != nil:
			return err
		}
		return s.deny(ctx)
	}
}

// seize ends a turn's holds and its execution, takes back what can be of one that is
// rolled back, and takes lane operate, in one transaction: whoever worked on it
// writes nothing any more, and nobody comes between.
func (s *turn) seize(ctx context.Context, present lane.Info, e run.Execution, was asked) error {
	skills, err := s.Skills(ctx, s.ws, trace.Operate)
	if err != nil {
		return err
	}
	var ticket *lane.Ticket
	err = s.DB.Tx(ctx, s.ws, func(ctx context.Context, tx *db.Tx) error {
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
		s.Runs.Cancel(tx.Later(), e.Subject, stopped(s.multitask, s.By))
		s.Outbox.Withdraw(tx.Later(), kickOf(e.ID))
		if s.multitask == Rollback {
			s.Threads.Forget(tx.Later(), was.Thread, e.ID)
		}
		if s.ended, err = s.tally(ctx, tx, skills, e, was); err != nil {
			return err
		}
		request := s.request()
		request.Under = nil
		ticket, err = s.Lanes.Ask(ctx, tx.Later(), request)
		return err
	})
	if err != nil {
		s.ended = nil
		return err
	}
	s.operate, err = s.Lanes.Answer(ctx, ticket)
	return err
}

// tally reads what the turn that was ended had done, to which nothing is added any
// more, and takes it back where it is rolled back.
func (s *turn) tally(ctx context.Context, tx *db.Tx, skills *skill.Set, e run.Execution, was asked) (*ended, error) {
	entries, err := s.Runs.JournalIn(ctx, tx, e.ID)
	if err != nil {
		return nil, err
	}
	said, calls, err := reason.Done(entries)
	if err != nil {
		return nil, err
	}
	out := &ended{Execution: e, asked: was, said: said, trust: run.Operator}
	if len(entries) > 0 {
		out.trust = entries[len(entries)-1].Trust
	}
	for _, c := range calls {
		if c.Approval != "" {
			out.waits = append(out.waits, c.Approval)
		}
		effect := Effect{c.ID, c.Skill, c.Status}
		switch undone, err := s.undo(ctx, tx, skills, c); {
		case err != nil:
			return nil, err
		case undone:
			out.undone = append(out.undone, effect)
		case c.Status == string(run.Succeeded) || c.Status == string(run.Uncertain):
			out.effects = append(out.effects, effect)
		}
	}
	return out, nil
}

// undo takes back what a call of a turn that is rolled back brought about.
func (s *turn) undo(ctx context.Context, tx *db.Tx, skills *skill.Set, c reason.ToldCall) (bool, error) {
	k, ok := skills.Find(c.Skill)
	if s.multitask != Rollback || c.Status != string(run.Succeeded) || !ok || k.Name != c.Skill || k.Undo == nil {
		return false, nil
	}
	return k.Undo(ctx, tx, c.Arguments, json.RawMessage(c.Result))
}

// deny decides what still waits of a turn that was rolled back.
func (s *turn) deny(ctx context.Context) error {
	if s.ended == nil || s.multitask != Rollback {
		return nil
	}
	for _, id := range s.ended.waits {
		_, err := s.Approvals.Reject(ctx, s.ws, id, s.By, "its turn was rolled back")
		if _, decided := errors.AsType[*approval.DecidedError](err); err != nil && !decided {
			return err
		}
	}
	return nil
}

// closeEnded queues what is told of a turn that was ended: in its thread what it had
// done, where that is kept, and in the log in any case.
func (s *turn) closeEnded(ctx context.Context, tx lane.Tx) error {
	e := s.ended
	s.Log.Record(ctx, tx.Later(), activity.Entry{
		Agent: activity.Operator, Surface: trace.Operate, Skill: "operate." + string(s.multitask), Status: activity.Success,
		Input: encode(map[string]any{"execution": e.ID, "by": s.By, "next": s.exec.ID}), Output: encode(map[string]any{
			"effects_that_stay": append([]Effect{}, e.effects...), "taken_back": append([]Effect{}, e.undone...),
		}),
		Trace: e.Trace, Execution: e.ID, Thread: e.Thread,
	})
	if s.multitask == Rollback {
		return nil
	}
	body := "(interrupted)"
	if len(e.effects) > 0 {
		done := make([]string, len(e.effects))
		for i, effect := range e.effects {
			done[i] = effect.Skill
		}
		body += " done so far: " + strings.Join(done, ", ")
	}
	if e.said != "" {
		body = fmt.Sprintf("%s\n\n%s", e.said, body)
	}
	return s.say(ctx, tx, e.Thread, thread.Spoken{
		Role: thread.Assistant, Body: clip(activity.Text(body), maxBody), Execution: e.ID, Key: e.ID + ":interrupted", Data: told(e.trust),
	})
}
