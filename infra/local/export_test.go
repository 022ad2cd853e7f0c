package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestExport prints all pages of all listings as one object, without the values of secrets.
func TestExport(t *testing.T) {
	h := newHome(t, "DEMO=0")
	h.must(exitDone, "migrate")
	h.feed("CANARY-of-a-secret", "secrets", "set", "shop-token")
	for range 3 {
		h.must(exitDone, "ask", "Please remember that the shop is red")
	}
	core, ask, err := (&console{environ: h.environ}).operate(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 205 { // more than a page
		var made struct{ ID string }
		if _, err := ask.ask(t.Context(), "POST", "/api/v1/projects", map[string]string{"name": fmt.Sprint("p", i)}, &made); err != nil {
			t.Fatal(err)
		}
	}
	for path, body := range map[string]any{
		"projects": map[string]string{"name": "archived"},
		"memories": map[string]string{"category": "fact", "content": "the sale is on", "expiresAt": "2999-01-01T00:00:00Z"},
	} {
		var made struct{ ID string }
		if _, err := ask.ask(t.Context(), "POST", "/api/v1/"+path, body, &made); err != nil {
			t.Fatal(err)
		}
		if path == "projects" {
			if _, err := ask.ask(t.Context(), "PATCH", "/api/v1/projects/"+made.ID, map[string]bool{"archived": true}, &made); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := core.DB.Close(); err != nil {
		t.Fatal(err)
	}
	goal := decode[struct{ ID string }](t, h.must(exitDone, "objectives", "create", "Sell ice", "--json").out)
	h.must(exitDone, "objectives", "steps", goal.ID, `{"steps": [{"title": "Buy milk"}]}`)
	task := decode[struct{ ID string }](t, h.must(exitDone, "tasks", "create",
		`{"title": "Count", "inputContext": {"shelf": "the upper one"}}`, "--json").out)
	h.must(exitDone, "executions", "create", `{"agent": "baker", "input": {"dough": "of rye"}}`)
	h.must(exitDone, "personas", "put", "flowpilot", `{"instructions": "Be brief."}`)
	got := h.must(exitDone, "export").out
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(got), &all); err != nil {
		t.Fatalf("%v in %.500s", err, got)
	}
	var messages []struct{ ThreadID, Role, Body string }
	var threads, projects []struct{ ID string }
	for field, into := range map[string]any{"messages": &messages, "threads": &threads, "projects": &projects} {
		if err := json.Unmarshal(all[field], into); err != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
	if len(projects) != 206 || len(threads) != 3 || len(messages) != 6 {
		t.Errorf("%d projects, %d threads, %d messages", len(projects), len(threads), len(messages))
	}
	for _, m := range messages {
		if !slices.ContainsFunc(threads, func(of struct{ ID string }) bool { return of.ID == m.ThreadID }) || m.Role == "" || m.Body == "" {
			t.Errorf("a message of no thread: %+v", m)
		}
	}
	for _, x := range exported {
		if !strings.HasPrefix(string(all[x.field]), "[") {
			t.Errorf("%s is %.80s", x.field, all[x.field])
		}
	}
	says(t, string(all["steps"]), `"objectiveId":"`+goal.ID+`"`, "Buy milk")
	says(t, string(all["taskLogs"]), `"taskId":"`+task.ID+`"`, `"created"`)
	says(t, string(all["personaVersions"]), `"persona":"flowpilot"`, "Be brief.", `"version":0`)
	says(t, string(all["audit"]), "persona.put")
	says(t, string(all["tasks"]), "the upper one")
	says(t, string(all["executions"]), "of rye")
	says(t, string(all["traces"]), `"steps":[{`, "Please remember that the shop is red")
	says(t, string(all["usage"]), `"calls":`, "demo")
	says(t, got, `"exportedAt"`, `"slug":"default"`, "shop-token", `"name":"archived"`, "the sale is on")
	if strings.Contains(got, "CANARY") {
		t.Error("the export tells a secret")
	}
	h.must(exitUsage, "export", "shop.json")
}
