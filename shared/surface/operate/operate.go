// Package operate serves an admin's work with the agent: to talk with it, to run a skill by hand,
// to replay an execution, and to fork an execution from one of its steps.
package operate

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

//go:embed operate.md
var prompt string

// Channel is the channel of the threads between people and the agent.
const Channel = "operate"

// Operate provides the operations of an admin.
type Operate struct{ *turn.Runner }

// Kind returns the kind of conversation in which people talk with the operator's agent.
func Kind() turn.Kind {
	return turn.Kind{
		Surface:   trace.Operate,
		Name:      "operate",
		Agent:     activity.Operator,
		Channel:   Channel,
		Lane:      lane.Operate,
		Prompt:    prompt,
		Persona:   persona.Flowpilot,
		Multitask: []turn.Multitask{turn.Enqueue, turn.Reject, turn.Interrupt, turn.Rollback},
	}
}

// Talk runs one turn with the operator's agent. It is called by POST /api/v1/operate.
func (o *Operate) Talk(ctx context.Context, ws db.Workspace, t turn.Turn) (turn.Reply, error) {
	t.Surface = trace.Operate
	return o.Runner.Talk(ctx, ws, t)
}

// Used is the result of a skill that was run by hand.
type Used struct {
	reason.CallResult
	Execution string
	Trace     trace.ID
}

// ErrNoSkill says that there is no such skill, or that it is disabled.
var ErrNoSkill = errors.New("there is no such skill, or it is disabled")

// ErrNeedsApproval says that a program asked for a call that a person must approve.
var ErrNeedsApproval = errors.New("the call requires approval: a person runs it, or the agent asks for it in a run, " +
	"where its call waits under approvals")

// InputError lists all problems of the input of a skill.
type InputError struct{ Violations []skill.Violation }

func (e *InputError) Error() string { return fmt.Sprintf("the input has %d faults", len(e.Violations)) }

// ByHand says who makes a call by hand, and whether its input is trusted.
type ByHand struct {
	ID     string // of the call's execution, new to the workspace; empty: a new one
	By     string // such as user:…
	Person bool   // a person makes the call, not a program
	// Untrusted marks an input that an execution with untrusted text has written.
	Untrusted bool
	// Lane is a further lane that the call holds, as that of an automation; empty: none. If it is held, the call is
	// not made: [lane.BusyError].
	Lane lane.Name
}

// RunSkill makes one call of a skill by hand. It needs no approval if a person makes the call. A
// program gets [ErrNeedsApproval] for a skill that requires an approval and, with an untrusted
// input, for a skill that may have effects outside.
//
// A call that is cut off does not continue by itself: its caller got no response and repeats the
// call, so a later execution would be a surprise. Its row of the outbox ends the execution. RunSkill is
// called by POST /api/v1/skills/{id}/run.
func (o *Operate) RunSkill(ctx context.Context, ws db.Workspace, name string, input json.RawMessage, by ByHand) (Used, error) {
	id, _ := trace.From(ctx)
	e := execution.Execution{
		ID: cmp.Or(by.ID, o.IDs()), Agent: activity.Operator, Surface: trace.Operate, Trace: id, Attempt: 1,
		Input: encode(turn.ByHand{Skill: name}),
	}
	e.Subject = lane.Execution(e.ID)
	used := Used{Execution: e.ID, Trace: id}
	skills, err := o.Skills(ctx, ws, trace.Operate)
	if err != nil {
		return used, err
	}
	k, ok := skills.Find(name)
	if !ok || k.Name != name {
		return used, ErrNoSkill
	}
	if violations := k.Check(ctx, input); len(violations) > 0 {
		return used, &InputError{violations}
	}
	if !by.Person && requiresApproval(skills, k, input, by.Untrusted) {
		return used, ErrNeedsApproval
	}
	settings, err := o.Settings(ctx, ws)
	if err != nil {
		return used, err
	}
	var cut error
	ended, err := o.do(ctx, ws, e, work.Unit{
		Name: "hand", Fresh: true, Kick: turn.KickFor(e, turn.LookAfter),
		Enter: func(ctx context.Context, entry *work.Entry) error {
			if by.Lane == "" {
				return nil
			}
			h, err := o.Lanes.Take(ctx, lane.Request{Workspace: ws, Lane: by.Lane, Holder: entry.Hold.Holder}, lane.Wait{}, nil)
			if err == nil {
				entry.Take(h)
			}
			return err
		},
		Begin: func(ctx context.Context, s *work.Start) error { return s.New(ctx, e) },
		Act: func(ctx context.Context, job reason.Job) (out reason.Outcome, err error) {
			job.Skills, job.By, job.Retries = skills, by.By, settings.ToolRetries
			job.SkillTimeout = time.Duration(settings.SkillTimeout) * time.Second
			used.CallResult, out, cut = o.Reason.RunCallByHand(ctx, job, k.Name, input)
			return out, cut
		},
	})
	if err == nil && ended.Status == execution.Parked { // its time was up
		err = cut
	}
	return used, err
}

// requiresApproval reports whether a program's call, or the inner call that it makes, requires an
// approval.
func requiresApproval(skills *skill.Set, k *skill.Skill, input json.RawMessage, outside bool) bool {
	if k.Through {
		if name, _, err := skill.Inner(input); err == nil {
			k, _ = skills.Find(name)
		}
	}
	return k != nil && (k.RequiresApproval || outside && k.WritesRemote() && k.Scope != skill.External)
}

// do performs a unit of work under the lane of an execution.
func (o *Operate) do(ctx context.Context, ws db.Workspace, e execution.Execution, u work.Unit) (work.Outcome, error) {
	u.Lane = lane.Request{Workspace: ws, Lane: e.Subject, Holder: lane.NewHolder("operate", o.Instance, e.Trace)}
	return o.Worker.Do(ctx, u)
}

// encode returns v as JSON. Our own types always encode.
func encode(v any) json.RawMessage { return json.RawMessage(db.Encode(v)) }
