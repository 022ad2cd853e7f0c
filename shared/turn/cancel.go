package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// cancelled is the way in which a turn is stopped without a replacement.
const cancelled Multitask = "cancel"

// ErrNoTurn says that an execution is not a turn of a conversation with the agent, or has ended.
var ErrNoTurn = errors.New("there is no such turn under way")

// Cancel stops a turn that works, waits in line, or waits for a person. Its effects remain. While a
// transaction works under its hold, Cancel stores the request, and the turn ends after that
// transaction by a row of the outbox. Errors: [ErrNoTurn], [ErrNotYours]. It is called by POST
// /api/v1/executions/{id}/cancel.
func (r *Runner) Cancel(ctx context.Context, ws db.Workspace, id, by string, limited bool) error {
	e, err := r.Runs.Get(ctx, ws, id)
	if err != nil {
		return err
	}
	was, ok := r.askedOf(e)
	switch {
	case !ok || e.Status.Ended():
		return ErrNoTurn
	case limited && was.By != by:
		return ErrNotYours
	}
	q := stopRequest{Execution: e.ID, Mode: cancelled, By: by}
	_, err = r.stop(ctx, ws, q)
	if !errors.Is(err, db.ErrUnavailable) {
		return err
	}
	var b db.Batch
	r.requestStop(ctx, &b, e, q)
	if err := r.DB.Do(ctx, ws, &b); err != nil {
		return fmt.Errorf("write down that turn %s is cancelled: %w", e.ID, err)
	}
	return nil
}

// cancel ends the execution of a turn whose holds have ended. It records what the turn had done in
// the activity log and, unless the turn is rolled back, in its thread. A turn that was stopped in a
// weaker way is recorded as stopped in this one.
func (s *turn) cancel(ctx context.Context, tx *db.Tx, skills *skill.Set, e execution.Execution, was asked) error {
	if why := stopped(s.multitask, s.By); e.Status == execution.Cancelled {
		s.Runs.CancelAgain(tx.Later(), e.ID, why)
	} else {
		s.Runs.Cancel(tx.Later(), e.Subject, why)
	}
	if s.multitask == Rollback && was.Thread != "" {
		s.Threads.Forget(tx.Later(), was.Thread, e.ID)
	}
	entries, err := s.Runs.JournalIn(ctx, tx, e.ID) // complete, because the holds have ended
	if err != nil {
		return err
	}
	said, calls, err := reason.Done(entries)
	if err != nil {
		return err
	}
	stays, undone := []Effect{}, []Effect{}
	for _, c := range calls {
		effect, there, back, err := s.effect(ctx, tx, skills, c)
		switch {
		case err != nil:
			return err
		case back:
			undone = append(undone, effect)
		case there:
			stays = append(stays, effect)
		}
	}
	if _, err := s.Threads.Release(ctx, tx, e.ID); err != nil {
		return err
	}
	s.stays = stays
	s.Activity.Record(ctx, tx.Later(), activity.Entry{
		Agent: s.kind.Agent, Surface: s.kind.Surface, Skill: s.kind.Name + "." + string(s.multitask), Status: activity.Success,
		Input:  encode(map[string]any{"execution": e.ID, "by": s.By, "next": s.exec.ID}),
		Output: encode(map[string]any{"effects_that_stay": stays, "taken_back": undone}),
		Trace:  e.Trace, Execution: e.ID, Thread: was.Thread,
	})
	defer func() { // rows of the outbox are locked after the thread's
		s.Outbox.Withdraw(tx.Later(), kickOf(e.ID))
		s.Outbox.Withdraw(tx.Later(), stopKey(e.ID, s.multitask))
	}()
	if s.multitask == Rollback || was.Thread == "" {
		return nil
	}
	trust := execution.Trusted
	if len(entries) > 0 {
		trust = entries[len(entries)-1].Trust
	} else if _, _, err := s.Threads.Append(ctx, tx, was.Thread, thread.Spoken{ // it may have waited in line
		Role: thread.User, Body: was.Message, Execution: e.ID, Key: e.ID + ":asked", Earlier: true,
	}); err != nil {
		return err
	}
	body := interrupted(said, stays)
	if s.kind.Describe != nil {
		body = strings.TrimSpace(said + "\n\n" + s.kind.Describe(Reply{Status: execution.Cancelled}))
	}
	_, _, err = s.Threads.Append(ctx, tx, was.Thread, thread.Spoken{
		Role: thread.Assistant, Body: activity.Clip(activity.Text(body), maxBody),
		Execution: e.ID, Key: e.ID + ":interrupted", Data: thread.TrustData(trust),
	})
	return err
}

// interrupted returns the text that the thread stores about an interrupted turn: what is done, what
// may be done, and which approved calls are not made yet.
func interrupted(said string, stays []Effect) string {
	skills := map[string][]string{}
	for _, e := range stays {
		skills[e.Status] = append(skills[e.Status], e.Skill)
	}
	var lists []string
	for _, list := range []struct{ status, head string }{
		{string(execution.Succeeded), "done so far"},
		{string(execution.Uncertain), "not known whether done"},
		{string(approval.Approved), "approved, not made yet"},
	} {
		if of := skills[list.status]; len(of) > 0 {
			lists = append(lists, list.head+": "+strings.Join(of, ", "))
		}
	}
	return strings.TrimSpace(said + "\n\n(interrupted) " + strings.Join(lists, "; "))
}

// effect returns the effect of a call of the stopped turn, whether it remains, and whether it was
// undone. Unless the turn is interrupted, effect denies a call that waits for a person.
func (s *turn) effect(ctx context.Context, tx *db.Tx, skills *skill.Set, c reason.CallSummary) (e Effect, there, back bool, err error) {
	e = Effect{c.ID, c.Skill, c.Status}
	if c.Approval != "" {
		e.Status, err = s.waiting(ctx, tx, c.Approval)
		return e, e.Status != "", false, err
	}
	switch execution.StepStatus(c.Status) {
	case execution.Uncertain:
		return e, true, false, nil
	case execution.Succeeded:
	default:
		return e, false, false, nil
	}
	k, ok := skills.Find(c.Skill)
	if s.multitask != Rollback || !ok || k.Name != c.Skill || k.Undo == nil {
		return e, true, false, nil
	}
	back, err = k.TakeBack(ctx, tx, c.Arguments, json.RawMessage(c.Result))
	return e, !back, back, err
}

// waiting returns the status of a waiting call's effect, or an empty text if there is none.
func (s *turn) waiting(ctx context.Context, tx *db.Tx, id string) (string, error) {
	look := func() (approval.Approval, error) { return s.Approvals.GetIn(ctx, tx, id) }
	why := map[Multitask]string{Rollback: "its turn was rolled back", cancelled: "its turn was given up"}[s.multitask]
	if why != "" {
		look = func() (approval.Approval, error) { return s.Approvals.RejectIn(ctx, tx, id, s.By, why) }
	}
	a, err := look()
	switch {
	case err != nil:
		return "", fmt.Errorf("look what became of approval %s: %w", id, err)
	case a.Status == approval.Approved:
		return string(approval.Approved), nil
	case a.Status == approval.Executed && a.Error == "":
		return string(execution.Succeeded), nil
	}
	return "", nil
}
