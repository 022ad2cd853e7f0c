package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

const document = "openapi.json"

// contract is the OpenAPI document. The tests check every response against it.
type contract struct {
	doc      map[string]any
	mux      *http.ServeMux // finds the route of a request
	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

// described is the contract of all worlds: the document and the compiled schemas do not depend on
// what a world consists of, and take a tenth of a second each time.
var described struct {
	sync.Mutex
	*contract
}

func contractOf(t testing.TB, h http.Handler) *contract {
	t.Helper()
	described.Lock()
	defer described.Unlock()
	if described.contract == nil {
		described.contract = newContract(t, h)
	}
	return described.contract
}

func newContract(t testing.TB, h http.Handler) *contract {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	parsed, err := jsonschema.UnmarshalJSON(rec.Body)
	if err != nil {
		t.Fatalf("the OpenAPI document: %v", err)
	}
	c := &contract{doc: parsed.(map[string]any), mux: http.NewServeMux(), compiler: jsonschema.NewCompiler()}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(document, parsed); err != nil {
		t.Fatal(err)
	}
	for _, r := range api.Routes() {
		c.mux.Handle(r.Method+" "+r.Path, http.NotFoundHandler())
	}
	return c
}

// at returns the value at a path in the document.
func (c *contract) at(keys ...string) any {
	var v any = c.doc
	for _, key := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// schema compiles the schema at a path in the document.
func (c *contract) schema(keys ...string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pointer strings.Builder
	for _, key := range keys {
		pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return c.compiler.Compile(document + "#" + pointer.String())
}

// check checks a response against the document and against the rules for all responses.
func (c *contract) check(t testing.TB, r *http.Request, got result) {
	t.Helper()
	at := fmt.Sprintf("%s %s answers %d", r.Method, r.URL, got.status)
	if _, _, err := trace.Parse(got.header.Get("X-Trace-Id")); err != nil {
		t.Errorf("%s: X-Trace-Id: %v", at, err)
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
		"Cross-Origin-Resource-Policy": "same-origin", "Strict-Transport-Security": "max-age=31536000",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s: %s is %q", at, name, got.header.Get(name))
		}
	}
	if policy := got.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("%s: Content-Security-Policy is %q", at, policy)
	}
	schema := []string{"components", "schemas", "Problem"}
	media := "application/problem+json"
	if _, pattern := c.mux.Handler(r); pattern != "" && path.Clean(r.URL.EscapedPath()) == r.URL.EscapedPath() {
		response := []string{"paths", pattern[strings.Index(pattern, "/"):], strings.ToLower(strings.Fields(pattern)[0]), "responses", strconv.Itoa(got.status)}
		described, ok := c.at(response...).(map[string]any)
		if !ok {
			t.Errorf("%s, which is not in the OpenAPI document: %s", at, got.body)
			return
		}
		content, ok := described["content"].(map[string]any)
		if !ok {
			return // a file
		}
		for media = range content { // finds the media type of the response
			schema = append(response, "content", media, "schema")
			if media == got.header.Get("Content-Type") {
				break
			}
		}
		if media == "text/event-stream" {
			return
		}
	}
	if got.header.Get("Content-Type") != media {
		t.Errorf("%s as %q, want %q", at, got.header.Get("Content-Type"), media)
	}
	if r.Method == http.MethodHead || strings.HasPrefix(media, "text/plain") {
		return
	}
	compiled, err := c.schema(schema...)
	if err != nil {
		t.Errorf("%s: %v", at, err)
		return
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(got.body))
	if err != nil {
		t.Errorf("%s: %v in %s", at, err, got.body)
		return
	}
	if err := compiled.Validate(body); err != nil {
		t.Errorf("%s: %v in %s", at, err, got.body)
	}
	for _, name := range snakes(body) {
		t.Errorf("%s with the name %s, which is in snake case: %s", at, name, got.body)
	}
}

// snakes returns the names in snake case inside a value, except names that a client chose.
func snakes(v any) (found []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			found = append(found, snakes(e)...)
		}
	case map[string]any:
		for name, value := range v {
			if strings.Contains(name, "_") {
				found = append(found, name)
			}
			if !slices.Contains([]string{"input", "editedInput", "inputs", "output", "result", "metadata", "config", "parameters", "inputContext", "outputResult", "checkpointData", "details"}, name) {
				found = append(found, snakes(value)...)
			}
		}
	}
	return found
}

