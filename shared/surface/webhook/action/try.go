package action

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// try is one attempt of a delivery.
type try struct {
	*Runner
	claimed  outbox.Claimed
	delivery inbox.Delivery
	subject  lane.Name
	settings workspace.Settings
	skills   *skill.Set

	begun   bool // it has an open execution, so nothing is decided again
	plan    inbox.Plan
	nothing bool   // no rule matches
	refused string // why the action is impossible; a retry would not help
	asked   asked
	digest  string               // digest of the action by the present rules; empty: there is none, or it was begun
	message *execution.Execution // of the turn that it begins
	kick    outbox.Row           // of that turn
	session lane.Name            // its conversation's

	present  *[]inbox.Delivery // the delivery when the lane was acquired
	attempts int
	made     reason.CallResult
	ending   inbox.Ending
	early    time.Duration // until the next attempt is due
}

// asked is the input of an execution that performs a delivery's action. It is stored, so that a
// resumed execution does the same.
type asked struct {
	Task       string          `json:"task"`
	Delivery   string          `json:"delivery_id"`
	Source     string          `json:"source"`
	Event      string          `json:"event,omitempty"`
	Skill      string          `json:"skill"`
	Input      json.RawMessage `json:"input"`
	Automation string          `json:"automation_id,omitempty"`
	// Trust is the trust of the arguments.
	Trust execution.Trust `json:"trust"`
	// Rule says that a person wrote the call. Untrusted text in its arguments then requires no
	// approval.
	Rule bool `json:"rule"`
}

// task is the task of such an execution.
const task = "webhook"

// stopped returns why no action of a source begins, or an empty text if the source exists and is
// enabled.
func stopped(source []inbox.Source) string {
	switch {
	case len(source) == 0:
		return "its source was deleted"
	case !source[0].Enabled:
		return "its source is disabled: enable it, and redeliver"
	}
	return ""
}

// decide decides what the delivery does by the rules of its source.
func (t *try) decide(ctx context.Context, rules []inbox.Rule) error {
	plan, ok, unfit := inbox.PlanFor(rules, t.delivery)
	t.plan, t.nothing = plan, !ok && unfit == nil
	if unfit != nil {
		t.refused = unfit.Error()
	}
	switch {
	case t.nothing || t.refused != "":
		return nil
	case plan.Channel != "":
		t.digest = digestOf(plan)
		return t.decideMessage(ctx)
	}
	err := t.decideCall(ctx)
	t.digest = digestOf([]any{t.asked.Skill, t.asked.Input})
	return err
}

// digestOf returns a digest that differs for different actions.
func digestOf(v any) string {
	sum := sha256.Sum256(encode(v))
	return hex.EncodeToString(sum[:])
}

// changed is the reason for parking a delivery whose rules define another action than an earlier
// attempt, which may have had its effect. With the old key, the two effects would be confused. With
// a new key, there would be a second effect that nobody has requested.
const changed = "its rule asks for something else than it did when it was tried, and that may have had its effect: " +
	"look whether it had, and redeliver with {\"anew\": true} for another effect"

// differs reports whether an earlier attempt with another action may have had its effect.
func (t *try) differs() bool {
	d := (*t.present)[0]
	maybe := d.Effect || d.Status == inbox.Working // Working: it was cut off, and its execution has ended
	return maybe && d.Asked != "" && t.digest != "" && d.Asked != t.digest
}

// decideCall determines the skill and the arguments of the call.
func (t *try) decideCall(ctx context.Context) error {
	t.asked = asked{Task: task, Delivery: t.delivery.ID, Source: t.delivery.Source, Event: t.delivery.Event,
		Skill: t.plan.Skill, Trust: execution.Trusted, Rule: true}
	var input json.RawMessage
	if ref := t.plan.Automation; ref != "" {
		a, err := t.Automations.Get(ctx, t.claimed.Workspace, ref)
		switch {
		case errors.Is(err, automation.ErrNotFound):
			t.refused = fmt.Sprintf("there is no automation %s: change the rule, or make the automation, and redeliver", ref)
			return nil
		case err != nil:
			return err
		case !a.Enabled:
			t.refused = fmt.Sprintf("automation %s is disabled: enable it, and redeliver", a.Name)
			return nil
		}
		t.asked.Skill, t.asked.Automation, input = a.Skill, a.ID, a.Input
		if a.Untrusted { // a model with untrusted text wrote it
			t.asked.Trust, t.asked.Rule = execution.Untrusted, false
		}
	}
	if k, ok := t.skills.Find(t.asked.Skill); ok && k.Through { // its arguments name the skill
		t.asked.Rule = false
	}
	var err error
	if t.asked.Input, err = t.plan.Input(input); err != nil {
		return err
	}
	if t.plan.Outside {
		t.asked.Trust = execution.Untrusted
	}
	t.refused = t.unfit(ctx)
	return nil
}

