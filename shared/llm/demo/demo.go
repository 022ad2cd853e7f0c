// Package demo is a scripted model that needs no network, for the first run on a laptop and for
// tests. It is not a language model. It follows a fixed script for the four tasks of the heartbeat and for that of the worker.
// Any other request gets a text that says what the model is. Each text says that it comes from the
// demo model. The model is deterministic and keeps no state: the same request always gets the same
// answer.
//
// The last line of the system prompt names the task. The first user message is then JSON:
//
//	task: plan     {"objective", "skills"}   it calls plan_objective
//	task: advance  {"objective", "step"}     it calls the step's skill, then advance_plan,
//	                                         and complete_objective where that is the skill
//	task: reflect  {"activity"}              it counts
//	task: remember {"done"}                  it calls save_memory
//	task: work     {"task"}                  it makes the calls that the task's input lists in "steps"
package demo

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Name is the demo model's name, as a provider and as a model.
const Name = "demo"

// mark begins every text that the demo model writes.
const mark = "[demo model] "

// Model is the demo model. Its zero value is ready to use. It is safe for concurrent use.
type Model struct{}

var _ llm.Model = Model{}

// New returns the demo model.
func New() Model { return Model{} }

// Name implements llm.Model.
func (Model) Name() string { return Name }

// Generate implements llm.Model. Like a provider, it refuses a conversation in which a call has no
// result, and cuts off an answer longer than MaxTokens. It estimates usage as a quarter of the
// characters.
func (Model) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if err := llm.Interrupted(ctx, Name); err != nil {
		return llm.Response{}, err
	}
	s, err := read(req)
	if err != nil {
		return llm.Response{}, &llm.Error{Class: llm.ClassBadRequest, Provider: Name, Err: err}
	}
	resp := s.answer(s.decide(), req.MaxTokens)
	resp.Usage.PromptTokens = tokens(promptSize(req))
	if onDelta != nil {
		if err := stream(ctx, resp, onDelta); err != nil {
			return llm.Response{}, err
		}
	}
	return resp, nil
}

// move is the next action of the demo model: a text, optionally with a call of a tool.
type move struct {
	text string
	call *llm.ToolCall // without an id
	// failed says that the text ends a task because nothing better is left to try.
	failed bool
}

func say(format string, args ...any) move {
	return move{text: mark + fmt.Sprintf(format, args...)}
}

// answer converts a move to a response of at most maxTokens. Zero means no limit.
func (s situation) answer(m move, maxTokens int) llm.Response {
	resp := llm.Response{
		Message:    llm.Message{Role: llm.RoleAssistant, Text: m.text},
		StopReason: llm.StopEndTurn,
		Model:      Name,
	}
	if m.call != nil {
		m.call.ID = s.nextID()
		resp.Calls = []llm.ToolCall{*m.call}
		resp.StopReason = llm.StopToolUse
	}
	resp.Usage.CompletionTokens = tokens(messageSize(resp.Message))
	if maxTokens > 0 && resp.Usage.CompletionTokens > maxTokens {
		// Half a call would be broken JSON, so only the text is sent.
		resp.Calls = nil
		resp.Text = cut(m.text, maxTokens*charactersPerToken)
		resp.StopReason = llm.StopMaxTokens
		resp.Usage.CompletionTokens = tokens(messageSize(resp.Message))
	}
	return resp
}

// stream sends the text word by word, then each call in two pieces.
func stream(ctx context.Context, resp llm.Response, onDelta func(llm.Delta)) error {
	var deltas []llm.Delta
	for word := range strings.SplitAfterSeq(resp.Text, " ") {
		if word != "" {
			deltas = append(deltas, llm.Delta{Text: word})
		}
	}
	for i, c := range resp.Calls {
		deltas = append(deltas,
			llm.Delta{Call: &llm.CallDelta{Index: i, ID: c.ID, Name: c.Name}},
			llm.Delta{Call: &llm.CallDelta{Index: i, Arguments: c.Arguments}})
	}
	for _, d := range deltas {
		if err := llm.Interrupted(ctx, Name); err != nil {
			return err
		}
		onDelta(d)
	}
	return nil
}

const charactersPerToken = 4

// tokens estimates the number of tokens of a text.
func tokens(characters int) int {
	return (characters + charactersPerToken - 1) / charactersPerToken
}

func promptSize(req llm.Request) int {
	n := utf8.RuneCountInString(req.System)
	for _, m := range req.Messages {
		n += messageSize(m)
	}
	for _, t := range req.Tools {
		n += utf8.RuneCountInString(t.Name) + utf8.RuneCountInString(t.Description) + utf8.RuneCount(t.Parameters)
	}
	return n
}

func messageSize(m llm.Message) int {
	n := utf8.RuneCountInString(m.Text)
	for _, c := range m.Calls {
		n += utf8.RuneCountInString(c.Name) + utf8.RuneCountInString(string(c.Arguments))
	}
	for _, r := range m.Results {
		n += utf8.RuneCountInString(r.Content)
	}
	return n
}
