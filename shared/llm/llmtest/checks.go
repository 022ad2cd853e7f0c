package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
)

// said returns an answer with the given text and calls.
func said(text string, calls ...llm.ToolCall) llm.Response {
	r := llm.Response{
		Message:    llm.Message{Role: llm.RoleAssistant, Text: text, Calls: calls},
		StopReason: llm.StopEndTurn,
		Usage:      llm.Usage{PromptTokens: 11, CompletionTokens: 5},
		Model:      "model-of-the-other-end",
	}
	if len(calls) > 0 {
		r.StopReason = llm.StopToolUse
	}
	return r
}

func called(id, name, arguments string) llm.ToolCall {
	return llm.ToolCall{ID: id, Name: name, Arguments: llm.Arguments(arguments)}
}

// hello returns a request that uses every field.
func hello() llm.Request {
	warm := 0.5
	return llm.Request{
		System: "You help.",
		Messages: []llm.Message{
			{Role: llm.RoleUser, Text: "Hello."},
			{Role: llm.RoleAssistant, Text: "I look.", Calls: []llm.ToolCall{called("a1", "look", `{"at": 1}`), called("a2", "fly", `{"to":`)}},
			{Role: llm.RoleTool, Results: []llm.ToolResult{
				{CallID: "a1", Name: "look", Content: `{"seen":"<1>"}`}, {CallID: "a2", Name: "fly", Content: "broken JSON", IsError: true},
			}},
			{Role: llm.RoleSystem, Text: "There is no tool named fly."},
		},
		Tools: []llm.Tool{{Name: "look", Description: "Looks.", Parameters: json.RawMessage(
			`{"type":"object","properties":{"at":{"type":"integer"}},"required":["at"]}`)}},
		MaxTokens: 100, Temperature: &warm,
	}
}

func answers(t testing.TB, p Provider) {
	cached := said("cheap")
	cached.Usage = llm.Usage{PromptTokens: 1, CompletionTokens: 20, CacheReadTokens: 300, CacheWriteTokens: 4000}
	for name, want := range map[string]llm.Response{
		"a text":            said("Hello there,\nhow are <you> & yours? ☕🦜 \"quoted\" \\ "),
		"a long text":       said(strings.Repeat("Äpfel & Birnen. ", 5000)),
		"nothing":           said(""),
		"a call":            said("", called("b1", "look", `{"at":1}`)),
		"a text and a call": said("I look.", called("b1", "look", `{"at":1,"why":"☕ \u2615 \"\\\n"}`)),
		"calls": said("Both.", called("b1", "look", `{"at":1}`), called("b2", "look", `{"at":1}`),
			called("b3", "fly", `{"to":{"x":[1,2.50,null]}}`)),
		"a call without a limit": said("", called("b1", "look", `{"all":"`+strings.Repeat("äbc ", 5000)+`"}`)),
	} {
		for _, mode := range modes {
			resp, err := ask(t, p.Play(t, Turn{Answer: want}), hello(), mode)
			if err != nil || resp.Model == "" {
				t.Errorf("%s, %s: model %q, %v", name, mode, resp.Model, err)
			}
			resp.Model = want.Model
			for i, c := range resp.Calls { // providers may format the arguments differently
				if i < len(want.Calls) && sameJSON(string(c.Arguments), string(want.Calls[i].Arguments)) {
					resp.Calls[i].Arguments = want.Calls[i].Arguments
				}
			}
			if diff := differ(resp, want); diff != "" {
				t.Errorf("%s, %s: %s", name, mode, diff)
			}
		}
	}
	for _, mode := range modes {
		resp, err := ask(t, p.Play(t, Turn{Answer: cached}), hello(), mode)
		if err != nil || !p.NoCache && resp.Usage != cached.Usage {
			t.Errorf("usage, %s: got %+v, %v, want %+v", mode, resp.Usage, err, cached.Usage)
		}
	}
}

// Only a stream can carry arguments that are not JSON. It does so if the answer is cut off.
func brokenArguments(t testing.TB, p Provider) {
	for _, broken := range []string{`{"at": `, `{"at": 1}}`, `at`, `[1`, `{"at": "☕`, " "} {
		want := said("", called("b1", "look", broken))
		want.StopReason = llm.StopMaxTokens
		resp, err := ask(t, p.Play(t, Turn{Answer: want}), hello(), "streamed")
		if diff := differ(resp.Message, want.Message); err != nil || diff != "" {
			t.Errorf("%q: %v, %s", broken, err, diff)
		}
	}
}

