package llmtest

import (
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Turn is what the other end of a provider does with one request: it gives the
// answer, unless one of the other fields says otherwise.
type Turn struct {
	Answer llm.Response

	Fail       llm.ErrorClass // it gives an error that means this
	RetryAfter time.Duration  // and asks to wait for so long; full seconds

	Cut   bool // it gives the beginning of the answer, and the connection ends
	Break bool // it streams the beginning of the answer, and then an error that may pass
	Hang  bool // it gives the beginning of the answer, and then nothing until the request ends
}

// Provider is a provider under test, together with a fake of its other end that
// speaks its real protocol.
type Provider struct {
	// Play makes a model whose other end takes a turn for each request, in order. A
	// request beyond the last is to fail the test. A turn's answer is spoken as the
	// provider would, in many pieces where it is streamed.
	Play func(t testing.TB, turns ...Turn) llm.Model

	Stops   []llm.StopReason // those that the provider can tell
	Classes []llm.ErrorClass // those that the provider can tell by an error
	NoCache bool             // it does not tell what it has cached
	NoWait  bool             // it does not tell how long to wait
}

// Conform checks that a provider keeps the promises of llm.Model.
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

// ask asks in one of the modes, and checks that what was streamed adds up to the
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

// fails checks that err is an *llm.Error of a class, from this provider.
func fails(t testing.TB, m llm.Model, what string, err error, want llm.ErrorClass) {
	t.Helper()
	e, ok := asError(err)
	if !ok {
		t.Errorf("%s: got %v, want an *llm.Error", what, err)
	} else if e.Class != want || e.Provider != m.Name() {
		t.Errorf("%s: got class %q of %q (%v), want %q of %q", what, e.Class, e.Provider, err, want, m.Name())
	}
}
