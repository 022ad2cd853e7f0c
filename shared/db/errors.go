package db

import (
	"errors"
	"fmt"
)

var (
	// ErrNoRows means that a statement that must return a row returned none. Our SQL functions
	// raise no_data_found to the same effect; that rolls back the whole pipeline.
	ErrNoRows = errors.New("no rows")
	// ErrUnavailable means that the database could not be reached, or went away before it was asked
	// to commit. Nothing was changed.
	ErrUnavailable = errors.New("database unavailable")
	// ErrFull is an ErrUnavailable: a write found no space on the database's disk.
	ErrFull = fmt.Errorf("%w: no space is left on its disk", ErrUnavailable)
	// ErrUncertain means that the connection broke after the commit was requested and before its
	// answer came. The change may or may not have happened.
	ErrUncertain = errors.New("commit outcome unknown")
	// ErrUnique means that a unique key exists already.
	ErrUnique = errors.New("unique key taken")
	// ErrReference means that a row refers to a row that does not exist.
	ErrReference = errors.New("referenced row missing")
	// ErrCheck means that the database refused a value, by a CHECK or because it is malformed.
	ErrCheck = errors.New("value refused by the database")
	// ErrNested means that the pool was used under the context of an open transaction. With a pool
	// of one connection, that would wait for itself.
	ErrNested = errors.New("database pool used inside a transaction: use the transaction")
	// ErrCorrupt means that a SQLite file is damaged.
	ErrCorrupt = errors.New("database file is corrupt")
	// ErrUnsafeRole means that the application role could bypass row-level security.
	ErrUnsafeRole = errors.New("the role lanekeeper_app may bypass row-level security")
)

// A NewerSchemaError means that the database's schema is newer than the program and does not allow
// its build.
type NewerSchemaError struct {
	Have, Build int64 // the schema's version, and the one the program was built for
	Oldest      int64 // the program must be built for this version at least
}

func (e *NewerSchemaError) Error() string {
	return fmt.Sprintf("the database schema is at version %d, which needs a build of version %d or later, and this build has %d: "+
		"run a newer build", e.Have, e.Oldest, e.Build)
}

// CheckSchema says why a program that was built for one version of the schema can't use a database:
// a [*SchemaError], a [*NewerSchemaError], or nil. have is the database's version, and oldest is the
// oldest build that the versions after the program's allow, where there are such.
func CheckSchema(build, have, oldest int64) error {
	switch {
	case have < build:
		return &SchemaError{Have: have, Need: build}
	case have > build && oldest > build:
		return &NewerSchemaError{Have: have, Build: build, Oldest: oldest}
	}
	return nil
}

// A SchemaError means that the database's schema is older than the program needs.
type SchemaError struct {
	Have, Need int64
}

func (e *SchemaError) Error() string {
	if e.Have == 0 {
		return fmt.Sprintf("the database has no Lanekeeper schema (this build needs version %d): run 'bin/lanekeeper migrate'", e.Need)
	}
	return fmt.Sprintf("the database schema is at version %d, this build needs %d: run 'bin/lanekeeper migrate'", e.Have, e.Need)
}
