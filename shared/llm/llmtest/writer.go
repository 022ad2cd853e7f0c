package llmtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Writing makes one answer. It may wait, end with its context, and write the answer piece by piece.
type Writing = func(ctx context.Context, req llm.Request, write func(string)) (llm.Response, error)

// Writer is a model that plays a script of writings. It is safe for concurrent use: requests get the
// writings in the order in which they arrive.
type Writer struct {
	t     testing.TB
	steps []Writing

	mu    sync.Mutex
	asked []llm.Request
}

var _ llm.Model = (*Writer)(nil)

// Write returns a model that answers its first request with the first writing, its second with the
// second, and so on. A request after the last one fails the test and returns an error of
// ClassBadRequest. A canceled context returns its error and uses no writing.
func Write(t testing.TB, steps ...Writing) *Writer { return &Writer{t: t, steps: steps} }

// Name implements llm.Model.
func (*Writer) Name() string { return "script" }

// Generate implements llm.Model.
func (m *Writer) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if err := llm.Interrupted(ctx, m.Name()); err != nil {
		return llm.Response{}, err
	}
	m.mu.Lock()
	n := len(m.asked)
	m.asked = append(m.asked, req)
	m.mu.Unlock()
	if n >= len(m.steps) {
		m.t.Errorf("llmtest: request %d, but the script has %d writings; last message: %s", n+1, len(m.steps), last(req))
		return llm.Response{}, &llm.Error{Class: llm.ClassBadRequest, Provider: m.Name()}
	}
	return m.steps[n](ctx, req, func(text string) {
		if onDelta != nil { // somebody listens
			onDelta(llm.Delta{Text: text})
		}
	})
}

// Request returns the request with the number n, from 0.
func (m *Writer) Request(n int) llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[n]
}

// Requests returns the requests so far.
func (m *Writer) Requests() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// Writes writes pieces of text, which together are the answer.
func Writes(pieces ...string) Writing {
	return func(_ context.Context, _ llm.Request, write func(string)) (llm.Response, error) {
		for _, p := range pieces {
			write(p)
		}
		return Written(strings.Join(pieces, "")), nil
	}
}

// WritesCalls writes a text, and asks for calls of a skill, one with each of the arguments.
func WritesCalls(text, name string, arguments ...string) Writing {
	return func(_ context.Context, _ llm.Request, write func(string)) (llm.Response, error) {
		r := Written(text)
		r.StopReason = llm.StopToolUse
		if text != "" {
			write(text)
		}
		for i, a := range arguments {
			r.Calls = append(r.Calls, llm.ToolCall{ID: fmt.Sprintf("c%d-%s", i, uuid.NewString()), Name: name, Arguments: llm.Arguments(a)})
		}
		return r, nil
	}
}

// Written returns a whole answer, which used 10 tokens and 5.
func Written(text string) llm.Response {
	return llm.Response{
		Message: llm.Message{Role: llm.RoleAssistant, Text: text}, StopReason: llm.StopEndTurn,
		Usage: llm.Usage{PromptTokens: 10, CompletionTokens: 5}, Model: "script",
	}
}
