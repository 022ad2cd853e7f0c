package dbtest

import (
	"context"
	"encoding/json"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

// Grown is a Postgres database that a test fills in order to see what a statement reads of it. It is the
// test's own, because plans follow statistics that other tests would change.
type Grown struct {
	// URL is the URL of the owner of the tables.
	URL string
	// Workspace is the only workspace at first.
	Workspace    db.Workspace
	owner, login *pgx.Conn
}

// NewGrown returns a migrated database with one workspace.
func NewGrown(t testing.TB) *Grown {
	t.Helper()
	g := &Grown{URL: Migrated(t), Workspace: db.Workspace(uuid.NewString())}
	g.owner, g.login = Connect(t, g.URL), Connect(t, AsLogin(g.URL))
	g.Exec(t, "INSERT INTO workspaces (id, slug, name) VALUES ($1, 'many', 'Many')", string(g.Workspace))
	return g
}

// Connect opens a connection in the mode that the product uses, which prepares no statement.
func Connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Exec runs a statement as the owner of the tables.
func (g *Grown) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := g.owner.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Fill runs statements as the owner of the tables. The parameter of each is the workspace.
func (g *Grown) Fill(t testing.TB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		g.Exec(t, statement, string(g.Workspace))
	}
}

// Explain runs a statement of the package under test as the application, in a transaction that it rolls
// back. The statement's first parameter is the workspace; args are the others.
func (g *Grown) Explain(t testing.TB, statement string, args ...any) Plan {
	t.Helper()
	tx, err := g.login.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "SELECT lk_enter($1)", string(g.Workspace))
	}
	var raw string
	if err == nil {
		err = tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+Statement(t, statement).Text(db.Postgres),
			append([]any{string(g.Workspace)}, args...)...).Scan(&raw)
	}
	if err == nil {
		err = tx.Rollback(t.Context())
	}
	var of []struct{ Plan Plan }
	if err == nil {
		err = json.Unmarshal([]byte(raw), &of)
	}
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	of[0].Plan.text = raw
	return of[0].Plan
}

// Statement returns a statement of the package under test by its name.
func Statement(t testing.TB, name string) db.Query {
	t.Helper()
	queries, err := db.Parse(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(queries, func(q db.Query) bool { return q.Name() == name })
	if at < 0 {
		t.Fatalf("there is no statement %s", name)
	}
	return queries[at]
}

// Plan is a step of a plan that Postgres has run.
type Plan struct {
	Step     string  `json:"Node Type"`
	Table    string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"` // in each loop, like the next two
	Refused  float64 `json:"Rows Removed by Filter"`
	Unjoined float64 `json:"Rows Removed by Join Filter"`
	Loops    float64 `json:"Actual Loops"`
	Hit      int     `json:"Shared Hit Blocks"`
	Read     int     `json:"Shared Read Blocks"`
	Plans    []Plan  // the steps below
	text     string
}

// Pages returns how many pages of tables and indexes the step and those below have read.
func (p Plan) Pages() int { return p.Hit + p.Read }

// String returns a whole plan as Postgres tells it.
func (p Plan) String() string { return p.text }

// Steps returns the step and all below it.
func (p Plan) Steps() iter.Seq[Plan] {
	return func(yield func(Plan) bool) { p.steps(yield) }
}

func (p Plan) steps(yield func(Plan) bool) bool {
	return yield(p) && !slices.ContainsFunc(p.Plans, func(below Plan) bool { return !below.steps(yield) })
}

// ReadsAllOnSQLite returns the steps in which SQLite reads all rows that a workspace has in a table.
func (e Env) ReadsAllOnSQLite(t testing.TB, statement string, args ...any) (all []string) {
	t.Helper()
	for _, step := range e.ExplainSQLite(t, statement, args...) {
		if strings.HasSuffix(step, "(workspace_id=?)") {
			all = append(all, step)
		}
	}
	return all
}

// ExplainSQLite returns the steps in which SQLite runs a statement of the package under test. The statement's
// first parameter is the workspace; args are the others.
func (e Env) ExplainSQLite(t testing.TB, statement string, args ...any) (steps []string) {
	t.Helper()
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: e.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	defer read.Close()
	args = append([]any{string(e.Workspace)}, args...)
	rows, err := read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+Statement(t, statement).Text(db.SQLite), args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
