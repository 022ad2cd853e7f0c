package task_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

// edges returns the statement that reads what tasks depend on, and adds 3,000 tasks to the workspace. Of these
// only the first depends on others: on the second, which depends on the third.
func edges(t *testing.T, w world) (q db.Query, first string) {
	t.Helper()
	queries, err := db.Parse(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	var b db.Batch
	var of [3000]string
	for i := range of {
		of[i] = ids()
		b.Exec(w.q.AddTask, of[i])
	}
	b.Exec(w.q.AddEdge, of[0], of[1])
	b.Exec(w.q.AddEdge, of[1], of[2])
	for i := 4; i < len(of); i++ { // the tasks of others
		b.Exec(w.q.AddEdge, of[i], of[i-1])
	}
	if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(of[:1])
	if err != nil {
		t.Fatal(err)
	}
	return queries[slices.IndexFunc(queries, func(q db.Query) bool { return q.Name() == "task.Edges" })], string(raw)
}

// planned is a step of a plan that Postgres has run.
type planned struct {
	Relation string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"`
	Removed  float64 `json:"Rows Removed by Filter"`
	Loops    float64 `json:"Actual Loops"`
	Plans    []planned
}

// read returns how many rows of a table a plan has read, about: Postgres tells an average of the loops.
func (p planned) read(table string) (rows float64) {
	if p.Relation == table {
		rows = (p.Rows + p.Removed) * p.Loops
	}
	for _, below := range p.Plans {
		rows += below.read(table)
	}
	return rows
}

// TestDependenciesAreReadAlongTheirEdges: what it takes to read what a task depends on does not grow with the
// workspace.
func TestDependenciesAreReadAlongTheirEdges(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnPostgres))
	q, first := edges(t, w)
	conn, err := pgx.Connect(t.Context(), w.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var raw []byte
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT lk_enter($1)", string(w.Workspace)); err != nil {
			return err
		}
		return tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "+q.Text(db.Postgres), string(w.Workspace), first).Scan(&raw)
	}); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan planned }
	if err := json.Unmarshal(raw, &plans); err != nil {
		t.Fatal(err)
	}
	if rows := plans[0].Plan.read("agent_task_dependencies"); rows < 1 || rows > 10 {
		t.Errorf("it reads %.0f edges for 2: %s", rows, raw)
	}
}

func TestDependenciesAreReadAlongTheirEdgesOnSQLite(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	q, first := edges(t, w)
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: w.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	defer read.Close()
	rows, err := read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+q.Text(db.SQLite), string(w.Workspace), first)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	along := 0
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(step, "SCAN d") || strings.HasPrefix(step, "SEARCH d") {
			along++
			if !strings.HasSuffix(step, "(workspace_id=? AND task_id=?)") {
				t.Errorf("a step reads more than the edges of a task: %s", step)
			}
		}
	}
	if err := rows.Err(); err != nil || along == 0 {
		t.Errorf("%d steps read edges (%v)", along, err)
	}
}
