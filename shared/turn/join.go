package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// collects is how long messages are collected.
const collects = 2 * time.Second

// joined adds the messages of waiting turns to this one before a step: collected messages before
// the first step, steering messages before a later one. They belong to the same person and thread.
// Their turns end in the transaction that adds the messages to the journal, so that each message is
// answered once, even if this process dies.
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
	joining := slices.DeleteFunc(*waiting, func(e execution.Execution) bool { return !s.joins(e) })
	if len(joining) == 0 {
		return in, nil
	}
	news, err := s.newsOf(ctx, joining)
	if err != nil {
		return in, err
	}
	for i, e := range joining {
		a, _ := s.askedOf(e)
		for _, said := range news[i] {
			if said.Role != thread.Assistant { // what the model is said to have said is no message to it
				in.Messages = append(in.Messages, llm.Message{Role: llm.RoleUser, Text: said.Body})
			}
		}
		in.Messages = append(in.Messages, llm.Message{Role: llm.RoleUser, Text: a.Message})
		in.Beside = append(in.Beside, e.Subject)
	}
	in.Trust = s.kind.Trust
	in.Also = func(ctx context.Context, tx lane.Tx) error {
		for i, e := range joining {
			if err := s.join(ctx, tx, e, news[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return in, nil
}

// joins reports whether the message of a turn in line may be answered in this one: it is of the same
// person with the same rights, in the same thread, and to the same persona.
func (s *turn) joins(e execution.Execution) bool {
	a, ok := s.askedOf(e)
	return ok && a.By == s.By && a.Thread == s.Thread && a.Limited == s.Limited && e.Persona == s.exec.Persona
}

// newsOf is what the thread will not have, when their messages are stored one after the other, of
// what turns say was spoken before.
func (s *turn) newsOf(ctx context.Context, all []execution.Execution) (news [][]Said, err error) {
	news = make([][]Said, len(all))
	says := make([]asked, len(all))
	for i, e := range all {
		says[i], _ = s.askedOf(e)
	}
	if !slices.ContainsFunc(says, func(a asked) bool { return len(a.Before) > 0 }) {
		return news, nil
	}
	spoken, err := s.Threads.Lately(ctx, s.ws, s.Thread, maxSeen)
	if err != nil {
		return nil, err
	}
	for i, a := range says {
		news[i] = unseen(a.Before, thread.Latest(spoken, maxSeen))
		for _, said := range news[i] {
			spoken = append(spoken, thread.Spoken{Role: said.Role, Body: said.Body})
		}
		spoken = append(spoken, thread.Spoken{Role: thread.User, Body: a.Message})
	}
	return news, nil
}

// collect waits until the time for collecting messages is over.
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

// answeredBy returns the execution that answers an execution's message, or an empty text if the
// execution answers it itself.
func answeredBy(e execution.Execution) string {
	var a answered
	_ = json.Unmarshal(e.Result, &a) // no result yet
	return a.By
}

// join ends a turn in line, and writes its message into the thread as this turn's, behind the news
// of what was spoken before. Whoever waits for it writes nothing any more. [reason.ErrStale]: it
// stands in line no more, or the thread has changed.
func (s *turn) join(ctx context.Context, tx lane.Tx, e execution.Execution, news []Said) error {
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
	defer func() { s.Outbox.Withdraw(tx.Later(), kickOf(e.ID)) }() // rows of the outbox are locked after the thread's
	stored, err := s.sayBefore(ctx, tx, a, s.exec.ID)
	if err != nil {
		return err
	}
	if !slices.Equal(stored, news) {
		return reason.ErrStale
	}
	return s.say(ctx, tx, s.Thread, thread.Spoken{Role: thread.User, Body: a.Message, Execution: s.exec.ID, Key: e.ID + ":asked"})
}
