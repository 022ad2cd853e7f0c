package ratelimit_test

import (
	"embed"
	"io/fs"
	"testing"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// the test servers live as long as the process, and one goroutine each awaits their end
		goleak.IgnoreAnyFunction("github.com/lanekeeper/lanekeeper/shared/db/dbtest/servers.spawn.func1"))
}

//go:embed testdata
var testdata embed.FS

// load fills the queries from one folder of testdata.
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
