package thread_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// TestOneThreadDoesNotReadTheOthers: what decides about one thread reads neither the queues of
// others nor the executions that have ended, also where the statistics are of a time when nothing
// was queued.
func TestOneThreadDoesNotReadTheOthers(t *testing.T) {
	const threads, each = 100, 20
	g := dbtest.NewGrown(t)
	id := func(kind, n int) uuid.UUID {
		return uuid.MustParse(fmt.Sprintf("00000000-0000-7000-800%d-%012d", kind, n))
	}
	const numbered = `('00000000-0000-7000-800' || $2::text || '-' || lpad(i::text, 12, '0'))::uuid`
	executions := func(kind int, status string, from, to int) {
		t.Helper()
		g.Exec(t, `INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, can_inherit_lock, created_at, updated_at)
			SELECT $1, `+numbered+`, 'test', 'co', 'co_test', $3, true, lk_now(), lk_now() FROM generate_series($4::int, $5::int) i`, string(g.Workspace), kind, status, from, to)
	}
	messages := func(kind int, status string, from, to int) {
		t.Helper()
		g.Exec(t, `INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, status, max_attempts, due_at, trace_id, execution_id, sent_at, created_at, updated_at)
			SELECT $1, `+numbered+`, 'message', 'message:test', 'key-' || $2 || '-' || i, 'thread:00000000-0000-7000-8001-' || lpad((i % $4 + 1)::text, 12, '0'),
			       i + $7::bigint, '{}', $3, 5, lk_now(), 'co_test', ('00000000-0000-7000-8003-' || lpad((i % $4 + 1)::text, 12, '0'))::uuid,
			       CASE WHEN $3 = 'sent' THEN lk_now() END, lk_now(), lk_now()
			  FROM generate_series($5::int, $6::int) i`, string(g.Workspace), kind, status, threads, from, to, map[string]int64{"queued": 1 << 40}[status])
	}
	g.Exec(t, `INSERT INTO threads (workspace_id, id, channel, address, created_at, updated_at)
		SELECT $1, `+numbered+`, 'test', i::text, lk_now(), lk_now() FROM generate_series(1, $3::int) i`, string(g.Workspace), 1, threads)
	executions(2, "completed", 1, 500)
	messages(4, "sent", 1, 500)
	for _, table := range []string{"threads", "executions", "outbox"} {
		g.Exec(t, "ALTER TABLE "+table+" SET (autovacuum_enabled = off)")
		g.Exec(t, "ANALYZE "+table)
	}
	executions(2, "completed", 501, 3_000)
	executions(3, "completed", 1, threads)                 // they have messages
	executions(5, "running", 1, threads)                   // they hold the threads
	messages(6, "queued", 1, threads*each)                 // in all threads
	messages(7, "ready", threads*each+1, threads*(each+1)) // one in each
	g.Exec(t, `UPDATE threads SET active_execution_id = h.id, lock_stack = jsonb_build_array(h.id), execution_locked_at = lk_now()
		FROM (SELECT address, ('00000000-0000-7000-8005-' || lpad(address, 12, '0'))::uuid AS id FROM threads) h WHERE threads.address = h.address`)

	g.Exec(t, "UPDATE executions SET status = 'waiting' WHERE id = $1", id(5, 8))

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
		plan := g.Explain(t, q.name, q.args...)
		t.Logf("%s: %d pages", name, plan.Pages())
		if most := 12 * each; plan.Pages() > most { // a path to each message of the thread, and to its execution
			t.Errorf("%s reads %d pages, want at most %d: %s", name, plan.Pages(), most, plan)
		}
	}
}

