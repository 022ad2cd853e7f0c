package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestASessionTellsItsWorkspaces in the answers that begin and move it, as GET /me does.
func TestASessionTellsItsWorkspaces(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		_, link := w.linked(t)
		begun := w.call(t, http.MethodPost, "/api/v1/session", "", `{"token":"`+link+`"}`)
		cookie, err := http.ParseSetCookie(begun.header.Get("Set-Cookie"))
		if err != nil {
			t.Fatal(err)
		}
		moved := request(http.MethodPut, "/api/v1/session", "", `{"workspaceId":"`+string(w.Workspace)+`"}`)
		moved.AddCookie(cookie)
		moved.Header.Set("Sec-Fetch-Site", "same-origin")
		for does, got := range map[string]result{"begun": begun, "moved": w.send(t, moved)} {
			var me struct {
				Workspaces []struct{ ID, Slug, Role string }
			}
			if err := json.Unmarshal(got.body, &me); err != nil || got.status != http.StatusOK || len(me.Workspaces) != 1 ||
				me.Workspaces[0].ID != string(w.Workspace) || me.Workspaces[0].Slug == "" || me.Workspaces[0].Role != "ADMIN" {
				t.Errorf("%s: %d %s, %v", does, got.status, got.body, err)
			}
		}
	})
}

// TestASwitchIsReleasedAgain: it stays as it was, and is not said to be missing.
func TestASwitchIsReleasedAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var first, again struct {
			ID, ReleasedBy, ReleasedAt string
			Active                     bool
		}
		w.must(t, 201, http.MethodPost, "/api/v1/kill-switches", `{"scope":"agent","target":"ada"}`, &first)
		path := "/api/v1/kill-switches/" + first.ID
		w.must(t, 200, http.MethodPost, path+"/release", `{}`, &first)
		if first.Active || first.ReleasedAt == "" {
			t.Errorf("%+v", first)
		}
		w.must(t, 200, http.MethodPost, path+"/release", `{}`, &again)
		if again != first {
			t.Errorf("again %+v, want %+v", again, first)
		}
		if w.must(t, 200, http.MethodDelete, path, "", &again); again != first {
			t.Errorf("deleted %+v, want %+v", again, first)
		}
		w.refused(t, 404, "not_found", http.MethodPost, "/api/v1/kill-switches/"+ids()+"/release", `{}`)
	})
}

// TestASiteKeyIsChangedAtItsVersion: If-Match guards it from changes that were made meanwhile. That it is used does
// not change it.
func TestASiteKeyIsChangedAtItsVersion(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var k siteKey
		made := w.must(t, 201, http.MethodPost, "/api/v1/site-keys", `{"name":"shop","origins":["https://shop.example"]}`, &k)
		path := "/api/v1/site-keys/" + k.ID
		first := w.must(t, 200, http.MethodGet, path, "", nil).header.Get("ETag")
		if tag := made.header.Get("ETag"); tag != first {
			t.Errorf("made as %s, it is %s", tag, first)
		}
		got := w.callWith(t, http.MethodPatch, path, admin, `{"name":"the shop"}`, "If-Match", first)
		second := got.header.Get("ETag")
		if got.status != http.StatusOK || second == "" || second == first {
			t.Fatalf("changed: %d %s, %s", got.status, got.body, second)
		}
		if got := w.callWith(t, http.MethodPatch, path, admin, `{"origins":[]}`, "If-Match", first); got.status != http.StatusPreconditionFailed {
			t.Errorf("a stale If-Match: %d %s", got.status, got.body)
		}
		if got := w.must(t, 200, http.MethodGet, path, "", &k); got.header.Get("ETag") != second || !slices.Equal(k.Origins, []string{"https://shop.example"}) {
			t.Errorf("it is %s, %s", got.body, got.header.Get("ETag"))
		}
		if got := w.callWith(t, http.MethodPatch, path, admin, `{"name":"shop"}`, "If-Match", `"0", `+second); got.status != http.StatusOK {
			t.Errorf("one of several: %d %s", got.status, got.body)
		}
		r := request(http.MethodPatch, path, admin, `{"name":"the shop"}`)
		r.Header["If-Match"] = []string{`"0"`, `"1"`}
		if got := w.send(t, r); got.status != http.StatusPreconditionFailed {
			t.Errorf("none of several on lines of their own: %d %s", got.status, got.body)
		}
		r = request(http.MethodPatch, path, admin, `{"name":"the shop"}`)
		r.Header["If-Match"] = []string{`"0"`, w.must(t, 200, http.MethodGet, path, "", nil).header.Get("ETag")}
		if got := w.send(t, r); got.status != http.StatusOK {
			t.Errorf("the second of several on lines of their own: %d %s", got.status, got.body)
		}
	})
}

