package chat_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat"
)

// text is what the chunks of a stream say together, and the last reason to finish.
func text(t testing.TB, all []event) (said, finish string) {
	t.Helper()
	for _, e := range all {
		if e.data == "[DONE]" {
			continue
		}
		var c completed
		if err := json.Unmarshal([]byte(e.data), &c); err != nil {
			t.Fatalf("%s: %v", e.data, err)
		}
		for _, choice := range c.Choices {
			said += choice.Delta.Content
			finish = choice.FinishReason
		}
	}
	return said, finish
}

// TestACompletionIsStreamed piece by piece, with nothing of what the agent does inside.
func TestACompletionIsStreamed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := newHeld()
		w.think(t, llmtest.WritesCalls("Let me look.", "look_inside", `{"where":"the-inner-argument"}`), h.then("It ", "is ", "there."))
		s := w.stream(t, http.MethodPost, completions,
			`{"messages":[{"role":"user","content":"Where?"}],"stream":true,"stream_options":{"include_usage":true},"user":"ann"}`)
		if got := s.Header; got.Get("X-Session-Id") != "ann" || got.Get("X-Thread-Id") == "" || got.Get("X-Execution-Id") == "" ||
			!strings.HasPrefix(got.Get("Content-Type"), "text/event-stream") {
			t.Errorf("the headers are %v", got)
		}
		var all []event
		for said := ""; !strings.HasSuffix(said, "It "); said, _ = text(t, all) {
			e, ok := s.next()
			if !ok {
				t.Fatalf("it ends after %v", all)
			}
			all = append(all, e)
		}
		close(h.answer)
		all = append(all, s.rest()...)
		said, finish := text(t, all)
		if said != "Let me look.\n\nIt is there." || finish != "stop" {
			t.Errorf("it says %q, and ends with %q", said, finish)
		}
		if last := all[len(all)-1]; last.data != "[DONE]" {
			t.Errorf("it ends with %v", last)
		}
		var usage completed
		if err := json.Unmarshal([]byte(all[len(all)-2].data), &usage); err != nil || usage.Usage == nil || usage.Usage.Total != 30 || len(usage.Choices) != 0 {
			t.Errorf("the usage is %s", all[len(all)-2].data)
		}
		for _, e := range all {
			for _, inner := range []string{"look_inside", "inner-argument", "inner-result"} {
				if strings.Contains(e.data, inner) {
					t.Errorf("a visitor learns %s: %s", inner, e.data)
				}
			}
		}
	})
}

// TestAnAnswerThatBeginsAnew is told as one text that only grows: what both have in common once.
func TestAnAnswerThatBeginsAnew(t *testing.T) {
	for want, pieces := range map[string][]string{
		"It is blue.":             {"It", " is", " blue."},
		"It is\n\nThey are blue.": {"They ", "are blue."},
		"It is\n\nIt was blue.":   {"It ", "was", " blue."},
	} {
		w := onOne(t)
		w.Reason.Model = anew{pieces}
		s := w.stream(t, http.MethodPost, completions, `{"messages":[{"role":"user","content":"Which?"}],"stream":true}`)
		if said, finish := text(t, s.rest()); said != want || finish != "stop" {
			t.Errorf("it says %q, not %q, and ends with %q", said, want, finish)
		}
	}
}

// anew is a model that begins an answer, and then another one.
type anew struct{ pieces []string }

func (anew) Name() string { return "anew" }

func (m anew) Generate(_ context.Context, _ llm.Request, told func(llm.Delta)) (llm.Response, error) {
	if told == nil {
		told = func(llm.Delta) {}
	}
	told(llm.Delta{Text: "It is"})
	told(llm.Delta{Restart: true})
	for _, p := range m.pieces {
		told(llm.Delta{Text: p})
	}
	return llmtest.Written(strings.Join(m.pieces, "")), nil
}

// TestACallerWhoLeavesLosesNothing: the turn goes on, and its answer is in the history.
func TestACallerWhoLeavesLosesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := newHeld()
		w.think(t, h.then("I ", "am here."))
		s := w.stream(t, http.MethodPost, "/api/v1/chat/messages", `{"message":"Hi.","stream":true}`, "X-Session-Id", "ann")
		first, _ := s.next()
		if first.kind != "delta" {
			t.Fatalf("it begins with %v", first)
		}
		thread, id := s.Header.Get("X-Thread-Id"), s.Header.Get("X-Execution-Id")
		_ = s.Body.Close()
		<-w.left
		close(h.answer)
		path := "/api/v1/chat/" + thread + "/executions/" + id + "/events"
		again := w.stream(t, http.MethodGet, path, "", "X-Session-Id", "ann", "Last-Event-ID", first.id)
		said := ""
		for _, e := range again.rest() {
			switch e.kind {
			case "delta":
				var d struct{ Text string }
				_ = json.Unmarshal([]byte(e.data), &d)
				said += d.Text
			case "done":
				if !strings.Contains(e.data, `"answer":"I am here."`) || !strings.Contains(e.data, `"status":"completed"`) {
					t.Errorf("it ends with %s", e.data)
				}
			}
		}
		if said != "am here." {
			t.Errorf("behind %q comes %q", first.data, said)
		}
		var history struct{ Items []struct{ Role, Body string } }
		got := w.call(t, http.MethodGet, "/api/v1/chat/"+thread+"/messages", site, "", "X-Session-Id", "ann")
		got.into(t, &history)
		if len(history.Items) != 2 || history.Items[1].Body != "I am here." || history.Items[1].Role != "assistant" {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}

// TestStreamsEndCleanlyWhenTheProcessDrains: the visitor is told in a plain sentence, and the turn goes
// on in the next process.
func TestStreamsEndCleanlyWhenTheProcessDrains(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		drain := make(chan struct{})
		w := newWorld(t, e, func(h *chat.Handler) { h.Streams.Drain = drain })
		h := newHeld()
		w.think(t, h.then("I "), llmtest.Writes("I am here."))
		s := w.stream(t, http.MethodPost, completions, `{"messages":[{"role":"user","content":"Hi."}],"stream":true,"user":"ann"}`)
		<-h.asked
		close(drain)
		all := s.rest()
		said, finish := text(t, all)
		if all[len(all)-1].data != "[DONE]" || finish != "stop" || !strings.Contains(said, "The answer comes into this conversation.") {
			t.Errorf("it ends with %q, %q: %v", said, finish, all)
		}
		next := newWorld(t, e)
		next.Reason.Model = w.Reason.Model
		thread := s.Header.Get("X-Thread-Id")
		until(t, "the answer comes", func() bool {
			next.drain(t)
			return slices.Contains(w.spoken(t, thread), "assistant: I am here.")
		})
	})
}

// TestAStreamIsKeptAlive while the agent says nothing.
func TestAStreamIsKeptAlive(t *testing.T) {
	w := onOne(t, func(h *chat.Handler) { h.Streams.Quiet = 5 * time.Millisecond })
	h := newHeld()
	w.think(t, h.then("I ", "think."))
	s := w.stream(t, http.MethodPost, completions, `{"messages":[{"role":"user","content":"Hi."}],"stream":true}`)
	for s.lines.Scan() && s.lines.Text() != ": still here" {
	}
	close(h.answer)
	if said, _ := text(t, s.rest()); !strings.HasSuffix(said, "think.") {
		t.Errorf("it says %q", said)
	}
}
