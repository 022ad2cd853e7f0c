// Package dbtest runs a test on every database that Lanekeeper supports: SQLite, Postgres, and
// Postgres through PgBouncer in transaction mode with two server connections. Each test gets its
// own workspace in one migrated database, so that every test also tests tenancy.
package dbtest

import (
	"context"
	"embed"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

//go:embed *.sql
var files embed.FS

// The engines a test runs on.
const (
	OnSQLite    = "sqlite"
	OnPostgres  = "postgres"
	OnPgBouncer = "pgbouncer"
)

// Env is the environment of a test on one engine.
type Env struct {
	// Engine is OnSQLite, OnPostgres or OnPgBouncer.
	Engine string
	// DB is a handle whose clock is shifted by Skew.
	DB   *db.DB
	Skew *db.Skew
	// Workspace belongs to this test only.
	Workspace db.Workspace
	// URL is the database's URL for the application's login role, or the path of the file.
	URL string
}

// Main runs the tests of a package and fails if a goroutine is left behind, except those that ignored names
// and those of the test servers, which run until the process ends. A package's TestMain calls it.
func Main(m *testing.M, ignored ...goleak.Option) {
	goleak.VerifyTestMain(m, append(ignored, goleak.IgnoreAnyFunction("github.com/lanekeeper/lanekeeper/infra/rig/servers.spawn.func1"))...)
}

// Load loads the queries in a folder of the package that is tested.
func Load(t testing.TB, folder string, queries any) {
	t.Helper()
	if err := db.Load(os.DirFS(folder), queries); err != nil {
		t.Fatal(err)
	}
}

// Each runs fn on every engine, each time in a fresh workspace. A short run, which is the race detector's,
// uses Postgres alone: our code is the same on the others, and there it runs side by side.
func Each(t *testing.T, fn func(t *testing.T, e Env)) {
	t.Helper()
	on(t, fn, OnSQLite, OnPostgres, OnPgBouncer)
}

// Both is Each without PgBouncer. It is for code above the stores: what a transaction pooler can break is in
// the engine and in the statements, whose tests use [Each].
func Both(t *testing.T, fn func(t *testing.T, e Env)) {
	t.Helper()
	on(t, fn, OnSQLite, OnPostgres)
}

func on(t *testing.T, fn func(t *testing.T, e Env), engines ...string) {
	t.Helper()
	for _, engine := range engines {
		if !testing.Short() || engine == OnPostgres {
			t.Run(engine, func(t *testing.T) { fn(t, New(t, engine)) })
		}
	}
}

// New returns an environment on one engine.
func New(t testing.TB, engine string) Env {
	t.Helper()
	e := Env{Engine: engine}
	switch engine {
	case OnSQLite:
		e.URL = freshFile(t)
	case OnPostgres:
		e.URL = migrated(t).direct
	case OnPgBouncer:
		e.URL = migrated(t).pooled
	default:
		t.Fatalf("dbtest: unknown engine %q", engine)
	}
	e.DB, e.Skew = e.Open(t, 0)
	e.Workspace = NewWorkspace(t, e.DB)
	return e
}

// Alone returns an environment whose database has no other workspace, for tests of code that serves
// all workspaces. Elsewhere the packages that are tested concurrently share a database, and such code
// would do the work of their tests.
func Alone(t testing.TB, engine string) Env {
	t.Helper()
	if engine == OnSQLite {
		return New(t, engine) // each test has its own file
	}
	e := Env{Engine: engine, URL: AsLogin(Migrated(t))}
	e.DB, e.Skew = e.Open(t, 0)
	e.Workspace = NewWorkspace(t, e.DB)
	return e
}

// Open opens another handle on the environment's database, with its own clock and at most conns
// connections (zero: the engine's default).
func (e Env) Open(t testing.TB, conns int32) (*db.DB, *db.Skew) {
	t.Helper()
	skew := new(db.Skew)
	d, err := e.open(conns, skew)
	if err != nil {
		t.Fatalf("open %s: %v", e.Engine, err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close %s: %v", e.Engine, err)
		}
	})
	return d, skew
}

func (e Env) open(conns int32, skew *db.Skew) (*db.DB, error) {
	if e.Engine == OnSQLite {
		return sqlite.Open(context.Background(), sqlite.Config{Path: e.URL, Schema: migrations.Latest(), Skew: skew})
	}
	return postgres.Open(postgres.Config{URL: e.URL, MaxConns: conns, Schema: migrations.Latest(), Skew: skew})
}

// OneConnection returns an environment on Postgres whose handle has one connection, for [Env.Plans].
func OneConnection(t testing.TB) Env {
	t.Helper()
	e := New(t, OnPostgres)
	e.DB, e.Skew = e.Open(t, 1)
	return e
}

// Plans returns how many plans the connection of [OneConnection] keeps of statements that have this part.
func (e Env) Plans(t testing.TB, part string) (n int) {
	t.Helper()
	if err := e.DB.One(t.Context(), "", []any{&n}, load(t).Plans, part); err != nil {
		t.Fatal(err)
	}
	return n
}

type statements struct{ AddWorkspace, Plans db.Query }

func load(t testing.TB) (q statements) {
	t.Helper()
	if err := db.Load(files, &q); err != nil {
		t.Fatal(err)
	}
	return q
}

// NewWorkspace adds a workspace with a unique slug.
func NewWorkspace(t testing.TB, d *db.DB) db.Workspace {
	t.Helper()
	q := load(t)
	id := uuid.NewString()
	if _, err := d.Exec(t.Context(), "", q.AddWorkspace, id, "test-"+id[:18], "Test "+t.Name()[:min(len(t.Name()), 200)]); err != nil {
		t.Fatalf("add a workspace: %v", err)
	}
	return db.Workspace(id)
}

func freshFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, migratedFile(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// InCI reports whether a missing server must fail the test.
func InCI() bool {
	v := os.Getenv("CI")
	return v != "" && !strings.EqualFold(v, "false") && v != "0"
}
