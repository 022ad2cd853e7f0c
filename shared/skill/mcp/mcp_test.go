package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/db"
	guard "github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/skill/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "canary-4711"

var errForbidden = errors.New("a private address")

// server is the SDK's server with a few tools, behind a handler that can intercept requests.
type server struct {
	url string
	mu  sync.Mutex
	log []string // received requests, as the "method" of HTTP or of the message
}

func (s *server) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, " ")
}

// serve starts a server. between returns true if it has answered the request itself.
func serve(t testing.TB, options *sdk.StreamableHTTPOptions, between func(w http.ResponseWriter, r *http.Request, method string) bool) *server {
	t.Helper()
	srv := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
	tool := func(name string, h sdk.ToolHandler) {
		srv.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, h)
	}
	text := func(texts ...string) *sdk.CallToolResult {
		r := &sdk.CallToolResult{}
		for _, s := range texts {
			r.Content = append(r.Content, &sdk.TextContent{Text: s})
		}
		return r
	}
	tool("echo", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(string(r.Params.Arguments), fmt.Sprint(r.Params.Meta["lanekeeper/key"])), nil
	})
	tool("headers", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(r.Extra.Header.Get("Authorization") + "|" + r.Extra.Header.Get("X-Plain")), nil
	})
	tool("structured", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		out := text("a summary")
		out.StructuredContent = map[string]any{"degrees": 21.5, "token": r.Extra.Header.Get("Authorization")}
		return out, nil
	})
	tool("picture", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "see"}, &sdk.ImageContent{Data: []byte("png"), MIMEType: "image/png"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "a:b", Text: "inside"}}}}, nil
	})
	tool("fails", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		out := text("no \"town\" for " + r.Extra.Header.Get("Authorization") + strings.Repeat("x", 5000))
		out.IsError = true
		return out, nil
	})
	tool("long", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(strings.Repeat("x", 2<<20)), nil
	})
	tool("asks", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		progress := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: "any", Progress: 1})
		_, roots := r.Session.ListRoots(ctx, nil) //nolint:staticcheck // older servers ask for it
		return text(fmt.Sprint(progress, r.Session.Ping(ctx, nil), roots != nil)), nil
	})
	tool("slow", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		select {
		case <-ctx.Done():
		case <-t.Context().Done():
		}
		return nil, errors.New("given up")
	})
	s := &server{}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return srv }, options)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var message struct{ Method string }
		_ = json.Unmarshal(body, &message)
		if message.Method == "" {
			message.Method = r.Method
		}
		s.mu.Lock()
		s.log = append(s.log, message.Method)
		s.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		if between == nil || !between(w, r, message.Method) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		for session := range srv.Sessions() { // those that the client did not end
			_ = session.Close()
		}
		front.Close()
	})
	s.url = front.URL
	return s
}

