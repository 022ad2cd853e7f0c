package memory_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
	"github.com/lanekeeper/lanekeeper/shared/memory"
)

// The search function runs with its owner's rights. It finds rows of the transaction's workspace
// only, nothing without a workspace, and accepts any text.
func TestTheFunctionKeepsToTheWorkspace(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnPostgres))
	there := w.neighbour(t)
	w.save(t, memory.Memory{Content: "our tea"})
	there.save(t, memory.Memory{Content: "their tea"})
	conn, err := pgx.Connect(t.Context(), w.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	found := func(ws any, text string) (n int) {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := tx.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		if _, err := tx.Exec(t.Context(), "SELECT lk_enter($1)", ws); err != nil {
			t.Fatal(err)
		}
		const search = "SELECT count(*) FROM lk_search_memory($1, true, NULL, NULL, 0, true, 100, 0)"
		if err := tx.QueryRow(t.Context(), search, text).Scan(&n); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		return n
	}
	for text, want := range map[string]int{
		"tea": 1, "their": 0, "our": 1, "": 0, " ": 0, "☕": 0, "' | 'their": 0, "tea' | 'their": 0, `tea\`: 1, "tea:*": 1, "!their": 0, string(w.Workspace): 0, string(there.Workspace): 0,
	} {
		if n := found(string(w.Workspace), text); n != want {
			t.Errorf("%q finds %d", text, n)
		}
		if n := found(nil, text); n != 0 {
			t.Errorf("%q finds %d in no workspace", text, n)
		}
	}
}

// Deleting a workspace deletes its words from the search index.
func TestADeletedWorkspaceLeavesNoWords(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	w.save(t, memory.Memory{Content: "tea"})
	there := w.neighbour(t)
	there.save(t, memory.Memory{Content: "tea"})
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: w.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	defer read.Close()
	if _, err := write.ExecContext(t.Context(), "DELETE FROM workspaces WHERE id = $1", string(w.Workspace)); err != nil {
		t.Fatal(err)
	}
	var n int
	var sound string
	if err := read.QueryRowContext(t.Context(), "SELECT count(*) FROM agent_memory_words WHERE agent_memory_words MATCH 'tea'").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d are found (%v)", n, err)
	}
	if err := write.QueryRowContext(t.Context(), "PRAGMA quick_check").Scan(&sound); err != nil || sound != "ok" {
		t.Errorf("the file is %s (%v)", sound, err)
	}
	if got, _ := there.list(t, memory.Filter{Text: "tea"}); len(got) != 1 {
		t.Errorf("the other workspace has %q", got)
	}
}
