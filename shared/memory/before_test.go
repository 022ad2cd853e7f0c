package memory_test

import (
	"database/sql"
	"io/fs"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
	"github.com/lanekeeper/lanekeeper/shared/memory"
)

// Memories from before the search index are found by it, even if the index was dropped and created
// again.
func TestMemoriesFromBeforeTheIndexAreFound(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
		write, read, err := sqlite.OpenPools(sqlite.Config{Path: w.URL})
		if err != nil {
			t.Fatal(err)
		}
		defer write.Close()
		defer read.Close()
		fromBefore(t, w, goose.DialectSQLite3, write, migrations.SQLite())
	})
	t.Run("postgres", func(t *testing.T) {
		e := dbtest.Env{Engine: dbtest.OnPostgres, URL: dbtest.Migrated(t)}
		d, err := postgres.Open(postgres.Config{URL: dbtest.AsLogin(e.URL)})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		e.DB, e.Workspace = d, dbtest.NewWorkspace(t, d)
		config, err := pgx.ParseConfig(e.URL)
		if err != nil {
			t.Fatal(err)
		}
		pool := stdlib.OpenDB(*config)
		defer pool.Close()
		fromBefore(t, newWorld(t, e), goose.DialectPostgres, pool, migrations.Postgres())
	})
}

func fromBefore(t *testing.T, w world, dialect goose.Dialect, pool *sql.DB, files fs.FS) {
	t.Helper()
	w.save(t, memory.Memory{Content: "green tea"})
	p, err := goose.NewProvider(dialect, pool, files,
		goose.WithTableName(migrate.VersionTable), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.DownTo(t.Context(), 19); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := w.list(t, memory.Filter{Text: "tea"}); !slices.Equal(got, []string{"green tea"}) {
		t.Errorf("it finds %q", got)
	}
}
