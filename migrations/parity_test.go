package migrations_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Intended differences: a check, and its form on the other engine.
var otherwise = map[string]string{
	// Postgres uses a regular expression, SQLite GLOBs and a length
	"slug: '^[a-z0-9][a-z0-9-]{0,62}$'": "slug: '*[^a-z0-9-]*' '[a-z0-9]*' 1 63",
}

// Both schemas are equal: the same tables with the same columns, keys, references, indexes and
// closed sets.
func TestSchemasAreAlike(t *testing.T) {
	pg, lite := postgresSchema(t, shared(t)), sqliteSchema(t, newSQLite(t))
	if len(pg) == 0 {
		t.Fatal("no tables")
	}
	for name, tab := range pg {
		for i, check := range tab.checks {
			if here, ok := otherwise[check]; ok {
				tab.checks[i] = here
			}
		}
		slices.Sort(tab.checks)
		pg[name] = tab
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(pg)), slices.Sorted(maps.Keys(lite))); diff != "" {
		t.Errorf("the tables differ (- Postgres, + SQLite):\n%s", diff)
	}
	for _, name := range slices.Sorted(maps.Keys(pg)) {
		t.Run(name, func(t *testing.T) {
			if _, there := lite[name]; !there {
				t.Skip("on Postgres only")
			}
			for what, pair := range map[string][2]any{
				"columns":     {pg[name].columns, lite[name].columns},
				"primary key": {pg[name].primary, lite[name].primary},
				"unique keys": {pg[name].uniques, lite[name].uniques},
				"indexes":     {pg[name].indexes, lite[name].indexes},
				"references":  {pg[name].references, lite[name].references},
				"checks":      {pg[name].checks, lite[name].checks},
			} {
				if diff := cmp.Diff(pair[0], pair[1], cmp.AllowUnexported(column{})); diff != "" {
					t.Errorf("%s (- Postgres, + SQLite):\n%s", what, diff)
				}
			}
		})
	}
}
