package db_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestEveryQueryOfTheRepository: both engines accept every query of the repository, each in its own
// text, with the same parameters.
func TestEveryQueryOfTheRepository(t *testing.T) {
	root := filepath.Join("..", "..")
	folders := queryFolders(t, filepath.Join(root, "shared"))
	if len(folders) == 0 {
		t.Fatal("no .sql file found: is the test in its place?")
	}
	engines := []*db.DB{dbtest.New(t, dbtest.OnSQLite).DB, dbtest.New(t, dbtest.OnPostgres).DB}
	for _, folder := range folders {
		name, err := filepath.Rel(root, folder)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			queries, err := db.Parse(os.DirFS(folder))
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range queries {
				for _, engine := range engines {
					if err := engine.Prepare(t.Context(), q); err != nil {
						t.Errorf("%s on %s: %v", q.Name(), engine.Dialect(), err)
					}
				}
				pg, lite := parameters(q.Text(db.Postgres)), parameters(q.Text(db.SQLite))
				if !slices.Equal(pg, lite) {
					t.Errorf("%s has the parameters %v on Postgres and %v on SQLite", q.Name(), pg, lite)
				}
				for i, n := range pg {
					if n != i+1 {
						t.Errorf("%s has the parameters %v: one is missing", q.Name(), pg)
						break
					}
				}
			}
		})
	}
}

// queryFolders returns the folders with .sql files, except those of tests.
func queryFolders(t *testing.T, root string) []string {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case filepath.Ext(path) == ".sql":
			found[filepath.Dir(path)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(found))
}

var parameter = regexp.MustCompile(`\$(\d+)`)

// parameters returns the numbers of a statement's parameters.
func parameters(text string) []int {
	found := map[int]bool{}
	for _, m := range parameter.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil {
			found[n] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
