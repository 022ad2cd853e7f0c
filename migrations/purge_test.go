package migrations_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestAPurgeReadsWhatItDeletes, a few times over, where the planner expects none of the
// workspace's rows: its statistics are of another workspace.
func TestAPurgeReadsWhatItDeletes(t *testing.T) {
	const rows, batch = 5_000, 2_000
	ours, theirs := uuid.New(), uuid.New()
	dsn, owner := newPostgres(t)
	run := func(query string, args ...any) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	for _, ws := range []uuid.UUID{ours, theirs} {
		run("INSERT INTO workspaces (id, slug, name) VALUES ($1, $2, 'Many')", ws, "many-"+ws.String())
	}
	run("ALTER TABLE agent_activity DISABLE TRIGGER event_added") // else each row has an event
	login := dbtest.Connect(t, dbtest.AsLogin(dsn))
	for table, fill := range map[string]string{
		"agent_activity": `INSERT INTO agent_activity (workspace_id, id, agent, surface, status, trace_id, created_at)
			SELECT $1, gen_random_uuid(), 'operator', 'op', 'success', 'op_test', lk_now() - interval '40 days' - i * interval '1 second'
			  FROM generate_series(1, $2::int) i`,
		"events": `INSERT INTO events (workspace_id, kind, created_at)
			SELECT $1, 'test.happened', lk_now() - interval '40 days' FROM generate_series(1, $2::int)`,
		"agent_usage_logs": `INSERT INTO agent_usage_logs (workspace_id, id, trace_id, agent, surface, operation, model,
			                              input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, created_at)
			SELECT $1, gen_random_uuid(), 'op_test', 'operator', 'op', 'reason', 'm', 1, 1, 0, 0, lk_now() - interval '40 days' - i % 10 * interval '1 second'
			  FROM generate_series(1, $2::int) i`,
	} {
		t.Run(table, func(t *testing.T) {
			run("ALTER TABLE " + table + " SET (autovacuum_enabled = off)")
			run(fill, theirs, 1_000)
			run("ANALYZE " + table)
			run(fill, ours, rows)
			function := map[string]string{"agent_activity": "activity", "events": "events", "agent_usage_logs": "usage"}[table]
			for _, want := range []int{batch, batch, rows - 2*batch, 0} {
				var gone, before, after int
				err := pgx.BeginFunc(t.Context(), login, func(tx pgx.Tx) error {
					const read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = $1" // sometimes by several transactions
					_, err1 := tx.Exec(t.Context(), "SELECT lk_enter($1)", ours)
					err2 := tx.QueryRow(t.Context(), read, table).Scan(&before)
					err3 := tx.QueryRow(t.Context(), fmt.Sprintf("SELECT lk_purge_%s(30 * 86400000::bigint)", function)).Scan(&gone)
					err4 := tx.QueryRow(t.Context(), read, table).Scan(&after)
					return errors.Join(err1, err2, err3, err4)
				})
				read := after - before
				if err != nil || gone != want {
					t.Fatalf("%d rows are deleted, want %d: %v", gone, want, err)
				}
				if most := 3 * (rows + 1_000); read > most { // also where it reads the whole table
					t.Errorf("to delete %d rows it reads %d, want at most %d", gone, read, most)
				}
			}
			if left := one[int](t, owner, "SELECT count(*) FROM "+table+" WHERE workspace_id = $1", theirs); left != 1_000 {
				t.Errorf("of another workspace's 1000 rows %d are left", left)
			}
		})
	}
}
