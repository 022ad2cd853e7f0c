package api_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/openai"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
)

// chunks returns the pieces of an answer as a server streams them.
func chunks(deltas ...string) (events []string) {
	for _, d := range deltas {
		events = append(events, fmt.Sprintf("data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", d))
	}
	return events
}

// readAs reads a stream as the contract says. A restart drops the pieces of its answer, whose ids
// begin with the same number.
func readAs(t testing.TB, events []sent) string {
	t.Helper()
	var kept []sent
	answer := func(e sent) string { number, _, _ := strings.Cut(e.id, "."); return number }
	for _, e := range events {
		if e.kind == "restart" {
			kept = slices.DeleteFunc(kept, func(k sent) bool { return answer(k) == answer(e) })
		} else {
			kept = append(kept, e)
		}
	}
	return wordsOf(t, kept)
}

func restartsOf(events []sent) (n int) {
	for _, e := range events {
		if e.kind == "restart" {
			n++
		}
	}
	return n
}

// TestAnAnswerThatBreaksOffIsToldAsOne interrupts the model's stream in each possible way, and the
// same or another model is called again. The client gets one complete answer, also if it resumes
// after any event.
func TestAnAnswerThatBreaksOffIsToldAsOne(t *testing.T) {
	const stream = "text/event-stream"
	text := chunks(`{"content":"Let me "}`, `{"content":"see, "}`)
	call := chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"list_skills","arguments":"{\"li"}}]}`)
	failure := `data: {"error":{"message":"Overloaded","type":"overloaded_error"}}` + "\n\n"
	whole := append(chunks(`{"content":"It is "}`, `{"content":"noon."}`), "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", "data: [DONE]\n\n")
	for name, c := range map[string]struct {
		broken   http.HandlerFunc
		restarts int
	}{
		"after text":             {llmtest.Speak(http.StatusOK, llmtest.EndAbort, text, "Content-Type", stream), 1},
		"in a call":              {llmtest.Speak(http.StatusOK, llmtest.EndAbort, call, "Content-Type", stream), 0},
		"in a call behind text":  {llmtest.Speak(http.StatusOK, llmtest.EndAbort, slices.Concat(text, call), "Content-Type", stream), 1},
		"by an error after text": {llmtest.Events(append(slices.Clone(text), failure)...), 1},
		"by an error in a call":  {llmtest.Events(append(slices.Clone(call), failure)...), 0},
	} {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, again %v", name, again), func(t *testing.T) {
				w := onOne(t)
				answers := [][]http.HandlerFunc{{c.broken, llmtest.Events(whole...)}}
				cfg := resilient.Config{Clock: time.Now, Rand: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler)}
				if !again {
					answers = [][]http.HandlerFunc{{c.broken}, {llmtest.Events(whole...)}}
					cfg.Tries = 1
				}
				for i, turns := range answers {
					server := llmtest.Serve(t, turns...)
					m, err := openai.New(openai.Options{BaseURL: server.URL, Model: fmt.Sprint("model-", i), HTTP: server.Client()})
					if err != nil {
						t.Fatal(err)
					}
					cfg.Providers = append(cfg.Providers, resilient.Provider{Model: m, Circuit: fmt.Sprint(i)})
				}
				chain, err := resilient.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				w.Operate.Reason.Model = chain.For(w.Workspace)
				w.tellsOneAnswer(t, "It is noon.", c.restarts)
			})
		}
	}
}

// tellsOneAnswer streams a turn and resumes the stream after each of its events.
func (w *world) tellsOneAnswer(t *testing.T, answer string, restarts int) {
	t.Helper()
	got := w.must(t, http.StatusOK, http.MethodPost, operatePath, `{"message":"How late is it?","stream":true}`, nil)
	events := eventsOf(t, string(got.body))
	var end turned
	decode(t, events[len(events)-1].data, &end)
	if end.Status != "completed" || end.Answer != answer || readAs(t, events) != answer || restartsOf(events) != restarts {
		t.Fatalf("%s with %q, told %q with %d restarts: %s", end.Status, end.Answer, readAs(t, events), restartsOf(events), got.body)
	}
	for i, e := range events {
		back := request(http.MethodGet, "/api/v1/executions/"+end.ExecutionID+"/events", owner, "")
		back.Header.Set("Last-Event-ID", e.id)
		rest := eventsOf(t, string(w.send(t, back).body))
		if read := readAs(t, slices.Concat(events[:i+1], rest)); read != answer {
			t.Errorf("behind %s it reads %q: %+v", e.id, read, rest)
		}
	}
}
