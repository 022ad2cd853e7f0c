package migrations_test

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// Deleting a workspace deletes its rows in every table, and no other workspace's. The application
// may do it.
func TestAWorkspaceGoesWithAllItHas(t *testing.T) {
	ours, theirs := uuid.New(), uuid.New()
	t.Run(dbtest.OnPostgres, func(t *testing.T) {
		dsn, owner := newPostgres(t)
		b := newBuilder(t, owner)
		b.fill(t, ours)
		b.fill(t, theirs)
		err := pgx.BeginFunc(t.Context(), dbtest.Connect(t, dbtest.AsLogin(dsn)), func(tx pgx.Tx) error {
			_, err1 := tx.Exec(t.Context(), "SELECT lk_enter($1)", ours)
			_, err2 := tx.Exec(t.Context(), "DELETE FROM workspaces WHERE id = $1", ours)
			return errors.Join(err1, err2)
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range tenantTables(t, owner) {
			count := func(ws uuid.UUID) int {
				return one[int](t, owner, fmt.Sprintf("SELECT count(*) FROM %s WHERE workspace_id = $1", name), ws)
			}
			if gone, left := count(ours), count(theirs); gone != 0 || left == 0 {
				t.Errorf("%s: %d rows stay, and %d of the other", name, gone, left)
			}
		}
	})
	t.Run(dbtest.OnSQLite, func(t *testing.T) {
		pool := newSQLite(t)
		run := func(query string, args ...any) {
			t.Helper()
			if _, err := pool.ExecContext(t.Context(), query, args...); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
		}
		tables := sqliteSchema(t, pool)
		run("PRAGMA foreign_keys = OFF")
		run("PRAGMA ignore_check_constraints = ON")
		for _, ws := range []uuid.UUID{ours, theirs} {
			for name, tab := range tables {
				run(insertAny(name, tab, ws))
			}
		}
		run("PRAGMA foreign_keys = ON")
		ask(t, pool, "PRAGMA foreign_key_check", func(rows *sql.Rows) error {
			t.Error("a row refers to nothing: the rest means nothing")
			return nil
		})
		run("DELETE FROM workspaces WHERE id = $1", ours.String())
		for _, name := range slices.Sorted(maps.Keys(tables)) {
			if slices.Contains(global, name) {
				continue
			}
			count := func(ws uuid.UUID) (n int) {
				ask(t, pool, fmt.Sprintf("SELECT count(*) FROM %s WHERE workspace_id = $1", name), func(rows *sql.Rows) error { return rows.Scan(&n) }, ws.String())
				return n
			}
			if gone, left := count(ours), count(theirs); gone != 0 || left == 0 {
				t.Errorf("%s: %d rows stay, and %d of the other", name, gone, left)
			}
		}
	})
}

// insertAny returns the insertion of a row of a workspace. Values that the table does not give are
// the workspace's id, so that each reference finds its row. Checks must be off.
func insertAny(name string, tab table, ws uuid.UUID) string {
	var columns, values []string
	for _, col := range slices.Sorted(maps.Keys(tab.columns)) {
		c := tab.columns[col]
		if c.generated || c.nullable || c.dflt != "" {
			continue
		}
		v := fmt.Sprintf("'%s'", ws)
		switch {
		case c.json:
			v = "'{}'"
		case c.kind == "INTEGER", c.kind == "REAL":
			v = "1"
		case c.kind == "BLOB":
			v = fmt.Sprintf("CAST('%s' AS BLOB)", ws)
		}
		if c.kind == "INTEGER" && tab.primary == col {
			continue // it counts itself
		}
		columns, values = append(columns, col), append(values, v)
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", name, strings.Join(columns, ", "), strings.Join(values, ", "))
}
