package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
	"github.com/lanekeeper/lanekeeper/shared/execution"
)

// TestAConversationIsSummedUpAlongItsIndex on either engine: the sum reads no other conversation.
func TestAConversationIsSummedUpAlongItsIndex(t *testing.T) {
	queries, err := db.Parse(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	sum := queries[slices.IndexFunc(queries, func(q db.Query) bool { return q.Name() == "execution.SpentIn" })]
	for _, engine := range []string{dbtest.OnSQLite, dbtest.OnPostgres} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, dbtest.New(t, engine))
			args := []any{string(w.Workspace), "thread", "00000000-0000-7000-8000-000000000000", -execution.Spell.Milliseconds()}
			plan := ""
			if engine == dbtest.OnSQLite {
				write, read, err := sqlite.OpenPools(sqlite.Config{Path: w.URL})
				if err != nil {
					t.Fatal(err)
				}
				defer write.Close()
				defer read.Close()
				var id, parent, unused int
				if err := read.QueryRowContext(t.Context(), "EXPLAIN QUERY PLAN "+sum.Text(db.SQLite), args...).Scan(&id, &parent, &unused, &plan); err != nil {
					t.Fatal(err)
				}
			} else {
				conn, err := pgx.Connect(t.Context(), w.URL)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(context.Background())
				err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
					_, entered := tx.Exec(t.Context(), "SELECT lk_enter($1)", string(w.Workspace))
					_, set := tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off")
					return errors.Join(entered, set, tx.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+sum.Text(db.Postgres), args...).Scan(&plan))
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if !strings.Contains(plan, "executions_thread") {
				t.Errorf("it is read by %s", plan)
			}
		})
	}
}

// TestAListingReadsNoMoreThanItLists: the few executions of a status, an agent or a subject are
// found among a hundred thousand.
func TestAListingReadsNoMoreThanItLists(t *testing.T) {
	const ws = "00000000-0000-7000-8000-0000000000aa"
	owner := dbtest.NewDatabase(t)
	if _, err := migrate.Postgres(t.Context(), owner, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, statement := range []string{
		"INSERT INTO workspaces (id, slug, name) VALUES ('" + ws + "', 'many', 'Many')",
		"ALTER TABLE executions DISABLE TRIGGER event_added", // nobody reads their events
		`INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, status, created_at, updated_at)
		 SELECT '` + ws + `', gen_random_uuid(), CASE WHEN n % 20000 = 7 THEN 'rare' ELSE 'flowpilot' END, 'hb', 'hb_0mh8c1v2q_a7x2p1k9d4',
		        CASE WHEN n % 20000 = 9 THEN 'objective:rare' ELSE 'heartbeat' END, CASE WHEN n % 20000 = 11 THEN 'failed' ELSE 'completed' END,
		        lk_plus(lk_now(), n), lk_now()
		   FROM generate_series(1, 100000) n`,
		"ANALYZE executions",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	queries, err := db.Parse(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	list := queries[slices.IndexFunc(queries, func(q db.Query) bool { return q.Name() == "execution.List" })]
	app, err := pgx.Connect(t.Context(), dbtest.AsLogin(owner))
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close(context.Background())
	for name, filter := range map[string][3]any{"executions_agent": {"rare"}, "executions_status": {nil, "failed"}, "executions_subject": {nil, nil, "objective:rare"}} {
		var raw json.RawMessage
		err := pgx.BeginFunc(t.Context(), app, func(tx pgx.Tx) error {
			_, entered := tx.Exec(t.Context(), "SELECT lk_enter($1)", ws)
			return errors.Join(entered, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+list.Text(db.Postgres), pgx.QueryExecModeExec,
				ws, filter[0], nil, filter[1], nil, filter[2], time.Unix(0, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
				time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "ffffffff-ffff-ffff-ffff-ffffffffffff", 51, false).Scan(&raw))
		})
		if err != nil {
			t.Fatal(err)
		}
		var plan []struct {
			Plan struct {
				Hit   int     `json:"Shared Hit Blocks"`
				Read  int     `json:"Shared Read Blocks"`
				Found float64 `json:"Actual Rows"`
			}
		}
		if err := json.Unmarshal(raw, &plan); err != nil {
			t.Fatal(err)
		}
		if pages := plan[0].Plan.Hit + plan[0].Plan.Read; pages > 100 || plan[0].Plan.Found != 5 || !strings.Contains(string(raw), `"`+name+`"`) {
			t.Errorf("by %s it reads %d pages for %g rows: %s", name, pages, plan[0].Plan.Found, raw)
		}
	}
}
