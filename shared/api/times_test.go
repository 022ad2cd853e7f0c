package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestATimeThatCannotBeToldIsRefused: the last hours of the year 9999 in the far west are of the year 10000 in UTC,
// which JSON can't tell. Stored, such a time would make each list that has it fail.
func TestATimeThatCannotBeToldIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var task, project, milestone, memory struct{ ID string }
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"Count the stock"}`, &task)
		w.must(t, 201, http.MethodPost, "/api/v1/projects", `{"name":"shop"}`, &project)
		w.must(t, 201, http.MethodPost, "/api/v1/milestones", fmt.Sprintf(`{"name":"first","projectId":%q}`, project.ID), &milestone)
		w.must(t, 201, http.MethodPost, "/api/v1/memories", `{"content":"The door is blue","category":"fact"}`, &memory)
		for _, at := range []string{"9999-12-31T23:59:59-14:00", "0001-01-02T00:00:00Z"} {
			for _, c := range []struct{ method, path, body, field string }{
				{http.MethodPost, agentTasks, `{"title":"x","estimatedCompletionAt":%q}`, "estimatedCompletionAt"},
				{http.MethodPatch, agentTasks + "/" + task.ID, `{"estimatedCompletionAt":%q}`, "estimatedCompletionAt"},
				{http.MethodPost, "/api/v1/milestones", `{"name":"next","projectId":"` + project.ID + `","dueAt":%q}`, "dueAt"},
				{http.MethodPatch, "/api/v1/milestones/" + milestone.ID, `{"dueAt":%q}`, "dueAt"},
				{http.MethodPost, "/api/v1/memories", `{"content":"x","category":"fact","expiresAt":%q}`, "expiresAt"},
				{http.MethodPatch, "/api/v1/memories/" + memory.ID, `{"expiresAt":%q}`, "expiresAt"},
				{http.MethodPost, "/api/v1/api-keys", `{"name":"x","role":"MEMBER","scopes":["*"],"expiresAt":%q}`, "expiresAt"},
			} {
				if p := w.refused(t, 422, "invalid", c.method, c.path, fmt.Sprintf(c.body, at)); !p.at("body." + c.field) {
					t.Errorf("%s %s with %s: %+v", c.method, c.path, at, p)
				}
			}
		}
		for _, path := range []string{agentTasks, "/api/v1/milestones", "/api/v1/memories", "/api/v1/api-keys"} {
			w.must(t, 200, http.MethodGet, path, "", nil)
		}
	})
}

// TestWhatIsNewWasNeverChanged: it was changed last when it was created, to the microsecond.
func TestWhatIsNewWasNeverChanged(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var project struct{ ID string }
		w.must(t, 201, http.MethodPost, "/api/v1/projects", `{"name":"shop"}`, &project)
		for _, c := range []struct{ method, path, body string }{
			{http.MethodPut, agentsPath + "/" + ids(), `{"name":"scout"}`},
			{http.MethodPost, agentTasks, `{"title":"Count the stock"}`},
			{http.MethodPost, automationsPath, `{"name":"a","skill":"look","schedule":{"cron":"@daily"}}`},
			{http.MethodPost, budgetsPath, month("global", "", 1000)},
			{http.MethodPost, "/api/v1/memories", `{"content":"The door is blue","category":"fact"}`},
			{http.MethodPost, "/api/v1/milestones", fmt.Sprintf(`{"name":"first","projectId":%q}`, project.ID)},
			{http.MethodPost, "/api/v1/objectives", `{"title":"Grow"}`},
			{http.MethodPost, "/api/v1/projects", `{"name":"another"}`},
			{http.MethodPost, "/api/v1/secrets", `{"name":"a","value":"a value"}`},
			{http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"ada"}`},
			{http.MethodPost, "/api/v1/webhook-endpoints", `{"url":"https://one.example/hook","events":["*"]}`},
			{http.MethodPost, "/api/v1/webhook-sources", `{"name":"a","kind":"github"}`},
			{http.MethodPost, "/api/v1/workspaces", `{"name":"Another","slug":"w-` + ids() + `","owner":"ada@example.com"}`},
		} {
			var made struct{ CreatedAt, UpdatedAt time.Time }
			got := w.call(t, c.method, c.path, owner, c.body)
			decode(t, got.body, &made)
			if got.status != 201 && got.status != 200 || made.CreatedAt.IsZero() || !made.CreatedAt.Equal(made.UpdatedAt) {
				t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.body)
			}
		}
	})
}
