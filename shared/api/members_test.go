package api_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// recorded returns the input of the newest activity with this name.
func (w *world) recorded(t testing.TB, skill string) (input map[string]any) {
	t.Helper()
	var log struct{ Items []item }
	w.must(t, 200, http.MethodGet, "/api/v1/activity?limit=1&skill="+skill, "", &log)
	if len(log.Items) == 0 {
		t.Fatalf("%s is not recorded", skill)
	}
	return log.Items[0].Input
}

func TestAMemberByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		type told struct{ UserID, Email, Name, Role string }
		var m, same told
		email := ids() + "@example.org"
		made := w.must(t, 201, http.MethodPost, "/api/v1/members", `{"email":"`+email+`","name":"Ada","role":"ADMIN"}`, &m)
		at := made.header.Get("Location")
		if in := w.recorded(t, "member.add"); in["user"] != m.UserID || in["role"] != "ADMIN" || in["by"] != "local:owner" {
			t.Errorf("recorded is %v", in)
		}
		got := w.must(t, 200, http.MethodGet, at, "", &same)
		if same != m || m.Name != "Ada" || m.Email != email || got.header.Get("ETag") != made.header.Get("ETag") || got.header.Get("ETag") == "" {
			t.Errorf("found %+v, %v", same, got.header)
		}
		first := got.header.Get("ETag")
		got = w.callWith(t, http.MethodPatch, at, owner, `{"role":"MEMBER"}`, "If-Match", first)
		if err := json.Unmarshal(got.body, &m); err != nil || got.status != 200 || m.Role != "MEMBER" || got.header.Get("ETag") == first {
			t.Errorf("%d %s, %v", got.status, got.body, got.header)
		}
		if in := w.recorded(t, "member.update"); in["user"] != m.UserID || in["role"] != "MEMBER" || in["was"] != "ADMIN" {
			t.Errorf("recorded is %v", in)
		}
		if got := w.callWith(t, http.MethodPatch, at, owner, `{"role":"OWNER"}`, "If-Match", first); got.status != http.StatusPreconditionFailed {
			t.Errorf("a stale If-Match: %d %s", got.status, got.body)
		}
		w.must(t, 200, http.MethodPatch, at, `{"role":"ADMIN"}`, &m)
		w.must(t, 204, http.MethodDelete, at, "", nil)
		if in := w.recorded(t, "member.remove"); in["user"] != m.UserID {
			t.Errorf("recorded is %v", in)
		}
		w.refused(t, 404, "not_found", http.MethodGet, at, "")
	})
}

func TestAKeyByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var k, same struct{ ID, Key, Prefix, Role string }
		made := w.must(t, 201, http.MethodPost, "/api/v1/api-keys", `{"name":"ci","role":"MEMBER","scopes":["*"]}`, &k)
		got := w.must(t, 200, http.MethodGet, made.header.Get("Location"), "", &same)
		if same.ID != k.ID || same.Prefix != k.Prefix || same.Role != "MEMBER" || strings.Contains(string(got.body), k.Key) || strings.Contains(string(got.body), `"key"`) {
			t.Errorf("found %s", got.body)
		}
		if in := w.recorded(t, "api_key.create"); in["id"] != k.ID || in["role"] != "MEMBER" || in["name"] != "ci" {
			t.Errorf("recorded is %v", in)
		}
		w.must(t, 204, http.MethodDelete, made.header.Get("Location"), "", nil)
		if in := w.recorded(t, "api_key.revoke"); in["id"] != k.ID {
			t.Errorf("recorded is %v", in)
		}
		scopes := strings.TrimSuffix(strings.Repeat(`"*",`, 21), ",")
		for body, at := range map[string]string{
			`{"name":"x","kind":"site","origins":["nowhere"]}`:                       "body.origins",
			`{"name":"x","role":"MEMBER","scopes":["*"],"origins":["https://a.b"]}`:  "body.origins",
			`{"name":"x","role":"MEMBER","scopes":[` + scopes + `]}`:                 "body.scopes",
			`{"name":"x","kind":"site","origins":[` + scopes + `]}`:                  "body.origins",
			`{"name":"x","role":"MEMBER","scopes":["tasks"]}`:                        "body.scopes",
			`{"name":"x","kind":"site","role":"MEMBER","origins":["https://a.b"]}`:   "body.role",
			`{"name":"x","kind":"site","scopes":["*"],"origins":["https://a.b:80"]}`: "body.scopes",
		} {
			if p := w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/api-keys", body); !p.at(at) {
				t.Errorf("%s: %+v", body, p)
			}
		}
	})
}

