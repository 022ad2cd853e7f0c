package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestNamesOnTheWireAreCamelCase asks every reading route and tool of a runner whose agent
// has worked, and runs every built-in skill: no name of JSON in an answer is in snake case.
func TestNamesOnTheWireAreCamelCase(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testWire(t, newHome(t)) })
	t.Run("postgres", func(t *testing.T) {
		testWire(t, newHome(t, "STATE_BACKEND=postgres", "DATABASE_URL="+dbtest.NewDatabase(t), "DEMO=1"))
	})
}

func testWire(t *testing.T, h home) {
	d := h.dev()
	at, token, _ := d.started()
	w := &wireCheck{t: t, url: at, token: token, seen: map[string]bool{}, known: map[string][]string{}}
	w.work()
	w.document()
	w.routes()
	w.tools()
	for _, audit := range w.audits {
		if !auditName.MatchString(audit) {
			t.Errorf("%s in the log is not a thing in the singular, a dot and a verb", audit)
		}
	}
	if len(w.audits) < 20 {
		t.Errorf("the log tells only of %q", w.audits)
	}
	if code := d.end(); code != exitDone {
		t.Errorf("exit code %d\n%s", code, d)
	}
}

// auditName is the form of the names of what people do, in the log.
var auditName = regexp.MustCompile(`^[a-z]+(_[a-z]+)*[^s_]\.[a-z]+(_[a-z]+)*$`)

// wireCheck is a runner whose answers are looked through.
type wireCheck struct {
	t          *testing.T
	url, token string
	seen       map[string]bool     // names that were complained of
	known      map[string][]string // ids by the path of their listing
	audits     []string
}

// does sends a request, looks through the answer, and takes one field out of it.
func (w *wireCheck) does(method, path, body, field string) string {
	w.t.Helper()
	status, text := call(w.t, method, w.url+path, w.token, body)
	if status >= 400 {
		w.t.Fatalf("%s %s %s: %d %s", method, path, body, status, text)
	}
	var answer any
	if json.Unmarshal([]byte(text), &answer) == nil {
		w.walk(method+" "+path, answer)
	}
	values, _ := answer.(map[string]any)
	value, _ := values[field].(string)
	return value
}

// walk complains of names in snake case, and notes what people did.
func (w *wireCheck) walk(where string, v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			w.walk(where, e)
		}
	case map[string]any:
		if name, _ := v["skillName"].(string); strings.Contains(name, ".") && !slices.Contains(w.audits, name) {
			w.audits = append(w.audits, name)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if strings.Contains(name, "_") && !w.seen[name] {
				w.seen[name] = true
				w.t.Errorf("%s: the name %s is in snake case", where, name)
			}
			w.walk(where+" "+name, v[name])
		}
	}
}

