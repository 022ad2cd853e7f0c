package sqlite_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

// TestADiskThatIsFull: a write that finds no space has its own error, and the handle remembers it
// until a write succeeds.
func TestADiskThatIsFull(t *testing.T) {
	w := newWorld(t)
	d := open(t, sqlite.Config{Path: w.URL, Schema: migrations.Latest()})
	var q struct{ Limit, Unlimit, Add, Count db.Query }
	err := db.Load(fstest.MapFS{"full.sql": {Data: []byte(`
-- name: Limit
-- global: of this connection; what it has already is the least
PRAGMA max_page_count = 1;

-- name: Unlimit
-- global: of this connection
PRAGMA max_page_count = 1000000;

-- name: Add
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, input, created_at, updated_at)
VALUES ($1, $2, 'a', 'hb', 'hb_test', 'running', $3, lk_now(), lk_now());

-- name: Count
SELECT count(*) FROM executions WHERE workspace_id = $1;
`)}}, &q)
	if err != nil {
		t.Fatal(err)
	}
	exec := func(q db.Query, args ...any) error {
		_, err := d.Exec(t.Context(), w.Workspace, q, args...)
		return err
	}
	add := func() error { // more than the pages that are free since the migrations
		return exec(q.Add, uuid.NewString(), json.RawMessage(`{"x":"`+strings.Repeat("x", 1_000_000)+`"}`))
	}
	if err := exec(q.Limit); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := add(); !errors.Is(err, db.ErrFull) || !errors.Is(err, db.ErrUnavailable) || !d.Full() {
			t.Fatalf("with no space: %v, full: %v", err, d.Full())
		}
	}
	var n int
	if err := d.One(t.Context(), w.Workspace, []any{&n}, q.Count); err != nil || !d.Full() {
		t.Errorf("a read: %v; it says nothing of the space: %v", err, d.Full())
	}
	if err := errors.Join(exec(q.Unlimit), add()); err != nil || d.Full() {
		t.Errorf("with space again: %v, full: %v", err, d.Full())
	}
}
