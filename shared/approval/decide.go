package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

var (
	// ErrChanged says that the stored call differs from the requested one.
	ErrChanged = errors.New("the stored call is not the one that was asked for")
	// ErrNotShown says that a person decided on another call than the one that is stored now.
	ErrNotShown = errors.New("the call is not the one that was shown: read it again")
	// ErrSkillGone says that the skill was deleted or disabled.
	ErrSkillGone = errors.New("the skill is not there any more, or is disabled")
)

// A DecidedError says that an approval can't be decided any more. Status is its present status.
type DecidedError struct{ Status Status }

func (e *DecidedError) Error() string { return "the approval is " + string(e.Status) + " already" }

// An InvalidError lists everything that is wrong with a call's arguments.
type InvalidError struct{ Violations []skill.Violation }

func (e *InvalidError) Error() string {
	return fmt.Sprintf("the arguments don't fit the skill's parameters: %d violations", len(e.Violations))
}

// Approve approves a call as requested, or with edited arguments if these are given. It returns the
// updated approval. Of two concurrent decisions only one succeeds. Errors: [DecidedError],
// [ErrChanged], [ErrSkillGone], [InvalidError], [db.ErrNoRows]. [db.ErrUncertain] means that the
// decision may have been written.
func (s *Store) Approve(ctx context.Context, ws db.Workspace, id, by string, edited json.RawMessage) (Approval, error) {
	return s.ApproveShown(ctx, ws, id, by, "", edited)
}

// ApproveShown is [Store.Approve] of the call that the person was shown: with another digest than the
// stored one it returns [ErrNotShown]. Without a digest it does not compare.
func (s *Store) ApproveShown(ctx context.Context, ws db.Workspace, id, by, digest string, edited json.RawMessage) (Approval, error) {
	a, err := s.Get(ctx, ws, id)
	if err == nil && a.Status == Pending && digest != "" && digest != a.Digest {
		err = ErrNotShown
	}
	if err == nil {
		a, err = s.approve(ctx, ws, a, by, edited)
	}
	if err != nil {
		return Approval{}, fmt.Errorf("approve %s: %w", id, err)
	}
	return a, nil
}

// tellsSecret refuses edited arguments that would be stored and shown.
const tellsSecret = `the arguments hold the value of a secret: leave it out, and have the skill's configuration name it, {"$secret": name}`

func (s *Store) approve(ctx context.Context, ws db.Workspace, a Approval, by string, edited json.RawMessage) (Approval, error) {
	asked := a.Digest
	switch {
	case a.Status == Expired: // notify the execution, which may still wait
		if _, err := s.ExpireDue(ctx, ws); err != nil {
			return a, err
		}
		return a, &DecidedError{a.Status}
	case a.Status != Pending:
		return a, &DecidedError{a.Status}
	case !a.intact():
		return a, ErrChanged
	}
	k, err := s.skill(ctx, ws, a)
	if err != nil {
		return a, err
	}
	a.Edited = edited
	if violations := k.Check(ctx, a.Input()); len(violations) > 0 {
		return a, &InvalidError{violations}
	}
	if known := redact.From(ctx).Values(); !bytes.Equal(known.JSON(edited), edited) {
		return a, &InvalidError{[]skill.Violation{{Problem: tellsSecret}}}
	}
	if len(edited) > 0 {
		if a.Edited, err = rewritten(activity.Storable(edited), plain); err != nil {
			return a, &InvalidError{[]skill.Violation{{Problem: err.Error()}}}
		}
	}
	if a.Digest, err = a.digest(); err != nil {
		return a, err
	}
	return s.decide(ctx, ws, a.ID, func(ctx context.Context, tx *db.Tx, decided *[]Approval) error {
		return tx.Each(ctx, collect(decided), s.q.Approve, a.ID, asked, a.Digest, a.Edited, by)
	}, func(ctx context.Context, tx *db.Tx, a Approval) {
		s.Outbox.Enqueue(ctx, tx.Later(), kickFor(a))
		s.Activity.Record(ctx, tx.Later(), decision(a, "approval.approve", "edited", len(a.Edited) > 0))
	})
}

// Reject denies a call. The agent and people read the reason. Errors: [DecidedError],
// [db.ErrNoRows].
func (s *Store) Reject(ctx context.Context, ws db.Workspace, id, by, reason string) (Approval, error) {
	change := func(ctx context.Context, tx *db.Tx, decided *[]Approval) error {
		return s.reject(ctx, tx, decided, id, by, reason)
	}
	a, err := s.decide(ctx, ws, id, change, func(ctx context.Context, tx *db.Tx, a Approval) { s.rejected(ctx, tx, a) })
	if err != nil {
		return Approval{}, fmt.Errorf("reject %s: %w", id, err)
	}
	return a, nil
}