// unfit returns why the call is impossible, or an empty text if it is possible.
func (t *try) unfit(ctx context.Context) string {
	k, found := t.skills.Find(t.asked.Skill)
	if !found || k.Name != t.asked.Skill {
		return fmt.Sprintf("there is no skill %s, or it is disabled or for visitors only: change that or the rule, and redeliver", t.asked.Skill)
	}
	violations := k.Check(ctx, t.asked.Input)
	if len(violations) == 0 {
		return ""
	}
	why := make([]string, 0, len(violations))
	for _, v := range violations[:min(len(violations), maxViolations)] {
		why = append(why, strings.TrimSpace(v.Path+" "+v.Problem))
	}
	return fmt.Sprintf("the arguments do not fit skill %s: %s; change the rule, and redeliver", k.Name, strings.Join(why, ", "))
}

// maxViolations is the largest number of violations in an error.
const maxViolations = 5

// unit returns the attempt as a unit of work.
func (t *try) unit() work.Unit {
	u := work.Unit{
		Name: "webhook",
		Lane: lane.Request{Workspace: t.claimed.Workspace, Lane: t.subject, Holder: lane.NewHolder("webhook", t.Instance, t.delivery.Trace)},
		Kick: outbox.Row{
			Kind: outbox.Kick, Topic: t.claimed.Topic, Key: t.claimed.Key, Payload: t.claimed.Payload,
			Receiver: t.delivery.Receiver(), MaxAttempts: t.claimed.MaxAttempts,
		},
		Look:  func(b *db.Batch) { t.present = t.Inbox.DeliveryIn(b, t.delivery.ID) },
		Enter: t.enter, Begin: t.begin, Act: t.act, End: t.end,
	}
	if t.message != nil { // the turn continues it
		u.Kick, u.Act, u.End = t.kick, nil, nil
	}
	return u
}

// enter returns [work.ErrNothing] if the delivery has ended in the meantime or is not due. It
// acquires the lane of the automation.
func (t *try) enter(ctx context.Context, e *work.Entry) error {
	if len(*t.present) == 0 || (*t.present)[0].Status.Ended() || (*t.present)[0].Replays != t.delivery.Replays {
		return work.ErrNothing
	}
	if t.early = (*t.present)[0].Wait(); t.early > 0 {
		return work.ErrNothing
	}
	if t.begun != (len(e.Open) > 0) {
		return outbox.LaterIn(time.Second, fmt.Errorf("delivery %s was begun or ended meanwhile", t.delivery.ID))
	}
	if t.begun {
		t.asked = asked{}
		if err := e.Open[0].Asked(&t.asked); err != nil {
			return err
		}
	}
	if t.asked.Automation == "" {
		return nil
	}
	h, err := t.Lanes.Take(ctx, lane.Request{
		Workspace: t.claimed.Workspace, Lane: lane.Automation(t.asked.Automation), Holder: e.Hold.Holder,
	}, lane.Wait{}, nil)
	if err == nil {
		e.Take(h)
	}
	return err
}

// begin claims the delivery, or resumes the execution that was begun for it.
func (t *try) begin(ctx context.Context, s *work.Start) error {
	if len(s.Open) > 0 {
		t.attempts = (*t.present)[0].Attempts
		return t.resume(ctx, s)
	}
	e := execution.Execution{
		ID: t.IDs(), Agent: activity.Operator, Surface: trace.Webhook, Trace: t.delivery.Trace, Subject: t.subject,
		Attempt: 1, Input: encode(t.asked),
	}
	if t.message != nil {
		e = *t.message
	}
	if t.refused == "" && t.differs() {
		t.refused = changed
	}
	noted := inbox.Try{Action: t.plan.String()}
	if !t.nothing && t.refused == "" {
		noted.Execution, noted.Asked = e.ID, t.digest
	}
	n, ok, err := t.Inbox.Begin(ctx, s.Tx, t.delivery.ID, noted)
	if err != nil || !ok {
		return err
	}
	t.attempts = n
	switch {
	case t.refused != "":
		t.ending = inbox.Ending{Status: inbox.Parked, Error: t.refused}
		t.record(ctx, s.Later(), activity.Error, skill.Policy, "")
	case t.nothing:
		t.ending = inbox.Ending{Status: inbox.Done}
	case t.message != nil:
		t.ending = inbox.Ending{Status: inbox.Done}
		if err := s.New(ctx, e); err != nil {
			return err
		}
	default:
		return s.New(ctx, e)
	}
	t.Inbox.End(s.Later(), t.delivery.ID, t.ending)
	if t.message != nil {
		t.Turns.Hurry(s.Later(), trace.Webhook, t.session, e.ID)
	}
	return nil
}

// resume resumes the execution that was begun for the delivery. If the source stops it and no call
// has begun, resume ends the execution and parks the delivery instead.
func (t *try) resume(ctx context.Context, s *work.Start) error {
	e := s.Open[0]
	if t.refused == "" {
		return s.Resume(ctx, e)
	}
	journal, err := t.Runs.JournalIn(ctx, s.Tx, e.ID)
	if err != nil {
		return err
	}
	called := func(j execution.Entry) bool { return j.Kind == execution.Called || j.Kind == execution.Result }
	if slices.ContainsFunc(journal, called) { // the call may have had its effect
		return s.Resume(ctx, e)
	}
	if err := s.Close(e, execution.Failed, t.refused); err != nil {
		return err
	}
	t.ending = inbox.Ending{Status: inbox.Parked, Error: t.refused}
	t.record(ctx, s.Later(), activity.Error, skill.Policy, e.ID)
	t.Inbox.End(s.Later(), t.delivery.ID, t.ending)
	return nil
}

