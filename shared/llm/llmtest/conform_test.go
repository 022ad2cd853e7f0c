package llmtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// played is a model that fulfills the contract except for its fault. It plays the turns without a
// network.
type played struct {
	fault string
	mu    sync.Mutex
	turns []Turn
}

func (m *played) Name() string { return "played" }

func (m *played) next(t testing.TB) Turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.turns) == 0 {
		t.Errorf("a request too many")
		return Turn{Fail: llm.ClassBadRequest}
	}
	turn := m.turns[0]
	if m.fault != "mixes up answers" {
		m.turns = m.turns[1:]
	}
	return turn
}

// provider returns a provider whose models have a fault; "" means none.
func provider(fault string) Provider {
	return Provider{
		Play: func(t testing.TB, turns ...Turn) llm.Model {
			return playedFor{&played{fault: fault, turns: turns}, t}
		},
		Stops:   []llm.StopReason{llm.StopEndTurn, llm.StopToolUse, llm.StopMaxTokens, llm.StopSequence, llm.StopRefusal, llm.StopOther},
		Classes: []llm.ErrorClass{llm.ClassAuthentication, llm.ClassRateLimit, llm.ClassOverloaded},
	}
}

type playedFor struct {
	*played
	t testing.TB
}

func (m playedFor) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	failed := func(class llm.ErrorClass, wait time.Duration) (llm.Response, error) {
		return llm.Response{}, &llm.Error{Class: class, Provider: m.Name(), RetryAfter: wait}
	}
	if err := llm.Interrupted(ctx, m.Name()); err != nil && m.fault != "asks although canceled" {
		return llm.Response{}, err
	}
	turn := m.next(m.t)
	if turn.Fail != "" && m.fault == "retries" {
		turn = m.next(m.t)
	}
	if turn.Fail != "" {
		switch m.fault {
		case "no wait":
			turn.RetryAfter = 0
		case "bare errors":
			return llm.Response{}, errors.New("failed")
		case "one class for all":
			turn.Fail = llm.ClassUnavailable
		}
		return failed(turn.Fail, turn.RetryAfter)
	}
	if onDelta == nil {
		onDelta = func(llm.Delta) {}
	}
	resp := m.distorted(req, turn.Answer)
	if resp.Text != "" {
		onDelta(llm.Delta{Text: resp.Text[:1]})
	}
	if turn.Break || turn.Cut && resp.Text == "" {
		m.stream(resp, onDelta)
	}
	if turn.Break && m.fault != "takes an error for the end" {
		return failed(llm.ClassOverloaded, 0)
	}
	if turn.Cut && m.fault != "takes a half for the whole" {
		return failed(llm.ClassUnavailable, 0)
	}
	if turn.Hang {
		<-ctx.Done()
		switch m.fault {
		case "hides the deadline":
			return failed(llm.ClassUnavailable, 0)
		case "hides the cause":
			return failed(llm.ClassOf(ctx.Err()), 0)
		}
		return llm.Response{}, llm.Interrupted(ctx, m.Name())
	}
	m.stream(resp, onDelta)
	if m.fault == "nothing is an error" && resp.Text == "" && len(resp.Calls) == 0 {
		return failed(llm.ClassUnavailable, 0)
	}
	return resp, nil
}

func (m playedFor) distorted(req llm.Request, resp llm.Response) llm.Response {
	resp.Calls = slices.Clone(resp.Calls)
	for i := range resp.Calls {
		c := &resp.Calls[i]
		if strings.HasPrefix(c.ID, "a") && m.fault != "ids come twice" {
			c.ID += string(rune('x' + i))
		}
		if _, ok := c.Arguments.Object(); !ok && m.fault == "repairs arguments" {
			c.Arguments = "{}"
		}
	}
	switch m.fault {
	case "loses usage":
		resp.Usage.CacheReadTokens = 0
	case "every stop is the end":
		resp.StopReason = llm.StopEndTurn
	case "changes the request":
		req.Messages[0].Text += "!"
	case "does not name the model":
		resp.Model = ""
	}
	return resp
}

func (m playedFor) stream(resp llm.Response, onDelta func(llm.Delta)) {
	if len(resp.Text) > 1 && m.fault != "streams half the text" {
		onDelta(llm.Delta{Text: resp.Text[1:]})
	}
	for i, c := range resp.Calls {
		first := llm.CallDelta{Index: i, ID: c.ID, Name: c.Name}
		switch m.fault {
		case "names come late":
			first.Name = ""
		case "all calls are the first":
			first.Index = 0
		}
		onDelta(llm.Delta{Call: &first})
		onDelta(llm.Delta{Call: &llm.CallDelta{Index: first.Index, Arguments: c.Arguments}})
	}
}

func TestConform(t *testing.T) { Conform(t, provider("")) }

// Each fault is found by the check that is meant for it.
func TestConformFindsFaults(t *testing.T) {
	for fault, by := range map[string]string{
		"streams half the text":      "answers",
		"names come late":            "answers",
		"all calls are the first":    "answers",
		"loses usage":                "answers",
		"nothing is an error":        "answers",
		"does not name the model":    "answers",
		"repairs arguments":          "broken arguments",
		"every stop is the end":      "stop reasons",
		"no wait":                    "errors",
		"bare errors":                "errors",
		"one class for all":          "errors",
		"retries":                    "no retries",
		"takes a half for the whole": "cut off",
		"takes an error for the end": "begun anew",
		"hides the deadline":         "deadline",
		"hides the cause":            "canceled",
		"asks although canceled":     "canceled before",
		"changes the request":        "the request is left alone",
		"ids come twice":             "unique ids",
		"mixes up answers":           "concurrent use",
	} {
		t.Run(fault, func(t *testing.T) {
			i := slices.IndexFunc(conformance(), func(c conformCheck) bool { return c.name == by })
			r := &recorder{TB: t}
			conformance()[i].check(r, provider(fault))
			if len(r.failed) == 0 {
				t.Errorf("%q does not find it", by)
			}
		})
	}
}
