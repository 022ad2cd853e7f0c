package heartbeat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// cron is the queue through which automations run, one after the other.
const cron = "cron"

// automate runs the automations that are due, and takes up those that were cut off.
func (b *beat) automate(ctx context.Context, p *Phase) error {
	due := slices.Clone(*b.snapshot.automations)
	for _, e := range *b.snapshot.open {
		id, ok := lane.AutomationOf(e.Subject)
		if ok && !slices.ContainsFunc(due, func(d automation.Due) bool { return d.ID == id }) {
			due = append(due, automation.Due{ID: id})
		}
	}
	p.Considered = len(due)
	for i, d := range due {
		if b.mustStop(ctx, p, len(due)-i, b.halted) {
			break
		}
		_, err := queue.Do(ctx, b.Reason.Queues, queue.Job{Queue: cron}, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, b.runAutomation(ctx, p, d)
		})
		if err := b.leave(ctx, p, d.Name, err); err != nil {
			return err
		}
	}
	return nil
}

// automationWork is an automation while its lane is held.
type automationWork struct {
	*beat
	phase *Phase
	hold  *lane.Hold
	exec  execution.Execution
	asked asked
	// journal is of an execution that is taken up.
	journal []execution.Entry
}

// asked is what an execution of an automation is about; it is stored, so that a
// resumed one does the same.
type asked struct {
	Automation string            `json:"automation_id"`
	Name       string            `json:"name"`
	Skill      string            `json:"skill"`
	Input      json.RawMessage   `json:"input"`
	Event      *automation.Event `json:"event,omitempty"`
	Trust      execution.Trust   `json:"trust,omitempty"` // whose words it is told in; empty: the operator's
}

func (b *beat) runAutomation(ctx context.Context, p *Phase, d automation.Due) error {
	name := lane.Automation(d.ID)
	var open *[]execution.Execution
	request := lane.Request{Workspace: b.tick.Workspace, Lane: name, Holder: b.hold.Holder, Under: b.hold}
	err := b.Lanes.DoAfter(ctx, request, lane.Wait{}, func(batch *db.Batch) {
		open = b.Runs.Unfinished(batch, name)
	}, func(ctx context.Context, hold *lane.Hold) error {
		a := automationWork{beat: b, phase: p, hold: hold}
		return a.do(ctx, *open)
	})
	if _, busy := errors.AsType[*lane.BusyError](err); busy {
		p.Left++ // somebody runs it by hand
		return nil
	}
	if errors.Is(err, lane.ErrLost) {
		return b.lost(ctx, p, d.Name, err)
	}
	return err
}

// do takes up what was begun, or claims what is due, and makes the call.
func (a *automationWork) do(ctx context.Context, open []execution.Execution) error {
	begin, cut := a.claim, ""
	var unreadable error
	if len(open) > 0 {
		begin, a.exec = a.resume, open[0]
		if a.exec.Status == execution.Running { // a parked one came out alive
			cut = fmt.Sprintf("it was cut off in attempt %d", a.exec.Attempt)
		}
		unreadable = a.read(ctx)
		switch {
		case errors.Is(unreadable, execution.ErrUnreadable):
			begin, cut = a.count, unreadable.Error()
		case unreadable != nil:
			return unreadable
		}
	}
	if err := a.Lanes.InHold(ctx, a.holds(), begin); err != nil || a.exec.ID == "" {
		return err
	}
	if err := fault.Point(ctx, "automation.begun", a.exec.ID); err != nil {
		return err
	}
	job := a.job()
	ctx = job.Under(ctx)
	a.Log.InfoContext(ctx, "automation runs", "automation", a.asked.Name, "skill", a.asked.Skill, "attempt", a.exec.Attempt)
	if a.exec.Attempt > maxAttempts && cut != "" {
		return a.finish(ctx, job, reason.CallResult{Status: execution.Errored, Unmade: true, Class: skill.Ours}, reason.Outcome{Status: execution.Failed, Reason: cut})
	}
	if unreadable != nil {
		return unreadable
	}
	made, out, err := a.Reason.RunCall(ctx, job, a.asked.Skill, a.asked.Input)
	if err != nil {
		return err
	}
	return a.finish(ctx, job, made, out)
}

// read reads what the execution is about, and how far it came.
func (a *automationWork) read(ctx context.Context) (err error) {
	a.asked.Automation, _ = lane.AutomationOf(a.exec.Subject)
	a.asked.Input = json.RawMessage("{}")
	if err := a.exec.Asked(&a.asked); err != nil {
		return err
	}
	a.journal, err = a.Runs.Journal(ctx, a.tick.Workspace, a.exec.ID, 0)
	return err
}

// count takes up an execution that can't be read: the attempt counts.
func (a *automationWork) count(ctx context.Context, tx lane.Tx) error {
	return a.Runs.Resume(ctx, tx, &a.exec)
}

