package heartbeat

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// cron is the queue that runs automations one after the other.
const cron = "cron"

// automate runs the automations that are due, and resumes interrupted ones.
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

// automationWork is the unit of work of one automation.
type automationWork struct {
	*beat
	phase *Phase
	id    string
	asked asked
	made  reason.CallResult
	// journal belongs to a resumed execution; empty: the execution is new.
	journal   []execution.Entry
	cancelled *cancelled
}

// cancelled is an execution whose call is not made any more.
type cancelled struct {
	exec  execution.Execution
	why   string
	begun bool // the call was begun, so that its effect is unknown
}

// asked is the input of an automation's execution. It is stored, so that a resumed execution does
// the same.
type asked struct {
	Automation string            `json:"automation_id"`
	Name       string            `json:"name"`
	Skill      string            `json:"skill"`
	Input      json.RawMessage   `json:"input"`
	Event      *automation.Event `json:"event,omitempty"`
	Trust      execution.Trust   `json:"trust,omitempty"` // trust of the input; empty: trusted
}

func (b *beat) runAutomation(ctx context.Context, p *Phase, d automation.Due) error {
	a := &automationWork{beat: b, phase: p, id: d.ID, asked: asked{Automation: d.ID, Input: json.RawMessage("{}")}}
	out, err := b.do(ctx, p, d.Name, work.Unit{
		Name: "automation", Lane: lane.Request{Lane: lane.Automation(d.ID)}, Begin: a.begin, Act: a.act, End: a.end,
	})
	if err == nil {
		a.ended(ctx, out)
	}
	return err
}

// begin resumes an interrupted execution, or claims the automation if it is due.
func (a *automationWork) begin(ctx context.Context, s *work.Start) error {
	if len(s.Open) == 0 {
		return a.claim(ctx, s)
	}
	e := s.Open[0]
	if err := e.Asked(&a.asked); err != nil {
		return err
	}
	var err error
	if a.journal, err = a.Runs.JournalIn(ctx, s.Tx, e.ID); err != nil {
		return err
	}
	enabled, err := a.Automations.Enabled(ctx, s.Tx, a.asked.Automation)
	if err != nil {
		return err
	}
	if !enabled && a.reached() != execution.Result { // a call that has a result only needs its end
		return a.cancel(ctx, s, e)
	}
	return s.Resume(ctx, e)
}

// claim checks that the automation is still due and begins its execution, in one transaction.
func (a *automationWork) claim(ctx context.Context, s *work.Start) error {
	r, due, err := a.Automations.Claim(ctx, s.Tx, a.id)
	if err != nil || !due {
		return err
	}
	a.asked = asked{Automation: r.ID, Name: r.Name, Skill: r.Skill, Input: r.Input, Event: r.Event}
	if r.Untrusted {
		a.asked.Trust = execution.Untrusted
	}
	return s.New(ctx, a.piece(lane.Automation(a.id), a.asked))
}

// reached returns the kind of the journal's last entry; empty: the call was not begun.
func (a *automationWork) reached() (last execution.Kind) {
	for _, e := range a.journal {
		last = e.Kind
	}
	return last
}

// cancel ends an execution whose call is not made any more. If the call was begun, its effect is
// unknown and the entry says that a person has to check.
func (a *automationWork) cancel(ctx context.Context, s *work.Start, e execution.Execution) error {
	why := "its automation was disabled or deleted"
	entry := activity.Entry{
		Agent: activity.Operator, Surface: trace.Heartbeat, Skill: a.asked.Skill, Status: activity.Skipped, Input: a.asked.Input,
		Output: encode(map[string]string{"reason": why}), Trace: e.Trace, Execution: e.ID, ParentExecution: e.Parent, Attempt: e.Attempt,
	}
	begun := a.reached() == execution.Called
	if begun {
		_, calls, err := reason.Done(a.journal)
		if err != nil {
			return fmt.Errorf("read the journal of execution %s: %w", e.ID, err)
		}
		why = "uncertain: the call was cut off, and " + why + ". It is not known whether it had its effect: a person has to look"
		entry.Skill, entry.Status, entry.Output, entry.Error = calls[0].Skill, activity.Error, skill.ErrorOutput(skill.Theirs), why
	}
	a.cancelled = &cancelled{e, why, begun}
	a.Activity.Record(ctx, s.Later(), entry)
	if err := s.Close(e, execution.Cancelled, why); err != nil {
		return err
	}
	return a.Automations.Ended(s.Tx, a.asked.Automation, string(entry.Status), a.beat.exec.Trace)
}

func (a *automationWork) act(ctx context.Context, job reason.Job) (out reason.Outcome, err error) {
	a.Log.InfoContext(ctx, "automation runs", "automation", a.asked.Name, "skill", a.asked.Skill, "attempt", job.Execution.Attempt)
	job.Trust, job.Skills, job.SkillTimeout = a.asked.Trust, a.skills, time.Duration(a.settings.SkillTimeout)*time.Second
	a.made, out, err = a.Reason.RunCall(ctx, job, a.asked.Skill, a.asked.Input)
	return out, err
}

// end stores the outcome in the automation. It also writes the activity line of a call that was
// never made, which has none yet.
func (a *automationWork) end(ctx context.Context, tx lane.Tx, out *work.Outcome) error {
	if out.Poison {
		a.made = reason.CallResult{Status: execution.Errored, Unmade: true, Class: skill.Ours}
	}
	if a.made.Unmade {
		a.Activity.Record(ctx, tx.Later(), activity.Entry{
			Agent: activity.Operator, Surface: trace.Heartbeat, Skill: a.asked.Skill, Status: activity.Error, Input: a.asked.Input,
			Output: skill.ErrorOutput(a.made.Class), Error: out.Reason, Execution: out.Execution.ID,
			ParentExecution: out.Execution.Parent, Attempt: out.Execution.Attempt,
		})
	}
	if out.Status == execution.Parked {
		return nil
	}
	status := activity.Error
	switch {
	case a.made.Waits != "":
		status = activity.PendingApproval
	case out.Status == execution.Completed:
		status = activity.Success
	}
	return a.Automations.Ended(tx, a.asked.Automation, string(status), out.Execution.Trace)
}

// ended counts and logs the outcome after it is stored.
func (a *automationWork) ended(ctx context.Context, out work.Outcome) {
	about := []any{"automation", a.asked.Name, "skill", a.asked.Skill}
	if c := a.cancelled; c != nil {
		if c.begun {
			a.phase.Failed++
		}
		a.Log.InfoContext(ctx, "automation cancelled", append(about, "execution", c.exec.ID, "reason", c.why)...)
		return
	}
	switch {
	case out.Execution.ID == "":
		return
	case out.Status == execution.Parked:
		a.phase.Left++
		a.park(out.Reason)
		a.halted = out.Reason
	case a.made.Waits != "":
		a.phase.Done++
	case out.Status == execution.Completed:
		a.phase.Done++
		a.did(a.asked.Name, string(a.made.Output), out.Trust)
	default:
		a.phase.Failed++
	}
	a.Log.InfoContext(reason.Job{Execution: out.Execution}.Under(ctx), "automation ended",
		append(about, "status", out.Status, "reason", out.Reason)...)
}
