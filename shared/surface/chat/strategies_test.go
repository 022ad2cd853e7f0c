package chat_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

// talking is a message that is on its way.
type talking struct {
	stream *streaming
	id     string
}

// talks sends a message of ann's in a way, as a stream: it is written down when this returns.
func (w *world) talks(t testing.TB, message, how string) talking {
	t.Helper()
	s := w.stream(t, http.MethodPost, messages, `{"message":"`+message+`","stream":true}`, "X-Session-Id", "ann", "X-Multitask", how)
	return talking{s, s.Header.Get("X-Execution-Id")}
}

// done is how a message ended.
func (s talking) done(t testing.TB) answered {
	t.Helper()
	all := s.stream.rest()
	if len(all) == 0 || all[len(all)-1].kind != "done" {
		t.Fatalf("it ends with %v", all)
	}
	var a answered
	reply{body: all[len(all)-1].data}.into(t, &a)
	return a
}

// TestAMessageThatComesWhileAnotherIsAnswered in each of the ways that a visitor may ask for.
func TestAMessageThatComesWhileAnotherIsAnswered(t *testing.T) {
	const ann = "X-Session-Id"
	onEach(t, func(t *testing.T, w *world) {
		t.Run("enqueue", func(t *testing.T) {
			h := newHeld()
			w.think(t, h.then("One."), llmtest.Writes("Two."))
			first := w.talks(t, "1", "enqueue")
			<-h.asked
			second := w.talks(t, "2", "")
			close(h.answer)
			if a, b := first.done(t), second.done(t); a.Answer != "One." || b.Answer != "Two." {
				t.Errorf("%+v %+v", a, b)
			}
		})
		t.Run("reject", func(t *testing.T) {
			h := newHeld()
			w.think(t, h.then("One."))
			first := w.talks(t, "1", "reject")
			<-h.asked
			got := w.post(t, completions, `{"messages":[{"role":"user","content":"2"}]}`, ann, "ann", "X-Multitask", "reject")
			if got.status != 409 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, `"code":"busy"`) {
				t.Errorf("%d %s", got.status, got.body)
			}
			close(h.answer)
			first.done(t)
		})
		for _, how := range []string{"interrupt", "rollback"} {
			t.Run(how, func(t *testing.T) {
				h := newHeld()
				w.think(t, h.then("One."), llmtest.Writes("Two."))
				first := w.talks(t, how+" 1", "")
				<-h.asked
				second := w.talks(t, how+" 2", how)
				a, b := first.done(t), second.done(t)
				if a.Status != "cancelled" || a.Answer != "This message was stopped before it was answered." || b.Answer != "Two." {
					t.Errorf("%+v %+v", a, b)
				}
				if kept := slices.Contains(w.spoken(t, a.ThreadID), "user: "+how+" 1"); kept != (how == "interrupt") {
					t.Errorf("the thread is %q", w.spoken(t, a.ThreadID))
				}
				if how == "interrupt" && !slices.Contains(w.spoken(t, a.ThreadID), "assistant: "+a.Answer) {
					t.Errorf("the thread is %q", w.spoken(t, a.ThreadID))
				}
			})
		}
		t.Run("collect", func(t *testing.T) {
			h := newHeld()
			m := w.think(t, h.then("One."), llmtest.Writes("Both."))
			busy := w.talks(t, "1", "")
			<-h.asked
			first := w.talks(t, "collect 1", "collect")
			second := w.talks(t, "collect 2", "collect")
			close(h.answer)
			busy.done(t)
			if a, b := first.done(t), second.done(t); a.Answer != "Both." || b.Answer != "Both." || len(m.Requests()) != 2 {
				t.Errorf("%+v %+v, after %d requests", a, b, len(m.Requests()))
			}
			path := "/api/v1/chat/" + first.stream.Header.Get("X-Thread-Id") + "/executions/" + second.id + "/events"
			again := w.stream(t, http.MethodGet, path, "", ann, "ann").rest()
			if len(again) != 2 || !strings.Contains(again[1].data, `"answer":"Both."`) {
				t.Errorf("who comes back gets %v", again)
			}
			var r responded
			w.call(t, http.MethodGet, responses+"/resp_"+second.id, site, "").into(t, &r)
			if r.said() != "Both." || r.Status != "completed" {
				t.Errorf("the response is %+v", r)
			}
		})
		t.Run("steer", func(t *testing.T) {
			h := newHeld()
			m := w.think(t, h.calls("look_inside"), llmtest.Writes("Blue, then."))
			first := w.talks(t, "Which?", "steer")
			<-h.asked
			second := w.talks(t, "The blue one.", "steer")
			close(h.answer)
			if a, b := first.done(t), second.done(t); a.Answer != "Blue, then." || b.Answer != "Blue, then." || len(m.Requests()) != 2 {
				t.Errorf("%+v %+v, after %d requests", a, b, len(m.Requests()))
			}
		})
		t.Run("too many", func(t *testing.T) {
			w.set(t, "sessionQueue", 1)
			h := newHeld()
			w.think(t, h.then("One."), llmtest.Writes("Two."))
			first := w.talks(t, "1", "")
			<-h.asked
			second := w.talks(t, "2", "")
			got := w.post(t, completions, `{"messages":[{"role":"user","content":"3"}]}`, ann, "ann")
			if got.status != 429 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, `"type":"rate_limit_exceeded"`) {
				t.Errorf("%d %s", got.status, got.body)
			}
			close(h.answer)
			first.done(t)
			second.done(t)
		})
	})
}
