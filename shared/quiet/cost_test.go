package quiet_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
)

// TestALookReadsLittleOfALongLog: whether a skill was used since the last reflection is looked up behind that
// reflection, however long the log is.
func TestALookReadsLittleOfALongLog(t *testing.T) {
	const ws = "00000000-0000-7000-8000-0000000000aa"
	owner := dbtest.NewDatabase(t)
	if _, err := migrate.Postgres(t.Context(), owner, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	admin, err := pgx.Connect(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	for _, sql := range []string{
		"INSERT INTO workspaces (id, slug, name) VALUES ('" + ws + "', 'many', 'Many')",
		`INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, trace_id, created_at)
			SELECT '` + ws + `', gen_random_uuid(), 'pilot', 'hb', 'tidy', 'success', 'hb_1', lk_plus(lk_now(), -60000 - 60000 * CAST(i AS bigint))
			  FROM generate_series(1, 30000) i`,
		`INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, output, trace_id, created_at)
			VALUES ('` + ws + `', gen_random_uuid(), 'pilot', 'hb', 'heartbeat.reflection', 'success', '{"text": "all is well"}', 'hb_2', lk_now())`,
		"ANALYZE agent_activity",
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	conn, err := pgx.Connect(t.Context(), dbtest.AsLogin(owner))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	queries, err := db.Parse(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	const month = 30 * 24 * 3600 * 1000
	var raw []byte
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT lk_enter($1)", ws); err != nil {
			return err
		}
		return tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+queries[0].Text(db.Postgres), pgx.QueryExecModeExec,
			ws, "9999", `["beat"]`, 600_000, 600_000, 3, 3*24*3600*1000, "heartbeat.reflection", month).Scan(&raw)
	}); err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal(raw, &plans); err != nil {
		t.Fatal(err)
	}
	if read := plans[0].Plan.Hit + plans[0].Plan.Read; read > 200 {
		t.Errorf("a look reads %d pages: %s", read, raw)
	} else {
		t.Logf("%d pages", read)
	}
}
