package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

const acquireX = "/api/v1/lanes/x/acquire"

func TestBodies(t *testing.T) {
	w := onOne(t)
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	pad := func(n int) string { return `{"holder":"` + strings.Repeat("x", n-len(`{"holder":""}`)) + `"}` }
	for _, c := range []struct {
		name, body string
		status     int
		code, at   string
	}{
		{"none", "", 422, "invalid", "body"},
		{"empty object", "{}", 422, "invalid", "body"},
		{"array", "[]", 422, "invalid", "body"},
		{"string", `"x"`, 422, "invalid", "body"},
		{"null", "null", 422, "invalid", "body"},
		{"unknown field", `{"holder":"h","nope":1}`, 422, "invalid", "body.nope"},
		{"known field in another case", `{"Holder":"h"}`, 422, "invalid", "body.Holder"},
		{"wrong type", `{"holder":5}`, 422, "invalid", "body.holder"},
		{"null for a needed field", `{"holder":null}`, 422, "invalid", "body.holder"},
		{"too short", `{"holder":""}`, 422, "invalid", "body.holder"},
		{"too long", `{"holder":"` + strings.Repeat("h", 256) + `"}`, 422, "invalid", "body.holder"},
		{"given twice", `{"holder":"a","holder":"b"}`, 422, "invalid", "body.holder"},
		{"given twice with escapes", `{"holder":"a","h\u006flder":"b"}`, 422, "invalid", "body.holder"},
		{"escaped NUL", `{"holder":"a\u0000b"}`, 422, "invalid", "body.holder"},
		{"NUL in a name", `{"ho\u0000lder":"a"}`, 422, "invalid", "body"},
		{"raw NUL", "{\"holder\":\"a\x00b\"}", 422, "invalid", "body"},
		{"invalid UTF-8", "{\"holder\":\"a\xff\"}", 422, "invalid", "body"},
		{"deep", `{"holder":` + deep + `}`, 422, "invalid", "body"},
		{"very deep", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), 400, "malformed", ""},
		{"1,000 names", `{"x":[` + strings.Repeat(`{"x":1},`, 998) + `{"x":1}]}`, 422, "invalid", "body.x"},
		{"1,001 names", `{"x":[` + strings.Repeat(`{"x":1},`, 999) + `{"x":1}]}`, 422, "invalid", "body"},
		{"huge number", `{"holder":"h","ttlSeconds":1e999}`, 422, "invalid", "body.ttlSeconds"},
		{"integer written as a float", `{"holder":"h","ttlSeconds":1e2}`, 422, "invalid", "body.ttlSeconds"},
		{"no JSON", `{"holder":`, 400, "malformed", ""},
		{"two values", `{"holder":"a"}{"holder":"b"}`, 400, "malformed", ""},
		{"byte order mark", "\ufeff{}", 400, "malformed", ""},
		{"comments", `{/**/}`, 400, "malformed", ""},
		{"trailing comma", `{"holder":"a",}`, 400, "malformed", ""},
		{"exactly 1 MiB", pad(api.MaxBody), 422, "invalid", "body.holder"},
		{"a byte more", pad(api.MaxBody + 1), 413, "too_large", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := w.refused(t, c.status, c.code, http.MethodPost, acquireX, c.body)
			if c.at != "" && !p.at(c.at) {
				t.Errorf("%+v does not name %s", p, c.at)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		p := w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/lanes/-x/acquire", `{"holder":"","ttlSeconds":0,"a":1,"b":2}`)
		for _, at := range []string{"path.lane", "body.holder", "body.ttlSeconds", "body.a", "body.b"} {
			if !p.at(at) {
				t.Errorf("%s is not named in %+v", at, p)
			}
		}
	})
}

