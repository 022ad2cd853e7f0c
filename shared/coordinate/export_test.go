package coordinate

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Waiting is the statement that reads the waiting graph.
func Waiting(t testing.TB) db.Query {
	t.Helper()
	var q queries
	if err := db.Load(files, &q); err != nil {
		t.Fatal(err)
	}
	return q.Waiting
}