// work has the agent, people and every built-in skill do something.
func (w *wireCheck) work() {
	for range 3 {
		w.does("POST", "/api/v1/heartbeat/run", `{"wait": true}`, "")
	}
	execution := w.does("POST", "/api/v1/operate", `{"message": "Please remember that the door is blue"}`, "executionId")
	objective := w.does("POST", "/api/v1/objectives", `{"title": "Paint the door"}`, "id")
	thread := w.does("POST", "/api/v1/threads", `{"channel": "log", "address": "ada"}`, "id")
	run := func(skill, input string) {
		w.does("POST", "/api/v1/skills/"+skill+"/run", `{"input": `+input+`}`, "")
	}
	run("set_objective", `{"title": "Sell ice", "doneCriterion": "It is sold."}`)
	run("plan_objective", `{"objectiveId": "`+objective+`", "steps": [{"title": "Buy paint", "doneCriterion": "It is here."}]}`)
	run("advance_plan", `{"objectiveId": "`+objective+`", "step": 1, "result": "Bought."}`)
	run("complete_objective", `{"objectiveId": "`+objective+`", "summary": "Done."}`)
	run("save_memory", `{"category": "fact", "content": "The wall is white."}`)
	run("search_memory", `{"q": "wall"}`)
	run("search_memory", `{"words": "wall"}`) // as it is in older automations
	run("list_skills", `{"q": "memory", "parameters": true}`)
	run("query_activity", `{"hours": 24}`)
	run("send_message", `{"threadId": "`+thread+`", "body": "Hello."}`)
	project := w.does("POST", "/api/v1/projects", `{"name": "The new shop"}`, "id")
	w.does("POST", "/api/v1/milestones", `{"projectId": "`+project+`", "name": "It opens"}`, "id")
	run("create_task", `{"title": "Compare suppliers", "inputContext": {"shop": "ice"}}`)
	task := w.does("POST", "/api/v1/agent-tasks", `{"title": "Sort the mail", "inputContext": {"shop": "ice"},
		"metadata": {"requiredCapabilities": ["nobody's"]}}`, "id") // else it may be done before it is cancelled
	run("get_task", `{"taskId": "`+task+`"}`)
	w.does("POST", "/api/v1/agent-tasks/"+task+"/cancel", `{"reason": "r"}`, "id")
	const agent = "0198a2b4-0000-7000-8000-00000000000a"
	w.does("PUT", "/api/v1/agents/"+agent, `{"name": "scout", "model": "m"}`, "id")
	token := w.does("POST", "/api/v1/agents/"+agent+"/token", `{}`, "token")
	beat := `{"currentTaskId": "` + task + `", "progressPercent": 5, "memoryMb": 3, "cpuPercent": 7}`
	if status, text := call(w.t, "POST", w.url+"/api/v1/agents/"+agent+"/heartbeat", token, beat); status != 200 || !strings.Contains(text, `"cancel"`) {
		w.t.Errorf("a heartbeat with the agent's token: %d %s", status, text)
	}
	w.does("POST", "/api/v1/agents/"+agent+"/terminate", `{"reason": "r"}`, "id")
	run("create_automation", `{"name": "weekly", "skill": "search_memory", "cron": "0 9 * * 1", "timeZone": "Europe/Berlin"}`)
	w.does("POST", "/api/v1/webhook-sources", `{"name": "wire", "kind": "token", "secret": "known-to-the-sender"}`, "id")
	if status, text := call(w.t, "POST", w.url+"/webhooks/default/wire", "known-to-the-sender", `{"a": 1}`); status != 202 {
		w.t.Fatalf("a webhook: %d %s", status, text)
	}
	endpoint := w.does("POST", "/api/v1/webhook-endpoints", `{"url": "https://hooks.invalid/x", "events": ["*"]}`, "id")
	w.does("POST", "/api/v1/webhook-endpoints/"+endpoint+"/test", `{}`, "id")
	w.does("POST", "/api/v1/webhook-endpoints/"+endpoint+"/rotate-secret", `{}`, "secret")
	memory := w.does("POST", "/api/v1/memories", `{"category": "fact", "content": "It rains."}`, "id")
	run("forget_memory", `{"memoryId": "`+memory+`"}`)

	for _, step := range []struct{ method, path, body string }{
		{"PATCH", "objectives/" + w.does("POST", "/api/v1/objectives", `{"title": "Rest"}`, "id"), `{"priority": 3}`},
		{"POST", "executions/" + w.does("POST", "/api/v1/executions", `{"agent": "collector"}`, "id") + "/complete", `{}`},
		{"POST", "automations/" + w.does("POST", "/api/v1/automations", `{"name": "n", "skill": "query_activity", "schedule": {"cron": "@daily"}}`, "id") + "/disable", `{"reason": "r"}`},
		{"POST", "kill-switches/" + w.does("POST", "/api/v1/kill-switches", `{"scope": "agent", "target": "nobody", "reason": "r"}`, "id") + "/release", `{}`},
		{"DELETE", "api-keys/" + w.does("POST", "/api/v1/api-keys", `{"name": "ci", "role": "MEMBER", "scopes": ["*:read"]}`, "id"), ""},
		{"PATCH", "site-keys/" + w.does("POST", "/api/v1/site-keys", `{"name": "shop", "origins": ["https://shop.example"]}`, "id"), `{"name": "the shop"}`},
		{"PATCH", "members/" + w.does("POST", "/api/v1/members", `{"email": "a@b.example", "role": "MEMBER"}`, "userId"), `{"role": "ADMIN"}`},
		{"PATCH", "budgets/" + w.does("POST", "/api/v1/budgets", `{"scope": "global", "allocated": 5, "periodStart": "2030-01-01T00:00:00Z", "periodEnd": "2030-02-01T00:00:00Z"}`, "id"), `{"allocated": 6}`},
		{"POST", "secrets", `{"name": "s", "value": "something secret"}`},
		{"POST", "skills", `{"name": "asked", "kind": "http", "description": "d", "config": {"url": "https://a.example/"}}`},
		{"POST", "skills/asked/disable", `{"reason": "r"}`},
		{"PATCH", "skills/save_memory", `{"requiresApproval": true}`},
		{"POST", "operate", `{"message": "Please remember that the roof is red"}`},
		{"POST", "lanes/mine/acquire", `{"holder": "me", "ttlSeconds": 600}`},
		{"GET", "lanes/mine/why", ""},
		{"POST", "lanes/mine/force-release", `{"reason": "r"}`},
		{"POST", "lanes/mine/acquire", `{"holder": "me", "ttlSeconds": 600}`},
		{"POST", "threads/" + thread + "/lock", `{"executionId": "` + w.does("POST", "/api/v1/executions", `{"agent": "reminder"}`, "id") + `"}`},
		{"POST", "threads/" + thread + "/force-unlock", `{"reason": "r"}`},
		{"POST", "chat/" + w.visited() + "/messages", `{"message": "Once more", "user": "a visitor"}`},
		{"POST", "traces/" + w.does("GET", "/api/v1/executions/"+execution, "", "traceId") + "/replay", `{"system": "Be terse."}`},
		{"POST", "traces/" + w.does("GET", "/api/v1/executions/"+execution, "", "traceId") + "/fork", `{"step": 1, "executionId": "` + execution + `"}`},
		{"POST", "operate", `{"message": "Once more", "threadId": "` + w.does("POST", "/api/v1/operate", `{"message": "Hello"}`, "threadId") + `", "multitask": "rollback"}`},
	} {
		w.does(step.method, "/api/v1/"+step.path, step.body, "")
	}
}