func TestUnknownLengthOverTheLimit(t *testing.T) {
	w := onOne(t)
	r := request(http.MethodPost, acquireX, owner, "")
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.ContentLength = io.NopCloser(io.LimitReader(zeros{}, 10<<20)), -1
	if got := w.send(t, r); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d", got.status)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestContentTypes(t *testing.T) {
	w := onOne(t)
	for media, ok := range map[string]bool{
		"": true, "application/json": true, "application/json; charset=utf-8": true, "Application/JSON;charset=UTF-8": true,
		"text/plain": false, "application/x-www-form-urlencoded": false, "application/json; charset=latin1": false,
		"application/problem+json": false, "json": false, ";;;": false, "application/json, text/plain": false,
	} {
		r := request(http.MethodPost, "/api/v1/lanes/x/force-release", owner, `{"reason":"test"}`)
		r.Header.Set("Content-Type", media)
		if got := w.send(t, r); (got.status == 200) != ok || !ok && (got.status != http.StatusUnsupportedMediaType ||
			!strings.Contains(string(got.body), "send the header Content-Type: application/json")) {
			t.Errorf("%q: %d", media, got.status)
		}
	}
	r := request(http.MethodPost, acquireX, owner, `{"holder":"h"}`)
	r.Header.Set("Content-Encoding", "gzip")
	if got := w.send(t, r); got.status != http.StatusUnsupportedMediaType {
		t.Errorf("gzip: %d", got.status)
	}
	for _, accept := range []string{"text/html", "json", "application/cbor", "*/*;q=0", "canary"} { // always JSON
		r := request(http.MethodGet, "/api/v1/lanes", owner, "")
		r.Header.Set("Accept", accept)
		if got := w.send(t, r); got.status != 200 {
			t.Errorf("Accept %s: %d", accept, got.status)
		}
	}
}

func TestTraceHeader(t *testing.T) {
	w := onOne(t)
	mine := string(w.Traces.New(trace.Worker))
	for sent, kept := range map[string]bool{mine: true, "": false, "nonsense": false, strings.ToUpper(mine): false, mine + "\n": false} {
		for _, path := range []string{"/health", "/nope", "/api/v1/lanes", "/api/v1/traces/x", "/docs"} {
			r := request(http.MethodGet, path, owner, "")
			r.Header["X-Trace-Id"] = []string{sent}
			got := w.send(t, r)
			id := got.header.Get("X-Trace-Id")
			_, info, err := trace.Parse(id)
			if err != nil || (id == sent) != kept || !kept && info.Surface != trace.Operate {
				t.Errorf("%s with %q answers %q", path, sent, id)
			}
			if got.status >= 400 && !bytes.Contains(got.body, []byte(`"traceId":"`+id+`"`)) {
				t.Errorf("%s: %s does not name the trace", path, got.body)
			}
		}
	}
	r := request(http.MethodGet, "/api/v1/lanes", "", "")
	r.Header.Set("X-Trace-Id", mine)
	if got := w.send(t, r); got.status != 401 || !bytes.Contains(got.body, []byte(mine)) {
		t.Errorf("401: %s", got.body)
	}
}

func TestPanic(t *testing.T) {
	w := onOne(t, func(d *api.Deps) {
		d.Beat = func(context.Context, heartbeat.Tick) (heartbeat.Report, error) { panic("inner secret") }
	})
	got := w.call(t, http.MethodPost, beat, owner, `{"wait":true}`)
	if got.status != 500 || bytes.Contains(got.body, []byte("secret")) {
		t.Errorf("%d %s", got.status, got.body)
	}
	lines := w.logs.lines(t, "a request panicked")
	if len(lines) != 1 || lines[0]["panic"] != "inner secret" || lines[0]["trace_id"] != got.header.Get("X-Trace-Id") ||
		!strings.Contains(fmt.Sprint(lines[0]["stack"]), "TestPanic") {
		t.Errorf("log: %v", lines)
	}
	if lines := w.logs.lines(t, "request"); lines[len(lines)-1]["status"] != 500.0 {
		t.Errorf("log: %v", lines)
	}
}

func TestAnAnswerCutOffIsSeenAsSuch(t *testing.T) {
	w := onOne(t, func(d *api.Deps) {
		d.Beat = func(context.Context, heartbeat.Tick) (heartbeat.Report, error) { panic(http.ErrAbortHandler) }
	})
	defer func() {
		if thrown := recover(); thrown != any(http.ErrAbortHandler) {
			t.Errorf("thrown %v", thrown)
		}
	}()
	w.ServeHTTP(httptest.NewRecorder(), request(http.MethodPost, beat, owner, `{"wait":true}`))
}

