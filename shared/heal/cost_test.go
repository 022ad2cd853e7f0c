package heal_test

import (
	"context"
	"encoding/json"
	"fmt"
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
)

// rows is the number of activity rows in the table: calls of 200 skills in the last two and a half
// days.
const rows = 1_000_000

// TestALookReadsLittleOfAMillionRows: it follows the index and reads the newest calls of each skill
// only. So does the query for the used skills.
func TestALookReadsLittleOfAMillionRows(t *testing.T) {
	const ws = db.Workspace("00000000-0000-7000-8000-0000000000aa")
	owner := dbtest.NewDatabase(t)
	begun := time.Now()
	fill(t, owner, ws)
	conn, err := pgx.Connect(t.Context(), dbtest.AsLogin(owner))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	t.Logf("%d rows in %v", rows, time.Since(begun).Round(time.Second))
	queries, err := db.Parse(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprint("skill_", i))
	}
	builtins, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	const days = int64(3 * 24 * 3600 * 1000)
	for name, args := range map[string][]any{"heal.Diagnose": {3, days, string(builtins)}, "heal.Used": {days}} {
		q := queries[slices.IndexFunc(queries, func(q db.Query) bool { return q.Name() == name })]
		var raw json.RawMessage
		within(t, conn, ws, func(tx pgx.Tx) error {
			return tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+q.Text(db.Postgres), append([]any{string(ws)}, args...)...).Scan(&raw)
		})
		var plan []struct {
			Plan struct {
				Hit   int `json:"Shared Hit Blocks"`
				Read  int `json:"Shared Read Blocks"`
				Found int `json:"Actual Rows"`
			}
			Time float64 `json:"Execution Time"`
		}
		if err := json.Unmarshal(raw, &plan); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d pages, %.0f ms, %d found", name, plan[0].Plan.Hit+plan[0].Plan.Read, plan[0].Time, plan[0].Plan.Found)
		if !strings.Contains(string(raw), `"agent_activity_judged"`) || seqScans(raw, "agent_activity") {
			t.Errorf("%s does not go along its index: %s", name, raw)
		}
		if pages := plan[0].Plan.Hit + plan[0].Plan.Read; pages > 20_000 { // 200 skills: 20 calls of each and the path to them
			t.Errorf("%s read %d pages: %s", name, pages, raw)
		}
	}
}

// fill writes the rows before it creates the indexes, which is faster.
func fill(t testing.TB, owner string, ws db.Workspace) {
	t.Helper()
	if _, err := migrate.Postgres(t.Context(), owner, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	indexes := map[string]string{}
	for _, name := range []string{"judged", "skill", "newest", "trace", "conversation", "execution"} {
		name = "agent_activity_" + name
		var definition string
		if err := conn.QueryRow(t.Context(), "SELECT indexdef FROM pg_indexes WHERE indexname = $1", name).Scan(&definition); err != nil {
			t.Fatal(err)
		}
		indexes[name] = definition
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	for name := range indexes {
		exec("DROP INDEX " + name)
	}
	exec("INSERT INTO workspaces (id, slug, name) VALUES ($1, 'many', 'Many')", string(ws))
	exec("ALTER TABLE agent_activity DISABLE TRIGGER event_added") // nobody reads their events
	const part = 50_000                                            // per transaction: others of the cluster wait for a long one
	for done := 0; done < rows; done += part {
		exec(`INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, output, trace_id, created_at)
			SELECT $1, ('00000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 'operator', 'hb', 'skill_' || i % 200,
			       CASE WHEN i % 200 < 5 AND i < 800 OR i % 3 = 0 THEN 'error' ELSE 'success' END, '{"class":"theirs"}', 'hb_x', lk_now() - i * interval '0.2 s'
			  FROM generate_series($2::int + 1, $2::int + $3::int) AS i`, string(ws), done, part)
	}
	exec("ALTER TABLE agent_activity ENABLE TRIGGER event_added")
	for _, name := range []string{"agent_activity_judged", "agent_activity_skill"} {
		exec(indexes[name])
	}
}

// seqScans reports whether a plan scans the whole table.
func seqScans(plan []byte, table string) bool {
	var node func(v any) bool
	node = func(v any) bool {
		switch v := v.(type) {
		case []any:
			return slices.ContainsFunc(v, node)
		case map[string]any:
			if v["Node Type"] == "Seq Scan" && v["Relation Name"] == table {
				return true
			}
			for _, inner := range v {
				if node(inner) {
					return true
				}
			}
		}
		return false
	}
	var v any
	return json.Unmarshal(plan, &v) == nil && node(v)
}

// within runs fn in a transaction of the application.
func within(t testing.TB, conn *pgx.Conn, ws db.Workspace, fn func(pgx.Tx) error) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), fmt.Sprintf("SELECT lk_enter('%s')", ws)); err != nil {
			return err
		}
		return fn(tx)
	})
	if err != nil {
		t.Fatal(err)
	}
}
