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
		// The test servers live as long as the process; one goroutine per server waits for its end.
		goleak.IgnoreAnyFunction("github.com/lanekeeper/lanekeeper/infra/rig/servers.spawn.func1"))
}

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
