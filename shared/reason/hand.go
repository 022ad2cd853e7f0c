package reason

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/run"
)

// Made is what came of a call made by hand.
type Made struct {
	Status run.StepStatus // succeeded, failed or uncertain
	Output json.RawMessage
	Error  string
}

// ByHand makes one call that a person asked for, with a journal like any run's: a
// killed one is not made twice. The caller ends the execution with [Runner.Close].
func (r *Runner) ByHand(ctx context.Context, job Job, name string, arguments json.RawMessage) (Made, Outcome, error) {
	ctx = r.discreet(ctx)
	job.Approved = true
	s, err := r.resume(ctx, job)
	if err != nil {
		return Made{}, Outcome{}, err
	}
	if out, err := r.look(ctx, job, s); out != nil || err != nil {
		return Made{}, deref(out), err
	}
	if s.Steps == 0 {
		call := llm.ToolCall{ID: "hand", Name: name, Arguments: llm.Arguments(arguments)}
		answer := modelBody{Message: llm.Message{Role: llm.RoleAssistant, Calls: []llm.ToolCall{call}}, Model: "hand", StopReason: llm.StopToolUse}
		if err := r.append(ctx, job, s, run.Model, "", answer, nil); err != nil {
			return Made{}, Outcome{}, err
		}
	}
	if err := r.settle(ctx, job, s); err != nil {
		return Made{}, Outcome{}, err
	}
	if s.made.status == "" {
		return Made{}, Outcome{}, errors.New("the call could not be made: " + s.struck.Told)
	}
	made := Made{Status: s.made.status, Output: s.made.output, Error: s.made.message}
	if made.Status != run.Succeeded {
		return made, s.outcome(run.Failed, made.Error), nil
	}
	return made, s.outcome(run.Completed, ""), nil
}