// TestASecretHasANameForAPath: nothing could reach one that is named . or ..
func TestASecretHasANameForAPath(t *testing.T) {
	w := onOne(t)
	for _, name := range []string{".", "..", "..."} {
		if p := w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/secrets", `{"name":"`+name+`","value":"x"}`); !p.at("body.name") {
			t.Errorf("%s: %+v", name, p.Errors)
		}
	}
	for _, name := range []string{".env", "a.b", "-", "x..", "_"} {
		w.must(t, 201, http.MethodPost, "/api/v1/secrets", `{"name":"`+name+`","value":"x"}`, nil)
		w.must(t, 200, http.MethodGet, "/api/v1/secrets/"+name, "", nil)
	}
}

// TestARefusalNamesTheField also where the name or the number in it is not one that can be taken.
func TestARefusalNamesTheField(t *testing.T) {
	w := onOne(t)
	for _, c := range []struct{ method, path, body, at string }{
		{http.MethodPut, "/api/v1/personas/.canary", `{}`, "path.name"},
		{http.MethodPost, "/api/v1/objectives", `{"title":"x","priority":5.0}`, "body.priority"},
		{http.MethodPost, "/api/v1/skills", `{"name":"a","description":"d","kind":"http","config":{"url":"https://a.example","headers":{"A canary":"x"}}}`, "body.config.headers"},
		{http.MethodPatch, "/api/v1/workspaces/" + string(w.Workspace), `{"settings":{"canary of text":1}}`, "body.settings"},
		{http.MethodPatch, "/api/v1/workspaces/" + string(w.Workspace), `{"settings":{"stepsPerRun":2e1}}`, "body.settings"},
		{http.MethodPost, agentTasks + "/" + ids() + "/complete", `{"attempt":1.0}`, "body.attempt"},
	} {
		p := w.refused(t, 422, "invalid", c.method, c.path, c.body)
		if len(p.Errors) != 1 || !p.at(c.at) || strings.Contains(p.Errors[0].Message, "int64") || strings.Contains(p.Errors[0].Message, "canary") {
			t.Errorf("%s: %+v", c.body, p.Errors)
		}
	}
}

// TestAnAgentIsToldWhoseExecutionItIs: it has access to the workspace, and none to executions of others.
func TestAnAgentIsToldWhoseExecutionItIs(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		g := newGate(t, e)
		var other, made struct{ ID, Token string }
		g.must(t, 201, http.MethodPost, "/api/v1/executions", `{"agent":"ada"}`, &other)
		g.must(t, 201, http.MethodPut, "/api/v1/agents/"+ids(), `{"name":"bob"}`, &made)
		var p problem
		got := g.asked(t, 403, http.MethodGet, "/api/v1/executions/"+other.ID, made.Token, "", &p)
		if p.Code != "forbidden" || !strings.Contains(p.Detail, "execution") || strings.Contains(p.Detail, "workspace") {
			t.Errorf("%s", got.body)
		}
	})
}

// TestAnIDIsWrittenInOneWay: in capital letters it is the same, and in no other form is it one.
func TestAnIDIsWrittenInOneWay(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var source, project struct{ ID string }
		w.must(t, 201, http.MethodPost, "/api/v1/webhook-sources", `{"name":"gh","kind":"github"}`, &source)
		delivery := w.receive(t, w.Workspace, "gh", "x")
		w.must(t, 201, http.MethodPost, "/api/v1/projects", `{"name":"shop"}`, &project)
		w.must(t, 201, http.MethodPost, "/api/v1/milestones", `{"name":"first","projectId":"`+project.ID+`"}`, nil)
		for _, c := range []struct{ path, id, at string }{
			{"/api/v1/deliveries/", delivery, "path.id"},
			{"/api/v1/deliveries?sourceId=", source.ID, "query.sourceId"},
			{"/api/v1/milestones?projectId=", project.ID, "query.projectId"},
			{"/api/v1/workspaces/", string(w.Workspace), "path.workspaceId"},
		} {
			var list struct{ Items []any }
			got := w.must(t, 200, http.MethodGet, c.path+strings.ToUpper(c.id), "", &list)
			if strings.HasPrefix(c.at, "query") && len(list.Items) != 1 {
				t.Errorf("%s%s lists %s", c.path, strings.ToUpper(c.id), got.body)
			}
			for _, id := range []string{strings.ReplaceAll(c.id, "-", ""), "urn:uuid:" + c.id, "%7B" + c.id + "%7D"} {
				if p := w.refused(t, 422, "invalid", http.MethodGet, c.path+id, ""); !p.at(c.at) || len(p.Errors) != 1 {
					t.Errorf("%s%s: %+v", c.path, id, p.Errors)
				}
			}
		}
		for _, id := range []string{strings.ReplaceAll(project.ID, "-", ""), "urn:uuid:" + project.ID} {
			if p := w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/milestones", `{"name":"next","projectId":"`+id+`"}`); !p.at("body.projectId") {
				t.Errorf("%s: %+v", id, p.Errors)
			}
		}
	})
}