func client(t testing.TB) *http.Client {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func outbound(c *http.Client) mcp.Outbound {
	return mcp.Outbound{
		Client: c,
		Check: func(raw string) error {
			if strings.Contains(raw, "forbidden.example") {
				return errForbidden
			}
			return nil
		},
		Blocked: func(err error) bool { return errors.Is(err, errForbidden) },
		Expand: func(_ context.Context, _ db.Workspace, raw json.RawMessage) (json.RawMessage, error) {
			return bytes.ReplaceAll(raw, []byte(`{"$secret":"crm"}`), []byte(`"Bearer `+canary+`"`)), nil
		},
	}
}

func register(out mcp.Outbound, config string) (skill.Skill, error) {
	return mcp.Kind(out)(skill.Definition{Name: "it", Kind: skill.MCP, Config: json.RawMessage(config)})
}

// do calls a tool of a server with a time limit.
func do(t testing.TB, url, tool string, limit time.Duration) (any, error) {
	t.Helper()
	k, err := register(outbound(client(t)), fmt.Sprintf(`{"url":%q,"tool":%q,"headers":{"authorization":{"$secret":"crm"},"X-Plain":"p"}}`, url, tool))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return k.Do(ctx, skill.Call{Key: "run-1:2.1", Arguments: json.RawMessage(`{"town":"Bonn"}`)})
}

const enough = 10 * time.Second

// servers are the modes of the SDK's server.
var servers = map[string]*sdk.StreamableHTTPOptions{
	"with sessions": nil, "with sessions, in JSON": {JSONResponse: true}, "stateless": {Stateless: true}, "stateless, in JSON": {Stateless: true, JSONResponse: true},
}

func TestAnswers(t *testing.T) {
	for how, options := range servers {
		s := serve(t, options, nil)
		for tool, want := range map[string]string{
			"echo":       `{"text":"{\"town\":\"Bonn\"}\nrun-1:2.1"}`,
			"headers":    `{"text":"[redacted]|p"}`,
			"structured": `{"degrees":21.5,"token":"[redacted]"}`,
			"picture":    `{"text":"see\n(an image, 3 bytes)\ninside"}`,
		} {
			out, err := do(t, s.url, tool, enough)
			if raw, _ := json.Marshal(out); err != nil || string(raw) != want {
				t.Errorf("%s, %s brings %s, want %s (%v)", how, tool, raw, want, err)
			}
		}
	}
}

// Each call has its own session, and ends it.
func TestASessionIsClosed(t *testing.T) {
	s := serve(t, nil, func(w http.ResponseWriter, _ *http.Request, method string) bool {
		if method != "server/discover" { // an older server
			return false
		}
		http.Error(w, "what?", http.StatusBadRequest)
		return true
	})
	if _, err := do(t, s.url, "echo", enough); err != nil {
		t.Fatal(err)
	}
	if got := s.seen(); got != "server/discover initialize notifications/initialized tools/call DELETE" {
		t.Errorf("it saw %s", got)
	}
}

// A server without sessions is asked once what it speaks, and each request says who sends it.
func TestAServerWithoutSessions(t *testing.T) {
	var mu sync.Mutex
	var headers []string
	s := serve(t, servers["stateless"], func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		mu.Lock()
		defer mu.Unlock()
		headers = append(headers, strings.Join([]string{r.Header.Get("Mcp-Protocol-Version"), r.Header.Get("Mcp-Method"), r.Header.Get("Mcp-Name")}, " "))
		return false
	})
	if _, err := do(t, s.url, "echo", enough); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(headers, "|"); s.seen() != "server/discover tools/call" || got != "2026-07-28 server/discover |2026-07-28 tools/call echo" {
		t.Errorf("it saw %s with %s", s.seen(), got)
	}
}

// During a call a server may tell of its progress and ask whether the client is there. What it asks for
// else is refused.
func TestWhatAServerAsks(t *testing.T) {
	s := serve(t, servers["with sessions"], nil)
	out, err := do(t, s.url, "asks", enough)
	if raw, _ := json.Marshal(out); err != nil || string(raw) != `{"text":"\u003cnil\u003e \u003cnil\u003e true"}` {
		t.Errorf("it brings %s (%v)", raw, err)
	}
}

