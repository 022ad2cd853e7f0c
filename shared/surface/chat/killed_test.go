package chat_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat"
)

// TestAStreamGoesOnInAnotherProcess: the process that answers is gone in the middle of it. The turn
// goes on in another one, where the visitor follows it behind what was told, and is told whether the
// answer begins anew.
func TestAStreamGoesOnInAnotherProcess(t *testing.T) {
	for name, answer := range map[string]string{"the same answer": "I am here.", "another answer": "Here I am."} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
				drain := make(chan struct{})
				w := newWorld(t, e, func(h *chat.Handler) { h.Streams.Drain = drain })
				h := newHeld()
				w.think(t, h.then("I am"))
				s := w.stream(t, http.MethodPost, messages, `{"message":"Hi.","stream":true}`, "X-Session-Id", "ann")
				first, _ := s.next()
				thread, id := s.Header.Get("X-Thread-Id"), s.Header.Get("X-Execution-Id")
				_ = s.Body.Close()
				w.loses(t, drain)

				next := newWorld(t, e)
				next.think(t, llmtest.Writes(answer))
				path := "/api/v1/chat/" + thread + "/executions/" + id + "/events"
				again := next.stream(t, http.MethodGet, path, "", "X-Session-Id", "ann", "Last-Event-ID", first.id)
				next.goesOn(t, id)
				said := "I am"
				for _, e := range again.rest() {
					switch e.kind {
					case "restart":
						said = ""
					case "delta":
						var d struct{ Text string }
						if err := json.Unmarshal([]byte(e.data), &d); err != nil {
							t.Fatal(err)
						}
						said += d.Text
					case "done":
						var a answered
						reply{body: e.data}.into(t, &a)
						if a.Answer != answer || a.Status != "completed" {
							t.Errorf("it ends with %s", e.data)
						}
					}
				}
				if said != answer {
					t.Errorf("a client that comes back has %q, not %q", said, answer)
				}
				var r responded
				next.call(t, http.MethodGet, responses+"/resp_"+id, site, "").into(t, &r)
				if r.said() != answer {
					t.Errorf("the response is %+v", r)
				}
			})
		})
	}
}

// TestAnAnswerThatAnotherProcessWritesDown is not told twice to who reads it in this one.
func TestAnAnswerThatAnotherProcessWritesDown(t *testing.T) {
	for answer, want := range map[string]string{
		"I am here.": "I am here.", "I am here. Really.": "I am here. Really.", "No.": "I am here.\n\nNo.",
	} {
		t.Run(answer, func(t *testing.T) {
			w := onOne(t)
			next := newWorld(t, w.Env)
			next.think(t, llmtest.Writes(answer))
			w.think(t, func(_ context.Context, _ llm.Request, write func(string)) (llm.Response, error) {
				write("I am here.")
				w.loses(t, make(chan struct{}))
				all, _, err := w.Runs.List(t.Context(), w.Workspace, execution.Filter{})
				if err != nil || len(all) != 1 {
					t.Errorf("%d executions run: %v", len(all), err)
					return llm.Response{}, context.Canceled
				}
				next.goesOn(t, all[0].ID)
				return llm.Response{}, context.Canceled
			})
			s := w.stream(t, http.MethodPost, completions, `{"messages":[{"role":"user","content":"Hi."}],"stream":true}`)
			if said, finish := text(t, s.rest()); said != want || finish != "stop" {
				t.Errorf("it says %q, not %q, and ends with %q", said, want, finish)
			}
		})
	}
}

