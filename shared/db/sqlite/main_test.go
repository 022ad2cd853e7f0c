package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(helperFile); path != "" {
		if err := help(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// The statements of the tests.
const source = `
-- name: Add
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, attempt, created_at, updated_at)
VALUES ($1, $2, 'a', 'hb', 'hb_test', 'running', 0, lk_now(), lk_now());

-- name: Count
SELECT attempt FROM executions WHERE workspace_id = $1 AND id = $2;

-- name: Set
UPDATE executions SET attempt = $3 WHERE workspace_id = $1 AND id = $2;

-- name: Rows
SELECT count(*) FROM executions WHERE workspace_id = $1;

-- name: AddMany
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, created_at, updated_at)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000)
SELECT $1, $2 || i, 'a', 'hb', 'hb_test', 'running', 0, 0 FROM n;

-- name: Slow
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000)
SELECT count(*) FROM n WHERE $1 <> '';
`

type queries struct{ Add, Count, Set, Rows, AddMany, Slow db.Query }

// world is a workspace in its own file.
type world struct {
	dbtest.Env
	q queries
}

func newWorld(t testing.TB) world {
	t.Helper()
	w := world{Env: dbtest.New(t, dbtest.OnSQLite)}
	if err := load(&w.q); err != nil {
		t.Fatal(err)
	}
	return w
}

func load(q *queries) error {
	return db.Load(fstest.MapFS{"test.sql": {Data: []byte(source)}}, q)
}

func (w world) add(t testing.TB) (id string) {
	t.Helper()
	id = uuid.NewString()
	if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Add, id); err != nil {
		t.Fatal(err)
	}
	return id
}

// increment reads, waits and writes.
func (q queries) increment(ctx context.Context, d *db.DB, ws db.Workspace, id string) error {
	return d.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		var n int
		if err := tx.One(ctx, []any{&n}, q.Count, id); err != nil {
			return err
		}
		tx.Later().Exec(q.Set, id, n+1)
		return nil
	})
}

// counts fails unless the counter has the value want.
func (w world) counts(t testing.TB, d *db.DB, id string, want int) {
	t.Helper()
	var n int
	if err := d.One(t.Context(), w.Workspace, []any{&n}, w.q.Count, id); err != nil || n != want {
		t.Errorf("the counter stands at %d, %v; want %d", n, err, want)
	}
}

// open is sqlite.Open. It closes the handle at the end of the test.
func open(t testing.TB, cfg sqlite.Config) *db.DB {
	t.Helper()
	d, err := sqlite.Open(t.Context(), cfg)
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
