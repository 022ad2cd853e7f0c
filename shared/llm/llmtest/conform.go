package llmtest

import (
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Turn is what the fake of a provider does with one request. It sends the answer, unless another
// field says otherwise.
type Turn struct {
	Answer llm.Response

	Fail       llm.ErrorClass // it sends an error that means this class
	RetryAfter time.Duration  // and asks to wait this long; full seconds

	Cut   bool // it sends the beginning of the answer, then the connection ends
	Break bool // it streams the beginning of the answer, then a retryable error
	Hang  bool // it sends the beginning of the answer, then nothing until the request ends
}

// Provider is a provider under test, with a fake of its server that speaks the real protocol.
type Provider struct {
	// Play returns a model whose server takes one turn per request, in order. A request after the
	// last turn must fail the test. The server sends a turn's answer as the provider would. A
	// streamed answer comes in many pieces.
	Play func(t testing.TB, turns ...Turn) llm.Model

	Stops   []llm.StopReason // the stop reasons that the provider can report
	Classes []llm.ErrorClass // the error classes that the provider can report
	NoCache bool             // it does not report cached tokens
	NoWait  bool             // it does not report how long to wait
}

// Conform checks that a provider fulfills the contract of llm.Model.
func Conform(t *testing.T, p Provider) {
	t.Helper()
	for _, c := range conformance() {
		t.Run(c.name, func(t *testing.T) { c.check(t, p) })
	}
}

type conformCheck struct {
	name  string
	check func(testing.TB, Provider)
}

func conformance() []conformCheck {
	return []conformCheck{
		{"answers", answers},
		{"broken arguments", brokenArguments},
		{"stop reasons", stopReasons},
		{"errors", errorClasses},
		{"no retries", noRetries},
		{"cut off", cutOff},
		{"begun anew", begunAnew},
		{"deadline", deadline},
		{"canceled", canceled},
		{"canceled before", canceledBefore},
		{"canceled by the listener", canceledByTheListener},
		{"the request is left alone", requestIsLeftAlone},
		{"unique ids", uniqueIDs},
		{"concurrent use", concurrentUse},
	}
}

// modes are the two ways to ask.
var modes = []string{"whole", "streamed"}

// ask sends the request in one of the modes. It checks that the streamed pieces add up to the
// answer.
func ask(t testing.TB, m llm.Model, req llm.Request, mode string) (llm.Response, error) {
	t.Helper()
	var d Deltas
	onDelta := d.Add
	if mode == "whole" {
		onDelta = nil
	}
	resp, err := m.Generate(t.Context(), req, onDelta)
	if err != nil || onDelta == nil {
		return resp, err
	}
	streamed, problem := d.Message()
	if problem != nil {
		t.Errorf("%s: %v", mode, problem)
	} else if diff := differ(streamed, resp.Message); diff != "" {
		t.Errorf("%s: what was streamed is not the answer: %s", mode, diff)
	}
	return resp, nil
}

// fails checks that err is an *llm.Error of the class want, from this provider.
func fails(t testing.TB, m llm.Model, what string, err error, want llm.ErrorClass) {
	t.Helper()
	e, ok := asError(err)
	if !ok {
		t.Errorf("%s: got %v, want an *llm.Error", what, err)
	} else if e.Class != want || e.Provider != m.Name() {
		t.Errorf("%s: got class %q of %q (%v), want %q of %q", what, e.Class, e.Provider, err, want, m.Name())
	}
}
