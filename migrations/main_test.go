package migrations_test

import (
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

var quiet = slog.New(slog.DiscardHandler)

// The tables of the migration tool, which are not part of the schema.
var notOfTheSchema = []string{"lk_schema_version", "lk_schema_lock", "sqlite_sequence", "sqlite_stat1", "sqlite_stat4"}

// newPostgres returns a migrated database for one test: the owner's URL and a connection as the
// owner.
func newPostgres(t testing.TB) (dsn string, owner *pgx.Conn) {
	t.Helper()
	dsn = dbtest.NewDatabase(t)
	if _, err := migrate.Postgres(t.Context(), dsn, quiet); err != nil {
		t.Fatal(err)
	}
	return dsn, dbtest.Connect(t, dsn)
}

// shared returns a connection, as the owner, to the migrated database that the tests of all
// packages share. Tests may only read it.
func shared(t testing.TB) *pgx.Conn {
	t.Helper()
	u, err := url.Parse(dbtest.New(t, dbtest.OnPostgres).URL)
	if err != nil {
		t.Fatal(err)
	}
	owner := one[string](t, dbtest.Connect(t, u.String()),
		"SELECT tableowner FROM pg_tables WHERE tablename = 'workspaces' AND schemaname = current_schema()")
	u.User = url.User(owner)
	return dbtest.Connect(t, u.String())
}

// newSQLite returns the writing pool of a migrated file.
func newSQLite(t testing.TB) *sql.DB {
	t.Helper()
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: filepath.Join(t.TempDir(), "x.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(read.Close(), write.Close()); err != nil {
			t.Error(err)
		}
	})
	if _, err := migrate.SQLite(t.Context(), write, quiet); err != nil {
		t.Fatal(err)
	}
	return write
}
