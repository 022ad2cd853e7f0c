package reason

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/repair"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// Approvals stores calls that wait for a person's decision.
type Approvals interface {
	// Request adds the row of a waiting call and returns its id, or [ErrManyWait].
	Request(ctx context.Context, tx lane.Tx, w Waiting) (id string, err error)
	// Open returns the number of undecided calls of an execution.
	Open(ctx context.Context, ws db.Workspace, execution string) (int, error)
}

// MaxWaits is the largest number of calls of an execution that may wait for a person.
const MaxWaits = 10

// ErrManyWait says that [MaxWaits] calls of the execution wait already.
var ErrManyWait = errors.New("as many calls of the execution wait for a person as may")

// Waiting is a call that must not be made before a person has approved it.
type Waiting struct {
	Execution execution.Execution
	Skill     *skill.Skill
	Call      skill.Call
	CallID    string // its position in the execution: "3.1"
	Why       string
}

// decision says what happens with a call.
type decision struct {
	call      pendingCall
	skill     *skill.Skill    // nil: there is no such skill
	arguments json.RawMessage // the arguments for the skill
	use       skill.Call      // the call for the skill; concurrent calls read nothing of the run's state
	refusal   string          // text for the model: the call can't be made
	waits     string          // why a person must approve the call
	begun     bool            // the call began before and was cut off
	uncertain bool            // the call began before and can't be repeated
}

// runs reports whether the call is made now.
func (v decision) runs() bool { return v.refusal == "" && v.waits == "" && !v.uncertain }

// decide decides on a call without making it. A call that began before is repeated with its
// idempotency key. Without one it is uncertain, even if its skill was changed meanwhile.
func (r *Runner) decide(ctx context.Context, job Job, s *state, c pendingCall) decision {
	v := r.decideAnew(ctx, job, s, c)
	if _, v.begun = s.called[c.id]; v.begun && !(v.runs() && v.skill.Keyed) {
		v.refusal, v.waits, v.uncertain = "", "", true
	}
	v.use = job.use(s, v)
	return v
}

// decideAnew decides on a call that did not begin before.
func (r *Runner) decideAnew(ctx context.Context, job Job, s *state, c pendingCall) decision {
	v := decision{call: c}
	if c.index >= maxCalls {
		v.refusal = fmt.Sprintf("An answer may ask for %d calls: this one and those after it were not made. Ask for them again, "+
			"in a further answer.", maxCalls)
		return v
	}
	if s.cut() && c.index == len(s.results)-1 {
		v.refusal = "Your answer was cut off in this call, and nothing was done. Make the call again, whole, in a shorter answer."
		return v
	}
	k, ok := job.Skills.Find(c.Name)
	if !ok {
		v.refusal = unknownTool(job.Skills, c.Name)
		return v
	}
	v.skill = k
	if k.Name != c.Name {
		r.Log.InfoContext(ctx, "skill name matched", "asked", clip(c.Name, maxName), "skill", k.Name)
	}
	arguments, ok := c.Arguments.Object()
	if !ok {
		if arguments, ok = repair.Object(string(c.Arguments), s.cut()); !ok {
			v.refusal = badArguments(k, []skill.Violation{{Problem: "not a JSON object"}})
			return v
		}
		r.Log.InfoContext(ctx, "arguments repaired", "skill", k.Name, "call", c.id)
	}
	if violations := k.Check(ctx, arguments); len(violations) > 0 {
		v.refusal = badArguments(k, violations)
		return v
	}
	asked := k
	if k.Through {
		if off := s.halts.Skill(k.Name); off != "" {
			v.refusal = switchedOff(k, off)
			return v
		}
		if k, arguments = job.inner(ctx, arguments, &v); v.refusal != "" {
			return v
		}
	}
	if why := s.halts.Skill(k.Name); why != "" {
		v.refusal = switchedOff(k, why)
		return v
	}
	v.arguments = canonical(arguments)
	switch {
	case job.Approved:
	case k.RequiresApproval:
		v.waits = "the skill requires approval"
	case asked.RequiresApproval:
		v.waits = asked.Name + " requires approval"
	case s.asked == execution.Untrusted && !job.Rule && k.WritesRemote() && k.Scope != skill.External:
		v.waits = "text from outside has entered the run, and the skill has an effect outside"
	}
	if v.waits != "" && (r.Approvals == nil || job.NoApprovals) {
		v.waits, v.refusal = "", fmt.Sprintf("The tool %s may not be used here: it needs an approval, and nobody can give one.", k.Name)
	}
	return v
}