// loses takes all lanes from a process, which never lets go of them itself, and stops what it is at.
func (w *world) loses(t testing.TB, drain chan struct{}) {
	t.Helper()
	for _, held := range must(w.Lanes.List(t.Context(), w.Workspace, 10))(t) {
		err := w.Env.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.Lanes.ForceRelease(ctx, tx, held.Lane)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	close(drain)
}

// goesOn has a turn that was cut off end in this process.
func (w *world) goesOn(t testing.TB, id string) {
	t.Helper()
	w.Env.Skew.Advance(time.Hour) // what is to go on is due
	until(t, "the turn goes on", func() bool {
		w.drain(t)
		e, err := w.Runs.Get(t.Context(), w.Workspace, id)
		return err == nil && e.Status.Ended()
	})
}

// TestAResponseGoesOnInAnotherProcess: a client that comes back gets what is missing of the same answer, and all of
// another one, whether that is longer than what it has or not.
func TestAResponseGoesOnInAnotherProcess(t *testing.T) {
	for answer, behind := range map[string]string{
		"I am here now.": " now.", "I am here": "",
		"Here I am, as ever.": "\n\nHere I am, as ever.", "I am not": "\n\nI am not", "No.": "\n\nNo.",
	} {
		t.Run(answer, func(t *testing.T) {
			drain := make(chan struct{})
			w := onOne(t, func(h *chat.Handler) { h.Streams.Drain = drain })
			h := newHeld()
			w.think(t, h.then("I am here"))
			s := w.stream(t, http.MethodPost, responses, `{"input":"Hi.","stream":true}`)
			var had []event
			for len(had) == 0 || had[len(had)-1].kind != "response.output_text.delta" {
				e, ok := s.next()
				if !ok {
					t.Fatalf("it ends after %v", had)
				}
				had = append(had, e)
			}
			id, last := s.Header.Get("X-Execution-Id"), had[len(had)-1].id
			_ = s.Body.Close()
			w.loses(t, drain)

			next := newWorld(t, w.Env)
			next.think(t, llmtest.Writes(answer))
			next.goesOn(t, id)
			path := responses + "/resp_" + id + "?stream=true&starting_after=" + last
			all, said, before := numberedOf(t, next.stream(t, http.MethodGet, path, "").rest()), "", must(strconv.Atoi(last))(t)
			for _, n := range all {
				if said += n.Delta; n.Seq <= before {
					t.Errorf("the number %d stands behind %d", n.Seq, before)
				}
				before = n.Seq
			}
			if said != behind {
				t.Errorf("behind %q comes %q, not %q", "I am here", said, behind)
			}
			if len(all) < 4 || all[len(all)-1].Type != "response.completed" || all[len(all)-4].Text != answer {
				t.Errorf("it ends with %+v", all)
			}
		})
	}
}

// TestATurnThatWasCutOffIsEndedByTheNext, as one is that is worked on: the next message waits for nothing.
func TestATurnThatWasCutOffIsEndedByTheNext(t *testing.T) {
	for mode, want := range map[string][]string{
		"interrupt": {"user: Hi.", "assistant: This message was stopped before it was answered.", "user: Wait.", "assistant: Yes?"},
		"rollback":  {"user: Wait.", "assistant: Yes?"},
	} {
		t.Run(mode, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
				drain := make(chan struct{})
				w := newWorld(t, e, func(h *chat.Handler) { h.Streams.Drain = drain })
				h := newHeld()
				w.think(t, h.then("I am"))
				s := w.stream(t, http.MethodPost, messages, `{"message":"Hi.","stream":true}`, "X-Session-Id", "ann")
				s.next()
				thread, id := s.Header.Get("X-Thread-Id"), s.Header.Get("X-Execution-Id")
				_ = s.Body.Close()
				w.loses(t, drain)

				next := newWorld(t, e, func(h *chat.Handler) { h.Patience = time.Millisecond })
				next.think(t, llmtest.Writes("Yes?"))
				var a answered
				next.post(t, messages, `{"message":"Wait.","multitask":"`+mode+`"}`, "X-Session-Id", "ann").into(t, &a)
				if a.Status != "completed" || a.Answer != "Yes?" {
					t.Errorf("the next message is answered with %+v", a)
				}
				if was := must(next.Runs.Get(t.Context(), next.Workspace, id))(t); was.Status != execution.Cancelled {
					t.Errorf("the turn that was cut off is %s", was.Status)
				}
				if got := next.spoken(t, thread); !slices.Equal(got, want) {
					t.Errorf("it was said: %q", got)
				}
			})
		})
	}
}
