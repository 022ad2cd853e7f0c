package api

import (
	"time"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/redact"
)

// traceStep is the part of a conversation with a model that one entry of a journal adds.
type traceStep struct {
	ExecutionID string               `json:"executionId" format:"uuid"`
	Step        int                  `json:"step" doc:"Counts the model's answers; 0 is what the execution began with"`
	Kind        execution.Kind       `json:"kind" enum:"input,model,result,note" doc:"What the execution was told, an answer of the model, the result of a call, or a summary of older messages"`
	Status      execution.StepStatus `json:"status" enum:"started,succeeded,failed,uncertain"`
	Call        string               `json:"call,omitempty" doc:"The call of which this is the result: 3.1 is the first of step 3"`
	System      string               `json:"system,omitempty" doc:"The system prompt"`
	Messages    []stepMessage        `json:"messages" nullable:"false"`
	CreatedAt   time.Time            `json:"createdAt"`
}

// stepMessage is one message that the model received or wrote, without secrets.
type stepMessage struct {
	Role    llm.Role     `json:"role" enum:"user,assistant,tool,system"`
	Text    string       `json:"text,omitempty"`
	Calls   []stepCall   `json:"calls,omitempty"`
	Results []stepResult `json:"results,omitempty"`
}

type stepCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments" doc:"As the model wrote them: meant as JSON"`
}

type stepResult struct {
	CallID  string `json:"callId"`
	Name    string `json:"name"`
	Content string `json:"content"`
	IsError bool   `json:"isError,omitempty"`
}

const (
	maxSteps     = 1000
	maxStepBytes = 4 << 20 // bytes; the response of a Lambda function has 6 MB at most
)

// traceSteps returns the entries that have content. whole is false if entries are missing: because
// there are too many, or because this version of the program cannot read them.
func traceSteps(entries []execution.TraceEntry, known *redact.Redactor) (items []traceStep, whole bool) {
	items, whole = []traceStep{}, true
	for i, e := range entries {
		if i == maxSteps || e.Body == nil {
			return items, false
		}
		system, messages, err := reason.Spoken(e.Entry)
		if err != nil {
			whole = false
			continue
		}
		if system == "" && len(messages) == 0 {
			continue
		}
		item := traceStep{
			ExecutionID: e.Execution, Step: e.Step, Kind: e.Kind, Status: e.Status, Call: e.Call,
			System: known.Text(system), Messages: []stepMessage{}, CreatedAt: e.CreatedAt.UTC(),
		}
		for _, m := range messages {
			item.Messages = append(item.Messages, stepMessageOf(m, known))
		}
		items = append(items, item)
	}
	return items, whole
}

func stepMessageOf(m llm.Message, known *redact.Redactor) stepMessage {
	out := stepMessage{Role: m.Role, Text: known.Text(m.Text)}
	for _, c := range m.Calls {
		out.Calls = append(out.Calls, stepCall{c.ID, known.Text(c.Name), known.Text(string(c.Arguments))})
	}
	for _, r := range m.Results {
		out.Results = append(out.Results, stepResult{r.CallID, known.Text(r.Name), known.Text(r.Content), r.IsError})
	}
	return out
}
