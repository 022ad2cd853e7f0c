package migrate

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"

	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

// A migration that fails leaves those before it, and the result says so.
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
	res, err := up(t.Context(), goose.DialectSQLite3, write, files, slog.New(slog.DiscardHandler))
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
