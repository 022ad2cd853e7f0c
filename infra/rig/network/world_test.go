package network_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/infra/rig/outside"
	"github.com/lanekeeper/lanekeeper/infra/rig/proxy"
	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/door"
	"github.com/lanekeeper/lanekeeper/shared/app/web"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// side is the product as wired in one process.
type side struct {
	*wire.Surfaces
	http.Handler
	db      *db.DB
	log     *lines
	working sync.WaitGroup // work after responses
	within  time.Duration  // time limit of that work; 0: none runs

	mu      sync.Mutex
	slowest map[string]time.Duration // by name of the invocation
}

// lines is the log of a side.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newSide wires the product over a database. A caller's token names a workspace, which the caller
// owns.
func newSide(t testing.TB, d *db.DB, within time.Duration, environ ...string) *side {
	t.Helper()
	s := &side{db: d, log: new(lines), within: within, slowest: map[string]time.Duration{}}
	cfg, err := app.LoadConfig(append(environ, "ALLOW_PRIVATE_HOSTS=127.0.0.1"))
	check(t, err)
	core := app.NewCore(d, cfg, slog.New(slog.NewTextHandler(s.log, nil)), func(context.Context) (aws.Config, error) {
		return aws.Config{}, errors.New("no AWS here")
	})
	s.Surfaces, err = wire.New(core, "test")
	check(t, err)
	in, err := door.New(s.Surfaces, "", true)
	check(t, err)
	in.Limits = nil
	in.Auth = auth.New(func(_ context.Context, token string) (auth.Principal, error) {
		return auth.Principal{Workspace: db.Workspace(token), Kind: auth.Local, ID: "ada", Role: auth.Owner}, nil
	})
	s.Handler, err = web.NewAPI(s.Surfaces, in, web.Process{Background: s.background})
	check(t, err)
	return s
}

// background runs work after a response, with the time limit of an invocation.
func (s *side) background(fn func(context.Context)) {
	if s.within == 0 {
		return
	}
	s.working.Go(func() {
		_ = s.invoke("what works behind an answer", func(ctx context.Context) error { fn(ctx); return nil })
	})
}

// invoke calls the product with the time limit of an invocation.
func (s *side) invoke(what string, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.within)
	defer cancel()
	begun := time.Now()
	err := fn(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slowest[what] = max(s.slowest[what], time.Since(begun))
	return err
}

// ask sends a request to the API for a workspace.
func (s *side) ask(ctx context.Context, ws db.Workspace, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "/api/v1"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+string(ws))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func (s *side) must(t testing.TB, ws db.Workspace, method, path, body string, into any) {
	t.Helper()
	w := s.ask(t.Context(), ws, method, path, body)
	if w.Code >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	if into != nil {
		check(t, json.Unmarshal(w.Body.Bytes(), into))
	}
}

// base is a database of its own. direct reaches it without proxies, as do admin on a server and
// file on SQLite.
type base struct {
	engine   string
	url, key string // url is the one that functions use
	skew     *db.Skew
	outside  *outside.World
	direct   *side
	admin    *pgx.Conn
	file     *sql.DB
}

func newBase(t testing.TB, engine, key string, world *outside.World) *base {
	t.Helper()
	b := &base{engine: engine, key: key, skew: new(db.Skew), outside: world}
	if engine == dbtest.OnSQLite {
		b.url = dbtest.New(t, engine).URL
		var err error
		b.file, err = sql.Open("sqlite", "file:"+b.url+"?mode=ro&_pragma=busy_timeout(5000)")
		check(t, err)
		t.Cleanup(func() { check(t, b.file.Close()) })
		b.direct = newSide(t, b.open(t, b.url), 0, b.environ(world.URL)...)
		return b
	}
	owner := dbtest.Migrated(t)
	at, err := url.Parse(owner)
	check(t, err)
	server, err := url.Parse(dbtest.Servers(t).PostgresURL)
	check(t, err)
	at.User = server.User
	b.admin, err = pgx.Connect(t.Context(), at.String())
	check(t, err)
	t.Cleanup(func() { check(t, b.admin.Close(context.Background())) })
	b.url = dbtest.AsLogin(owner)
	b.direct = newSide(t, b.open(t, b.url), 0, b.environ(world.URL)...)
	if engine == dbtest.OnPgBouncer {
		login, err := url.Parse(b.url)
		check(t, err)
		pooler, err := url.Parse(dbtest.Servers(t).PgBouncerURL)
		check(t, err)
		login.Host, login.RawQuery = pooler.Host, pooler.RawQuery
		b.url = login.String()
	}
	return b
}

// open opens a handle on the database that is closed with the test.
func (b *base) open(t testing.TB, at string) *db.DB {
	t.Helper()
	d, err := b.handle(at, 0)
	check(t, err)
	t.Cleanup(func() { check(t, d.Close()) })
	return d
}

