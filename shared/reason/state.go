package reason

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/run"
)

// The bodies of journal entries, in format 1.
type (
	inputBody struct {
		Messages []llm.Message `json:"messages"`
	}
	modelBody struct {
		Message    llm.Message    `json:"message"`
		Usage      llm.Usage      `json:"usage"`
		Model      string         `json:"model"`
		StopReason llm.StopReason `json:"stop_reason"`
	}
	resultBody struct {
		Call   llm.ToolCall   `json:"call"`
		Skill  string         `json:"skill,omitempty"` // the skill that ran; empty: none did
		Result llm.ToolResult `json:"result"`
	}
)

// state is what the journal's entries add up to.
type state struct {
	Progress
	seq      int
	messages []llm.Message
	pending  []pendingCall    // calls of the last answer without a result
	results  []llm.ToolResult // of the last answer's other calls, in its order
	answered bool             // the last answer asked for no call
	strikes  int              // answers in a row with a call that could not be made, and none since that could
	missed   int              // the step of the last strike
	struck   string           // the name that its call asked for
	done     []string         // skills that succeeded, in order
}

// pendingCall is a call with its place in the execution.
type pendingCall struct {
	id string // "3.1": the first of step 3
	llm.ToolCall
}

func foldEntries(entries []run.Entry) (*state, error) {
	s := &state{}
	for _, e := range entries {
		if e.Seq != s.seq+1 {
			return nil, fmt.Errorf("the journal goes from entry %d to %d", s.seq, e.Seq)
		}
		if err := s.fold(e); err != nil {
			return nil, fmt.Errorf("journal entry %d (%s): %w", e.Seq, e.Kind, err)
		}
	}
	return s, nil
}

// add makes the next entry and folds it in, exactly as a resumed run would.
func (s *state) add(kind run.Kind, status run.StepStatus, call string, body any) (run.Entry, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return run.Entry{}, fmt.Errorf("encode a journal entry: %w", err)
	}
	e := run.Entry{Seq: s.seq + 1, Step: s.Steps, Kind: kind, Status: status, Call: call, Format: run.Format, Body: activity.Storable(raw)}
	if kind == run.Model {
		e.Step++
	}
	return e, s.fold(e)
}

func (s *state) fold(e run.Entry) error {
	s.seq = e.Seq
	switch e.Kind {
	case run.Input:
		var b inputBody
		if err := json.Unmarshal(e.Body, &b); err != nil {
			return err
		}
		s.messages = append(s.messages, b.Messages...)
	case run.Model:
		var b modelBody
		if err := json.Unmarshal(e.Body, &b); err != nil {
			return err
		}
		if len(s.pending) > 0 {
			return fmt.Errorf("an answer while %d calls have no result", len(s.pending))
		}
		s.foldAnswer(e.Step, b)
	case run.Result:
		var b resultBody
		if err := json.Unmarshal(e.Body, &b); err != nil {
			return err
		}
		return s.foldResult(e, b)
	case run.Called, run.Note:
	}
	return nil
}

func (s *state) foldAnswer(step int, b modelBody) {
	s.Steps, s.ModelCalls, s.Usage = step, s.ModelCalls+1, s.Usage.Plus(b.Usage)
	s.messages = append(s.messages, b.Message)
	s.answered = len(b.Message.Calls) == 0
	s.results = nil
	for i, c := range b.Message.Calls {
		s.pending = append(s.pending, pendingCall{fmt.Sprintf("%d.%d", step, i+1), c})
	}
}

func (s *state) foldResult(e run.Entry, b resultBody) error {
	if len(s.pending) == 0 || s.pending[0].id != e.Call {
		return fmt.Errorf("a result of call %s that is not awaited", e.Call)
	}
	s.pending = s.pending[1:]
	s.results = append(s.results, b.Result)
	if len(s.pending) == 0 {
		s.messages = append(s.messages, llm.Message{Role: llm.RoleTool, Results: s.results})
	}
	if b.Skill == "" {
		if s.missed != s.Steps { // the model learns of an answer's mistakes all at once
			s.strikes++
		}
		s.missed, s.struck = s.Steps, clip(b.Call.Name, maxName)
		return nil
	}
	s.strikes, s.missed = 0, 0
	if e.Status == run.Succeeded {
		s.done = append(s.done, b.Skill)
	}
	return nil
}

func (s *state) stop(ctx context.Context, stops []Stop) *Stopped {
	for _, stop := range stops {
		if st := stop(ctx, s.Progress); st != nil {
			return st
		}
	}
	return nil
}

func (s *state) outcome(status run.Status, reason string) Outcome {
	out := Outcome{Status: status, Reason: reason, Progress: s.Progress}
	for _, m := range s.messages {
		if m.Role == llm.RoleAssistant && m.Text != "" {
			out.Answer = m.Text
		}
	}
	if status != run.Completed {
		out.Summary = "nothing was done yet"
		if len(s.done) > 0 {
			out.Summary = "done so far: " + strings.Join(s.done, ", ")
		}
	}
	return out
}
