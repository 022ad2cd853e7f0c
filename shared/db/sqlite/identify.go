package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// A ForeignError says that a file is not a database of Lanekeeper. It was not changed.
type ForeignError struct {
	Path string
	What string // what it is instead: "is not a SQLite database"
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %s: it was left as it is", e.Path, e.What)
}

// Inspect checks whether the file can be used as a database of Lanekeeper, without changing
// it. The error is a [*ForeignError] for a file of another program, which includes any file
// that does not begin as SQLite's do, and [db.ErrCorrupt] for a damaged database of
// Lanekeeper. An empty file, and a database without tables, can be used.
// When thorough, it also compares the indexes with their tables, which takes longer.
func Inspect(ctx context.Context, path string, thorough bool) error {
	_, err := os.Stat(path + "-wal")
	alone := errors.Is(err, fs.ErrNotExist) // nobody has it open as we do
	err = inspect(ctx, path, thorough, alone)
	if !errors.Is(err, db.ErrCorrupt) {
		return err
	}
	// The file is read only now: closing a file ends the locks that other handles of this
	// process have on it, which matters for a sound database alone.
	isSQLite, isOwn, rerr := leftovers(path)
	switch {
	case rerr != nil:
		return errors.Join(err, rerr)
	case !isSQLite:
		return &ForeignError{path, "is not a SQLite database"}
	case !isOwn:
		return &ForeignError{path, "is a damaged SQLite database, and not one of Lanekeeper's"}
	case alone: // unless somebody has opened it meanwhile, and changed it under the look
		return inspect(ctx, path, thorough, false)
	}
	return err
}

// inspect asks SQLite for damage, on a connection that cannot write: closing it changes
// neither the file nor its write-ahead log, which may be wanted for a rescue. Of a file that
// is alone it takes no lock and makes no log.
func inspect(ctx context.Context, path string, thorough, alone bool) (err error) {
	d := &sqlite.Driver{}
	if err := register(d, nil, new(atomic.Value)); err != nil {
		return err
	}
	options := url.Values{"mode": {"ro"}, "_pragma": {busyTimeout}}
	if alone {
		options.Set("immutable", "1")
	}
	pool := sql.OpenDB(connector{d, uri(path, options)})
	defer func() { err = errors.Join(err, pool.Close()) }()
	look := "PRAGMA quick_check(1)"
	if thorough {
		look = "PRAGMA integrity_check(1)"
	}
	var verdict string
	if err := pool.QueryRowContext(ctx, look).Scan(&verdict); err != nil {
		return mapError(err)
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", db.ErrCorrupt, verdict)
	}
	var foreign bool
	err = pool.QueryRowContext(ctx,
		"SELECT count(*) > 0 AND count(*) FILTER (WHERE name = '"+versionTable+"') = 0 FROM sqlite_master").Scan(&foreign)
	if err == nil && foreign {
		return &ForeignError{path, "is the SQLite database of another program"}
	}
	return mapError(err)
}

const (
	magic        = "SQLite format 3\x00" // what each file of SQLite begins with
	versionTable = "lk_schema_version"   // what each database of Lanekeeper has from its first migration on
)

// leftovers reports of a file that SQLite can't read whether it begins as SQLite's do, and
// whether it, or its log, has a trace of Lanekeeper's schema.
func leftovers(path string) (isSQLite, isOwn bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, false, fmt.Errorf("read the database file: %w", err)
	}
	defer f.Close()
	begin := make([]byte, len(magic))
	if n, _ := io.ReadFull(f, begin); string(begin[:n]) != magic {
		return false, false, nil
	}
	if isOwn, err = mentions(f, "TABLE "+versionTable); isOwn || err != nil {
		return true, isOwn, err
	}
	log, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return true, false, nil
	}
	if err != nil {
		return true, false, fmt.Errorf("read the database's log: %w", err)
	}
	defer log.Close()
	isOwn, err = mentions(log, "TABLE "+versionTable)
	return true, isOwn, err
}

// mentions reports whether the text occurs in what is left of r.
func mentions(r io.Reader, text string) (bool, error) {
	buf, kept := make([]byte, 1<<20), 0
	for {
		n, err := r.Read(buf[kept:])
		if bytes.Contains(buf[:kept+n], []byte(text)) {
			return true, nil
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("search the database file: %w", err)
		}
		kept = copy(buf, buf[max(0, kept+n-len(text)):kept+n])
	}
}