// meant returns the skill that a call finally runs. It is nil if there is none.
func meant(offered *skill.Set, c llm.ToolCall) *skill.Skill {
	k, ok := offered.Find(c.Name)
	if !ok || !k.Through {
		return k
	}
	arguments, ok := c.Arguments.Object()
	if !ok {
		return nil
	}
	name, _, err := skill.Inner(arguments)
	if err != nil {
		return nil
	}
	k, _ = offered.Find(name)
	return k
}

// inner returns the skill and the arguments of the inner call, for a call that runs another skill.
func (j Job) inner(ctx context.Context, arguments json.RawMessage, v *decision) (*skill.Skill, json.RawMessage) {
	name, input, err := skill.Inner(arguments)
	if err != nil {
		v.refusal = err.Error()
		return nil, nil
	}
	k, ok := j.Skills.Find(name)
	switch {
	case !ok:
		v.refusal = unknownTool(j.Skills, name)
	case k.Through:
		v.refusal = fmt.Sprintf("%s does not run itself: name the skill that is meant.", k.Name)
	default:
		if violations := k.Check(ctx, input); len(violations) > 0 {
			v.refusal = badArguments(k, violations)
		}
	}
	v.skill = k
	return k, input
}

// group decides on the next calls and returns those that may run concurrently: the calls before the
// next serial one, or that one alone.
func (r *Runner) group(ctx context.Context, job Job, s *state) []decision {
	var out []decision
	running := 0
	for _, c := range s.pending {
		v := r.decide(ctx, job, s, c)
		if v.runs() {
			if v.skill.Serial && running > 0 {
				break
			}
			running++
		}
		out = append(out, v)
		if v.runs() && v.skill.Serial {
			break
		}
	}
	return out
}

