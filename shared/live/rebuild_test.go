package live_test

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/live"
)

// TestEveryKindOfNewsIsPublished: those that the database writes about tasks and agents.
func TestEveryKindOfNewsIsPublished(t *testing.T) {
	kind := regexp.MustCompile(`'((?:task|agent)\.[a-z_]+)'`)
	found := map[string]bool{}
	dir := os.DirFS("../../migrations/postgres")
	names, err := fs.Glob(dir, "*.sql")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range kind.FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
	}
	for k := range found {
		if !slices.Contains(live.NewsKinds, k) {
			t.Errorf("%s is not published", k)
		}
	}
	if len(found) != len(live.NewsKinds) {
		t.Errorf("%v of %v are written", found, live.NewsKinds)
	}
}
