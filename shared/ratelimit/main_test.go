package ratelimit_test

import (
	"embed"
	"io/fs"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

//go:embed testdata
var testdata embed.FS

// load loads the queries of one folder of testdata.
func load(t testing.TB, folder string, queries any) {
	t.Helper()
	files, err := fs.Sub(testdata, "testdata/"+folder)
	if err == nil {
		err = db.Load(files, queries)
	}
	if err != nil {
		t.Fatal(err)
	}
}