// A server of an older version of the protocol is spoken to in its own; an unknown one is not.
func TestOlderServers(t *testing.T) {
	for version, want := range map[string]string{"2024-11-05": "2024-11-05", "1999-01-01": ""} {
		var spoken string
		s := serve(t, nil, func(w http.ResponseWriter, r *http.Request, method string) bool {
			switch method {
			case "initialize":
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":%q,"capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, version)
			case "tools/call":
				spoken = r.Header.Get("Mcp-Protocol-Version")
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"old"}]}}`)
			default:
				w.WriteHeader(map[bool]int{true: http.StatusNotFound, false: http.StatusAccepted}[method == "server/discover"])
			}
			return true
		})
		out, err := do(t, s.url, "echo", enough)
		if (err == nil) != (want != "") || spoken != want {
			t.Errorf("%s: %v, %v, spoken to in %q", version, out, err, spoken)
		}
	}
}

func TestRefusals(t *testing.T) {
	with := func(method string, status int, header, body string) func(http.ResponseWriter, *http.Request, string) bool {
		return func(w http.ResponseWriter, _ *http.Request, m string) bool {
			if m != method && method != "" {
				return false
			}
			if name, value, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return true
		}
	}
	rpc := func(code int) func(http.ResponseWriter, *http.Request, string) bool {
		return func(w http.ResponseWriter, r *http.Request, m string) bool {
			if m != "tools/call" {
				return false
			}
			var message struct{ ID json.RawMessage }
			_ = json.NewDecoder(r.Body).Decode(&message)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"for %s"}}`, message.ID, code, r.Header.Get("Authorization"))
			return true
		}
	}
	for name, c := range map[string]struct {
		tool    string
		between func(http.ResponseWriter, *http.Request, string) bool
		class   skill.Class
		says    string
	}{
		"a tool's error":         {"fails", nil, skill.Input, `It said: "no \"town\" for [redacted]xxx`},
		"a tool that is not":     {"nothing", nil, skill.Input, "nothing"},
		"a long answer":          {"long", nil, skill.Theirs, "longer than 1 MiB"},
		"bad arguments":          {"echo", rpc(-32602), skill.Input, `"for [redacted]"`},
		"no tools":               {"echo", rpc(-32601), skill.Ours, "no tools"},
		"its failure":            {"echo", rpc(-32603), skill.Theirs, `"for [redacted]"`},
		"not allowed":            {"echo", with("", 401, "", "who?"), skill.Ours, "401"},
		"not found":              {"echo", with("", 404, "", ""), skill.Input, "404"},
		"moved":                  {"echo", with("", 307, "Location: http://forbidden.example/", ""), skill.Ours, "redirects are not followed"},
		"too much":               {"echo", with("", 429, "Retry-After: 7", ""), skill.RateLimit, "after 7 s"},
		"down":                   {"echo", with("", 503, "", "down"), skill.Theirs, "503"},
		"no MCP":                 {"echo", with("", 200, "Content-Type: text/html", "<html>"), skill.Theirs, "no session"},
		"not allowed to call":    {"echo", with("tools/call", 403, "", "no"), skill.Ours, "403"},
		"too many calls":         {"echo", with("tools/call", 429, "Retry-After: 7", ""), skill.RateLimit, "after 7 s"},
		"the call's failure":     {"echo", with("tools/call", 500, "", ""), skill.Theirs, "500"},
		"the call moved":         {"echo", with("tools/call", 302, "Location: http://forbidden.example/", ""), skill.Ours, "redirects are not followed"},
		"a session that is gone": {"echo", with("tools/call", 404, "", ""), skill.Input, "404"},
	} {
		for how, options := range servers {
			s := serve(t, options, c.between)
			out, err := do(t, s.url, c.tool, enough)
			refusal, ok := errors.AsType[*skill.RefusalError](err)
			if !ok || refusal.Class != c.class || !strings.Contains(refusal.Reason, c.says) || len(refusal.Reason) > 1300 {
				t.Errorf("%s, %s: %v, %v, want class %s", name, how, out, err, c.class)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("%s, %s: the error shows a secret", name, how)
			}
		}
	}
}

