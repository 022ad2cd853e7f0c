package thread_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
)

// TestOneThreadDoesNotReadTheOthers: what decides about one thread reads neither the queues of
// others nor the executions that have ended, also where the statistics are of a time when nothing
// was queued.
func TestOneThreadDoesNotReadTheOthers(t *testing.T) {
	const threads, each = 100, 20
	owner := dbtest.NewDatabase(t)
	if _, err := migrate.Postgres(t.Context(), owner, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	admin, login := connect(t, owner), connect(t, dbtest.AsLogin(owner))
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	ws, id := uuid.New(), func(kind, n int) uuid.UUID {
		return uuid.MustParse(fmt.Sprintf("00000000-0000-7000-800%d-%012d", kind, n))
	}
	const numbered = `('00000000-0000-7000-800' || $2::text || '-' || lpad(i::text, 12, '0'))::uuid`
	executions := func(kind int, status string, from, to int) {
		t.Helper()
		exec(`INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, can_inherit_lock, created_at, updated_at)
			SELECT $1, `+numbered+`, 'test', 'co', 'co_test', $3, true, lk_now(), lk_now() FROM generate_series($4::int, $5::int) i`, ws, kind, status, from, to)
	}
	messages := func(kind int, status string, from, to int) {
		t.Helper()
		exec(`INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, status, max_attempts, due_at, trace_id, execution_id, sent_at, created_at, updated_at)
			SELECT $1, `+numbered+`, 'message', 'message:test', 'key-' || $2 || '-' || i, 'thread:00000000-0000-7000-8001-' || lpad((i % $4 + 1)::text, 12, '0'),
			       i + $7::bigint, '{}', $3, 5, lk_now(), 'co_test', ('00000000-0000-7000-8003-' || lpad((i % $4 + 1)::text, 12, '0'))::uuid,
			       CASE WHEN $3 = 'sent' THEN lk_now() END, lk_now(), lk_now()
			  FROM generate_series($5::int, $6::int) i`, ws, kind, status, threads, from, to, map[string]int64{"queued": 1 << 40}[status])
	}
	exec("INSERT INTO workspaces (id, slug, name) VALUES ($1, 'many', 'Many')", ws)
	exec(`INSERT INTO threads (workspace_id, id, channel, address, created_at, updated_at)
		SELECT $1, `+numbered+`, 'test', i::text, lk_now(), lk_now() FROM generate_series(1, $3::int) i`, ws, 1, threads)
	executions(2, "completed", 1, 500)
	messages(4, "sent", 1, 500)
	for _, table := range []string{"threads", "executions", "outbox"} {
		exec("ALTER TABLE " + table + " SET (autovacuum_enabled = off)")
		exec("ANALYZE " + table)
	}
	executions(2, "completed", 501, 3_000)
	executions(3, "completed", 1, threads)                 // they have messages
	executions(5, "running", 1, threads)                   // they hold the threads
	messages(6, "queued", 1, threads*each)                 // in all threads
	messages(7, "ready", threads*each+1, threads*(each+1)) // one in each
	exec(`UPDATE threads SET active_execution_id = h.id, lock_stack = jsonb_build_array(h.id), execution_locked_at = lk_now()
		FROM (SELECT address, ('00000000-0000-7000-8005-' || lpad(address, 12, '0'))::uuid AS id FROM threads) h WHERE threads.address = h.address`)

	exec("UPDATE executions SET status = 'waiting' WHERE id = $1", id(5, 8))

	queries, err := db.Parse(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	list := func(thread int) string { return fmt.Sprintf("[%q]", id(1, thread)) }
	for name, q := range map[string]struct {
		name string
		args []any
	}{
		"who asks holds it":         {"thread.Take", []any{id(1, 7), id(5, 7), -600_000}},
		"who holds it lets go":      {"thread.Settle", []any{list(7), id(5, 7), nil}},
		"who holds it waits":        {"thread.Settle", []any{list(8), nil, nil}},
		"who holds it wakes others": {"thread.Wake", []any{list(7), int64(1) << 40}},
	} {
		pages, plan := pages(t, login, ws, queries[slices.IndexFunc(queries, func(known db.Query) bool { return known.Name() == q.name })], q.args...)
		t.Logf("%s: %d pages", name, pages)
		if most := 12 * each; pages > most { // a path to each message of the thread, and to its execution
			t.Errorf("%s reads %d pages, want at most %d: %s", name, pages, most, plan)
		}
	}
}

// pages runs a statement of the application in a transaction that is rolled back. It returns how many pages of
// the database the statement reads, and its plan.
func pages(t *testing.T, login *pgx.Conn, ws uuid.UUID, q db.Query, args ...any) (read int, plan json.RawMessage) {
	t.Helper()
	tx, err := login.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "SELECT lk_enter($1)", ws)
	}
	if err == nil {
		err = tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+q.Text(db.Postgres), append([]any{ws.String()}, args...)...).Scan(&plan)
	}
	if err != nil {
		t.Fatal(q.Name(), err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	var top []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal(plan, &top); err != nil {
		t.Fatal(err)
	}
	return top[0].Plan.Hit + top[0].Plan.Read, plan
}

// TestAPageOfThreadsReadsThePageAlone: a list of conversations does not read the conversations behind its
// page, nor the executions of others.
func TestAPageOfThreadsReadsThePageAlone(t *testing.T) {
	owner := dbtest.NewDatabase(t)
	if _, err := migrate.Postgres(t.Context(), owner, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	admin, login, ws := connect(t, owner), connect(t, dbtest.AsLogin(owner)), uuid.New()
	for _, sql := range []string{
		"INSERT INTO workspaces (id, slug, name) VALUES ($1, 'many', 'Many')",
		`INSERT INTO threads (workspace_id, id, channel, address, created_at, updated_at)
			SELECT $1, gen_random_uuid(), 'test', i::text, lk_now(), lk_now() FROM generate_series(1, 5000) i`,
		`INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, created_at, updated_at)
			SELECT $1, gen_random_uuid(), 'test', 'co', 'co_test', 'completed', lk_now(), lk_now() FROM generate_series(1, 20000) i`,
	} {
		if _, err := admin.Exec(t.Context(), sql, ws); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.Exec(t.Context(), "ANALYZE threads, executions"); err != nil {
		t.Fatal(err)
	}
	var ids string
	if err := admin.QueryRow(t.Context(), "SELECT json_agg(t.id)::text FROM (SELECT id FROM threads LIMIT 50) t").Scan(&ids); err != nil {
		t.Fatal(err)
	}
	queries, err := db.Parse(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]any{
		"thread.List":    {-600_000, nil, nil, nil, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "ffffffff-ffff-ffff-ffff-ffffffffffff", 51},
		"thread.Glances": {ids, 300},
	} {
		read, plan := pages(t, login, ws, queries[slices.IndexFunc(queries, func(q db.Query) bool { return q.Name() == name })], args...)
		if t.Logf("%s: %d pages", name, read); read > 50*8 {
			t.Errorf("%s reads %d pages for 50 threads: %s", name, read, plan)
		}
	}
}

// connect opens a connection in the mode that the product uses.
func connect(t *testing.T, url string) *pgx.Conn {
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