func TestASecretIsFoundWithoutItsValue(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		made := w.must(t, 201, http.MethodPost, "/api/v1/secrets", `{"name":"a.b","value":"canary"}`, nil)
		got := w.must(t, 200, http.MethodGet, made.header.Get("Location"), "", nil)
		if string(got.body) != string(made.body) || strings.Contains(string(got.body), "canary") {
			t.Errorf("found %s, made %s", got.body, made.body)
		}
	})
}

// A forged cursor is refused before any query.
func TestMadeUpCursors(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, key := range []string{"", "x", "\x00", "a@b\x00.example", "\xff@b.example", "8b8f5f3e", strings.Repeat("a", 300) + "@b.example"} {
			for _, path := range []string{"/api/v1/members", "/api/v1/api-keys"} {
				made := base64.RawURLEncoding.EncodeToString([]byte("0." + key))
				if p := w.refused(t, 422, "invalid", http.MethodGet, path+"?cursor="+made, ""); !p.at("query.cursor") {
					t.Errorf("%s behind %q: %+v", path, key, p)
				}
			}
		}
	})
}

func TestAWorkspaceIsDeletedByItsOwner(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		g := newGate(t, w.Env)
		ada := g.join(t, w.Workspace, auth.Admin)
		token := jwt(ada.ID, nil)
		var made struct{ ID string }
		got := g.call(t, http.MethodPost, "/api/v1/workspaces", token, `{"slug":"s`+strings.ReplaceAll(ids(), "-", "")+`","name":"x"}`)
		if err := json.Unmarshal(got.body, &made); err != nil || got.status != 201 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		at := got.header.Get("Location")
		there := func(method, path, body string) result {
			t.Helper()
			return g.callWith(t, method, "/api/v1/"+path, token, body, "X-Workspace-Id", made.ID)
		}
		for _, got := range []result{
			there(http.MethodPost, "memories", `{"category":"a","content":"b"}`), there(http.MethodPost, "objectives", `{"title":"a"}`),
			there(http.MethodPost, "lanes/a/acquire", `{"holder":"me"}`),
		} {
			if got.status/100 != 2 {
				t.Fatalf("%d %s", got.status, got.body)
			}
		}
		var key struct{ Key string }
		if err := json.Unmarshal(there(http.MethodPost, "api-keys", `{"name":"k","role":"OWNER","scopes":["*"]}`).body, &key); err != nil {
			t.Fatal(err)
		}
		delete := func(path, token string, status int, says string) {
			t.Helper()
			if got := g.call(t, http.MethodDelete, path, token, ""); got.status != status || !strings.Contains(string(got.body), says) {
				t.Errorf("%d %s", got.status, got.body)
			}
		}
		delete(at, key.Key, 403, "no key may do it")
		delete("/api/v1/workspaces/"+string(w.Workspace), token, 403, "OWNER")
		delete(at, token, 409, "at_work")
		if got := there(http.MethodPost, "lanes/a/force-release", `{"reason":"it goes"}`); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		delete(at, token, 204, "")
		if got := g.call(t, http.MethodGet, at, token, ""); got.status != 404 {
			t.Errorf("afterwards: %d %s", got.status, got.body)
		}
		if got := g.call(t, http.MethodGet, "/api/v1/me", key.Key, ""); got.status != 401 {
			t.Errorf("its key: %d %s", got.status, got.body)
		}
		lines := g.logs.lines(t, "a workspace was deleted")
		if len(lines) != 1 || lines[0]["workspace_id"] != made.ID || lines[0]["by"] != "user:"+ada.ID {
			t.Errorf("the log says %v", lines)
		}
	})
}

