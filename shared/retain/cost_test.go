package retain_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
)

// TestAPurgeComparesNoRowWithAll checks that a purge compares no row of the workspace with each row that it deletes,
// also where the planner expects none of the workspace's rows: its statistics are of another workspace.
func TestAPurgeComparesNoRowWithAll(t *testing.T) {
	const rows, batch = 5_000, 2_000
	dsn := dbtest.NewDatabase(t)
	if _, err := migrate.Postgres(t.Context(), dsn, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	owner, login := connect(t, dsn), connect(t, dbtest.AsLogin(dsn))
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	queries, err := db.Parse(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := uuid.New(), uuid.New()
	for _, ws := range []uuid.UUID{ours, theirs} {
		exec("INSERT INTO workspaces (id, slug, name) VALUES ($1, $2, 'Many')", ws, "many-"+ws.String())
	}
	for table, of := range map[string]struct{ query, fill string }{
		"executions": {"retain.Executions", `INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, created_at, updated_at, ended_at)
			SELECT $1, gen_random_uuid(), 'operator', 'op', 'op_test', 'completed', lk_now() - interval '91 days', lk_now() - interval '91 days', lk_now() - interval '91 days'
			  FROM generate_series(1, $2::int)`},
		"outbox": {"retain.Outbox", `INSERT INTO outbox (workspace_id, id, kind, topic, key, payload, status, max_attempts, due_at, trace_id, created_at, updated_at)
			SELECT $1, gen_random_uuid(), 'kick', 'x', gen_random_uuid()::text, '{}', 'failed', 1, lk_now(), 'op_test', lk_now() - interval '91 days', lk_now() - interval '91 days'
			  FROM generate_series(1, $2::int)`},
		"agent_memory": {"retain.Memories", `INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, expires_at, created_at, updated_at)
			SELECT $1, gen_random_uuid(), 'operator', 'fact', 'x', gen_random_uuid()::text, lk_now() - interval '91 days', lk_now(), lk_now()
			  FROM generate_series(1, $2::int)`},
	} {
		t.Run(table, func(t *testing.T) {
			exec("ALTER TABLE " + table + " SET (autovacuum_enabled = off)")
			exec("ALTER TABLE " + table + " DISABLE TRIGGER USER")
			exec(of.fill, theirs, 1_000)
			exec("ANALYZE " + table)
			exec(of.fill, ours, rows)
			text := queries[slices.IndexFunc(queries, func(q db.Query) bool { return q.Name() == of.query })].Text(db.Postgres)
			var plan json.RawMessage
			err := pgx.BeginFunc(t.Context(), login, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), "SELECT lk_enter($1)", ours); err != nil {
					return err
				}
				return tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+text, ours.String(), int64(90*86_400_000)).Scan(&plan)
			})
			if err != nil {
				t.Fatal(err)
			}
			var top []struct{ Plan node }
			if err := json.Unmarshal(plan, &top); err != nil {
				t.Fatal(err)
			}
			if got := top[0].Plan.Rows; got != batch {
				t.Errorf("it deletes %v rows, not %d", got, batch)
			}
			if compared := top[0].Plan.compared(); compared > rows {
				t.Errorf("to delete %d of %d rows it makes %.0f comparisons: %s", batch, rows, compared, plan)
			}
		})
	}
}

// node is a step of a plan that was run.
type node struct {
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Refused float64 `json:"Rows Removed by Join Filter"` // in each loop
	Plans   []node
}

// compared returns how many pairs of rows a plan has compared in vain.
func (n node) compared() float64 {
	sum := n.Refused * n.Loops
	for _, part := range n.Plans {
		sum += part.compared()
	}
	return sum
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
