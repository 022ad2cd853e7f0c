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
	for way, part := range map[string]int{"": 0, " in parts": 3} {
		t.Run(dbtest.OnPostgres+way, func(t *testing.T) {
			dsn, owner := newPostgres(t)
			b := newBuilder(t, owner)
			b.fill(t, ours)
			b.fill(t, theirs)
			counts := func(ws uuid.UUID) (all int, of map[string]int) {
				of = map[string]int{}
				for _, name := range tenantTables(t, owner) {
					of[name] = one[int](t, owner, fmt.Sprintf("SELECT count(*) FROM %s WHERE workspace_id = $1", name), ws)
					all += of[name]
				}
				return all, of
			}
			login := dbtest.Connect(t, dbtest.AsLogin(dsn))
			run := func(statement string, args ...any) (more bool) {
				t.Helper()
				err := pgx.BeginFunc(t.Context(), login, func(tx pgx.Tx) error {
					_, err1 := tx.Exec(t.Context(), "SELECT lk_enter($1)", ours)
					return errors.Join(err1, tx.QueryRow(t.Context(), statement, args...).Scan(&more))
				})
				if err != nil {
					t.Fatal(err)
				}
				return more
			}
			if part == 0 {
				run("DELETE FROM workspaces WHERE id = $1 RETURNING true", ours)
			} else {
				run("DELETE FROM agent_locks WHERE workspace_id = $1 RETURNING true", ours)
				run("UPDATE workspaces SET open = false WHERE id = $1 RETURNING true", ours)
				for more := true; more; {
					before, _ := counts(ours)
					more = run("SELECT lk_erase($1)", part)
					if after, _ := counts(ours); before-after > part || more && after == before {
						t.Fatalf("one part had %d rows", before-after)
					}
				}
			}
			_, left := counts(theirs)
			_, gone := counts(ours)
			for name := range gone {
				if gone[name] != 0 || left[name] == 0 {
					t.Errorf("%s: %d rows stay, and %d of the other", name, gone[name], left[name])
				}
			}
			if n := one[int](t, owner, "SELECT count(*) FROM workspaces WHERE id IN ($1, $2)", ours, theirs); n != 1 {
				t.Errorf("%d of the two workspaces are left", n)
			}
		})
	}
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
