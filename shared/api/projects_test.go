package api_test

import (
	"net/http"
	"testing"
)

func TestProjectsByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		type item struct {
			ID, Name, ProjectID, Code string
			Archived                  bool
			DueAt                     *string
			Tasks                     map[string]int
		}
		var shop, opening, is item
		got := w.must(t, 201, http.MethodPost, "/api/v1/projects", `{"name":"The shop"}`, &shop)
		path := "/api/v1/projects/" + shop.ID
		w.must(t, 201, http.MethodPost, "/api/v1/milestones", `{"projectId":"`+shop.ID+`","name":"It opens","dueAt":"2030-05-01T09:00:00Z"}`, &opening)
		if got.header.Get("Location") != path || opening.ProjectID != shop.ID || *opening.DueAt != "2030-05-01T09:00:00Z" {
			t.Errorf("%v %+v", got.header, opening)
		}
		w.must(t, 409, http.MethodPost, "/api/v1/projects", `{"name":"The shop"}`, nil)
		w.must(t, 404, http.MethodPost, "/api/v1/milestones", `{"projectId":"`+somebody+`","name":"x"}`, nil)
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"x","milestoneId":"`+opening.ID+`"}`, nil)
		tag := w.must(t, 200, http.MethodGet, path, "", &is).header.Get("ETag")
		if is.Tasks["PENDING"] != 1 {
			t.Errorf("%+v", is)
		}
		w.must(t, 200, http.MethodPatch, path, `{"archived":true}`, &is)
		if got := w.callWith(t, http.MethodPatch, path, member, `{"name":"y"}`, "If-Match", tag); !is.Archived || got.status != 412 {
			t.Errorf("%+v, a stale If-Match: %d %s", is, got.status, got.body)
		}
		w.must(t, 422, http.MethodPost, agentTasks, `{"title":"x","projectId":"`+shop.ID+`"}`, nil)
		if w.must(t, 409, http.MethodDelete, path, "", &is); is.Code != "in_use" {
			t.Errorf("%+v", is)
		}
		w.must(t, 200, http.MethodPatch, "/api/v1/milestones/"+opening.ID, `{"dueAt":null}`, &opening)
		if opening = (item{}); listed(t, w, "/api/v1/projects", func(item) string { return "" }) != nil {
			t.Error("an archived project is listed")
		}
		if all := listed(t, w, "/api/v1/projects?archived=true", func(i item) string { return i.Name }); len(all) != 1 {
			t.Errorf("archived: %q", all)
		}
		if of := listed(t, w, agentTasks+"?projectId="+shop.ID, func(taskTold) string { return "" }); len(of) != 1 {
			t.Errorf("%d tasks of the project", len(of))
		}
		if of := listed(t, w, "/api/v1/milestones?projectId="+shop.ID, func(i item) string { return i.Name }); len(of) != 1 {
			t.Errorf("%d milestones of the project", len(of))
		}
		w.must(t, 201, http.MethodPost, "/api/v1/projects", `{"name":"unused"}`, &is)
		w.must(t, 204, http.MethodDelete, "/api/v1/projects/"+is.ID, "", nil)
		w.must(t, 404, http.MethodGet, "/api/v1/projects/"+is.ID, "", nil)
	})
}