// claim decides whether it is due still, and begins its execution: both or neither.
func (a *automationWork) claim(ctx context.Context, tx lane.Tx) error {
	id, _ := lane.AutomationOf(a.hold.Lane)
	r, due, err := a.Automations.Claim(ctx, tx, id)
	if err != nil || !due {
		return err
	}
	a.asked = asked{Automation: r.ID, Name: r.Name, Skill: r.Skill, Input: r.Input, Event: r.Event}
	if r.Untrusted {
		a.asked.Trust = execution.Untrusted
	}
	e := execution.Execution{
		ID: a.IDs(), Agent: activity.Operator, Surface: trace.Heartbeat, Trace: a.beat.exec.Trace, Parent: a.beat.exec.ID,
		Subject: a.hold.Lane, Attempt: 1, Input: encode(a.asked),
	}
	if err := a.Runs.Start(tx, e); err != nil {
		return err
	}
	a.exec = e
	return nil
}

// resume takes up an execution. Where its automation was disabled or deleted since, it
// is cancelled; where its call has a result, only its end is left to do.
func (a *automationWork) resume(ctx context.Context, tx lane.Tx) error {
	enabled, err := a.Automations.Enabled(ctx, tx, a.asked.Automation)
	if err != nil {
		return err
	}
	if !enabled && a.reached() != execution.Result {
		return a.cancel(ctx, tx)
	}
	return a.Runs.Resume(ctx, tx, &a.exec)
}

// reached is the last thing that the journal tells of the call.
func (a *automationWork) reached() (last execution.Kind) {
	for _, e := range a.journal {
		last = e.Kind
	}
	return last
}

// cancel ends an execution whose call is not made any more. Of one that was begun
// nobody knows whether it had its effect.
func (a *automationWork) cancel(ctx context.Context, tx lane.Tx) error {
	why := "its automation was disabled or deleted"
	entry := activity.Entry{
		Agent: activity.Operator, Surface: trace.Heartbeat, Skill: a.asked.Skill, Status: activity.Skipped, Input: a.asked.Input,
		Output: encode(map[string]string{"reason": why}), Trace: a.exec.Trace, Execution: a.exec.ID, ParentExecution: a.exec.Parent, Attempt: a.exec.Attempt,
	}
	if a.reached() == execution.Called {
		_, calls, err := reason.Done(a.journal)
		if err != nil {
			return fmt.Errorf("read the journal of execution %s: %w", a.exec.ID, err)
		}
		why = "uncertain: the call was cut off, and " + why + ". It is not known whether it had its effect: a person has to look"
		entry.Skill, entry.Status, entry.Output, entry.Error = calls[0].Skill, activity.Error, skill.ErrorOutput(skill.Theirs), why
		a.phase.Failed++
	}
	a.Log.InfoContext(ctx, "automation cancelled", "automation", a.asked.Name, "skill", a.asked.Skill, "execution", a.exec.ID, "reason", why)
	a.Activity.Record(ctx, tx.Later(), entry)
	if err := a.Runs.Leave(tx, a.exec, execution.Cancelled, encode(map[string]string{"reason": why}), ""); err != nil {
		return err
	}
	a.exec.ID = "" // there is nothing to go on with
	return a.Automations.Ended(tx, a.asked.Automation, string(entry.Status), a.beat.exec.Trace)
}

func (a *automationWork) holds() lane.Holds { return lane.Holds{a.hold, a.beat.hold} }

func (a *automationWork) job() reason.Job {
	return reason.Job{
		Execution: a.exec, Hold: a.hold, Trust: a.asked.Trust, Outer: []*lane.Hold{a.beat.hold}, Agent: activity.Operator, Skills: a.skills,
		SkillTimeout: time.Duration(a.settings.SkillTimeout) * time.Second,
	}
}

// finish ends the execution, tells the automation how it went, and gives its lane
// back, in one transaction.
func (a *automationWork) finish(ctx context.Context, job reason.Job, made reason.CallResult, out reason.Outcome) error {
	if err := fault.Point(ctx, "automation.ending", a.exec.ID); err != nil {
		return err
	}
	status := activity.Success
	switch {
	case out.Status == execution.Parked:
		a.phase.Left++
		a.park(out.Reason)
		a.halted = out.Reason
	case made.Waits != "":
		status = activity.PendingApproval
		a.phase.Done++
	case out.Status == execution.Completed:
		a.phase.Done++
		a.did(a.asked.Name, string(made.Output), out.Trust)
	default:
		status = activity.Error
		a.phase.Failed++
	}
	a.Log.InfoContext(ctx, "automation ended", "automation", a.asked.Name, "skill", a.asked.Skill, "status", out.Status, "reason", out.Reason)
	last, cancel := lastWrites(ctx)
	defer cancel()
	return a.Lanes.InHold(last, a.holds(), func(ctx context.Context, tx lane.Tx) error {
		if made.Unmade {
			// The call was not made at all, and has no line in the log.
			a.Activity.Record(ctx, tx.Later(), activity.Entry{
				Agent: activity.Operator, Surface: trace.Heartbeat, Skill: a.asked.Skill, Status: activity.Error, Input: a.asked.Input,
				Output: skill.ErrorOutput(made.Class), Error: out.Reason, Execution: a.exec.ID, ParentExecution: a.exec.Parent, Attempt: a.exec.Attempt,
			})
		}
		if out.Status != execution.Parked {
			if err := a.Automations.Ended(tx, a.asked.Automation, string(status), a.exec.Trace); err != nil {
				return err
			}
		}
		if err := a.Reason.Close(ctx, tx, job, out); err != nil {
			return err
		}
		tx.Release(a.Lanes, a.hold)
		return nil
	})
}