func stopReasons(t testing.TB, p Provider) {
	for _, stop := range p.Stops {
		for _, mode := range modes {
			want := said("so far")
			if stop == llm.StopToolUse {
				want = said("", called("b1", "look", `{}`))
			}
			want.StopReason = stop
			resp, err := ask(t, p.Play(t, Turn{Answer: want}), hello(), mode)
			if err != nil || resp.StopReason != stop {
				t.Errorf("%s: got %q, %v, want %q", mode, resp.StopReason, err, stop)
			}
		}
	}
}

func errorClasses(t testing.TB, p Provider) {
	for _, class := range p.Classes {
		for _, mode := range modes {
			m := p.Play(t, Turn{Fail: class, RetryAfter: 7 * time.Second})
			_, err := ask(t, m, hello(), mode)
			fails(t, m, mode, err, class)
			if e, ok := asError(err); ok && class == llm.ClassRateLimit && !p.NoWait && e.RetryAfter != 7*time.Second {
				t.Errorf("%s, %s: to wait are %v, want 7s", class, mode, e.RetryAfter)
			}
		}
	}
}

func noRetries(t testing.TB, p Provider) {
	for _, class := range p.Classes {
		if !class.Retryable() {
			continue
		}
		m := p.Play(t, Turn{Fail: class}, Turn{Answer: said("the second")})
		_, err := ask(t, m, hello(), "streamed")
		fails(t, m, "the first", err, class)
		if resp, err := ask(t, m, hello(), "streamed"); err != nil || resp.Text != "the second" {
			t.Errorf("after %s: got %q, %v", class, resp.Text, err)
		}
	}
}

func cutOff(t testing.TB, p Provider) {
	for _, mode := range modes {
		m := p.Play(t, Turn{Answer: said("not all of this comes", called("b1", "look", `{"at":1}`)), Cut: true})
		_, err := ask(t, m, hello(), mode)
		fails(t, m, mode, err, llm.ClassUnavailable)
	}
}

// An interrupted stream is repeated, with the same model or the next one. The caller is told that
// the pieces so far are void, and gets one complete answer.
func begunAnew(t testing.TB, p Provider) {
	words, long := strings.Repeat("one more word ", 50), `{"all":"`+strings.Repeat("word ", 200)+`"}`
	want := said("Whole.", called("c1", "look", `{"at":2}`))
	for name, broken := range map[string]Turn{
		"cut off after text":   {Answer: said(words), Cut: true},
		"cut off in a call":    {Answer: said("", called("b1", "look", long)), Cut: true},
		"an error after text":  {Answer: said(words), Break: true},
		"an error in a call":   {Answer: said("", called("b1", "look", long)), Break: true},
		"an error after calls": {Answer: said(words, called("b1", "look", `{}`), called("b2", "look", long)), Break: true},
	} {
		for mode, models := range map[string][]llm.Model{
			"tried again": {p.Play(t, broken, Turn{Answer: want})},
			"fallen back": {p.Play(t, broken), p.Play(t, Turn{Answer: want})},
		} {
			var d Deltas
			resp, err := chainOf(t, models).Generate(t.Context(), hello(), d.Add)
			if err != nil {
				t.Errorf("%s, %s: %v", name, mode, err)
				continue
			}
			streamed, problem := d.Message()
			if diff := differ(streamed, resp.Message); problem != nil || diff != "" || resp.Text != want.Text ||
				len(resp.Calls) != 1 || d.Restarts != 1 {
				t.Errorf("%s, %s: %d restarts, %v %s", name, mode, d.Restarts, problem, diff)
			}
		}
	}
}

// chainOf returns a chain of the models. It tries a single model twice, and each of several once.
func chainOf(t testing.TB, models []llm.Model) llm.Model {
	cfg := resilient.Config{Clock: time.Now, Rand: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler), Tries: 2}
	if len(models) > 1 {
		cfg.Tries = 1
	}
	for i, m := range models {
		cfg.Providers = append(cfg.Providers, resilient.Provider{Model: m, Circuit: fmt.Sprint(i)})
	}
	chain, err := resilient.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return chain.For("")
}

