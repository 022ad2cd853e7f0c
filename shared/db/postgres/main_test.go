package postgres_test

import (
	"net/url"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// The statements of the tests.
const source = `
-- name: Add
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, created_at, updated_at)
VALUES ($1, $2, $3, 'hb', 'hb_test', 'running', lk_now(), lk_now());

-- name: Rename
UPDATE executions SET agent = $3 WHERE workspace_id = $1 AND id = $2;

-- name: Agent
SELECT agent FROM executions WHERE workspace_id = $1 AND id = $2;

-- name: Pid
-- global: about the connection
SELECT pg_backend_pid();

-- name: Setting
-- global: about the connection
SELECT current_setting($1);

-- name: Set
-- global: about the connection
SELECT set_config($1, $2, true);

-- name: Sleep
-- global: about the connection
SELECT pg_sleep($1);

-- name: User
-- global: about the connection
SELECT current_user;

-- name: Values
-- global: about the connection
SELECT CAST('2026-11-20 12:00:00.5+00' AS timestamptz), decode('00ff', 'hex'), CAST($1 AS float8);
`

type queries struct{ Add, Rename, Agent, Pid, Setting, Set, Sleep, User, Values db.Query }

// world is a workspace on Postgres, a handle that other tests don't share, and an additional
// superuser's connection.
type world struct {
	dbtest.Env
	q     queries
	admin *pgx.Conn
	name  string // application name of this test's connections
}

// newWorld opens a handle with at most conns connections.
func newWorld(t testing.TB, engine string, conns int32) world {
	t.Helper()
	w := world{Env: dbtest.New(t, engine), q: load(t), name: "test-" + uuid.NewString()[:8]}
	w.URL = with(t, w.URL, func(u *url.URL) {
		q := u.Query()
		q.Set("application_name", w.name)
		u.RawQuery = q.Encode()
	})
	w.DB, w.Skew = w.Open(t, conns)
	w.admin = dbtest.Connect(t, dbtest.Servers(t).PostgresURL)
	return w
}

func load(t testing.TB) (q queries) {
	t.Helper()
	if err := db.Load(fstest.MapFS{"test.sql": {Data: []byte(source)}}, &q); err != nil {
		t.Fatal(err)
	}
	return q
}

// with returns a changed URL.
func with(t testing.TB, dsn string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

func one[T any](t testing.TB, conn *pgx.Conn, query string, args ...any) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func (w world) add(t testing.TB, agent string) (id string) {
	t.Helper()
	id = uuid.NewString()
	if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Add, id, agent); err != nil {
		t.Fatal(err)
	}
	return id
}

// is fails unless the row has the agent.
func (w world) is(t testing.TB, id, want string) {
	t.Helper()
	var got string
	if err := w.DB.One(t.Context(), w.Workspace, []any{&got}, w.q.Agent, id); err != nil || got != want {
		t.Errorf("the row says %q, %v; want %q", got, err, want)
	}
}

// open is postgres.Open. It closes the handle at the end of the test.
func open(t testing.TB, cfg postgres.Config) *db.DB {
	t.Helper()
	d, err := postgres.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
