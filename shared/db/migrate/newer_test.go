package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

// A release is a database and the builds that use it.
type release struct {
	files   fs.FS // of this build
	migrate func(ctx context.Context, files fs.FS) (migrate.Result, error)
	open    func(ctx context.Context, build int64) (*db.DB, error)
}

func releases(t *testing.T) map[string]release {
	t.Helper()
	url, path := dbtest.NewDatabase(t), filepath.Join(t.TempDir(), "x.db")
	return map[string]release{
		dbtest.OnPostgres: {
			migrations.Postgres(),
			func(ctx context.Context, files fs.FS) (migrate.Result, error) {
				return migrate.Server(ctx, url, files, quiet)
			},
			func(ctx context.Context, build int64) (*db.DB, error) {
				d, err := postgres.Open(postgres.Config{URL: dbtest.AsLogin(url), Schema: build})
				if err != nil {
					return nil, err
				}
				return d, d.Check(ctx)
			},
		},
		dbtest.OnSQLite: {
			migrations.SQLite(),
			func(ctx context.Context, files fs.FS) (migrate.Result, error) {
				write, read, err := sqlite.OpenPools(sqlite.Config{Path: path})
				if err != nil {
					return migrate.Result{}, err
				}
				res, err := migrate.File(ctx, write, files, quiet)
				return res, errors.Join(err, read.Close(), write.Close())
			},
			func(ctx context.Context, build int64) (*db.DB, error) {
				return sqlite.Open(ctx, sqlite.Config{Path: path, Schema: build})
			},
		},
	}
}

// with returns the files of a later build, which adds empty migrations with these first lines.
func with(t testing.TB, files fs.FS, lines ...string) fs.FS {
	t.Helper()
	later := fstest.MapFS{}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		later[name] = &fstest.MapFile{Data: text}
	}
	for i, line := range lines {
		name := fmt.Sprintf("%04d_later.sql", migrations.Latest()+int64(i)+1)
		later[name] = &fstest.MapFile{Data: fmt.Appendf(nil, "-- Later.\n%s\n\n-- +goose Up\nSELECT 1;\n\n-- +goose Down\nSELECT 1;\n", line)}
	}
	return later
}

// TestANewerSchema: a build works with a newer schema as long as every version allows it. It is
// refused from the first version that does not, even when a later one states nothing.
func TestANewerSchema(t *testing.T) {
	build := migrations.Latest()
	expand, contract := fmt.Sprintf("-- oldest: %d", build), "--"
	for name, r := range releases(t) {
		t.Run(name, func(t *testing.T) {
			if _, err := r.migrate(t.Context(), r.files); err != nil {
				t.Fatal(err)
			}
			early := mustOpen(t, r, build)
			for _, step := range []struct {
				lines  []string
				oldest int64 // zero: this build works
			}{
				{lines: []string{expand}},
				{lines: []string{expand, contract}, oldest: build + 2},
				{lines: []string{expand, contract, expand}, oldest: build + 2},
			} {
				version := build + int64(len(step.lines))
				if did, err := r.migrate(t.Context(), with(t, r.files, step.lines...)); err != nil || did.To != version {
					t.Fatalf("%+v, %v", did, err)
				}
				want := db.NewerSchemaError{Have: version, Build: build, Oldest: step.oldest}
				d, opened := r.open(t.Context(), build)
				did, migrated := r.migrate(t.Context(), r.files)
				if did.From != version || did.To != version || len(did.Applied) != 0 {
					t.Errorf("version %d: an older build's migrations did %+v", version, did)
				}
				for what, err := range map[string]error{"open": opened, "migrate": migrated, "opened before": early.Check(t.Context()), "write": write(t, early)} {
					got, refused := errors.AsType[*db.NewerSchemaError](err)
					switch {
					case step.oldest == 0 && err != nil:
						t.Errorf("version %d: %s: %v", version, what, err)
					case step.oldest != 0 && (!refused || *got != want || !strings.Contains(err.Error(), fmt.Sprintf("version %d,", version))):
						t.Errorf("version %d: %s: %v, want %+v", version, what, err, want)
					}
				}
				for _, handle := range []*db.DB{d, mustOpen(t, r, 0)} {
					if handle == nil {
						continue
					}
					if got, err := handle.Schema(t.Context()); opened == nil && (err != nil || got != version) {
						t.Errorf("the schema is %d, %v; want %d", got, err, version)
					}
					if err := handle.Close(); err != nil {
						t.Error(err)
					}
				}
			}
			if err := errors.Join(early.Close(), mustOpen(t, r, build+3).Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// write writes with a handle, on Postgres by a connection that was there before.
func write(t testing.TB, d *db.DB) error {
	t.Helper()
	var q struct{ Touch db.Query }
	text := "-- name: Touch\n-- global: no workspace is there\nUPDATE workspaces SET name = name;\n"
	if err := db.Load(fstest.MapFS{"touch.sql": {Data: []byte(text)}}, &q); err != nil {
		t.Fatal(err)
	}
	_, err := d.Exec(t.Context(), "", q.Touch)
	return err
}

func mustOpen(t testing.TB, r release, build int64) *db.DB {
	t.Helper()
	d, err := r.open(t.Context(), build)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
