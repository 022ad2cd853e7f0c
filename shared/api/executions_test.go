package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/run"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// httptestCall is a call that is held against nothing.
func httptestCall(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

func TestExecutionsByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		type executionTold struct {
			ID, Agent, Surface, Status, TraceID string
			Input                               json.RawMessage
			CreatedAt                           time.Time
		}
		var made []executionTold // the last first
		for range 3 {
			var ran struct{ ExecutionID, TraceID string }
			w.must(t, 200, http.MethodPost, skillPath("look")+"/run", "", &ran)
			var e executionTold
			w.must(t, 200, http.MethodGet, "/api/v1/executions/"+strings.ToUpper(ran.ExecutionID), "", &e)
			if e.ID != ran.ExecutionID || e.TraceID != ran.TraceID || e.Surface != "operate" || e.Status != "completed" || compact(e.Input) != `{"skill":"look"}` {
				t.Errorf("it is %+v", e)
			}
			made = slices.Insert(made, 0, e)
		}
		from := made[1].CreatedAt.Format(time.RFC3339Nano)
		for query, want := range map[string][]executionTold{
			"": made, "?limit=2": made, "?traceId=" + made[1].TraceID: made[1:2], "?since=" + from: made[:2], "?until=" + from: made[2:],
			"?agent=" + made[0].Agent + "&surface=op&status=completed": made, "?status=failed": nil, "?agent=nobody": nil, "?surface=heartbeat": nil,
		} {
			got := listed(t, w, "/api/v1/executions"+query, func(e executionTold) string {
				if e.Input != nil {
					t.Errorf("the listing has the input %s", e.Input)
				}
				return e.ID
			})
			var ids []string
			for _, e := range want {
				ids = append(ids, e.ID)
			}
			if !slices.Equal(got, ids) {
				t.Errorf("%s lists %v, want %v", query, got, ids)
			}
		}
		h, err := w.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: "x", Holder: "someone"})
		if err != nil {
			t.Fatal(err)
		}
		err = w.Lanes.InHold(t.Context(), h, func(_ context.Context, tx lane.Tx) error { // a child begins no trace
			return w.Runs.Start(tx, run.Execution{
				ID: ids(), Agent: "a", Surface: trace.Operate, Trace: trace.ID(made[0].TraceID), Parent: made[0].ID, Subject: "x",
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		var begun []string
		for _, e := range made {
			begun = append(begun, e.TraceID)
		}
		type traceTold struct{ TraceID, Status, ExecutionID string }
		for query, want := range map[string][]string{"": begun, "?limit=2": begun, "?surface=heartbeat": nil, "?until=" + from: begun[2:], "?status=failed": nil} {
			got := listed(t, w, "/api/v1/traces"+query, func(e traceTold) string { return e.TraceID })
			if !slices.Equal(got, want) {
				t.Errorf("the traces %s are %v, want %v", query, got, want)
			}
		}
		if p := w.refused(t, 422, "invalid", http.MethodGet, "/api/v1/executions?cursor=MS54", ""); !p.at("query.cursor") {
			t.Errorf("a wrong cursor: %+v", p.Errors)
		}
	})
}
