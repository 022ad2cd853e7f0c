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

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// httptestCall sends a request and does not check the response against the document.
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
		var made []executionTold // newest first
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
		// Neither a child begins a trace, nor a later execution without a parent, such as that of a task which a turn created.
		for name, parent := range map[lane.Name]string{"x": made[0].ID, "y": ""} {
			h, err := w.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: name, Holder: "someone"})
			if err != nil {
				t.Fatal(err)
			}
			err = w.Lanes.InHold(t.Context(), h, func(_ context.Context, tx lane.Tx) error {
				return w.Runs.Start(tx, execution.Execution{
					ID: ids(), Agent: "a", Surface: trace.Worker, Trace: trace.ID(made[0].TraceID), Parent: parent, Subject: name,
				})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		var begun []string
		for _, e := range made {
			begun = append(begun, e.TraceID)
		}
		type traceTold struct{ TraceID, Status, ExecutionID string }
		for query, want := range map[string][]string{"": begun, "?limit=2": begun, "?surface=worker": nil, "?until=" + from: begun[2:], "?status=failed": nil} {
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

// Only the execution's own agent sees the secrets in an execution's input.
func TestSecretsOfAnInputAreItsAgentsAlone(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		agents := map[string]string{"token-of-ada": "ada", "token-of-eve": "eve"}
		w := newWorld(t, e, func(d *api.Deps) {
			d.Auth = auth.New(tokens(e.Workspace), func(_ context.Context, token string) (auth.Principal, error) {
				if id := agents[token]; id != "" {
					return auth.Principal{Workspace: e.Workspace, Kind: auth.Agent, ID: id}, nil
				}
				return auth.Principal{}, auth.ErrInvalid
			})
		})
		const given = `{"n":1,"password":"hunter2","steps":[{"apiToken":"xyzzy"}]}`
		var begun struct{ ID, TraceID string }
		w.must(t, 201, http.MethodPost, "/api/v1/executions", `{"agent":"ada","input":`+given+`}`, &begun)
		path := "/api/v1/executions/" + begun.ID
		input := func(token string) string {
			t.Helper()
			var item struct{ Input map[string]any }
			got := w.call(t, http.MethodGet, path, token, "")
			if got.status != 200 {
				t.Fatalf("%s: %d %s", token, got.status, got.body)
			}
			decode(t, got.body, &item)
			raw, err := json.Marshal(item.Input)
			if err != nil {
				t.Fatal(err)
			}
			return string(raw)
		}
		const shown = `{"n":1,"password":"[redacted]","steps":[{"apiToken":"[redacted]"}]}`
		for _, token := range []string{owner, member} {
			if got := input(token); got != shown {
				t.Errorf("%s is shown %s", token, got)
			}
		}
		if got := input("token-of-ada"); got != given {
			t.Errorf("the agent is given %s", got)
		}
		if got := w.call(t, http.MethodGet, path, "token-of-eve", ""); got.status != 403 {
			t.Errorf("another agent: %d %s", got.status, got.body)
		}
		if got := w.call(t, http.MethodGet, "/api/v1/traces/"+begun.TraceID, owner, ""); strings.Contains(string(got.body), "hunter2") {
			t.Errorf("the trace is %s", got.body)
		}
		w.must(t, 200, http.MethodPost, path+"/complete", `{"result":{"session_token":"plugh"}}`, nil)
		if got := input("token-of-ada"); got != shown {
			t.Errorf("at the end the agent is given %s", got)
		}
		if got := w.call(t, http.MethodGet, path, member, ""); strings.Contains(string(got.body), "plugh") {
			t.Errorf("the result is shown: %s", got.body)
		}
	})
}
