package api_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
)

// Concurrent changes without If-Match are applied one after the other. None overwrites fields that
// another one changed.
func TestParallelChangesWithoutIfMatch(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		make := func(resource, body string) string {
			var made struct{ ID string }
			w.must(t, 201, http.MethodPost, "/api/v1/"+resource, body, &made)
			return "/api/v1/" + resource + "/" + made.ID
		}
		for path, patches := range map[string][]string{
			make("objectives", `{"title":"a"}`):                {`{"title":"b"}`, `{"description":"c"}`, `{"priority":7}`, `{"doneCriterion":"d"}`},
			make("agent-tasks", `{"title":"a"}`):               {`{"title":"b"}`, `{"description":"c"}`, `{"priority":7}`, `{"maxRetries":9}`},
			make("projects", `{"name":"a"}`):                   {`{"name":"b"}`, `{"description":"c"}`, `{"archived":true}`},
			make("memories", `{"category":"a","content":"a"}`): {`{"category":"b"}`, `{"content":"c"}`, `{"importance":7}`},
			"/api/v1/workspaces/" + string(w.Workspace):        {`{"name":"b"}`, `{"settings":{"beatTokens":5000}}`, `{"settings":{"skillTimeout":9}}`},
			make("skills", `{"name":"ask","kind":"http","description":"a","config":{"url":"https://a.example/"}}`): {`{"description":"b"}`, `{"scope":"both"}`, `{"serial":true}`, `{"timeoutSeconds":9}`},
			"/api/v1/skills/look": {`{"requiresApproval":true}`, `{"serial":true}`, `{"scope":"both"}`},
			make("automations", `{"name":"a","skill":"look","schedule":{"cron":"@daily"}}`): {`{"name":"b"}`, `{"schedule":{"cron":"@hourly"}}`, `{"schedule":{"timeZone":"Europe/Paris"}}`},
		} {
			var all sync.WaitGroup
			for range 4 {
				for _, body := range patches {
					all.Go(func() {
						if got := w.call(t, http.MethodPatch, path, owner, body); got.status != http.StatusOK {
							t.Errorf("PATCH %s %s: %d %s", path, body, got.status, got.body)
						}
					})
				}
			}
			all.Wait()
			var now map[string]any
			w.must(t, 200, http.MethodGet, path, "", &now)
			for _, body := range patches {
				var want map[string]any
				if err := json.Unmarshal([]byte(body), &want); err != nil {
					t.Fatal(err)
				}
				holds(t, path, now, want)
			}
		}
		path := make("automations", `{"name":"switched","skill":"look","schedule":{"cron":"@daily"}}`)
		var all sync.WaitGroup
		for range 8 {
			for _, to := range []string{"enable", "disable"} {
				all.Go(func() {
					if got := w.call(t, http.MethodPost, path+"/"+to, owner, map[string]string{"enable": `{}`, "disable": `{"reason":"test"}`}[to]); got.status != http.StatusOK {
						t.Errorf("%s: %d %s", to, got.status, got.body)
					}
				})
			}
		}
		all.Wait()
	})
}

// holds reports wanted values that are missing or differ, at any depth.
func holds(t *testing.T, path string, is, want map[string]any) {
	t.Helper()
	for name, v := range want {
		if inner, ok := v.(map[string]any); ok {
			of, _ := is[name].(map[string]any)
			holds(t, path+" "+name, of, inner)
		} else if is[name] != v {
			t.Errorf("%s: %s is %v, not %v", path, name, is[name], v)
		}
	}
}