func (t *try) act(ctx context.Context, job reason.Job) (out reason.Outcome, err error) {
	job.Trust, job.Rule, job.EffectKey = t.asked.Trust, t.asked.Rule, t.delivery.EffectKey()
	job.By, job.Skills, job.SkillTimeout = "webhook:"+t.asked.Source, t.skills, time.Duration(t.settings.SkillTimeout)*time.Second
	t.made, out, err = t.Worker.Reason.RunCall(ctx, job, t.asked.Skill, t.asked.Input)
	t.made.Error, out.Reason = activity.Text(t.made.Error), activity.Text(out.Reason) // receivers may send any bytes
	return out, err
}

// end ends the attempt together with its execution.
func (t *try) end(ctx context.Context, tx lane.Tx, out *work.Outcome) error {
	t.ending = t.endingOf(out)
	if t.made.Unmade || out.Poison {
		t.record(ctx, tx.Later(), activity.Error, cmp.Or(t.made.Class, skill.Ours), out.Execution.ID)
	}
	if out.Status == execution.Parked {
		return nil
	}
	t.Inbox.End(tx.Later(), t.delivery.ID, t.ending)
	if t.asked.Automation == "" {
		return nil
	}
	status := activity.Error
	switch {
	case t.made.Waits != "":
		status = activity.PendingApproval
	case out.Status == execution.Completed:
		status = activity.Success
	}
	return t.Automations.Ended(tx, t.asked.Automation, string(status), out.Execution.Trace)
}

// endingOf decides whether a delivery is done, is retried, or is parked.
func (t *try) endingOf(out *work.Outcome) inbox.Ending {
	e := t.became(out)
	e.Effect = out.Poison || out.Status == execution.Completed || t.made.Status == execution.Uncertain ||
		!t.made.Unmade && !refusal(t.made.Class)
	return e
}

// refusal reports whether an error of this class means that the call had no effect.
func refusal(c skill.Class) bool {
	return c == skill.Input || c == skill.Policy || c == skill.RateLimit
}

func (t *try) became(out *work.Outcome) inbox.Ending {
	why := cmp.Or(t.made.Error, out.Reason)
	switch {
	case out.Poison:
		return inbox.Ending{Status: inbox.Parked, Error: "given up: " + out.Reason}
	case out.Status == execution.Completed:
		return inbox.Ending{Status: inbox.Done}
	case t.made.Status == execution.Uncertain:
		return inbox.Ending{Status: inbox.Parked, Error: "uncertain: it is not known whether the call had its effect; a person has to look"}
	case t.made.Class == skill.Input || t.made.Class == skill.Policy || t.made.Unmade:
		return inbox.Ending{Status: inbox.Parked, Error: why}
	case t.attempts >= maxTries:
		return inbox.Ending{Status: inbox.Parked, Error: fmt.Sprintf("failed %d times, the last time: %s", t.attempts, why)}
	}
	return inbox.Ending{Status: inbox.Failed, Error: why, Wait: backoff(t.attempts, t.Random())}
}

// record writes an activity for an action that was not performed. A call that was made has its own.
func (t *try) record(ctx context.Context, b *db.Batch, status activity.Status, class skill.Class, execution string) {
	t.Activity.Record(ctx, b, activity.Entry{
		Agent: activity.Operator, Surface: trace.Webhook, Skill: cmp.Or(t.asked.Skill, "webhook"), Status: status, Input: encode(map[string]string{
			"source": t.delivery.Source, "delivery": t.delivery.ID, "event": t.delivery.Event,
		}),
		Output: skill.ErrorOutput(class), Error: cmp.Or(t.made.Error, t.ending.Error), Trace: t.delivery.Trace, Execution: execution,
	})
}

// log logs how the attempt ended, after the commit.
func (t *try) log(ctx context.Context, out work.Outcome) {
	about := []any{"source", t.delivery.Source, "delivery", t.delivery.ID, "event", t.delivery.Event, "action",
		cmp.Or(t.plan.String(), t.delivery.Action), "attempt", t.attempts}
	switch t.ending.Status {
	case inbox.Parked:
		t.Log.WarnContext(ctx, "webhook parked: a person has to look", append(about, "error", t.ending.Error)...)
	case inbox.Failed:
		t.Log.WarnContext(ctx, "webhook failed: it is tried again", append(about, "error", t.ending.Error, "in", t.ending.Wait.String())...)
	case inbox.Done:
		t.Log.InfoContext(ctx, "webhook done", append(about, "execution", out.Execution.ID)...)
	case inbox.Received, inbox.Working: // another process works on it
	}
}
