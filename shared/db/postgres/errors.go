package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// mapError translates errors of pgx to those of package db. closed says that the connection is
// gone. changes says that the end of the pipeline would have changed something, so that a broken
// connection leaves the outcome unknown.
func mapError(err error, closed, changes bool) error {
	if err == nil || named(err) {
		return err
	}
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		if name := byCode(pe); name != nil {
			return fmt.Errorf("%w: %s (%s)", name, pe.Message, pe.Code)
		}
		if pe.Code == "57014" {
			return fmt.Errorf("%w: %s (%s)", context.DeadlineExceeded, pe.Message, pe.Code)
		}
	}
	switch unsent := unsent(err); {
	case !closed && !unsent:
		return err // an error of a statement or a row, not of the connection
	case !unsent && changes:
		return fmt.Errorf("%w: %w", db.ErrUncertain, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%w: %w", db.ErrUnavailable, err)
}

// Unreachable wraps a failed connection attempt in [db.ErrUnavailable]. pgx repeats the same text
// for each way it has tried, with TLS and without. Unreachable says it once, in one line.
func Unreachable(err error) error {
	return fmt.Errorf("connect to Postgres: %w: %w", db.ErrUnavailable, &once{err})
}

// once is an error that repeats no line.
type once struct{ err error }

func (e *once) Error() string {
	var lines []string
	for line := range strings.Lines(e.err.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

func (e *once) Unwrap() error { return e.err }

// unsent reports whether nothing was sent to the server. pgx also claims so when a connection
// breaks before the first answer ([pgconn.ErrConnClosed]). pipeline has checked the connection
// before, so here that error means "sent, and no answer".
func unsent(err error) bool {
	return pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}

// ended reports whether the server itself said that it ended the session. It does so between
// statements and does not run the remaining ones. The message of a pooler in its place ("server
// conn crashed?") proves nothing.
func ended(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pe.Severity != "FATAL" {
		return false
	}
	switch pe.Code {
	case "57P01", "57P04", "57P05", "25P03", "25P04": // shutdown, database dropped, idle for too long
		return true
	}
	return false
}

// A deadError means that the connection was dead, or could not begin, before it did anything for us.
// Another connection may do it.
type deadError struct{ err error }

func (e *deadError) Error() string { return e.err.Error() }
func (e *deadError) Unwrap() error { return e.err }

// leadError translates the failure of one of this package's own statements, which begin every
// pipeline.
func (e *engine) leadError(err error, closed, changes bool) error {
	if refused := refusal(err, e.need); refused != nil {
		return refused
	}
	if outdated(err) || closed && (ended(err) || unsent(err) || !changes) {
		return &deadError{mapError(err, closed, false)}
	}
	return mapError(err, closed, changes)
}

// refusal returns why lk_admit has refused this build, or nil when err says something else.
func refusal(err error, build int64) error {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pe.Code != "LK001" {
		return nil
	}
	var have, oldest int64
	if _, err := fmt.Sscan(pe.Detail, &have, &oldest); err != nil {
		return fmt.Errorf("read why the schema refuses this build: %w: %q", err, pe.Detail)
	}
	return db.CheckSchema(build, have, oldest)
}

// named reports whether the error is already one of package db's.
func named(err error) bool {
	for _, name := range []error{
		db.ErrNoRows, db.ErrUnavailable, db.ErrUncertain, db.ErrUnique, db.ErrReference,
		db.ErrCheck, db.ErrUnsafeRole, db.ErrNested,
	} {
		if errors.Is(err, name) {
			return true
		}
	}
	_, schema := errors.AsType[*db.SchemaError](err)
	_, newer := errors.AsType[*db.NewerSchemaError](err)
	_, op := errors.AsType[*db.OpError](err)
	return schema || newer || op
}

func byCode(pe *pgconn.PgError) error {
	switch pe.Code {
	case "P0002": // no_data_found, raised by our functions
		return db.ErrNoRows
	case "23505", "23P01":
		return db.ErrUnique
	case "23503":
		return db.ErrReference
	case "23514", "23502", "22P02", "22003", "22001", "22007", "22023", "22P05", "22021":
		return db.ErrCheck
	case "53100":
		return db.ErrFull
	case "57P03", "53300", "25P03", "40001", "40P01", "55P03":
		return db.ErrUnavailable
	}
	if outdated(pe) {
		return db.ErrUnavailable
	}
	return nil
}
