package postgres_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// preparedQueries see which statements their connection has prepared.
type preparedQueries struct{ Prepared, Sum, Where, Drop, Fail, Any, Bare, Column db.Query }

const preparedSource = `
-- name: Prepared
-- global: about the connection
SELECT count(*) FROM pg_prepared_statements WHERE from_sql AND name LIKE 'lk%' AND statement LIKE '%' || $1 || '%';

-- name: Sum
-- global: about the connection
SELECT CAST($1 AS bigint) + CAST($2 AS bigint);

-- name: Where
-- global: about a table of the test
SELECT n FROM the_table WHERE n = $1;

-- name: Drop
-- global: about the connection
DEALLOCATE ALL;

-- name: Any
-- global: about the connection
SELECT count(*) FROM (VALUES (1), (2)) AS any_of (n) WHERE (CAST($1 AS bigint) IS NULL OR any_of.n = $1);

-- name: Bare
-- global: about the connection
SELECT count(*) FROM (VALUES (1), (2)) AS bare_of (n) WHERE bare_of.n < CAST($1 AS bigint) AND ($1 IS NULL OR bare_of.n = $1);

-- name: Column
-- global: about the connection
SELECT count(*) FROM (VALUES (1), (2)) AS column_of (n) WHERE (column_of.n IS NULL OR column_of.n = CAST($1 AS bigint));

-- name: Fail
-- global: about the connection
SELECT 1 / CAST($1 AS bigint);
`

func (w world) prepared(t testing.TB, table string) (q preparedQueries) {
	t.Helper()
	text := strings.ReplaceAll(preparedSource, "the_table", pgx.Identifier{table}.Sanitize())
	if err := db.Load(fstest.MapFS{"prepared.sql": {Data: []byte(text)}}, &q); err != nil {
		t.Fatal(err)
	}
	return q
}

// count returns how many statements with a word the only connection has prepared.
func (w world) count(t testing.TB, q preparedQueries, word string) (n int) {
	t.Helper()
	if err := w.DB.One(t.Context(), "", []any{&n}, q.Prepared, word); err != nil {
		t.Fatal(err)
	}
	return n
}

func (w world) sum(t testing.TB, q preparedQueries, a, b int64) {
	t.Helper()
	var n int64
	if err := w.DB.One(t.Context(), "", []any{&n}, q.Sum, a, b); err != nil || n != a+b {
		t.Fatalf("%d + %d = %d, %v", a, b, n, err)
	}
}

// TestStatementsArePreparedOnADirectConnection: a statement is prepared when it is used for the second
// time, and once. Behind a pooler, none is.
func TestStatementsArePreparedOnADirectConnection(t *testing.T) {
	for engine, want := range map[string]int{dbtest.OnPostgres: 1, dbtest.OnPgBouncer: 0} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, engine, 1)
			q := w.prepared(t, "none")
			w.sum(t, q, 1, 2)
			if n := w.count(t, q, "bigint) + "); n != 0 {
				t.Errorf("%d statements are prepared at their first use", n)
			}
			for i := range int64(8) { // more often than Postgres plans it anew
				w.sum(t, q, i, 40)
			}
			if n := w.count(t, q, "bigint) + "); n != want {
				t.Errorf("%d statements are prepared, want %d", n, want)
			}
		})
	}
}

// TestAStatementWithAnOptionalConditionIsPlannedEachTime: with one plan for all arguments, a list of the tasks
// of one status would read the tasks of all.
func TestAStatementWithAnOptionalConditionIsPlannedEachTime(t *testing.T) {
	w := newWorld(t, dbtest.OnPostgres, 1)
	q := w.prepared(t, "none")
	for range 3 {
		var n int
		err := errors.Join(
			w.DB.One(t.Context(), "", []any{&n}, q.Any, nil),
			w.DB.One(t.Context(), "", []any{&n}, q.Bare, 7),
			w.DB.One(t.Context(), "", []any{&n}, q.Column, 1),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int{"any_of": 0, "bare_of": 0, "column_of": 1} {
		if n := w.count(t, q, name); n != want {
			t.Errorf("%d statements of %s are prepared, want %d", n, name, want)
		}
	}
}

// TestAPreparedStatementFollowsAMigration: a migration that changes the type of a column costs each
// connection one refusal, which says that the database is to be asked again.
func TestAPreparedStatementFollowsAMigration(t *testing.T) {
	w := newWorld(t, dbtest.OnPostgres, 1)
	table := w.name
	name := pgx.Identifier{table}.Sanitize()
	owner := dbtest.Connect(t, with(t, dbtest.Servers(t).PostgresURL, func(u *url.URL) { u.Path = pathOf(t, w.URL) }))
	for _, sql := range []string{"CREATE TABLE " + name + " (n int)", "GRANT SELECT ON " + name + " TO lanekeeper_app", "INSERT INTO " + name + " VALUES (7)"} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _, _ = owner.Exec(t.Context(), "DROP TABLE "+name) }()
	q := w.prepared(t, table)
	read := func() error {
		var n int64
		err := w.DB.One(t.Context(), "", []any{&n}, q.Where, 7)
		if err == nil && n != 7 {
			err = fmt.Errorf("read %d", n)
		}
		return err
	}
	for range 3 {
		if err := read(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := owner.Exec(t.Context(), "ALTER TABLE "+name+" ALTER n TYPE bigint"); err != nil {
		t.Fatal(err)
	}
	if err := read(); !errors.Is(err, db.ErrUnavailable) {
		t.Errorf("after the migration: got %v, want %v", err, db.ErrUnavailable)
	}
	for range 3 {
		if err := read(); err != nil {
			t.Errorf("on the next connection: %v", err)
		}
	}
}

// TestAForgottenStatement: a server that does not know a statement any more is asked on another
// connection, and none is prepared from then on: a pooler may pretend to be the server.
func TestAForgottenStatement(t *testing.T) {
	w := newWorld(t, dbtest.OnPostgres, 1)
	q := w.prepared(t, "none")
	for range int64(3) {
		w.sum(t, q, 1, 1)
	}
	if _, err := w.DB.Exec(t.Context(), "", q.Drop); err != nil {
		t.Fatal(err)
	}
	w.sum(t, q, 2, 2) // what begins a transaction is repeated on another connection
	for range 3 {
		w.sum(t, q, 3, 3)
	}
	if n := w.count(t, q, "bigint) + "); n != 0 {
		t.Errorf("%d statements are prepared", n)
	}
}

// TestAnErrorDoesNotPrepare: what the server skipped after an error is not taken for prepared.
func TestAnErrorDoesNotPrepare(t *testing.T) {
	w := newWorld(t, dbtest.OnPostgres, 1)
	q := w.prepared(t, "none")
	w.sum(t, q, 1, 1)
	for range 3 {
		var b db.Batch
		b.Exec(q.Fail, 0)
		b.Exec(q.Sum, 1, 1)
		if err := w.DB.Do(t.Context(), "", &b); err == nil {
			t.Fatal("a division by zero succeeded")
		}
	}
	w.sum(t, q, 4, 4)
	w.sum(t, q, 5, 5)
	if n := w.count(t, q, "bigint) + "); n != 1 {
		t.Errorf("%d statements are prepared, want 1", n)
	}
}

func pathOf(t testing.TB, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path
}
