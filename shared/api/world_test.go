package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/app/wire/wiretest"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// These are the tokens of a world: one per role, all of the world's workspace.
const (
	owner  = "token-of-an-owner"
	admin  = "token-of-an-admin"
	member = "token-of-a-member"
	nobody = "token-of-nobody"
)

// world is the API over a new workspace on one engine.
type world struct {
	dbtest.Env
	api.Deps
	http.Handler
	contract *contract
	logs     *logs
	later    *sync.WaitGroup // work in the background
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

// newWorld returns a world. change may replace dependencies of the API.
func newWorld(t testing.TB, e dbtest.Env, change ...func(*api.Deps)) *world {
	t.Helper()
	w := &world{Env: e, logs: &logs{}, later: &sync.WaitGroup{}}
	t.Cleanup(w.later.Wait)
	w.Deps = deps(t, e.DB)
	w.Deps.Log = slog.New(trace.NewHandler(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})))
	w.Deps.Auth = auth.New(tokens(e.Workspace))
	w.Deps.Beat = func(_ context.Context, tick heartbeat.Tick) (heartbeat.Report, error) {
		return heartbeat.Report{Outcome: heartbeat.Completed, ExecutionID: tick.ExecutionID, TraceID: string(tick.Trace), Phases: []heartbeat.Phase{}}, nil
	}
	w.Deps.Background = func(fn func(context.Context)) { w.later.Go(func() { fn(context.Background()) }) }
	for _, c := range change {
		c(&w.Deps)
	}
	h, err := api.New(w.Deps)
	if err != nil {
		t.Fatal(err)
	}
	w.Handler = h
	w.contract = contractOf(t, h)
	return w
}

// deps returns the dependencies of the API over a database.
func deps(t testing.TB, d *db.DB) api.Deps {
	t.Helper()
	s := wiretest.New(t, d, slog.New(slog.DiscardHandler))
	all := api.Deps{
		Parts:       s.Parts,
		Coordinator: s.Cycles,
		Cycle:       s.Cycles.Cycle,
		Kick:        func(db.Workspace) {},
		Version:     "test",
		Streams:     &sse.Streams{Every: 10 * time.Millisecond, For: 50 * time.Millisecond},
		Reachable:   channel.Check,
	}
	client, err1 := outbound.New(outbound.Options{AllowPrivateHosts: []string{"127.0.0.1"}, Resolver: resolver{}})
	var err2, err3, err4 error
	all.People, err2 = auth.NewStore(d, ids, rand.Reader)
	all.Sessions, err3 = all.People.NewSessions(auth.SessionConfig{Key: sessionKey, AdminToken: owner, Clock: time.Now})
	all.Registry, all.Approvals = registry(t, d), approvals(t, d, all.Activity)
	all.Heals, err4 = heal.New(d, ids, all.Registry, all.Automations)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	all.Endpoints.Sender.Client = client
	all.AgentTokens = &auth.AgentTokens{Keys: &auth.DerivedKeys{Master: sessionKey}, Agents: all.Agents, Clock: time.Now}
	all.Claim = func(ctx context.Context, ws db.Workspace, agent, _ string) (task.Task, bool, error) {
		return claim(ctx, all, ws, agent)
	}
	all.Operate = operated(all)
	return all
}

// resolver knows a public host and a private one.
type resolver struct{}

func (resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	switch {
	case host == "inside.example":
		return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
	case strings.HasSuffix(host, ".example"):
		return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// sessionKey is the key that signs the sessions of a world.
func sessionKey(context.Context) ([]byte, error) {
	return []byte("a key of the tests, which has 32 bytes or more"), nil
}

func tokens(ws db.Workspace) auth.Verifier {
	roles := map[string]auth.Role{owner: auth.Owner, admin: auth.Admin, member: auth.Member}
	return func(_ context.Context, token string) (auth.Principal, error) {
		role, ok := roles[token]
		if !ok {
			return auth.Principal{}, auth.ErrInvalid
		}
		return auth.Principal{Workspace: ws, Kind: auth.Local, ID: strings.ToLower(string(role)), Role: role}, nil
	}
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

// onOne returns a world for tests that do not depend on the engine.
func onOne(t testing.TB, change ...func(*api.Deps)) *world {
	t.Helper()
	return newWorld(t, dbtest.New(t, dbtest.OnSQLite), change...)
}

// result is a response.
type result struct {
	status int
	header http.Header
	body   []byte
}

// retryAfter returns the value of the response's Retry-After header.
func (r result) retryAfter() time.Duration {
	seconds, _ := strconv.Atoi(r.header.Get("Retry-After"))
	return time.Duration(seconds) * time.Second
}

// request returns a request. An empty token sends none.
func request(method, path, token, body string) *http.Request {
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, path, content)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// send sends a request and checks the response against the OpenAPI document and against the rules
// for all responses.
func (w *world) send(t testing.TB, r *http.Request) result {
	t.Helper()
	rec := httptest.NewRecorder()
	sent := r.Clone(r.Context())
	w.ServeHTTP(rec, r)
	got := result{rec.Code, rec.Header(), rec.Body.Bytes()}
	w.contract.check(t, sent, got)
	return got
}

func (w *world) call(t testing.TB, method, path, token, body string) result {
	t.Helper()
	return w.send(t, request(method, path, token, body))
}

// must is call for a request that must be answered with this status. It decodes the body into into.
func (w *world) must(t testing.TB, status int, method, path, body string, into any) result {
	t.Helper()
	got := w.call(t, method, path, owner, body)
	if got.status != status {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, got.status, status, got.body)
	}
	if into != nil {
		if err := json.Unmarshal(got.body, into); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, got.body)
		}
	}
	return got
}

// problem is a problem as clients read it.
type problem struct {
	Type, Title, Detail, Code, TraceID, Holder string
	PresentStatus                              string
	Status                                     int
	ExpiresAt                                  *time.Time
	Errors                                     []struct{ Location, Message string }
}

// refused is call for a request that must be refused with this status and code.
func (w *world) refused(t testing.TB, status int, code, method, path, body string) problem {
	t.Helper()
	var p problem
	w.must(t, status, method, path, body, &p)
	if p.Code != code || p.Status != status || p.Type != "urn:lanekeeper:problem:"+code {
		t.Errorf("%s %s: %+v, want code %s", method, path, p, code)
	}
	return p
}

// at reports whether the problem names a location.
func (p problem) at(location string) bool {
	for _, e := range p.Errors {
		if e.Location == location && e.Message != "" {
			return true
		}
	}
	return false
}

// logs records the log.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// lines returns the records with a message so far.
func (l *logs) lines(t testing.TB, message string) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []map[string]any
	for line := range strings.Lines(l.b.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if record["msg"] == message {
			out = append(out, record)
		}
	}
	return out
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