func TestOpenAPIDescribesEveryRoute(t *testing.T) {
	w := onOne(t)
	c := w.contract
	if c.at("openapi") != "3.1.0" || c.at("info", "title") != "Lanekeeper" || c.at("info", "version") != "test" {
		t.Errorf("the document begins %v, %v", c.at("openapi"), c.at("info"))
	}
	ids := map[string]bool{}
	for _, r := range api.Routes() {
		at := []string{"paths", r.Path, strings.ToLower(r.Method)}
		if c.at(append(at, "operationId")...) != r.ID || ids[r.ID] {
			t.Errorf("%s %s: operation id %v", r.Method, r.Path, c.at(append(at, "operationId")...))
		}
		ids[r.ID] = true
		if r.Caller == "" || r.Summary == "" {
			t.Errorf("%s %s: the table does not say who calls it, and what for", r.Method, r.Path)
		}
		declared := map[string]bool{}
		parameters, _ := c.at(append(at, "parameters")...).([]any)
		for _, p := range parameters {
			p := p.(map[string]any)
			declared[p["name"].(string)] = p["in"] == "path" && p["required"] == true || p["name"] == "X-Workspace-Id" && p["in"] == "header"
		}
		if declared["X-Workspace-Id"] != (r.Least != "") {
			t.Errorf("%s %s: X-Workspace-Id is declared: %v", r.Method, r.Path, declared["X-Workspace-Id"])
		}
		for _, part := range strings.Split(r.Path, "/") {
			if name := strings.Trim(part, "{}"); name != part && !declared[name] {
				t.Errorf("%s %s: %s is not declared", r.Method, r.Path, name)
			}
		}
		secured, _ := c.at(append(at, "security")...).([]any)
		ways := map[string]bool{}
		for _, way := range secured {
			for name := range way.(map[string]any) {
				ways[name] = c.at("components", "securitySchemes", name) != nil
			}
		}
		if ways["bearer"] != (r.Least != "") || ways["session"] != (r.Least != "" && !r.Front) {
			t.Errorf("%s %s: security %v", r.Method, r.Path, secured)
		}
	}
	says := []string{"header X-Session-Id", "header X-Multitask", "header Idempotency-Key"}
	taken := map[string][]string{
		"POST /v1/chat/completions":           append(says, "header X-Thread-Id"),
		"POST /v1/responses":                  append(says, "header X-Thread-Id"),
		"POST /api/v1/chat/messages":          append(says, "header X-Thread-Id"),
		"POST /api/v1/chat/{thread}/messages": append(says, "path thread"),
		"GET /api/v1/chat/{thread}/messages":  {"path thread", "header X-Session-Id", "query user", "query cursor", "query limit"},
		"GET /api/v1/chat/{thread}/executions/{execution}/events": {
			"path thread", "path execution", "header X-Session-Id", "query user", "query after", "header Last-Event-ID"},
		"GET /v1/responses/{response}": {"path response", "query stream", "query starting_after", "header Last-Event-ID", "query user"},
	}
	answered := map[string][]string{
		"GET /v1/responses/{response}":        {"application/json", "text/event-stream"},
		"POST /webhooks/{workspace}/{source}": {"text/plain; charset=utf-8"},
	}
	paths := 0
	for _, item := range c.at("paths").(map[string]any) {
		paths += len(item.(map[string]any))
	}
	for _, d := range api.Doors() { // of chat and webhook
		method, path, _ := strings.Cut(d, " ")
		at := []string{"paths", path, strings.ToLower(method)}
		if c.at(append(at, "operationId")...) == nil || c.at(append(at, "responses", "200")...) == nil || c.at(append(at, "responses", "429")...) == nil {
			t.Errorf("%s is not described", d)
		}
		if (c.at(append(at, "requestBody")...) != nil) != (method == http.MethodPost) {
			t.Errorf("%s: its body is not described", d)
		}
		described := map[string]bool{}
		list, _ := c.at(append(at, "parameters")...).([]any)
		for _, p := range list {
			described[p.(map[string]any)["in"].(string)+" "+p.(map[string]any)["name"].(string)] = true
		}
		for _, name := range taken[d] {
			if !described[name] {
				t.Errorf("%s: %s is not described", d, name)
			}
		}
		media, _ := c.at(append(at, "responses", "200", "content")...).(map[string]any)
		for _, also := range answered[d] {
			if media[also] == nil {
				t.Errorf("%s: its answer as %s is not described", d, also)
			}
		}
	}
	if paths != len(api.Routes())+len(api.Doors()) {
		t.Errorf("%d operations for %d routes and %d of others", paths, len(api.Routes()), len(api.Doors()))
	}
	for name := range c.at("components", "schemas").(map[string]any) {
		if _, err := c.schema("components", "schemas", name); err != nil {
			t.Errorf("schema %s: %v", name, err)
		}
	}
	for _, r := range api.Routes() { // each body is described and allows no further fields
		body, ok := c.at("paths", r.Path, strings.ToLower(r.Method), "requestBody", "content", "application/json", "schema").(map[string]any)
		if r.Method != http.MethodPost {
			continue
		}
		if !ok {
			t.Errorf("%s %s: no body is described", r.Method, r.Path)
			continue
		}
		ref, _ := body["$ref"].(string)
		if c.at("components", "schemas", strings.TrimPrefix(ref, "#/components/schemas/"), "additionalProperties") != false {
			t.Errorf("%s %s: unknown fields are let through", r.Method, r.Path)
		}
	}
}