func deadline(t testing.TB, p Provider) {
	for _, mode := range modes {
		m := p.Play(t, Turn{Answer: said("not all of this comes"), Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := m.Generate(ctx, hello(), listener(mode, func(llm.Delta) {}))
		cancel()
		fails(t, m, mode, err, llm.ClassTimeout)
	}
}

func canceled(t testing.TB, p Provider) {
	lost := errors.New("lost the lane")
	for _, mode := range modes {
		m := p.Play(t, Turn{Answer: said("not all of this comes"), Hang: true})
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := time.AfterFunc(20*time.Millisecond, func() { cancel(lost) })
		_, err := m.Generate(ctx, hello(), listener(mode, func(llm.Delta) {}))
		stop.Stop()
		fails(t, m, mode, err, llm.ClassCanceled)
		if !errors.Is(err, lost) {
			t.Errorf("%s: %v does not say why", mode, err)
		}
	}
}

func canceledBefore(t testing.TB, p Provider) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := p.Play(t) // there must be no request
	_, err := m.Generate(ctx, hello(), nil)
	fails(t, m, "whole", err, llm.ClassCanceled)
}

// The rest of the answer may have arrived already. After canceling, the caller wants no more of it.
func canceledByTheListener(t testing.TB, p Provider) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := p.Play(t, Turn{Answer: said(strings.Repeat("one more word ", 1000)), Hang: true})
	_, err := m.Generate(ctx, hello(), func(llm.Delta) { cancel() })
	fails(t, m, "streamed", err, llm.ClassCanceled)
}

func requestIsLeftAlone(t testing.TB, p Provider) {
	for _, mode := range modes {
		req := hello()
		_, err := ask(t, p.Play(t, Turn{Answer: said("done")}), req, mode)
		if diff := differ(req, hello()); err != nil || diff != "" {
			t.Errorf("%s: %v, %s", mode, err, diff)
		}
	}
}

// Not every provider makes the ids of a conversation unique.
func uniqueIDs(t testing.TB, p Provider) {
	for _, mode := range modes {
		same := said("", called("a1", "look", `{"at":1}`), called("a1", "fly", `{"to":2}`)) // a1 is in hello, too
		resp, err := ask(t, p.Play(t, Turn{Answer: same}), hello(), mode)
		seen := map[string]bool{"a1": true, "a2": true, "": true}
		for _, c := range resp.Calls {
			if seen[c.ID] {
				t.Errorf("%s: id %q is not unique", mode, c.ID)
			}
			seen[c.ID] = true
		}
		if err != nil || len(resp.Calls) != 2 || resp.Calls[0].Arguments != `{"at":1}` || resp.Calls[1].Arguments != `{"to":2}` {
			t.Errorf("%s: got %+v, %v", mode, resp.Calls, err)
		}
	}
}

func concurrentUse(t testing.TB, p Provider) {
	const n = 8
	want := map[string]bool{}
	var turns []Turn
	for i := range n {
		text := fmt.Sprintf("answer %d %s", i, strings.Repeat("x", 1000*i))
		want[text] = true
		turns = append(turns, Turn{Answer: said(text)})
	}
	m := p.Play(t, turns...)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		wg.Go(func() {
			resp, err := ask(t, m, hello(), modes[i%2])
			mu.Lock()
			defer mu.Unlock()
			if err != nil || !want[resp.Text] {
				t.Errorf("got %.20q, %v", resp.Text, err)
			}
			delete(want, resp.Text)
		})
	}
	wg.Wait()
}

func listener(mode string, onDelta func(llm.Delta)) func(llm.Delta) {
	if mode == "whole" {
		return nil
	}
	return onDelta
}

func asError(err error) (*llm.Error, bool) { return errors.AsType[*llm.Error](err) }

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// differ returns the difference between got and want in their stored form, or "" if there is none.
func differ(got, want any) string {
	if reflect.DeepEqual(got, want) {
		return ""
	}
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if string(g) == string(w) {
		return ""
	}
	return fmt.Sprintf("got %.600s, want %.600s", g, w)
}
