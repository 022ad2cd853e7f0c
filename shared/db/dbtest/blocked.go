package dbtest

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// AwaitBlocked returns when a session waits for a row that tx has locked, or when done is closed.
// On SQLite the one writer blocks all others, so there it returns at once.
func AwaitBlocked(ctx context.Context, t testing.TB, d db.Dialect, tx *db.Tx, done <-chan struct{}) {
	t.Helper()
	if d == db.SQLite {
		return
	}
	var q struct{ Blocks db.Query }
	err := db.Load(fstest.MapFS{"blocked.sql": {Data: []byte(`
-- name: Blocks
-- global: about the connection
SELECT EXISTS (SELECT 1 FROM pg_locks l WHERE NOT l.granted AND pg_backend_pid() = ANY (pg_blocking_pids(l.pid)));
`)}}, &q)
	if err != nil {
		t.Error(err)
		return
	}
	for until := time.Now().Add(time.Minute); ; {
		var blocks bool
		if err := tx.One(ctx, []any{&blocks}, q.Blocks); err != nil {
			t.Error(err)
			return
		}
		if blocks {
			return
		}
		select {
		case <-done:
			return
		default:
		}
		if time.Now().After(until) {
			t.Error("nobody waits for what the transaction has locked")
			return
		}
	}
}
