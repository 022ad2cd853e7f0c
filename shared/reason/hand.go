package reason

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// CallResult is the result of a call without a model.
type CallResult struct {
	Status execution.StepStatus // succeeded, failed or uncertain
	Output json.RawMessage
	Error  string
	Waits  string      // the approval that the call waits for; the call was not made
	Unmade bool        // the call could not be made, and has no line in the activity log
	Class  skill.Class // the class of a failed call's error; empty: unknown
}

// RunCallByHand is [Runner.RunCall] for a person's call, which needs no approval.
func (r *Runner) RunCallByHand(ctx context.Context, job Job, name string, arguments json.RawMessage) (CallResult, Outcome, error) {
	job.Approved = true
	made, out, err := r.RunCall(ctx, job, name, arguments)
	if err == nil && out.Halted { // the caller gets the reason and may ask again
		made, out.Status = CallResult{Status: execution.Errored, Error: out.Reason}, execution.Failed
	}
	return made, out, err
}

// RunCall makes one call that no model asked for, with a journal like that of any run, so that a
// killed call is not made twice. The caller ends the execution with [Runner.Close].
func (r *Runner) RunCall(ctx context.Context, job Job, name string, arguments json.RawMessage) (CallResult, Outcome, error) {
	ctx = r.discreet(ctx, job.Hold.Workspace)
	s, err := r.resume(ctx, job)
	if err != nil {
		return CallResult{}, Outcome{}, err
	}
	s.model, s.byHand = nobody{}, true // a kill switch for a model does not apply to a call without a model
	if out, err := r.look(ctx, job, s); out != nil || err != nil {
		return CallResult{}, deref(out), err
	}
	call := llm.ToolCall{ID: "hand", Name: name, Arguments: llm.Arguments(arguments)}
	if s.Steps == 0 {
		if !bytes.Equal(s.known.JSON(arguments), arguments) {
			return CallResult{Status: execution.Errored, Error: tellsSecret, Unmade: true, Class: skill.Input},
				s.outcome(execution.Failed, "the call could not be made: "+tellsSecret), nil
		}
		answer := modelBody{Message: llm.Message{Role: llm.RoleAssistant, Calls: []llm.ToolCall{call}}, Model: "hand",
			StopReason: llm.StopToolUse}
		if err := r.append(ctx, job, s, execution.Model, "", answer, nil); err != nil {
			return CallResult{}, Outcome{}, err
		}
	}
	if err := r.settle(ctx, job, s); err != nil {
		return CallResult{}, Outcome{}, err
	}
	if s.made.status == "" {
		made := CallResult{Status: execution.Errored, Error: s.struck.Message, Unmade: true, Class: skill.Input}
		if _, found := job.Skills.Find(name); !found {
			made.Class = skill.Ours
		}
		if k := meant(job.Skills, call); k != nil && s.halts.Skill(k.Name) != "" {
			made.Class = skill.Policy
		}
		return made, s.outcome(execution.Failed, "the call could not be made: "+s.struck.Message), nil
	}
	made := CallResult{Status: s.made.status, Output: s.made.output, Error: s.made.message, Waits: s.made.waits}
	if made.Status != execution.Succeeded {
		if s.made.err != nil {
			made.Class = skill.ClassOf(s.made.err)
		}
		return made, s.outcome(execution.Failed, made.Error), nil
	}
	return made, s.outcome(execution.Completed, ""), nil
}

// tellsSecret refuses arguments with a secret, because they would be stored and shown.
const tellsSecret = `the arguments hold the value of a secret: leave it out, and have the skill's configuration name it, {"$secret": name}`

// nobody is the model of a call that no model asked for.
type nobody struct{ llm.Model }

func (nobody) Name() string { return "" }
