package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

type runSkillInput struct {
	SkillPath
	Body *struct {
		Input json.RawMessage `json:"input,omitempty" doc:"What fits the skill's parameters; left out: {}"`
	}
}

type runSkillAnswer struct {
	Status      execution.StepStatus `json:"status" enum:"succeeded,failed,uncertain" doc:"uncertain: it may have had its effect, and nobody knows"`
	Output      json.RawMessage      `json:"output,omitempty"`
	Error       string               `json:"error,omitempty"`
	ExecutionID string               `json:"executionId"`
	TraceID     trace.ID             `json:"traceId"`
}

// runSkill makes one call of a skill by hand, which needs no approval where a person
// asks for it. It is called by the Engine Room, to try a skill, and by scripts.
func (s *server) runSkill(ctx context.Context, in *runSkillInput) (*answer[runSkillAnswer], error) {
	return s.runByHand(ctx, in, false)
}

// runByHand makes a call; outside says that its input may be in the words of others.
func (s *server) runByHand(ctx context.Context, in *runSkillInput, outside bool) (*answer[runSkillAnswer], error) {
	d, err := s.Registry.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	if !d.Enabled {
		return nil, problem.New(http.StatusConflict, "disabled", "the skill is disabled: enable it first")
	}
	input := json.RawMessage("{}")
	if in.Body != nil && len(in.Body.Input) > 0 {
		input = in.Body.Input
	}
	by, _ := auth.From(ctx)
	used, err := s.Operate.RunSkill(ctx, by.Workspace, d.Name, input, operate.ByHand{
		By: principal(by), Person: by.Kind == auth.Local || by.Kind == auth.User, Untrusted: outside,
	})
	if err != nil {
		return nil, err
	}
	s.Kick(workspace(ctx)) // what it left in the outbox
	return answered(runSkillAnswer{
		Status: used.Status, Output: used.Output, Error: used.Error, ExecutionID: used.Execution, TraceID: used.Trace,
	}), nil
}
