package db_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// sources are .sql files by name.
type sources map[string]string

func (s sources) fs() fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range s {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

const (
	why   = "-- why: only for the test\n\n"
	get   = "-- name: Get\nSELECT $1;\n"
	other = "-- name: Other\nSELECT $1;\n"
)

func TestParse(t *testing.T) {
	got, err := db.Parse(sources{
		"note.sql": "-- About the file.\n-- name: Get\n-- About the query.\nSELECT a, -- about a\n       b\n  FROM note\n WHERE workspace_id = $1;\n\n" +
			"-- name: All\n-- global: counts for everybody\nSELECT count(*) FROM note;\n\n" +
			"-- part: From\n-- About the part.\nFROM note\n WHERE workspace_id = $1;\n-- part: Some\n@From AND a = 'x@Front'\n\n" +
			"-- name: Newest\nSELECT a @Some ORDER BY b @> 1;\n",
		"note.postgres.sql": why + "-- name: Claim\nSELECT $1 @From FOR UPDATE;\n",
		"note.sqlite.sql":   why + "-- name: Claim\nSELECT $1;\n",
		"ignored.txt":       "-- name: Get\n",
		"deeper/x.sql":      "-- name: Deep\nSELECT $1;\n",
	}.fs())
	if err != nil {
		t.Fatal(err)
	}
	type query struct {
		postgres, sqlite string
		global           bool
	}
	want := map[string]query{
		"note.Get": {postgres: "SELECT a, -- about a\n       b\n  FROM note\n WHERE workspace_id = $1",
			sqlite: "SELECT a, -- about a\n       b\n  FROM note\n WHERE workspace_id = $1"},
		"note.All": {postgres: "SELECT count(*) FROM note", sqlite: "SELECT count(*) FROM note", global: true},
		"note.Newest": {postgres: "SELECT a FROM note\n WHERE workspace_id = $1 AND a = 'x@Front' ORDER BY b @> 1",
			sqlite: "SELECT a FROM note\n WHERE workspace_id = $1 AND a = 'x@Front' ORDER BY b @> 1"},
		"note.Claim": {postgres: "SELECT $1 FROM note\n WHERE workspace_id = $1 FOR UPDATE", sqlite: "SELECT $1"},
	}
	for _, q := range got {
		is := query{q.Text(db.Postgres), q.Text(db.SQLite), q.Global()}
		if w, ok := want[q.Name()]; !ok || is != w {
			t.Errorf("%s is %+v, want %+v", q.Name(), is, w)
		}
		delete(want, q.Name())
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		files sources
		want  string
	}{
		{"a query for Postgres only", sources{"a.postgres.sql": why + get}, "a.Get is in one engine's file only"},
		{"a query for SQLite only", sources{"a.sqlite.sql": why + get}, "a.Get is in one engine's file only"},
		{"an engine file that does not say why", sources{"a.postgres.sql": get, "a.sqlite.sql": why + get}, `a.postgres.sql: the first line must say "-- why: …"`},
		{"an engine file that says why too late", sources{"a.postgres.sql": get + why, "a.sqlite.sql": why + get}, "a.postgres.sql: the first line"},
		{"an engine nobody knows", sources{"a.mysql.sql": why + get}, `unknown engine "mysql"`},
		{"no workspace", sources{"a.sql": "-- name: Get\nSELECT 1;\n"}, "a.Get neither binds its workspace"},
		{"$10 is not $1", sources{"a.sql": "-- name: Get\nSELECT $10;\n"}, "a.Get neither binds its workspace"},
		{"a workspace in a comment only", sources{"a.sql": "-- name: Get\n-- Takes $1.\nSELECT 1;\n"}, "a.Get neither binds its workspace"},
		{"global without a reason", sources{"a.sql": "-- name: Get\n-- global:\nSELECT 1;\n"}, "a.Get neither binds its workspace"},
		{"global in one engine only", sources{"a.postgres.sql": why + "-- name: Get\n-- global: so\nSELECT $1;\n", "a.sqlite.sql": why + get}, "a.Get is global in one engine only"},
		{"twice in a file", sources{"a.sql": get + get}, "a.Get is there twice"},
		{"in the shared file and in an engine's", sources{"a.sql": get, "a.postgres.sql": why + get}, "a.Get is there twice"},
		{"a part twice", sources{"a.sql": "-- part: B\n$1\n-- part: B\n$1\n" + get}, "a.sql: part B is there twice"},
		{"a part of two words", sources{"a.sql": get + "-- part: Get all\nSELECT $1;\n"}, `a query begins with a line "-- name: Word"`},
		{"a heading of two words", sources{"a.sql": get + "-- name: Get all\nSELECT $1;\n"}, `a query begins with a line "-- name: Word"`},
		{"a heading without a space", sources{"a.sql": get + "--name: All\nSELECT $1;\n"}, `a query begins with a line`},
		{"a file without a query", sources{"a.sql": "SELECT $1;\n"}, `a query begins with a line`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := db.Parse(c.files.fs())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestParseReportsEverythingAtOnce(t *testing.T) {
	_, err := db.Parse(sources{"a.sql": "-- name: Get\nSELECT 1;\n", "b.postgres.sql": get}.fs())
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"a.Get neither", "b.postgres.sql: the first line", "b.Get is in one"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

func TestLoad(t *testing.T) {
	var q struct{ Get, Other db.Query }
	if err := db.Load(sources{"a.sql": get, "b.sql": other}.fs(), &q); err != nil {
		t.Fatal(err)
	}
	if q.Get.Name() != "a.Get" || q.Other.Name() != "b.Other" {
		t.Errorf("loaded %s and %s", q.Get.Name(), q.Other.Name())
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   sources
		queries any
		want    string
	}{
		{"a field without a query", sources{"a.sql": get}, &struct{ Get, Other db.Query }{}, "field Other has no query"},
		{"a query without a field", sources{"a.sql": get + other}, &struct{ Get db.Query }{}, "query a.Other has no field"},
		{"a name in two files", sources{"a.sql": get, "b.sql": get}, &struct{ Get db.Query }{}, "query b.Get has no field"},
		{"a field named like an end", sources{"a.sql": "-- name: ForGet\nSELECT $1;\n"}, &struct{ Get db.Query }{}, "field Get has no query"},
		{"a field nobody can set", sources{"a.sql": get}, &struct{ get db.Query }{}, "field get is not an exported Query"},
		{"a field of another type", sources{"a.sql": get}, &struct{ Get string }{}, "field Get is not an exported Query"},
		{"no pointer", sources{"a.sql": get}, struct{ Get db.Query }{}, "want a pointer to a struct"},
		{"a nil pointer", sources{"a.sql": get}, (*struct{ Get db.Query })(nil), "want a pointer to a struct"},
		{"nothing", sources{"a.sql": get}, nil, "want a pointer to a struct"},
		{"what does not parse", sources{"a.sql": "-- name: Get\nSELECT 1;\n"}, &struct{ Get db.Query }{}, "neither binds its workspace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := db.Load(c.files.fs(), c.queries)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