func (b *base) handle(at string, silence time.Duration) (*db.DB, error) {
	if b.engine == dbtest.OnSQLite {
		return sqlite.Open(context.Background(), sqlite.Config{Path: at, Schema: migrations.Latest(), Skew: b.skew})
	}
	return postgres.Open(postgres.Config{URL: at, Schema: migrations.Latest(), Skew: b.skew, Silence: silence})
}

func (b *base) environ(model string) []string {
	backend := []string{"STATE_BACKEND=sqlite"}
	if b.engine != dbtest.OnSQLite {
		backend = []string{"STATE_BACKEND=postgres", "DATABASE_URL=" + b.url}
	}
	return append(backend, "SECRET_KEY_FILE="+b.key, "LLM_PROVIDER=openai", "LLM_MODEL=x", "OPENAI_API_KEY=x", "OPENAI_BASE_URL="+model+"/model")
}

// count queries the database as a role to which no policy applies.
func (b *base) count(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	n, err := b.number(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (b *base) number(ctx context.Context, query string, args ...any) (n int, err error) {
	if b.file != nil {
		err = b.file.QueryRowContext(ctx, query, args...).Scan(&n)
	} else {
		err = b.admin.QueryRow(ctx, query, args...).Scan(&n)
	}
	return n, err
}

func (b *base) texts(t testing.TB, query string, args ...any) (out []string) {
	t.Helper()
	if b.file == nil {
		rows, err := b.admin.Query(t.Context(), query, args...)
		check(t, err)
		out, err = pgx.CollectRows(rows, pgx.RowTo[string])
		check(t, err)
		return out
	}
	rows, err := b.file.QueryContext(t.Context(), query, args...)
	check(t, err)
	defer rows.Close()
	for rows.Next() {
		out = append(out, "")
		check(t, rows.Scan(&out[len(out)-1]))
	}
	check(t, rows.Err())
	return out
}

// settled waits for what other transactions of a server delay.
func (w *world) settled(t *testing.T, what, count string, args ...any) {
	t.Helper()
	if w.admin != nil {
		w.await(t, what, count, args...)
	}
}

// The peers of a function.
const (
	database = "database"
	model    = "model"
	receiver = "receiver"
)

var peers = []string{database, model, receiver}

// world is a workspace, and a side that reaches its peers through proxies.
type world struct {
	*base
	*side
	ws      db.Workspace
	proxies map[string]*proxy.Proxy // by peer
	target  string                  // URL of the receiver for skills and messages
	slot    time.Time               // the next slot
	streams bool                    // whether turns stream

	uncertain bool // a caller was told that the outcome is uncertain
	looks     bool // that caller checks whether the turn was stored, because the product could not know
}

// silence is how long the product waits for a response of the database.
const silence = time.Second

func (b *base) world(t testing.TB) *world {
	t.Helper()
	w := &world{
		base: b, ws: dbtest.NewWorkspace(t, b.direct.db), proxies: map[string]*proxy.Proxy{}, slot: time.Now().Add(-24 * time.Hour).Truncate(time.Minute),
	}
	links := map[string]string{model: b.outside.URL, receiver: b.outside.URL}
	if b.engine != dbtest.OnSQLite {
		links[database] = b.url
	}
	for peer, at := range links {
		p, err := proxy.Start(at)
		check(t, err)
		t.Cleanup(p.Close)
		w.proxies[peer] = p
	}
	w.target = w.proxies[receiver].URL
	at := b.url
	if p := w.proxies[database]; p != nil {
		at = p.URL
	}
	d, err := b.handle(at, silence)
	check(t, err)
	w.side = newSide(t, d, limit, b.environ(w.proxies[model].URL)...)
	must := func(method, path, body string) { t.Helper(); b.direct.must(t, w.ws, method, path, body, nil) }
	for name, more := range map[string]string{"note": "", "pay": `"requiresApproval":true,`} {
		must("POST", "/skills", `{"name":"`+name+`","kind":"http","description":"Does it.",`+more+`
			"parameters":{"type":"object","properties":{"key":{"type":"string"}},"required":["key"]},
			"config":{"url":"`+w.target+`/`+name+`","idempotencyKeyHeader":"Idempotency-Key"}}`)
	}
	must("PATCH", "/workspaces/"+string(w.ws), `{"settings":{"skillTimeout":3,"reflectHours":0,"beatMemories":0}}`)
	must("POST", "/budgets", fmt.Sprintf(`{"scope":"global","allocated":1000000000,"periodStart":"%s","periodEnd":"%s"}`,
		time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), time.Now().Add(1000*time.Hour).UTC().Format(time.RFC3339)))
	return w
}

// key returns an idempotency key or name that is unique to this world.
func (w *world) key(what string) string { return what + "-" + string(w.ws) }

const (
	// limit is the time limit of an invocation.
	limit = 8 * time.Second
	// grace is the time by which a call may exceed its limit: 5 s of last writes in all, and a
	// margin for a busy machine.
	grace = 8 * time.Second
)