// visited returns the conversation of a visitor, and notes it.
func (w *wireCheck) visited() string {
	id := w.does("POST", "/api/v1/chat/messages", `{"message": "Hello", "user": "a visitor"}`, "threadId")
	w.known["/api/v1/chat"] = append(w.known["/api/v1/chat"], id)
	return id
}

// document looks through the names that the OpenAPI document declares.
func (w *wireCheck) document() {
	_, text := call(w.t, "GET", w.url+"/openapi.json", w.token, "")
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		w.t.Fatal(err)
	}
	for name, s := range doc.Components.Schemas {
		w.walk("schema "+name, s.Properties)
	}
	for path, methods := range doc.Paths {
		if strings.HasPrefix(path, "/v1/") { // its names are OpenAI's
			continue
		}
		for method, op := range methods {
			for _, p := range op.Parameters {
				w.walk(method+" "+path+" "+p.In, map[string]any{p.Name: nil})
			}
		}
	}
}

// routes asks every reading route that is not a stream, of all that its listing has.
func (w *wireCheck) routes() {
	_, text := call(w.t, "GET", w.url+"/openapi.json", w.token, "")
	var doc struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		w.t.Fatal(err)
	}
	asked := 0
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) { // a listing comes before what is in it
		if doc.Paths[path]["get"] == nil || strings.HasSuffix(path, "/events") {
			continue
		}
		if strings.HasPrefix(path, "/v1/") { // has the names of OpenAI's API
			if status, text := call(w.t, "GET", w.url+strings.ReplaceAll(path, "{model}", "visitor_chat"), w.token, ""); strings.Contains(text, "no such path") {
				w.t.Errorf("GET %s: %d %s", path, status, text)
			}
			continue
		}
		paths := []string{path}
		if before, after, found := strings.Cut(path, "/{"); found {
			_, after, _ = strings.Cut(after, "}")
			paths = paths[:0]
			for _, id := range w.known[before] {
				paths = append(paths, before+"/"+url.PathEscape(id)+after)
			}
		}
		for i, one := range paths {
			if i == 20 {
				break
			}
			switch {
			case strings.HasPrefix(one, "/api/v1/traces/"):
				one += "?include=steps"
			case path == one && strings.HasPrefix(one, "/api/v1/"):
				w.list(one)
				continue
			}
			w.does("GET", one, "", "")
			asked++
		}
		if len(paths) == 0 && path != "/api/v1/circuits/{name}" {
			w.t.Errorf("nothing is there to ask %s of", path)
		}
	}
	if asked < 50 {
		w.t.Errorf("only %d answers were looked through", asked)
	}
}

// list looks through a listing and notes what is in it.
func (w *wireCheck) list(path string) {
	_, text := call(w.t, "GET", w.url+path+"?limit=200", w.token, "")
	if strings.Contains(text, `"status":422`) { // it has no pages
		_, text = call(w.t, "GET", w.url+path, w.token, "")
	}
	var all any
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		w.t.Fatalf("%s: %v in %s", path, err, text)
	}
	w.walk("GET "+path, all)
	listing, _ := all.(map[string]any)
	items, _ := listing["items"].([]any)
	for _, item := range items {
		fields, _ := item.(map[string]any)
		for _, id := range []string{"id", "traceId", "lane", "userId", "name"} {
			if id, ok := fields[id].(string); ok {
				w.known[path] = append(w.known[path], id)
				break
			}
		}
	}
}

// tools looks through the tools of /mcp, and what those say that need no arguments.
func (w *wireCheck) tools() {
	ask := func(method, params string) (result struct {
		Tools []struct {
			Name        string
			InputSchema struct {
				Properties map[string]any
				Required   []string
			}
			Annotations struct{ ReadOnlyHint bool }
		}
		Content []struct{ Text string }
	}) {
		status, text := call(w.t, "POST", w.url+"/mcp", w.token, fmt.Sprintf(`{"jsonrpc": "2.0", "id": 1, "method": %q, "params": %s}`, method, params))
		var answer struct{ Result json.RawMessage }
		if err := json.Unmarshal([]byte(text), &answer); status != 200 || err != nil || json.Unmarshal(answer.Result, &result) != nil {
			w.t.Fatalf("%s: %d %v %s", method, status, err, text)
		}
		return result
	}
	told := 0
	for _, tool := range ask("tools/list", "{}").Tools {
		w.walk("tool "+tool.Name, tool.InputSchema.Properties)
		if !tool.Annotations.ReadOnlyHint || len(tool.InputSchema.Required) > 0 {
			continue
		}
		for _, content := range ask("tools/call", fmt.Sprintf(`{"name": %q, "arguments": {}}`, tool.Name)).Content {
			var answer any
			from := strings.IndexByte(content.Text, '{')
			if from >= 0 && json.Unmarshal([]byte(content.Text[from:]), &answer) == nil {
				w.walk("tool "+tool.Name, answer)
				told++
			}
		}
	}
	if told < 10 {
		w.t.Errorf("only %d tools have answered with JSON", told)
	}
}
