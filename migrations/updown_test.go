package migrations_test

import (
	"database/sql"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
)

// Every migration can be reverted, leaves nothing behind, and can be applied again with the same
// result.
func TestUpDownUp(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		_, conn := newPostgres(t)
		pool := stdlib.OpenDB(*conn.Config())
		defer pool.Close()
		upDownUp(t, goose.DialectPostgres, pool, migrations.Postgres(),
			func() any { return []any{postgresSchema(t, conn), postgresFunctions(t, conn)} },
			func() (left []string) {
				each(t, conn, `
					SELECT 'relation ' || relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname !~ '^lk_schema_(version|lock)'
					UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
					UNION ALL SELECT 'type ' || typname FROM pg_type WHERE typnamespace = current_schema()::regnamespace AND typname !~ '^_?lk_schema_'`,
					func(rows pgx.Rows) error {
						left = append(left, "")
						return rows.Scan(&left[len(left)-1])
					})
				return left
			})
	})
	t.Run("sqlite", func(t *testing.T) {
		pool := newSQLite(t)
		upDownUp(t, goose.DialectSQLite3, pool, migrations.SQLite(),
			func() any { return sqliteSchema(t, pool) },
			func() (left []string) {
				ask(t, pool, `SELECT type || ' ' || name FROM sqlite_master
				 WHERE tbl_name NOT IN ('lk_schema_version', 'sqlite_sequence', 'sqlite_stat1', 'sqlite_stat4')`, func(rows *sql.Rows) error {
					left = append(left, "")
					return rows.Scan(&left[len(left)-1])
				})
				return left
			})
	})
}

func upDownUp(t *testing.T, dialect goose.Dialect, pool *sql.DB, files fs.FS, snapshot func() any, left func() []string) {
	t.Helper()
	p, err := goose.NewProvider(dialect, pool, files,
		goose.WithTableName(migrate.VersionTable), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		t.Fatal(err)
	}
	first := snapshot()
	if _, err := p.DownTo(t.Context(), 0); err != nil {
		t.Fatalf("down: %v", err)
	}
	if rest := left(); len(rest) > 0 {
		t.Errorf("after going down these are left: %q", rest)
	}
	// Up again one at a time. Each one goes down and up once more.
	for range migrations.Latest() {
		for _, step := range []func() error{
			func() error { _, err := p.UpByOne(t.Context()); return err },
			func() error { _, err := p.Down(t.Context()); return err },
			func() error { _, err := p.UpByOne(t.Context()); return err },
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(first, snapshot(), cmp.AllowUnexported(table{}, column{})); diff != "" {
		t.Errorf("up again is not the same (- before, + after):\n%s", diff)
	}
}

// postgresFunctions returns the definitions and rights of all functions.
func postgresFunctions(t testing.TB, conn *pgx.Conn) map[string]string {
	t.Helper()
	out := map[string]string{}
	each(t, conn, `SELECT oid::regprocedure::text, pg_get_functiondef(oid) || coalesce(proacl::text, '')
		FROM pg_proc WHERE pronamespace = current_schema()::regnamespace`, func(rows pgx.Rows) error {
		var name, def string
		err := rows.Scan(&name, &def)
		out[name] = def
		return err
	})
	return out
}
