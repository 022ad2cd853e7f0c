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

// A ForeignError means that a file is not a database of Lanekeeper. The file was not changed.
type ForeignError struct {
	Path string
	What string // what the file is: "is not a SQLite database"
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %s: it was left as it is", e.Path, e.What)
}

// Inspect checks whether the file can be used as a database of Lanekeeper, without changing it. It
// returns a [*ForeignError] for a file of another program, which includes any file that does not
// begin as a SQLite file does, and for a folder. It returns [db.ErrCorrupt] for a damaged database of Lanekeeper. An
// empty file, and a database without tables, can be used. When thorough, it also compares the
// indexes with their tables, which takes longer.
func Inspect(ctx context.Context, path string, thorough bool) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return &ForeignError{path, "is a folder"}
	}
	_, err := os.Stat(path + "-wal")
	alone := errors.Is(err, fs.ErrNotExist) // no other connection has it open in WAL mode
	err = inspect(ctx, path, thorough, alone)
	if !errors.Is(err, db.ErrCorrupt) {
		return err
	}
	// Read the file only now. Closing a file releases the locks that other handles of this process
	// have on it, which matters only for a sound database.
	isSQLite, isOwn, rerr := leftovers(path)
	switch {
	case rerr != nil:
		return errors.Join(err, rerr)
	case !isSQLite:
		return &ForeignError{path, "is not a SQLite database"}
	case !isOwn:
		return &ForeignError{path, "is a damaged SQLite database, and not one of Lanekeeper's"}
	case alone: // another process may have opened and changed it during the check
		return inspect(ctx, path, thorough, false)
	}
	return err
}

// inspect lets SQLite check for damage, on a connection that can't write. Closing that connection
// changes neither the file nor its write-ahead log, which a rescue may need. When alone, it takes
// no lock and makes no log.
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
	magic        = "SQLite format 3\x00" // the first bytes of every SQLite file
	versionTable = "lk_schema_version"   // a table that every database of Lanekeeper has from its first migration on
)

// leftovers examines a file that SQLite can't read. It reports whether the file begins as a SQLite
// file does, and whether the file or its log mentions Lanekeeper's schema.
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

// mentions reports whether the rest of r contains the text.
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
