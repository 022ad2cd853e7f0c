// Package llmtest provides a model for tests that plays a fixed list of answers, and checks for the
// models of providers.
package llmtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Step makes one answer. It may read and check the request.
type Step = func(llm.Request) (llm.Response, error)

// Model is a model that plays a script. It is safe for concurrent use: requests get the steps in
// the order in which they arrive.
type Model struct {
	t     testing.TB
	steps []Step

	mu       sync.Mutex
	requests []llm.Request
}

var _ llm.Model = (*Model)(nil)

// Script returns a model that answers its first request with the first step, its second with the
// second, and so on. A request after the last step fails the test and returns an error of
// ClassBadRequest. A canceled context returns its error and uses no step.
func Script(t testing.TB, steps ...Step) *Model { return &Model{t: t, steps: steps} }

// Name implements llm.Model.
func (m *Model) Name() string { return "script" }

// Generate implements llm.Model. It streams the text and each call as one delta.
func (m *Model) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if err := llm.Interrupted(ctx, m.Name()); err != nil {
		return llm.Response{}, err
	}
	step, n := m.record(req)
	if step == nil {
		m.t.Errorf("llmtest: request %d, but the script has %d steps; last message: %s", n, len(m.steps), last(req))
		err := errors.New("the script is exhausted")
		return llm.Response{}, &llm.Error{Class: llm.ClassBadRequest, Provider: m.Name(), Err: err}
	}
	resp, err := step(req)
	if err != nil || onDelta == nil {
		return resp, err
	}
	if resp.Text != "" {
		onDelta(llm.Delta{Text: resp.Text})
	}
	for i, c := range resp.Calls {
		onDelta(llm.Delta{Call: &llm.CallDelta{Index: i, ID: c.ID, Name: c.Name, Arguments: c.Arguments}})
	}
	return resp, nil
}

// record stores the request. It returns its step, or nil if there is none, and its number from 1.
func (m *Model) record(req llm.Request) (Step, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	req.Messages, req.Tools = slices.Clone(req.Messages), slices.Clone(req.Tools)
	m.requests = append(m.requests, req)
	n := len(m.requests)
	if n > len(m.steps) {
		return nil, n
	}
	return m.steps[n-1], n
}

// Requests returns the requests so far, in the state in which they arrived.
func (m *Model) Requests() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

func last(req llm.Request) string {
	if len(req.Messages) == 0 {
		return "none"
	}
	return fmt.Sprintf("%+v", req.Messages[len(req.Messages)-1])
}
