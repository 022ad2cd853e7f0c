package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/call"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/span"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Executor makes the approved calls. It is the outbox's handler of [Topic]. It keeps no state
// between calls and is safe for concurrent use.
//
// A call is made under the lane of its approval and with the key of its effect. A skill that works
// in the database commits together with the approval's result, with its outbox row and with its
// line in the activity log, or not at all. For a skill that works outside the database, the start
// is recorded first. After an interruption, such a call is repeated with the same key if the skill
// supports keys. Otherwise its outcome is recorded as uncertain. While a person has switched off
// the skill, the agent or the workspace, the call is postponed.
type Executor struct {
	Store *Store
	Lanes *lane.Store
	// Instance names this process in holders.
	Instance string
	// Known returns a redactor of the secrets of the configuration and of a workspace. Their values
	// must not appear in results. It may be nil.
	Known func(context.Context, db.Workspace) *redact.Redactor
	Spans *span.Exporter // records the calls; nil: nothing is recorded
	Clock func() time.Time
	Log   *slog.Logger
}

// job is one approved call that is being made.
type job struct {
	Approval
	hold    *lane.Hold
	claimed outbox.Claimed
	skill   *skill.Skill
	call    skill.Call
	limit   time.Duration // of the call
	begun   time.Time
	open    bool // its external effect may have happened
}

var _ outbox.Endless = (*Executor)(nil)

// Endless implements [outbox.Endless]: a row ends with its approval, which nothing else would end.
func (e *Executor) Endless() bool { return true }

// laneWait limits how long a call waits for a lane.
const laneWait = 5 * time.Second

// Handle implements [outbox.Handler].
func (e *Executor) Handle(ctx context.Context, c outbox.Claimed) error {
	known := redact.From(ctx)
	if e.Known != nil {
		known = e.Known(ctx, c.Workspace)
	}
	ctx = redact.With(ctx, redact.New(known))
	var k kick
	if err := json.Unmarshal(c.Payload, &k); err != nil || k.Approval == "" {
		return outbox.Permanently(errors.New("the kick names no approval"))
	}
	var found *[]Approval
	var settings func() (workspace.Settings, error)
	request := lane.Request{Workspace: c.Workspace, Lane: Lane(k.Approval), Holder: lane.NewHolder("approval", e.Instance, c.Trace)}
	reads := func(b *db.Batch) { found, settings = e.Store.Look(b, k.Approval), e.Store.Workspaces.Settings(b) }
	var result error
	err := e.Lanes.DoAfter(ctx, request, lane.Wait{Limit: laneWait}, reads, func(ctx context.Context, h *lane.Hold) error {
		if len(*found) == 0 {
			return outbox.Gone(fmt.Errorf("approval %s is not there", k.Approval))
		}
		set, err := settings()
		if err != nil {
			return err
		}
		j := &job{Approval: (*found)[0], hold: h, claimed: c, limit: time.Duration(set.SkillTimeout) * time.Second, begun: e.Clock()}
		result = e.execute(ctx, j)
		if _, settled := errors.AsType[*outbox.SettledError](result); settled {
			return nil // the hold was released in the same transaction
		}
		return result
	})
	if err == nil {
		return result
	}
	if _, gone := errors.AsType[*outbox.DeadError](err); c.Last() && !gone { // the approval has not ended
		err = outbox.Later(err)
	}
	return err
}

// errEach says that the last attempt was cut off like those before it.
var errEach = errors.New("each try was cut off")

// execute makes the call. If the last attempt fails or was cut off, that becomes the call's result.
func (e *Executor) execute(ctx context.Context, j *job) error {
	var err error
	if j.open = j.StartedAt != nil; j.Status == Approved && j.claimed.Attempt > j.claimed.MaxAttempts {
		err = errEach
	} else {
		err = e.attempt(ctx, j)
	}
	_, settled := errors.AsType[*outbox.SettledError](err)
	_, later := errors.AsType[*outbox.LaterError](err)
	if err == nil || settled || later || !j.claimed.Last() || errors.Is(err, lane.ErrLost) {
		return err
	}
	e.failed(ctx, j, err)
	return e.finish(ctx, j, outcome{
		message: fmt.Sprintf("the call could not be made in %d tries", j.claimed.MaxAttempts), uncertain: j.open,
	})
}

// attempt makes the call unless something prevents it.
func (e *Executor) attempt(ctx context.Context, j *job) error {
	if j.Status != Approved {
		e.Log.WarnContext(ctx, "an approval is not to be executed", "approval", j.ID, "status", j.Status)
		return nil // for example, it was executed, but the mark on its outbox row was lost
	}
	if err := e.halted(ctx, j); err != nil {
		return err
	}
	if e.Store.Over != nil {
		if why, err := e.Store.Over(ctx, j.claimed.Workspace, j.Approval); err != nil {
			return err
		} else if why != "" {
			return e.unmade(ctx, j, why)
		}
	}
	k, err := e.Store.skill(ctx, j.claimed.Workspace, j.Approval)
	switch {
	case errors.Is(err, ErrSkillGone):
		return e.unmade(ctx, j, ErrSkillGone.Error())
	case err != nil:
		return err
	case !j.intact():
		return e.unmade(ctx, j, "the stored call is not the one that was approved")
	}
	if violations := k.Check(ctx, j.Input()); ctx.Err() != nil {
		return ctx.Err()
	} else if len(violations) > 0 {
		return e.unmade(ctx, j, "the arguments don't fit the skill's parameters any more: "+violations[0].String())
	}
	j.skill, j.limit = k, cmp.Or(k.Timeout, j.limit)
	j.call = skill.Call{
		Workspace: j.claimed.Workspace, Agent: j.Agent, Surface: j.Surface, Subject: j.Subject, Key: Key(j.ID), Arguments: j.Input(),
		Untrusted: j.Untrusted,
	}
	return e.make(ctx, j)
}

// unmade records why the call is not made, or not repeated.
func (e *Executor) unmade(ctx context.Context, j *job, why string) error {
	if j.open {
		why = call.CutOff + "; it is not made again: " + why
	}
	return e.finish(ctx, j, outcome{message: why, uncertain: j.open})
}

// halted postpones the call while a person has switched off its skill, its agent or the workspace.
func (e *Executor) halted(ctx context.Context, j *job) error {
	if e.Store.Switches == nil {
		return nil
	}
	halts, err := e.Store.Switches(ctx, j.claimed.Workspace)
	if err != nil {
		return err
	}
	if why := cmp.Or(halts.Run(j.Agent, ""), halts.Skill(j.Skill)); why != "" {
		return outbox.Later(errors.New(why))
	}
	return nil
}

func (e *Executor) failed(ctx context.Context, j *job, err error) {
	if p, ok := errors.AsType[*skill.PanicError](err); ok {
		e.Log.ErrorContext(ctx, "skill panicked", "skill", j.Skill, "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
	}
	e.Log.WarnContext(ctx, "approved call failed", "skill", j.Skill, "approval", j.ID, "error", err)
}