// TestClosedSetsAreInTheDocument: the document lists the events of automations, and says that the
// values of a thread's metadata are strings.
func TestClosedSetsAreInTheDocument(t *testing.T) {
	c := onOne(t).contract
	schemas, _ := c.at("components", "schemas").(map[string]any)
	found := 0
	for name := range schemas {
		kinds, ok := c.at("components", "schemas", name, "properties", "event", "enum").([]any)
		if !ok || c.at("components", "schemas", name, "properties", "previousStatus") != nil { // of a task's log
			continue
		}
		found++
		var listed []string
		for _, k := range kinds {
			listed = append(listed, k.(string))
		}
		if !slices.Equal(listed, automation.Events()) {
			t.Errorf("%s: the document lists the events %q", name, listed)
		}
	}
	if found != 4 { // a schedule in requests and in responses, and its short form in two bodies
		t.Errorf("%d schemas list the events", found)
	}
	metadata := 0
	for name := range schemas {
		of, ok := c.at("components", "schemas", name, "properties", "metadata").(map[string]any)
		if !ok {
			continue
		}
		if c.at("components", "schemas", name, "properties", "taskType") != nil {
			continue // a task's metadata may be anything
		}
		metadata++
		values, _ := of["additionalProperties"].(map[string]any)
		said, _ := of["description"].(string)
		if values["type"] != "string" && !strings.Contains(said, "texts") {
			t.Errorf("%s: the document says %v of a thread's metadata", name, of)
		}
	}
	if metadata != 2 {
		t.Errorf("%d schemas have metadata", metadata)
	}
}

func TestTheDocumentDoesNotDependOnTheRequest(t *testing.T) {
	w := onOne(t)
	first := w.call(t, http.MethodGet, "/openapi.json", "", "")
	r := request(http.MethodGet, "/openapi.json", "", "")
	r.Host = "evil.example"
	second := w.send(t, r)
	if !bytes.Equal(first.body, second.body) || bytes.Contains(first.body, []byte("$schema")) {
		t.Error("the document follows the Host header")
	}
	if yaml := w.call(t, http.MethodGet, "/openapi.yaml", "", ""); yaml.status != 200 || !bytes.Contains(yaml.body, []byte("openapi: 3.1.0")) {
		t.Errorf("YAML: %d %.80s", yaml.status, yaml.body)
	}
	r = request(http.MethodGet, "/openapi.json", "", "")
	r.Header.Set("If-None-Match", first.header.Get("ETag"))
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	if rec.Code != http.StatusNotModified {
		t.Errorf("with its ETag: %d", rec.Code)
	}
}

// TestWhatIsCreatedHasAnETag where a change can name it.
func TestWhatIsCreatedHasAnETag(t *testing.T) {
	c := onOne(t).contract
	paths, _ := c.at("paths").(map[string]any)
	checked := 0
	for one := range paths {
		dir, id := path.Split(one)
		if !strings.HasPrefix(id, "{") {
			continue
		}
		dir = strings.TrimSuffix(dir, "/")
		if c.at("paths", one, "patch", "responses", "412") == nil || c.at("paths", dir, "post", "responses", "201") == nil {
			continue
		}
		if checked++; c.at("paths", dir, "post", "responses", "201", "headers", "ETag") == nil {
			t.Errorf("POST %s answers no ETag", dir)
		}
	}
	if checked < 8 {
		t.Errorf("%d were checked", checked)
	}
}
