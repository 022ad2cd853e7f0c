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

// mapError gives pgx's errors the seam's names. closed says that the connection
// is gone, changes that the pipeline would have changed something by its end, so
// that a connection that broke meanwhile leaves the outcome open.
func mapError(err error, closed, changes bool) error {
	if err == nil || named(err) {
		return err
	}
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		if name := byCode(pe); name != nil {
			return fmt.Errorf("%w: %s (%s)", name, pe.Message, pe.Code)
		}
		if pe.Code == "57014" {
			return fmt.Errorf("%w: %s (%s)", context.DeadlineExceeded, pe.Message, pe.Code)
		}
	}
	switch unsent := unsent(err); {
	case !closed && !unsent:
		return err // not the connection's: a statement that is wrong, a row that could not be read
	case !unsent && changes:
		return fmt.Errorf("%w: %w", db.ErrUncertain, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%w: %w", db.ErrUnavailable, err)
}

// Unreachable is a failure to connect, a [db.ErrUnavailable]. pgx says the same once for each
// way that it has tried, with TLS and without; here it is said once, in one line.
func Unreachable(err error) error {
	return fmt.Errorf("connect to Postgres: %w: %w", db.ErrUnavailable, &once{err})
}

// once is an error that says no line twice.
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

// unsent reports whether nothing went to the server. pgx says so too when a
// connection breaks before the first answer ([pgconn.ErrConnClosed]): pipeline has
// looked at the connection before, so that this means "sent, and no answer".
func unsent(err error) bool {
	return pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}

// ended reports whether the server itself said that it ended the session, which
// it does between statements and instead of going on with them. What a pooler
// says in its place ("server conn crashed?") proves nothing.
func ended(err error) bool {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Severity != "FATAL" {
		return false
	}
	switch pe.Code {
	case "57P01", "57P04", "57P05", "25P03", "25P04": // shutdown, database dropped, idle for too long
		return true
	}
	return false
}

// A deadError says that the connection was dead before it could do anything for
// us: another one may do it.
type deadError struct{ err error }

func (e *deadError) Error() string { return e.err.Error() }
func (e *deadError) Unwrap() error { return e.err }

// leadError names the failure of one of the seam's own statements, with which
// every pipeline begins.
func leadError(err error, closed, changes bool) error {
	if closed && (ended(err) || unsent(err) || !changes) {
		return &deadError{mapError(err, closed, false)}
	}
	return mapError(err, closed, changes)
}

// named reports whether the error already carries one of the seam's names.
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
	return nil
}