func TestRequestLog(t *testing.T) {
	w := onOne(t)
	mine := w.Traces.New(trace.Operate)
	r := request(http.MethodGet, "/api/v1/activity?q=canary-query", owner, "")
	r.Header.Set("X-Trace-Id", string(mine))
	w.send(t, r)
	w.call(t, http.MethodGet, "/canary-path?canary", nobody, "")
	w.call(t, "CANARY", "/api/v1/lanes/canary-lane/why", nobody, "")
	lines := w.logs.lines(t, "request")
	lines = lines[len(lines)-3:]
	for i, want := range []map[string]any{
		{"method": "GET", "route": "/api/v1/activity", "status": 200.0, "trace_id": string(mine)},
		{"method": "GET", "route": "none", "status": 404.0},
		{"method": "other", "route": "/api/v1/lanes/{lane}/why", "status": 405.0},
	} {
		for key, value := range want {
			if lines[i][key] != value {
				t.Errorf("line %d: %s is %v, want %v", i, key, lines[i][key], value)
			}
		}
		if _, ok := lines[i]["duration_ms"].(float64); !ok {
			t.Errorf("line %d has no duration: %v", i, lines[i])
		}
	}
	for _, secret := range []string{"canary", owner, nobody} {
		if strings.Contains(strings.ToLower(w.logs.String()), secret) {
			t.Errorf("%q stands in the log", secret)
		}
	}
}

func TestAVerifierThatIsDown(t *testing.T) {
	w := onOne(t, func(d *api.Deps) {
		d.Auth = auth.New(func(context.Context, string) (auth.Principal, error) {
			return auth.Principal{}, errors.New("keys can't be fetched")
		})
	})
	if got := w.call(t, http.MethodGet, "/api/v1/lanes", owner, ""); got.status != 500 || bytes.Contains(got.body, []byte("keys")) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := w.call(t, http.MethodGet, "/health", owner, ""); got.status != 200 {
		t.Errorf("health: %d", got.status)
	}
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	_, err := api.New(api.Deps{})
	for _, field := range []string{"DB", "Lanes", "Runs", "Activity", "Auth", "Secrets", "Registry", "Operate", "Approvals", "Kick", "Beat", "Background", "Traces", "IDs", "Clock", "Log"} {
		if err == nil || !strings.Contains(err.Error(), field+" is missing") {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "Valkey") {
		t.Error(err)
	}
}

// Headers that are too long are refused with a problem, as other requests are.
func TestLongHeaders(t *testing.T) {
	w := onOne(t)
	for size, want := range map[int]int{60 << 10: 200, 65 << 10: 431} {
		r := request(http.MethodGet, "/api/v1/lanes", owner, "")
		r.Header.Set("Cookie", "a="+strings.Repeat("b", size))
		if got := w.send(t, r); got.status != want || want == 431 && got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%d bytes: %d %s", size, got.status, got.body)
		}
	}
}