// TestAPageOfThreadsReadsThePageAlone: a list of conversations does not read the conversations behind its
// page, nor the executions of others.
func TestAPageOfThreadsReadsThePageAlone(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Exec(t, "ALTER TABLE executions DISABLE TRIGGER event_added") // nobody reads their events
	g.Fill(t,
		`INSERT INTO threads (workspace_id, id, channel, address, created_at, updated_at)
			SELECT $1, ('00000000-0000-7000-8001-' || lpad(i::text, 12, '0'))::uuid, 'test', i::text, lk_now(), lk_now() FROM generate_series(1, 5000) i`,
		`INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, created_at, updated_at)
			SELECT $1, gen_random_uuid(), 'test', 'co', 'co_test', 'completed', lk_now(), lk_now() FROM generate_series(1, 20000) i`)
	g.Exec(t, "ANALYZE threads, executions")
	var ids []string
	for i := range 50 {
		ids = append(ids, fmt.Sprintf("%q", fmt.Sprintf("00000000-0000-7000-8001-%012d", i+1)))
	}
	for name, args := range map[string][]any{
		"thread.List":    {-600_000, nil, nil, nil, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "ffffffff-ffff-ffff-ffff-ffffffffffff", 51},
		"thread.Glances": {"[" + strings.Join(ids, ",") + "]", 300},
	} {
		plan := g.Explain(t, name, args...)
		if t.Logf("%s: %d pages", name, plan.Pages()); plan.Pages() > 50*8 {
			t.Errorf("%s reads %d pages for 50 threads: %s", name, plan.Pages(), plan)
		}
	}
}

// TestASweepReadsNoThreadThatNobodyWaitsFor: it looks at those that have something queued.
func TestASweepReadsNoThreadThatNobodyWaitsFor(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Fill(t, `INSERT INTO threads (workspace_id, id, channel, address, created_at, updated_at)
			SELECT $1, ('00000000-0000-7000-8001-' || lpad(i::text, 12, '0'))::uuid, 'test', i::text, lk_now(), lk_now()
			  FROM generate_series(1, 5000) i`,
		`INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, status, max_attempts, due_at,
			                    trace_id, created_at, updated_at)
			SELECT $1, t.id, 'message', 'message:test', t.address, 'thread:' || t.id, 1, '{}', 'queued', 5, lk_now(),
			       'co_test', lk_now(), lk_now()
			  FROM threads t
			 WHERE t.workspace_id = $1 AND t.address = '7'`)
	g.Exec(t, "ANALYZE threads, outbox")
	if plan := g.Explain(t, "thread.Forgotten", 50); plan.Rows != 1 || plan.Pages() > 40 {
		t.Errorf("a sweep that finds %.0f threads reads %d pages: %s", plan.Rows, plan.Pages(), plan)
	}
}

// TestWhatEndsAHoldIsPlannedOnce, whether its holder lets go or it is taken away.
func TestWhatEndsAHoldIsPlannedOnce(t *testing.T) {
	w := newWorld(t, dbtest.OneConnection(t))
	for i := range 3 {
		th, a := w.open(t, fmt.Sprint(i)), w.begin(t, "", false)
		w.mustLock(t, th, a, thread.Acquired)
		w.must(t, func(ctx context.Context, tx *db.Tx) error { return w.threads.Unlock(ctx, tx, th, a) })
		w.mustLock(t, th, a, thread.Acquired)
		w.must(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.threads.ForceUnlock(ctx, tx, th)
			return err
		})
	}
	if n := w.Plans(t, "), heirs AS ("); n != 1 {
		t.Errorf("the plans of %d statements that settle threads are kept, want 1", n)
	}
}

// TestAThreadIsSettledByItselfOnSQLite: no other is read.
func TestAThreadIsSettledByItselfOnSQLite(t *testing.T) {
	lite := dbtest.New(t, dbtest.OnSQLite)
	for name, args := range map[string][]any{
		"thread.Settle": {"[]", nil, 0},
	} {
		if all := lite.ReadsAllOnSQLite(t, name, args...); len(all) > 0 {
			t.Errorf("%s reads all: %q", name, all)
		}
	}
}
