// Package migrations holds the schema of both databases, with the same numbers and one topic per
// file. A file is never edited after it has landed: checksums.txt and its test enforce that. Add
// the checksums of a new file with
//
//	go test ./migrations -run Checksums -add
package migrations

import (
	"embed"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

//go:embed postgres/*.sql sqlite/*.sql
var files embed.FS

// Postgres returns the migrations of the Postgres schema.
func Postgres() fs.FS { return sub("postgres") }

// SQLite returns the migrations of the SQLite schema.
func SQLite() fs.FS { return sub("sqlite") }

func sub(dir string) fs.FS {
	f, err := fs.Sub(files, dir)
	if err != nil {
		panic(err) // the name is a constant above
	}
	return f
}

// Latest is the number of the newest migration. It is the schema version that this build needs.
func Latest() int64 {
	entries, err := files.ReadDir("postgres")
	if err != nil {
		return 0
	}
	var latest int64
	for _, e := range entries {
		number, _, _ := strings.Cut(path.Base(e.Name()), "_")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			latest = max(latest, n)
		}
	}
	return latest
}
