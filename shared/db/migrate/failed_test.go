package migrate

import (
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

// TestAFailedMigration: the migrations before a failed one stay, and the result says so.
func TestAFailedMigration(t *testing.T) {
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: filepath.Join(t.TempDir(), "x.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	defer read.Close()
	files := fstest.MapFS{
		"0001_good.sql": {Data: []byte("-- +goose Up\nCREATE TABLE good (id TEXT);\n")},
		"0002_bad.sql":  {Data: []byte("-- +goose Up\nCREATE TABLE half (id TEXT);\nCREATE TABLE good (id TEXT);\n")},
	}
	res, err := file(t.Context(), write, files, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "0002_bad.sql") {
		t.Errorf("got %v", err)
	}
	if res.From != 0 || res.To != 1 || len(res.Applied) != 1 || res.Applied[0] != "0001_good.sql" {
		t.Errorf("the result is %+v", res)
	}
	var tables int
	if err := write.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_master WHERE name = 'half'").Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d tables of the failed one are left, %v", tables, err)
	}
}

// TestRepeatableMigrationIsNotedOnce: of two concurrent runs, the second one to reach a migration
// records nothing, even when nothing in the migration fails when repeated.
func TestRepeatableMigrationIsNotedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	run := func(files fs.FS) Result {
		write, read, err := sqlite.OpenPools(sqlite.Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		defer write.Close()
		defer read.Close()
		res, err := file(t.Context(), write, files, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	files := fstest.MapFS{"0001_nothing.sql": {Data: []byte("-- +goose Up\nSELECT 1;\n")}}
	var other Result
	res := run(racedFS{files, sync.OnceFunc(func() { other = run(files) })})
	if len(other.Applied) != 1 || len(res.Applied) != 0 || res.From != 1 || res.To != 1 {
		t.Errorf("the first run: %+v, the second: %+v", other, res)
	}
}

// racedFS is read by a run that finds a migration missing. Before that run reads the file, another
// run has applied it.
type racedFS struct {
	fs.FS
	other func()
}

func (f racedFS) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, ".sql") {
		f.other()
	}
	return f.FS.Open(name)
}
