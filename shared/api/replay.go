package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

type replayInput struct {
	TraceID string `path:"traceId" pattern:"^(hb|op|ch|wh|co|wk)_[0-9a-z]{9}_[0-9a-z]{10}$" patternDescription:"a trace id"`
	Body    *struct {
		ExecutionID string `json:"executionId,omitempty" format:"uuid" doc:"One run of the trace; else all that took steps, 20 at most"`
		Model       string `json:"model,omitempty" maxLength:"255" doc:"Another model of the provider's"`
		System      string `json:"system,omitempty" maxLength:"65536" doc:"Another system prompt"`
		Persona     string `json:"persona,omitempty" maxLength:"63" doc:"Another persona, in its newest version"`
	}
}

// noPersona refuses the name of a persona that does not exist.
const noPersona = "expected the name of a persona: GET /api/v1/personas lists them"

// callItem is a call that a model asked for.
type callItem struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments" doc:"As the model wrote them: meant to be JSON"`
}

// answerItem is an answer of a model.
type answerItem struct {
	Text       string         `json:"text"`
	Calls      []callItem     `json:"calls" nullable:"false"`
	StopReason llm.StopReason `json:"stopReason"`
	Model      string         `json:"model"`
}

type replayedStep struct {
	Step     int        `json:"step"`
	Recorded answerItem `json:"recorded"`
	Replayed answerItem `json:"replayed"`
	Same     bool       `json:"same"`
	Differs  []string   `json:"differs" nullable:"false" enum:"text,calls,stop_reason"`
}

type replayedRun struct {
	ExecutionID string         `json:"executionId"`
	Steps       []replayedStep `json:"steps" nullable:"false"`
	Usage       tokenUsage     `json:"usage"`
}

type replayAnswer struct {
	Executions  []replayedRun `json:"executions" nullable:"false"`
	Differences int           `json:"differences" doc:"Steps that are not the same"`
}

// replayTrace asks the model again for each recorded step of a trace and compares the answers. It
// calls no skill and changes nothing. It is called by the Engine Room and by people who try another
// prompt or model.
func (s *server) replayTrace(ctx context.Context, in *replayInput) (*answer[replayAnswer], error) {
	id, _, err := trace.Parse(in.TraceID)
	if err != nil {
		return nil, err
	}
	var execution string
	var v operate.Variation
	if in.Body != nil {
		execution, v = in.Body.ExecutionID, operate.Variation{
			Variation: reason.Variation{Model: in.Body.Model, System: in.Body.System}, Persona: in.Body.Persona,
		}
	}
	runs, err := s.Operate.Replay(ctx, workspace(ctx), id, execution, v)
	if errors.Is(err, persona.ErrNotFound) {
		return nil, invalid(problem.At("body.persona", noPersona))
	}
	if err != nil {
		return nil, err
	}
	out := replayAnswer{Executions: make([]replayedRun, 0, len(runs))}
	for _, r := range runs {
		item := replayedRun{ExecutionID: r.Execution, Steps: make([]replayedStep, 0, len(r.Steps)), Usage: usageOf(r.Usage)}
		for _, st := range r.Steps {
			step := replayedStep{
				Step: st.Step, Recorded: answerItemOf(st.Recorded), Replayed: answerItemOf(st.Replayed),
				Same: len(st.Differs) == 0, Differs: append([]string{}, st.Differs...),
			}
			if !step.Same {
				out.Differences++
			}
			item.Steps = append(item.Steps, step)
		}
		out.Executions = append(out.Executions, item)
	}
	return answered(out), nil
}

func usageOf(u llm.Usage) tokenUsage {
	total := int64(u.TotalTokens())
	return tokenUsage{PromptTokens: total - int64(u.CompletionTokens), CompletionTokens: int64(u.CompletionTokens), TotalTokens: total}
}

func answerItemOf(a reason.Answer) answerItem {
	item := answerItem{Text: a.Text, Calls: make([]callItem, 0, len(a.Calls)), StopReason: a.StopReason, Model: a.Model}
	for _, c := range a.Calls {
		item.Calls = append(item.Calls, callItem{c.Name, string(c.Arguments)})
	}
	return item
}

type forkInput struct {
	TraceID string `path:"traceId" pattern:"^(hb|op|ch|wh|co|wk)_[0-9a-z]{9}_[0-9a-z]{10}$" patternDescription:"a trace id"`
	Body    struct {
		Step        int    `json:"step" minimum:"1" maximum:"1000" doc:"The step that is taken anew: what stands before it is kept, and not run again"`
		ExecutionID string `json:"executionId,omitempty" format:"uuid" doc:"Which run of the trace, where it has several"`
		Edits       struct {
			System  string       `json:"system,omitempty" maxLength:"65536" doc:"Another system prompt"`
			Persona string       `json:"persona,omitempty" maxLength:"63" doc:"Another persona, in its newest version, unless there is another system prompt"`
			Message string       `json:"message,omitempty" maxLength:"65536" doc:"A further message before the step"`
			Results []editedItem `json:"results,omitempty" maxItems:"100" doc:"Other results of calls that are kept"`
		} `json:"edits,omitempty"`
	}
}

// editedItem replaces the result of a call.
type editedItem struct {
	Call    string `json:"call" maxLength:"16" doc:"3.1 is the first of step 3"`
	Content string `json:"content" maxLength:"65536" doc:"What the model is to read"`
}

type forkAnswer struct {
	ExecutionID string   `json:"executionId"`
	TraceID     trace.ID `json:"traceId"`
}

type forkOutput struct {
	Status int
	Body   forkAnswer
}

// forkTrace begins a new execution from the steps that another one took before a given step, with
// edits. The new execution continues in the background. It is called by the Engine Room.
func (s *server) forkTrace(ctx context.Context, in *forkInput) (*forkOutput, error) {
	id, _, err := trace.Parse(in.TraceID)
	if err != nil {
		return nil, err
	}
	edits := operate.Edits{ID: claimedID(ctx), Persona: in.Body.Edits.Persona, Edits: reason.Edits{
		System: discreet(ctx, in.Body.Edits.System), Message: discreet(ctx, in.Body.Edits.Message), Results: map[string]string{},
	}}
	for _, r := range in.Body.Edits.Results {
		edits.Results[r.Call] = discreet(ctx, r.Content)
	}
	forked, err := s.Operate.Fork(ctx, workspace(ctx), id, in.Body.ExecutionID, in.Body.Step, edits)
	if errors.Is(err, persona.ErrNotFound) {
		return nil, invalid(problem.At("body.edits.persona", noPersona))
	}
	if forked, err = before(ctx, forked, err, s.Runs.Get); err != nil {
		return nil, err
	}
	s.Kick(workspace(ctx))
	return &forkOutput{http.StatusAccepted, forkAnswer{forked.ID, forked.Trace}}, nil
}
