package db

import (
	"errors"
	"fmt"
)

var (
	// ErrNoRows says that a statement that must yield a row yielded none. A SQL
	// function of ours raises no_data_found to the same effect, which undoes the
	// whole pipeline it travels in.
	ErrNoRows = errors.New("no rows")
	// ErrUnavailable says that the database could not be reached, or went away
	// before it was asked to commit: nothing was changed.
	ErrUnavailable = errors.New("database unavailable")
	// ErrFull is an ErrUnavailable: a write found no space left on the database's disk.
	ErrFull = fmt.Errorf("%w: no space is left on its disk", ErrUnavailable)
	// ErrUncertain says that the connection broke after a commit was asked for
	// and before its answer came: the change may or may not have happened.
	ErrUncertain = errors.New("commit outcome unknown")
	// ErrUnique says that a unique key was taken already.
	ErrUnique = errors.New("unique key taken")
	// ErrReference says that a row refers to one that is not there.
	ErrReference = errors.New("referenced row missing")
	// ErrCheck says that the database refused a value (a CHECK or a malformed one).
	ErrCheck = errors.New("value refused by the database")
	// ErrNested says that the pool was used under the context of an open
	// transaction, which would wait for itself on a pool of one.
	ErrNested = errors.New("database pool used inside a transaction: use the transaction")
	// ErrCorrupt says that a SQLite file is damaged.
	ErrCorrupt = errors.New("database file is corrupt")
	// ErrUnsafeRole says that the application role could bypass row-level security.
	ErrUnsafeRole = errors.New("the role lanekeeper_app may bypass row-level security")
)

// A NewerSchemaError says that the database's schema is newer than the program and closed
// to it.
type NewerSchemaError struct {
	Have, Build int64 // the schema's version, and the one the program was built for
	Oldest      int64 // the program must be built for this version at least
}

func (e *NewerSchemaError) Error() string {
	return fmt.Sprintf("the database schema is at version %d, which needs a build of version %d or later, and this build has %d: "+
		"run a newer build", e.Have, e.Oldest, e.Build)
}

// A SchemaError says that the database's schema is older than the program needs.
type SchemaError struct {
	Have, Need int64
}

func (e *SchemaError) Error() string {
	if e.Have == 0 {
		return fmt.Sprintf("the database has no Lanekeeper schema (this build needs version %d): run 'lanekeeper migrate'", e.Need)
	}
	return fmt.Sprintf("the database schema is at version %d, this build needs %d: run 'lanekeeper migrate'", e.Have, e.Need)
}