// The problem for a missing resource names the resource and the workspace, if the name has a valid
// form and is not a secret.
func TestWhatIsMissingIsNamed(t *testing.T) {
	slug := regexp.MustCompile(`"test-[-0-9a-f]+"`)
	onEach(t, func(t *testing.T, w *world) {
		const id = "8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"
		for path, want := range map[string]string{
			"GET /api/v1/objectives/" + id:                               `objective "` + id + `" is not in workspace "default"`,
			"GET /api/v1/agent-tasks/" + id + "/why":                     `task "` + id + `" is not in workspace "default"`,
			"GET /api/v1/memories/" + id:                                 `memory "` + id + `" is not in workspace "default"`,
			"GET /api/v1/deliveries/" + id:                               `delivery "` + id + `" is not in workspace "default"`,
			"GET /api/v1/skills/nothing":                                 `skill "nothing" is not in workspace "default"`,
			"GET /api/v1/kill-switches/" + id:                            `kill switch "` + id + `" is not in workspace "default"`,
			"POST /api/v1/threads/" + id + "/outbox/" + id + "/resend":   `message "` + id + `" of thread "` + id + `" is not in workspace "default"`,
			"GET /api/v1/secrets/ghp_0123456789abcdefghijABCDEFGHIJ4711": `the secret is not in workspace "default"`,
			"GET /api/v1/nothing":                                        `the API has no such path: /docs lists those that it has`,
		} {
			method, at, _ := strings.Cut(path, " ")
			body := ""
			if method == http.MethodPost {
				body = "{}"
			}
			got := w.refused(t, 404, "not_found", method, at, body)
			if got.Detail = slug.ReplaceAllString(got.Detail, `"default"`); got.Detail != want {
				t.Errorf("%s: %s, want %s", path, got.Detail, want)
			}
		}
		got := w.refused(t, 404, "not_found", http.MethodPost, "/api/v1/failures/execution/"+id+"/dismiss", `{"at":"2026-01-01T00:00:00Z"}`)
		if got.Detail = slug.ReplaceAllString(got.Detail, `"default"`); got.Detail != `failure "`+id+`" is not in workspace "default"` {
			t.Errorf("a failure, whose kind the path names, too: %s", got.Detail)
		}
		for path, body := range map[string]string{
			"GET /api/v1/coordinator/logs?workspace=" + id: "", "POST /api/v1/coordinator/recover": `{"workspaceId":"` + id + `"}`,
		} {
			method, at, _ := strings.Cut(path, " ")
			if got := w.refused(t, 404, "not_found", method, at, body); got.Detail != "you belong to no workspace of this id" {
				t.Errorf("%s: %s", path, got.Detail)
			}
		}
		if got := w.refused(t, 404, "not_found", http.MethodPost, operatePath, `{"message":"x","threadId":"`+id+`"}`); !strings.Contains(got.Detail, "threadId") {
			t.Errorf("a thread of a body: %s", got.Detail)
		}
		var thread struct{ ID string }
		w.must(t, 201, http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"x"}`, &thread)
		speaker := `{"executionId":"` + id + `"}`
		for path, body := range map[string]string{
			"/lock": speaker, "/unlock": speaker, "/park": speaker, "/send": `{"executionId":"` + id + `","body":"x"}`,
		} {
			got := w.refused(t, 404, "not_found", http.MethodPost, "/api/v1/threads/"+thread.ID+path, body)
			if got.Detail != "the execution that executionId names is not in this workspace" {
				t.Errorf("%s: %s", path, got.Detail)
			}
		}
		got = w.refused(t, 404, "not_found", http.MethodPost, "/api/v1/executions", `{"agent":"x","parentExecutionId":"`+id+`"}`)
		if got.Detail != "the execution that parentExecutionId names is not in this workspace" {
			t.Errorf("a parent: %s", got.Detail)
		}
		before := w.Deps.DB.Stats()
		w.refused(t, 404, "not_found", http.MethodGet, "/api/v1/memories/"+id, "")
		if cost := w.Deps.DB.Stats().Sub(before); cost.Statements != 1 {
			t.Errorf("to name what is not there costs %+v, want the look for it alone", cost)
		}
	})
}

// TestNothingRefusedIsRepeated puts canaries into every part of every route's requests. Parts that all routes
// read in the same way get one canary for each route, each route the next one.
func TestNothingRefusedIsRepeated(t *testing.T) {
	w := onOne(t)
	canaries := []string{
		"CANARY", "CANARY <b>", "CANARY\x00", "CANARY\xff", "CANARY: x", "urn:uuid:CANARY", "12CANARY", "2026-CANARY", "{CANARY}", "1e999CANARY", "CANARY%zz",
	}
	absent := regexp.MustCompile(`[a-z]+ \\"(12|2026-|1e999|urn:uuid:)?CANARY\\" (of|is not in)`)
	at := 0
	next := func() string { at++; return canaries[at%len(canaries)] }
	refuses := func(r *http.Request) {
		t.Helper()
		got := w.send(t, r)
		if got.status < 400 {
			return // an accepted value may be repeated
		}
		all := fmt.Sprint(got.header) + string(got.body)
		if got.status == http.StatusNotFound { // it names the missing resource
			all = absent.ReplaceAllString(all, "")
		}
		if strings.Contains(strings.ToUpper(all), "CANARY") {
			t.Errorf("%s %s is repeated in %d: %s", r.Method, r.URL, got.status, all)
		}
	}
	for _, route := range api.Routes() {
		ask := right[route.ID]
		w.send(t, request(route.Method, ask.path, owner, ask.body)) // later ones would meet what they have made themselves
		for _, canary := range canaries {
			escaped := url.PathEscape(canary)
			for _, wildcard := range []string{"{lane}", "{traceId}", "{name}", "{id}"} {
				if strings.Contains(route.Path, wildcard) {
					refuses(request(route.Method, strings.ReplaceAll(route.Path, wildcard, escaped), owner, ask.body))
				}
			}
			for _, name := range w.contract.parameters(route) {
				refuses(request(route.Method, ask.path+"?"+name+"="+url.QueryEscape(canary), owner, ask.body))
			}
			for _, name := range append(w.contract.fields(route), "unknown") { // of the body
				for _, value := range []string{`%s`, `[%s]`} {
					refuses(request(route.Method, ask.path, owner, fmt.Sprintf(`{%q:%s}`, name, fmt.Sprintf(value, quoted(canary)))))
				}
			}
		}
		for _, name := range w.contract.parameters(route) {
			raw := request(route.Method, ask.path, owner, ask.body)
			raw.URL.RawQuery = name + "=" + next()
			refuses(raw)
		}
		for _, name := range append(w.contract.fields(route), "unknown") {
			for _, value := range []string{`{"a":%s}`, `{%s:1}`, `-1,"x":%s`} {
				refuses(request(route.Method, ask.path, owner, fmt.Sprintf(`{%q:%s}`, name, fmt.Sprintf(value, quoted(next())))))
			}
			refuses(request(route.Method, ask.path, owner, fmt.Sprintf(`{%q:%s}`, name, next()))) // invalid JSON
		}
		refuses(request(route.Method, route.Path+"/"+url.PathEscape(next()), owner, ask.body))
		refuses(request(route.Method, ask.path+"?unknown="+url.QueryEscape(next()), owner, ask.body))
		for _, header := range []string{"X-Trace-Id", "Accept", "Content-Type", "Authorization", "Idempotency-Key", "X-Workspace-Id", "Origin", "Referer", "Host"} {
			r := request(route.Method, ask.path, owner, ask.body)
			r.Header.Set(header, next())
			if header == "Host" {
				r.Host = "canary.example"
			}
			refuses(r)
		}
		refuses(request(canaryMethod(next()), ask.path, owner, ""))
		refuses(request(route.Method, ask.path, owner, next()))
	}
	if at < 1000 {
		t.Errorf("only %d requests were made with the next canary", at)
	}
}

func canaryMethod(canary string) string {
	if strings.Trim(canary, "CANRY") != "" {
		return http.MethodDelete
	}
	return canary
}

// quoted returns a JSON string. It keeps invalid bytes.
func quoted(s string) string { return `"` + strings.ReplaceAll(s, "\x00", `\u0000`) + `"` }

// parameters returns the names of a route's query parameters.
func (c *contract) parameters(r api.Route) (names []string) {
	list, _ := c.at("paths", r.Path, strings.ToLower(r.Method), "parameters").([]any)
	for _, p := range list {
		if p := p.(map[string]any); p["in"] == "query" {
			names = append(names, p["name"].(string))
		}
	}
	return names
}

// fields returns the names of the fields in a route's body.
func (c *contract) fields(r api.Route) (names []string) {
	ref, _ := c.at("paths", r.Path, strings.ToLower(r.Method), "requestBody", "content", "application/json", "schema", "$ref").(string)
	properties, _ := c.at("components", "schemas", strings.TrimPrefix(ref, "#/components/schemas/"), "properties").(map[string]any)
	for name := range properties {
		names = append(names, name)
	}
	return names
}

// FuzzBodies sends arbitrary bodies to every route that has a body. Each gets a response, and never
// an error of the server.
func FuzzBodies(f *testing.F) {
	for _, ask := range right {
		f.Add([]byte(ask.body))
	}
	for _, s := range []string{
		"", "{", "null", "[]", "1e999", `{"holder":1}`, `{"holder":"h","ttlSeconds":1e2}`, `{"token":"urn:uuid:x"}`, `{"reason":"\ud800"}`,
		`{"wait":"yes"}`, `{"a.b":{"c[d":1},"e":2}`, "{\"\xff\":1}", `{"ttlSeconds":-0.0,"holder":"\u0000"}`,
		`{"token":"8B8F5F3E-6F1C-4C5E-9D1B-2F0A7C6D5E4F","ttlSeconds":3600}`,
	} {
		f.Add([]byte(s))
	}
	w := onOne(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, route := range api.Routes() {
			if route.Method != http.MethodPost {
				continue
			}
			got := w.call(t, route.Method, right[route.ID].path, owner, string(body))
			if got.status >= 500 || got.status < 200 {
				t.Errorf("%s answers %d to %q: %s", route.ID, got.status, body, got.body)
			}
		}
	})
}
