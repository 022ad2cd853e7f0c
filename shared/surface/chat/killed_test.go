package chat_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
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
				for _, held := range must(w.Lanes.List(t.Context(), w.Workspace, 10))(t) { // it never lets go of them itself
					err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
						_, err := w.Lanes.ForceRelease(ctx, tx, held.Lane)
						return err
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				close(drain)

				next := newWorld(t, e)
				next.think(t, llmtest.Writes(answer))
				path := "/api/v1/chat/" + thread + "/executions/" + id + "/events"
				again := next.stream(t, http.MethodGet, path, "", "X-Session-Id", "ann", "Last-Event-ID", first.id)
				e.Skew.Advance(time.Hour) // what is to go on is due
				until(t, "the turn goes on", func() bool {
					next.drain(t)
					e, err := next.Runs.Get(t.Context(), next.Workspace, id)
					return err == nil && e.Status.Ended()
				})
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
