package reason

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Decided adds the outcome of a call that waited for a person as a message, so that the next Run
// continues from there. The run must be at rest: its journal ends with an answer. trust is the
// trust of the text.
func (r *Runner) Decided(ctx context.Context, job Job, approval, text string, trust execution.Trust) error {
	ctx = r.discreet(ctx, job.Hold.Workspace)
	s, err := r.resume(ctx, job)
	if err != nil {
		return err
	}
	if len(s.pending) > 0 {
		return fmt.Errorf("tell execution %s of approval %s: %d calls have no result yet", job.Execution.ID, approval, len(s.pending))
	}
	return r.append(ctx, job, s, execution.Input, trust, inputBody{
		Messages: []llm.Message{{Role: llm.RoleUser, Text: bounded(text)}}, Decided: approval,
	}, nil)
}

// EntrySummary is the content of a journal's entry for followers of the run.
type EntrySummary struct {
	Text  string // of the model's answer
	Calls []CallSummary
}

// CallSummary is the state of a call.
type CallSummary struct {
	ID       string // its position in the execution: "3.1"
	Skill    string // as the model named it, until the call is made
	Status   string // started, succeeded, failed, uncertain or waiting
	Approval string // the approval that the call waits for
	Result   string // the text that the model got, shortened
	// Arguments are the arguments of the call, once it is made.
	Arguments json.RawMessage
}

// maxSummary limits the text of a result in a summary, in bytes.
const maxSummary = 2000

// Summarize returns the content of an entry. For most kinds it is empty.
func Summarize(e execution.Entry) (t EntrySummary, err error) {
	switch e.Kind {
	case execution.Model:
		err = folded(e, func(b modelBody) error {
			t.Text = b.Message.Text
			for i, c := range b.Message.Calls {
				t.Calls = append(t.Calls, CallSummary{ID: fmt.Sprintf("%d.%d", e.Step, i+1), Skill: clip(c.Name, maxName),
					Status: string(execution.Started)})
			}
			return nil
		})
	case execution.Result:
		err = folded(e, func(b resultBody) error {
			c := CallSummary{ID: e.Call, Skill: b.Skill, Status: string(e.Status), Approval: b.Waits,
				Result: clip(b.Result.Content, maxSummary), Arguments: json.RawMessage(b.Call.Arguments)}
			if c.Skill == "" {
				c.Skill = clip(b.Call.Name, maxName)
			}
			if c.Approval != "" {
				c.Status = "waiting"
			}
			t.Calls = []CallSummary{c}
			return nil
		})
	}
	if err != nil {
		return EntrySummary{}, fmt.Errorf("read journal entry %d: %w", e.Seq, err)
	}
	return t, nil
}

// Spoken returns what an entry adds to the conversation with the model: the system prompt and the
// messages at the beginning of a run, an answer, the result of a call, or the summary that replaces
// older messages. Other entries add nothing. An entry that this version of the program cannot read
// is an error.
func Spoken(e execution.Entry) (system string, messages []llm.Message, err error) {
	if err := e.Readable(); err != nil {
		return "", nil, err
	}
	switch e.Kind {
	case execution.Input:
		err = folded(e, func(b inputBody) error { system, messages = b.System, b.Messages; return nil })
	case execution.Model:
		err = folded(e, func(b modelBody) error { messages = []llm.Message{b.Message}; return nil })
	case execution.Result:
		err = folded(e, func(b resultBody) error {
			messages = []llm.Message{{Role: llm.RoleTool, Results: []llm.ToolResult{b.Result}}}
			return nil
		})
	case execution.Note:
		err = folded(e, func(b noteBody) error {
			switch {
			case b.To > 0:
				messages = []llm.Message{{Role: llm.RoleSystem, Text: summarised + b.Summary}}
			case b.Share > 0:
				messages = []llm.Message{{Role: llm.RoleSystem, Text: fmt.Sprintf("[The results before were cut to about %d tokens each.]", b.Share)}}
			}
			return nil
		})
	}
	if err != nil {
		return "", nil, fmt.Errorf("read journal entry %d: %w", e.Seq, err)
	}
	return system, messages, nil
}

// Done returns the result of a journal: the model's last text, and the state of its calls. Calls
// with effects outside that began and were cut off are uncertain.
func Done(entries []execution.Entry) (said string, calls []CallSummary, err error) {
	s, err := foldEntries(entries, 0)
	if err != nil {
		return "", nil, err
	}
	for _, e := range entries {
		switch e.Kind {
		case execution.Called:
			err = folded(e, func(b calledBody) error {
				calls = append(calls, CallSummary{ID: e.Call, Skill: b.Skill, Status: string(execution.Uncertain),
					Arguments: json.RawMessage(b.Call.Arguments)})
				return nil
			})
		case execution.Result:
			var t EntrySummary
			t, err = Summarize(e)
			calls = append(slices.DeleteFunc(calls, func(c CallSummary) bool { return c.ID == e.Call }), t.Calls...)
		}
		if err != nil {
			return "", nil, err
		}
	}
	return s.said, calls, nil
}