// TestAnIDInABodyIsWrittenInOneWay as in a path: in capital letters it is the same, and in no other form is it one.
func TestAnIDInABodyIsWrittenInOneWay(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		g := newGate(t, e)
		var first, project struct{ ID string }
		g.must(t, 201, http.MethodPost, agentTasks, `{"title":"first"}`, &first)
		g.must(t, 201, http.MethodPost, "/api/v1/projects", `{"name":"shop"}`, &project)
		dependencies, beat := "/"+first.ID+"/dependencies", "/"+working+"/heartbeat"
		for _, c := range []struct{ method, path, body, at string }{
			{http.MethodPost, agentTasks, `{"title":"next","dependsOn":["ID"]}`, "body.dependsOn[0]"},
			{http.MethodPost, agentTasks, `{"title":"next","blocks":["` + first.ID + `","ID"]}`, "body.blocks[1]"},
			{http.MethodPost, agentTasks, `{"title":"next","projectId":"ID"}`, "body.projectId"},
			{http.MethodPost, agentTasks, `{"title":"next","milestoneId":"ID"}`, "body.milestoneId"},
			{http.MethodPost, agentTasks, `{"title":"next","threadId":"ID"}`, "body.threadId"},
			{http.MethodPut, agentTasks + dependencies, `{"dependsOn":["ID"]}`, "body.dependsOn[0]"},
			{http.MethodPost, agentTasks + "/bulk",
				`{"filter":{"status":"PAUSED","projectId":"ID"},"action":"cancel","expectedCount":0}`, "body.filter.projectId"},
			{http.MethodPost, "/api/v1/outbox/bulk",
				`{"filter":{"status":"failed","threadId":"ID"},"action":"resend","expectedCount":0}`, "body.filter.threadId"},
			{http.MethodPost, "/api/v1/deliveries/bulk", `{"filter":{"status":"failed","sourceId":"ID"},"action":"redeliver","expectedCount":0}`,
				"body.filter.sourceId"},
			{http.MethodPost, "/api/v1/coordinator/commands", `{"command":"reassign_task","taskId":"ID"}`, "body.taskId"},
			{http.MethodPost, "/api/v1/coordinator/commands", `{"command":"drain_agent","agentId":"ID"}`, "body.agentId"},
			{http.MethodPost, "/api/v1/coordinator/recover", `{"workspaceId":"ID"}`, "body.workspaceId"},
			{http.MethodPost, "/api/v1/budgets/reallocate", `{"from":"ID","to":"` + project.ID + `","amount":1}`, "body.from"},
			{http.MethodPost, "/api/v1/milestones", `{"name":"next","projectId":"ID"}`, "body.projectId"},
		} {
			for _, id := range []string{strings.ReplaceAll(project.ID, "-", ""), "urn:uuid:" + project.ID, "{" + project.ID + "}", ""} {
				if p := g.refused(t, 422, "invalid", c.method, c.path, strings.ReplaceAll(c.body, "ID", id)); !p.at(c.at) || len(p.Errors) != 1 {
					t.Errorf("%s %s with %q: %+v", c.method, c.path, id, p.Errors)
				}
			}
		}
		token := minted(t, g.agents, g.Workspace, working, 2)
		for _, c := range []struct{ path, body, at string }{
			{beat, `{"status":"WORKING","currentTaskId":"ID","attempt":1}`, "body.currentTaskId"},
			{"/" + working + "/claim", `{"attempts":[{"taskId":"ID","attempt":1}]}`, "body.attempts[0].taskId"},
		} {
			for _, id := range []string{strings.ReplaceAll(first.ID, "-", ""), "urn:uuid:" + first.ID} {
				var p problem
				g.asked(t, 422, http.MethodPost, agentsPath+c.path, token, strings.ReplaceAll(c.body, "ID", id), &p)
				if !p.at(c.at) || len(p.Errors) != 1 {
					t.Errorf("%s with %q: %+v", c.path, id, p.Errors)
				}
			}
		}
		var next struct {
			ID, ProjectID string
			DependsOn     []string
		}
		g.must(t, 201, http.MethodPost, agentTasks, `{"title":"next","projectId":"`+strings.ToUpper(project.ID)+`"}`, &next)
		capitals := `{"dependsOn":["` + strings.ToUpper(first.ID) + `","` + first.ID + `"]}`
		g.must(t, 200, http.MethodPut, agentTasks+"/"+next.ID+"/dependencies", capitals, &next)
		if next.ProjectID != project.ID || !slices.Equal(next.DependsOn, []string{first.ID}) {
			t.Errorf("the task is %+v", next)
		}
	})
}
