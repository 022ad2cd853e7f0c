package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/memory"
)

type raw struct{ Fill, FillOthers, Touched db.Query }

func rawQueries(t testing.TB) (q raw) {
	t.Helper()
	dbtest.Load(t, "testdata", &q)
	return q
}

// crowd fills two workspaces with n memories each. The word that is rare in this one is in every
// memory of the other.
func crowd(t testing.TB, w world, q raw, n int) {
	t.Helper()
	there := dbtest.NewWorkspace(t, w.DB)
	portion := min(n, 10_000) // well within the time limit of a statement
	for from := 1; from <= n; from += portion {
		_, err1 := w.DB.Exec(t.Context(), w.Workspace, q.Fill, from, portion)
		_, err2 := w.DB.Exec(t.Context(), there, q.FillOthers, from, portion)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
	}
}

// vacuum does what autovacuum would do in the meantime. Without statistics, the join of the found
// rows is planned over the whole workspace, and the search index has a list of pending entries.
// Only the table's owner may run it.
func vacuum(t testing.TB, w world) {
	t.Helper()
	admin, err1 := url.Parse(dbtest.Servers(t).PostgresURL)
	here, err2 := url.Parse(w.URL)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	admin.Path = here.Path
	conn, err := pgx.Connect(t.Context(), admin.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "VACUUM (ANALYZE) agent_memory"); err != nil {
		t.Fatal(err)
	}
}

// Of 60,000 memories, a search reads the matching ones of its own workspace through the search
// index, at most 10,000. The test runs the application's own statement, with the application's
// role.
func TestASearchIsABoundedReadOnPostgres(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnPostgres))
	q := rawQueries(t)
	crowd(t, w, q, 30_000)
	conn, err := pgx.Connect(t.Context(), w.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	vacuum(t, w)
	for _, c := range []struct {
		name, words string
		prefix      bool
		found, read int64
		pages       float64 // of 8 KiB, of tables and indexes together
	}{
		{"rare here, in every one there", "rarely", false, 20, 30, 1500},
		{"its beginning", "everywhere rar", true, 20, 30, 1500},
		{"in one here and one there", "4711", false, 1, 1, 100},
		{"none", "absent everywhere", false, 0, 0, 100},
		{"in every one here and there", "everywhere", false, 20, 10_000, 1500},
	} {
		t.Run(c.name, func(t *testing.T) {
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := tx.Rollback(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			var role string
			if _, err := tx.Exec(t.Context(), "SELECT lk_enter('"+string(w.Workspace)+"')"); err != nil {
				t.Fatal(err)
			}
			if err := tx.QueryRow(t.Context(), "SELECT current_user").Scan(&role); err != nil || role != "lanekeeper_app" {
				t.Fatalf("it is %s who asks (%v)", role, err)
			}
			touched := func() (rows, scans, byWords int64) {
				if err := tx.QueryRow(t.Context(), q.Touched.Text(db.Postgres), string(w.Workspace)).Scan(&rows, &scans, &byWords); err != nil {
					t.Fatal(err)
				}
				return rows, scans, byWords
			}
			rowsBefore, scansBefore, byWordsBefore := touched()
			var plan json.RawMessage
			args := []any{string(w.Workspace), c.words, c.prefix, nil, nil, 0, false, 20, 0}
			if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+dbtest.Statement(t, "memory.Search").Text(db.Postgres), args...).Scan(&plan); err != nil {
				t.Fatal(err)
			}
			var explained []struct {
				Plan struct {
					Rows float64 `json:"Actual Rows"`
					Hit  float64 `json:"Shared Hit Blocks"`
					Read float64 `json:"Shared Read Blocks"`
				}
			}
			if err := json.Unmarshal(plan, &explained); err != nil {
				t.Fatal(err)
			}
			top := explained[0].Plan
			if int64(top.Rows) != c.found || top.Hit+top.Read > c.pages {
				t.Errorf("it finds %v memories in %v pages, want %d in %v at most", top.Rows, top.Hit+top.Read, c.found, c.pages)
			}
			rows, scans, byWords := touched()
			rows, scans, byWords = rows-rowsBefore, scans-scansBefore, byWords-byWordsBefore
			if rows != c.read || scans != 0 || byWords != 1 {
				t.Errorf("it reads %d rows, want %d, in %d scans of the table and %d of the index of words", rows, c.read, scans, byWords)
			}
		})
	}
	items, more, err := w.s.List(t.Context(), w.Workspace, memory.Filter{Text: "rarely", Limit: 200})
	if err != nil || len(items) != 30 || more {
		t.Errorf("%d memories, and more: %v (%v)", len(items), more, err)
	}
}

func TestASearchGoesAlongTheIndexOnSQLite(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	crowd(t, w, rawQueries(t), 3000)
	items, more, err := w.s.List(t.Context(), w.Workspace, memory.Filter{Text: "rarely", Limit: 200})
	if err != nil || len(items) != 3 || more {
		t.Errorf("%d memories, and more: %v (%v)", len(items), more, err)
	}
	all := strings.Join(w.ExplainSQLite(t, "memory.Search", "rarely", true, nil, nil, 0, false, 20, 0), "\n")
	for _, part := range []string{"SCAN agent_memory_words VIRTUAL TABLE INDEX", "SEARCH m USING INDEX", "(workspace_id=? AND id=?)"} {
		if !strings.Contains(all, part) {
			t.Errorf("%q is not in the plan:\n%s", part, all)
		}
	}
	if strings.Contains(all, "SCAN m") {
		t.Errorf("it reads the whole table:\n%s", all)
	}
}