// The guarded client follows a redirect within the server. Neither a message nor what may be secret goes to another
// origin.
func TestRedirects(t *testing.T) {
	var mu sync.Mutex
	var astray []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		astray = append(astray, fmt.Sprint(r.Method, " ", r.URL, " ", r.Header, " ", string(body)))
		w.WriteHeader(http.StatusNotFound)
	}))
	defer other.Close()
	guarded, err := guard.New(guard.Options{AllowPrivateHosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer guarded.CloseIdleConnections()
	for name, c := range map[string]struct {
		from   string // the message that is redirected; empty: each
		status int
		to     string
		class  skill.Class // empty: the call is made
	}{
		"to the path with a slash":     {"", 307, "/mcp/", ""},
		"for good":                     {"", 308, "/mcp/", ""},
		"to another origin":            {"", 307, other.URL + "/", skill.Policy},
		"the call to another origin":   {"tools/call", 308, other.URL + "/", skill.Policy},
		"without the message":          {"", 302, other.URL + "/", skill.Input},
		"the call without its message": {"tools/call", 303, other.URL + "/", skill.Input},
	} {
		for how, options := range servers {
			astray = nil
			s := serve(t, options, func(w http.ResponseWriter, r *http.Request, method string) bool {
				if r.URL.Path != "/mcp" || c.from != "" && c.from != method {
					return false
				}
				w.Header().Set("Location", c.to)
				w.WriteHeader(c.status)
				return true
			})
			out := outbound(guarded.HTTPClient())
			out.Blocked = func(err error) bool { return errors.Is(err, guard.ErrBlocked) }
			k, err := register(out, fmt.Sprintf(`{"url":"%s/mcp","tool":"headers","headers":{"authorization":{"$secret":"crm"},"X-Plain":"p"}}`, s.url))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), enough)
			result, err := k.Do(ctx, skill.Call{Key: "run-1:2.1", Arguments: json.RawMessage(`{"town":"Bonn"}`)})
			cancel()
			refusal, _ := errors.AsType[*skill.RefusalError](err)
			if c.class == "" && (err != nil || fmt.Sprint(result) != "map[text:[redacted]|p]") || c.class != "" && (refusal == nil || refusal.Class != c.class) {
				t.Errorf("%s, %s: %v, %v", name, how, result, err)
			}
			mu.Lock()
			seen := strings.Join(astray, "\n")
			mu.Unlock()
			if strings.Contains(seen, canary) || strings.Contains(seen, "X-Plain") || strings.Contains(seen, "Bonn") || strings.Contains(seen, "POST") ||
				(seen != "") != (c.class == skill.Input) {
				t.Errorf("%s, %s: the other origin got %s", name, how, seen)
			}
		}
	}
}