// decline records the results of the group's calls that are not made now, in one transaction. Every
// call needs a result, because the provider would refuse the next request otherwise.
func (r *Runner) decline(ctx context.Context, job Job, s *state, group []decision) error {
	var declined []decision
	for _, v := range group {
		if !v.runs() {
			declined = append(declined, v)
		}
	}
	if len(declined) == 0 {
		return nil
	}
	approvals := make([]string, len(declined)) // of the calls that wait for one
	err := r.commit(ctx, s, job.holds(), func(ctx context.Context, tx lane.Tx) error {
		for i, v := range declined {
			var err error
			switch {
			case v.refusal != "":
				err = r.refuse(ctx, tx, job, s, v)
			case v.uncertain:
				err = r.writeResult(ctx, tx, job, s, v, outcome{
					status: execution.Uncertain, input: v.arguments, outside: true,
					message: "The call was cut off. It is not known whether it had its effect: don't make it again; a person has to look.",
				})
			default:
				approvals[i], err = r.awaitApproval(ctx, tx, job, s, v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, v := range declined {
		r.logDeclined(ctx, v, approvals[i])
	}
	return nil
}

// logDeclined logs why a call is not made now. The approval is empty where the call may not wait for one.
func (r *Runner) logDeclined(ctx context.Context, v decision, approval string) {
	switch {
	case v.refusal != "":
		r.Log.WarnContext(ctx, "call refused", "tool", clip(v.call.Name, maxName), "call", v.call.id, "arguments",
			string(v.call.Arguments), "note", v.refusal)
	case v.uncertain:
	case approval == "":
		r.Log.WarnContext(ctx, "call does not wait for approval", "skill", v.skill.Name, "call", v.call.id, "error", ErrManyWait)
	default:
		r.Log.InfoContext(ctx, "call waits for approval", "skill", v.skill.Name, "call", v.call.id, "approval", approval, "reason", v.waits)
	}
}

// refuse records the result of a call that can't be made, and its line in the activity log. Nothing
// ran.
func (r *Runner) refuse(ctx context.Context, tx lane.Tx, job Job, s *state, v decision) error {
	entry, err := s.add(execution.Result, execution.Errored, v.call.id, "", resultBody{
		Call:   v.call.ToolCall,
		Result: llm.ToolResult{CallID: v.call.ID, Name: v.call.Name, Content: v.refusal, IsError: true},
	})
	if err != nil {
		return err
	}
	if !s.byHand { // the caller of a call by hand gets the error and writes the line
		r.Activity.Record(ctx, tx.Later(), job.refusedLine(s, v))
	}
	return r.Runs.Append(tx, job.Execution, entry)
}

// awaitApproval records that a call waits for a person, and returns the approval, or nothing where the call
// may not even wait. For the run this is the call's result: it continues, or ends, without the real one.
func (r *Runner) awaitApproval(ctx context.Context, tx lane.Tx, job Job, s *state, v decision) (string, error) {
	id, err := r.Approvals.Request(ctx, tx, Waiting{
		Execution: job.Execution, Skill: v.skill, Call: v.use, CallID: v.call.id, Why: v.waits,
	})
	if errors.Is(err, ErrManyWait) {
		return "", r.crowd(ctx, tx, job, s, v)
	}
	if err != nil {
		return "", err
	}
	content := fmt.Sprintf("This call of %s waits for a person to approve it (approval %s). It has not been made. Don't "+
		"make it again; go on with what does not need its result, or say that it waits.", v.skill.Name, id)
	entry, err := s.add(execution.Result, execution.Succeeded, v.call.id, "", resultBody{
		Call: v.call.ToolCall, Skill: v.skill.Name, Waits: id,
		Result: llm.ToolResult{CallID: v.call.ID, Name: v.call.Name, Content: content},
	})
	if err != nil {
		return "", err
	}
	r.Activity.Record(ctx, tx.Later(), activity.Entry{
		Agent: job.Agent, Surface: job.Execution.Surface, Skill: v.skill.Name, SkillID: v.skill.ID, Status: activity.PendingApproval,
		Input: v.arguments, Output: encode(map[string]string{"approval": id, "reason": v.waits}),
		Execution: job.Execution.ID, ParentExecution: job.Execution.Parent, Attempt: job.Execution.Attempt,
	})
	return id, r.Runs.Append(tx, job.Execution, entry)
}

// crowd records that a call may not even wait. The run then waits for a decision on those calls
// that do.
func (r *Runner) crowd(ctx context.Context, tx lane.Tx, job Job, s *state, v decision) error {
	v.refusal = fmt.Sprintf("This call of %s was not made: it needs an approval, and %d calls of this run wait for one "+
		"already.", v.skill.Name, MaxWaits)
	entry, err := s.add(execution.Result, execution.Errored, v.call.id, "", resultBody{
		Call: v.call.ToolCall, Skill: v.skill.Name, Crowded: true,
		Result: llm.ToolResult{CallID: v.call.ID, Name: v.call.Name, Content: v.refusal, IsError: true},
	})
	if err != nil {
		return err
	}
	r.Activity.Record(ctx, tx.Later(), job.refusedLine(s, v))
	return r.Runs.Append(tx, job.Execution, entry)
}

// waitsOn returns the end of a run that has asked for more approvals than may be open. The run
// continues after a decision: when it is told of one, or else when one was made. waitsOn returns
// nil if the run continues now.
func (r *Runner) waitsOn(ctx context.Context, job Job, s *state) (*Outcome, error) {
	if s.crowded && !job.TellsDecisions {
		open, err := r.Approvals.Open(ctx, job.Hold.Workspace, job.Execution.ID)
		if err != nil {
			return nil, err
		}
		s.crowded = open >= MaxWaits
	}
	if !s.crowded {
		return nil, nil //nolint:nilnil // the run goes on
	}
	out := s.outcome(execution.Waiting, fmt.Sprintf("%d calls wait for a person to approve them", MaxWaits))
	out.Halted = true
	return &out, nil
}

// encode returns v as JSON. Strings always encode.
func encode(v map[string]string) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

// unknownTool returns the text for the model about a tool that does not exist. It lists the
// existing names, most similar first.
func unknownTool(skills *skill.Set, name string) string {
	names := skills.Nearest(name)
	if len(names) == 0 {
		return fmt.Sprintf("The tool %q does not exist, and there are no others. Answer without a tool.", clip(name, maxName))
	}
	more := ""
	if len(names) > maxNames {
		names, more = names[:maxNames], fmt.Sprintf(" (and %d more)", len(names)-maxNames)
	}
	return fmt.Sprintf("The tool %q does not exist. The tools there are, the most similar first: %s%s. Use one of them, or "+
		"answer without a tool.",
		clip(name, maxName), strings.Join(names, ", "), more)
}

// badArguments returns the text for the model about arguments that do not fit the schema.
func badArguments(k *skill.Skill, violations []skill.Violation) string {
	var lines []string
	for i, v := range violations {
		if i == maxViolations {
			lines = append(lines, fmt.Sprintf("- and %d more", len(violations)-i))
			break
		}
		lines = append(lines, "- "+clip(v.String(), maxViolation))
	}
	return fmt.Sprintf("The arguments of %s do not fit its parameters:\n%s\nIts parameters: %s", k.Name,
		strings.Join(lines, "\n"), k.Parameters)
}
