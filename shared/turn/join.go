package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// collects is for how long messages are collected.
const collects = 2 * time.Second

// joined takes the messages of other turns into this one, before a step: what came while
// they were collected before the first step, what steers before a later one. They are of
// the same person and thread, and stand in line. Their turns end in the transaction that
// puts the messages into the journal: each is answered once, whatever becomes of this
// process.
func (s *turn) joined(ctx context.Context, p reason.Progress) (in reason.Interim, err error) {
	mode := Steer
	if p.Steps == 0 {
		if mode = s.asked.Multitask; mode != Collect {
			return in, nil
		}
		if err := s.collect(ctx); err != nil {
			return in, err
		}
	}
	var b db.Batch
	waiting := s.Runs.Joinable(&b, s.line(), string(mode), s.exec.ID)
	if err := s.DB.Read(ctx, s.ws, &b); err != nil {
		return in, err
	}
	var joining []execution.Execution
	for _, e := range *waiting {
		if a, ok := s.askedOf(e); ok && a.By == s.By && a.Thread == s.Thread {
			joining = append(joining, e)
			in.Messages = append(in.Messages, llm.Message{Role: llm.RoleUser, Text: a.Message})
		}
	}
	in.Trust = s.kind.Trust
	in.Also = func(ctx context.Context, tx lane.Tx) error {
		for _, e := range joining {
			if err := s.join(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	}
	return in, nil
}

// collect waits until the time is over in which messages are collected with this one.
func (s *turn) collect(ctx context.Context) error {
	timer := time.NewTimer(cmp.Or(s.Collects, collects) - s.Reason.Clock().Sub(s.came))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answered is the result of an execution whose message another turn answers.
type answered struct {
	By string `json:"answeredBy"`
}

// answeredBy is the execution that answers an execution's message; empty: it does so itself.
func answeredBy(e execution.Execution) string {
	var a answered
	_ = json.Unmarshal(e.Result, &a) // none: it has no result yet
	return a.By
}

// join ends a turn in line, and writes its message into the thread as this turn's. Whoever
// waits for it writes nothing any more. [reason.ErrStale]: it stands in line no more.
func (s *turn) join(ctx context.Context, tx lane.Tx, e execution.Execution) error {
	s.Lanes.ForceReleaseIn(tx.Later(), e.Subject)
	now := s.Runs.GetIn(tx.Later(), e.ID)
	steps, err := s.Runs.JournalIn(ctx, tx, e.ID)
	if err != nil {
		return err
	}
	if len(*now) == 0 || (*now)[0].Status.Ended() || len(steps) > 0 {
		return reason.ErrStale
	}
	a, _ := s.askedOf(e)
	s.Runs.Join(tx.Later(), e.ID, encode(answered{s.exec.ID}))
	s.Outbox.Withdraw(tx.Later(), kickOf(e.ID))
	return s.say(ctx, tx, s.Thread, thread.Spoken{Role: thread.User, Body: a.Message, Execution: s.exec.ID, Key: e.ID + ":asked"})
}