// RejectIn denies a call unless it is already decided. It returns the present approval.
func (s *Store) RejectIn(ctx context.Context, tx execution.Tx, id, by, reason string) (Approval, error) {
	var decided []Approval
	if err := s.reject(ctx, tx, &decided, id, by, reason); err != nil {
		return Approval{}, fmt.Errorf("reject %s: %w", id, err)
	}
	if len(decided) == 0 {
		return s.GetIn(ctx, tx, id)
	}
	s.rejected(ctx, tx, decided[0])
	return decided[0], nil
}

// RejectFor denies all calls of a subject that wait.
func (s *Store) RejectFor(ctx context.Context, tx execution.Tx, subject lane.Name, by, reason string) error {
	var decided []Approval
	if err := tx.Each(ctx, collect(&decided), s.q.RejectFor, subject, activity.Text(reason), by); err != nil {
		return fmt.Errorf("reject the calls of %s: %w", subject, err)
	}
	for _, a := range decided {
		s.rejected(ctx, tx, a)
	}
	return nil
}

func (s *Store) reject(ctx context.Context, tx execution.Tx, decided *[]Approval, id, by, reason string) error {
	return tx.Each(ctx, collect(decided), s.q.Reject, id, activity.Text(reason), by)
}

func (s *Store) rejected(ctx context.Context, tx execution.Tx, a Approval) {
	s.Activity.Record(ctx, tx.Later(), decision(a, "approval.reject", "reason", a.Reason))
	s.settled(ctx, tx.Later(), a)
}

var errNotPending = errors.New("it is not pending")

// decide changes one pending approval and adds the related writes, in one transaction.
func (s *Store) decide(ctx context.Context, ws db.Workspace, id string,
	change func(context.Context, *db.Tx, *[]Approval) error, with func(context.Context, *db.Tx, Approval),
) (Approval, error) {
	var decided []Approval
	err := s.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		if err := change(ctx, tx, &decided); err != nil {
			return err
		}
		if len(decided) == 0 {
			return errNotPending
		}
		with(ctx, tx, decided[0])
		return nil
	})
	switch {
	case err == nil:
		return decided[0], nil
	case !errors.Is(err, errNotPending):
		return Approval{}, err
	}
	a, err := s.Get(ctx, ws, id) // another decision was faster, or the approval has expired
	switch {
	case err != nil:
		return Approval{}, err
	case a.Status == Pending:
		return Approval{}, ErrChanged
	case a.Status == Expired: // notify the execution, which may still wait
		if _, err := s.ExpireDue(ctx, ws); err != nil {
			return Approval{}, err
		}
	}
	return Approval{}, &DecidedError{a.Status}
}

// decision returns the activity of a decision. It belongs to the trace of the execution that made
// the request.
func decision(a Approval, name, what string, is any) activity.Entry {
	return activity.Entry{
		Agent: activity.Operator, Surface: trace.Operate, Skill: name, Status: activity.Success, Trace: a.Trace, Execution: a.Execution,
		Input: object(map[string]any{"approval": a.ID, "skill": a.Skill, "by": a.DecidedBy, what: is}),
	}
}

// object returns the JSON of values that always encode.
func object(v map[string]any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

// maxExpire is the most approvals that expire in one transaction.
const maxExpire = 100

// ExpireDue expires all approvals whose time has passed, with one line each in the activity log. It
// returns their number.
func (s *Store) ExpireDue(ctx context.Context, ws db.Workspace) (n int, err error) {
	for {
		var expired []Approval
		err := s.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
			if err := tx.Each(ctx, collect(&expired), s.q.Expire, maxExpire); err != nil {
				return err
			}
			for _, a := range expired {
				s.Activity.Record(ctx, tx.Later(), activity.Entry{
					Agent: a.Agent, Surface: a.Surface, Skill: "approval.expire", Status: activity.Skipped, Trace: a.Trace, Execution: a.Execution,
					Input: object(map[string]any{"approval": a.ID, "skill": a.Skill, "requested_at": a.RequestedAt.UTC()}),
				})
				s.settled(ctx, tx.Later(), a)
			}
			return nil
		})
		if err != nil {
			return n, fmt.Errorf("expire approvals: %w", err)
		}
		n += len(expired)
		if len(expired) < maxExpire {
			return n, nil
		}
	}
}

// skill returns the requested skill if it may be used. Otherwise it returns [ErrSkillGone].
func (s *Store) skill(ctx context.Context, ws db.Workspace, a Approval) (*skill.Skill, error) {
	set, err := s.Skills(ctx, ws, a.Surface)
	if err != nil {
		return nil, fmt.Errorf("load skills: %w", err)
	}
	k, ok := set.Find(a.Skill)
	if !ok || k.Name != a.Skill || k.ID != a.SkillID {
		return nil, ErrSkillGone
	}
	return k, nil
}