// An image whose base64 is for URLs, without padding or in lines is described all the same: the call has succeeded.
func TestImagesInAnyBase64(t *testing.T) {
	for _, data := range []string{"_-8", "_-8=", "//\\n8=", "data:image/png;base64,//8=", "?"} {
		s := serve(t, servers["stateless, in JSON"], func(w http.ResponseWriter, r *http.Request, m string) bool {
			if m != "tools/call" {
				return false
			}
			var message struct{ ID json.RawMessage }
			_ = json.NewDecoder(r.Body).Decode(&message)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"image","mimeType":"image/png","data":"%s"},{"type":"text","text":"see"}]}}`,
				message.ID, data)
			return true
		})
		out, err := do(t, s.url, "picture", enough)
		if got := fmt.Sprint(out); err != nil || !strings.HasPrefix(got, "map[text:(an image, ") || !strings.HasSuffix(got, " bytes)\nsee]") {
			t.Errorf("%s: %v, %v", data, out, err)
		}
	}
}

func TestWhatIsUncertain(t *testing.T) {
	at := func(do func(io.WriteCloser)) func(http.ResponseWriter, *http.Request, string) bool {
		return func(w http.ResponseWriter, _ *http.Request, m string) bool {
			if m != "tools/call" {
				return false
			}
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				do(conn)
				_ = conn.Close()
			}
			return true
		}
	}
	say := func(text string) func(io.WriteCloser) {
		return func(w io.WriteCloser) { _, _ = io.WriteString(w, text) }
	}
	for name, c := range map[string]struct {
		tool    string
		between func(http.ResponseWriter, *http.Request, string) bool
	}{
		"too late": {"slow", nil},
		"a gateway's timeout": {"echo", func(w http.ResponseWriter, _ *http.Request, m string) bool {
			if m == "tools/call" {
				w.WriteHeader(http.StatusGatewayTimeout)
			}
			return m == "tools/call"
		}},
		"cut off":        {"echo", at(say(""))},
		"half JSON":      {"echo", at(say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\""))},
		"half a stream":  {"echo", at(say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nid:\r\n"))},
		"another's JSON": {"echo", at(say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"))},
		"a web page":     {"echo", at(say("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n"))},
		"an empty stream that ends": {"echo", func(w http.ResponseWriter, _ *http.Request, m string) bool {
			if m == "tools/call" {
				w.Header().Set("Content-Type", "text/event-stream")
			}
			return m == "tools/call"
		}},
	} {
		for how, options := range servers {
			s := serve(t, options, c.between)
			limit := enough
			if c.tool == "slow" {
				limit = 2 * time.Second
			}
			out, err := do(t, s.url, c.tool, limit)
			if _, ok := errors.AsType[*skill.UncertainError](err); !ok {
				t.Errorf("%s, %s: %v, %v", name, how, out, err)
			}
			if c.tool == "slow" && options != nil && !options.Stateless && !strings.Contains(s.seen(), "tools/call notifications/cancelled") {
				t.Errorf("%s, %s: the server was not told: %s", name, how, s.seen())
			}
		}
	}
}

func TestWhatNeverLeft(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	hangs := serve(t, nil, func(_ http.ResponseWriter, r *http.Request, _ string) bool { <-r.Context().Done(); return true })
	for name, url := range map[string]string{"nobody listens": closed.URL, "no session in time": hangs.url} {
		begun := time.Now()
		_, err := do(t, url, "echo", 300*time.Millisecond)
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("%s: it took %s", name, took)
		}
		if refusal, ok := errors.AsType[*skill.RefusalError](err); !ok || refusal.Class != skill.Theirs {
			t.Errorf("%s: %v", name, err)
		}
	}
	guarded := &http.Client{Transport: blocked{}}
	k, err := register(outbound(guarded), `{"url":"https://a.example/","tool":"echo"}`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Do(t.Context(), skill.Call{Arguments: json.RawMessage(`{}`)})
	if refusal, ok := errors.AsType[*skill.RefusalError](err); !ok || refusal.Class != skill.Policy {
		t.Errorf("a guard: %v", err)
	}
}

type blocked struct{}

func (blocked) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("10.0.0.1: %w", errForbidden)
}

func TestRegistrationRefuses(t *testing.T) {
	for config, field := range map[string]string{
		`{"url":"https://a.example/mcp","tool":"t"}`:                         "",
		`{"url":"https://a.example/mcp?x=1","tool":"t","headers":{"X":"y"}}`: "",
		`{}`:                                   "config.url",
		`{"url":"a.example","tool":"t"}`:       "config.url",
		`{"url":"stdio:///bin/sh","tool":"t"}`: "config.url",
		`{"url":"https://me:pw@a.example","tool":"t"}`:                                    "config.url",
		`{"url":"https://a.example/#f","tool":"t"}`:                                       "config.url",
		`{"url":"https:///mcp","tool":"t"}`:                                               "config.url",
		`{"url":"https://forbidden.example/","tool":"t"}`:                                 "config.url",
		`{"url":"https://a.example/?key=[redacted]","tool":"t"}`:                          "config.url",
		`{"url":"https://a.example/"}`:                                                    "config.tool",
		`{"url":"https://a.example/","tool":""}`:                                          "config.tool",
		`{"url":"https://a.example/","tool":"` + strings.Repeat("t", 256) + `"}`:          "config.tool",
		`{"url":"https://a.example/","tool":"t","command":"sh"}`:                          "config.command",
		`{"url":"https://a.example/","tool":"t","headers":{"mcp-session-id":"x"}}`:        "config.headers.mcp-session-id",
		`{"url":"https://a.example/","tool":"t","headers":{"Accept":"x"}}`:                "config.headers.Accept",
		`{"url":"https://a.example/","tool":"t","headers":{"X":{"$secret":"a","b":"c"}}}`: "config.headers.X",
	} {
		_, err := register(outbound(nil), config)
		invalid, ok := errors.AsType[*skill.InvalidError](err)
		if ok != (field != "") || ok && invalid.Fields[0].Field != field {
			t.Errorf("%s: %v, want %q refused", config, err, field)
		}
	}
}
