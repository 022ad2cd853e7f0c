package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// mapError translates errors of SQLite to those of package db.
func mapError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		return db.ErrNoRows
	}
	se, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	if name := byCode(se.Code()); name != nil {
		return fmt.Errorf("%w: %w", name, err)
	}
	return err
}

func byCode(code int) error {
	switch code {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY, lib.SQLITE_CONSTRAINT_ROWID:
		return db.ErrUnique
	case lib.SQLITE_CONSTRAINT_FOREIGNKEY:
		return db.ErrReference
	case lib.SQLITE_CONSTRAINT_CHECK, lib.SQLITE_CONSTRAINT_NOTNULL, lib.SQLITE_CONSTRAINT_DATATYPE:
		return db.ErrCheck
	case lib.SQLITE_IOERR_SHMSIZE: // the index of the log can't grow
		return db.ErrFull
	}
	switch code & 0xff {
	case lib.SQLITE_FULL:
		return db.ErrFull
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return db.ErrCorrupt
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_READONLY:
		return db.ErrUnavailable
	}
	return nil
}

func missingTable(err error) bool {
	return strings.Contains(err.Error(), "no such table")
}

// A CorruptError means that the file is damaged, and says where it was moved; empty: it was kept.
type CorruptError struct {
	Path, MovedTo string
	Err           error
}

func (e *CorruptError) Error() string {
	if e.MovedTo == "" {
		return fmt.Sprintf("the database file %s is damaged and was left as it is (%v)", e.Path, e.Err)
	}
	return fmt.Sprintf("the database file %s is damaged and was moved to %s, nothing was deleted: "+
		"restore a backup to %s, or start again to begin with an empty database (%v)", e.Path, e.MovedTo, e.Path, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// moveAside renames the file and its write-ahead log. The log goes first: without its file, SQLite
// would delete it at the next start.
func moveAside(path string, cause error) error {
	to := fmt.Sprintf("%s.corrupt-%s", path, time.Now().UTC().Format("20060102T150405.000"))
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if err := os.Rename(path+suffix, to+suffix); err != nil && (suffix == "" || !errors.Is(err, os.ErrNotExist)) {
			return fmt.Errorf("the database file %s is damaged and %s could not be moved aside: %w (%w)", path, path+suffix, err, cause)
		}
	}
	return &CorruptError{Path: path, MovedTo: to, Err: cause}
}