// A trace that is too long for one response is marked as truncated. Its sums cover all of it.
func TestALongStoryIsTruncated(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var q struct{ Execution db.Query }
		err := db.Load(fstest.MapFS{"raw.sql": {Data: []byte(`-- name: Execution
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, input, prompt_tokens, completion_tokens, cost_usd, created_at, updated_at, ended_at)
VALUES ($1, $2, 'a', 'op', $3, $4, '{}', 2, 1, 0.5, lk_now(), lk_now(), CASE WHEN $4 = 'completed' THEN lk_now() END);
`)}}, &q)
		if err != nil {
			t.Fatal(err)
		}
		type long struct {
			story
			Truncated bool
		}
		grow := func(id trace.ID, executions, activities int, last string) (s long) {
			t.Helper()
			var b db.Batch
			for i := range executions {
				status := "completed"
				if i == executions-1 {
					status = last
				}
				b.Exec(q.Execution, ids(), id, status)
			}
			for range activities {
				w.Activity.Record(trace.With(t.Context(), id), &b, activity.Entry{Agent: "a", Surface: trace.Operate, Status: activity.Success})
			}
			if err := w.Env.DB.Do(t.Context(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
			w.must(t, 200, http.MethodGet, "/api/v1/traces/"+string(id), "", &s)
			return s
		}
		id := w.Traces.New(trace.Operate)
		if s := grow(id, 500, 1000, "completed"); s.Truncated || len(s.Executions) != 500 || len(s.Activities) != 1000 || s.Status != "completed" || s.EndedAt == nil {
			t.Errorf("of 500: %v, %d and %d, %s", s.Truncated, len(s.Executions), len(s.Activities), s.Status)
		}
		s := grow(id, 1, 0, "running")
		if !s.Truncated || len(s.Executions) != 500 || s.Usage != (usage{1002, 501, 1503}) || s.CostUSD != 250.5 || s.Status != "running" || s.EndedAt != nil {
			t.Errorf("of 501: %v, %d, %+v, %v, %s", s.Truncated, len(s.Executions), s.Usage, s.CostUSD, s.Status)
		}
		if s := grow(w.Traces.New(trace.Operate), 0, 1001, ""); !s.Truncated || len(s.Activities) != 1000 {
			t.Errorf("of 1001 activities: %v, %d", s.Truncated, len(s.Activities))
		}
	})
}

// A member reads all but secrets. The rows of the audit log are among those of the activity.
func TestAMemberReadsTheAuditLog(t *testing.T) {
	w := onOne(t)
	w.must(t, 201, http.MethodPost, "/api/v1/objectives", `{"title":"Sell ice"}`, nil)
	var did struct{ Items []struct{ ID string } }
	got := w.call(t, http.MethodGet, "/api/v1/activity?skill=objective.create", member, "")
	if err := json.Unmarshal(got.body, &did); err != nil || len(did.Items) != 1 {
		t.Fatalf("the activity: %d %s", got.status, got.body)
	}
	got = w.call(t, http.MethodGet, "/api/v1/audit", member, "")
	if got.status != 200 || !strings.Contains(string(got.body), did.Items[0].ID) {
		t.Errorf("the audit log: %d %s", got.status, got.body)
	}
	if got = w.call(t, http.MethodGet, "/api/v1/secrets", member, ""); got.status != 403 {
		t.Errorf("the secrets: %d %s", got.status, got.body)
	}
}
