package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// mapError gives pgx's errors the seam's names. committing says that a commit
// was on its way, so that a broken connection leaves the outcome open.
func mapError(err error, committing bool) error {
	if err == nil || named(err) {
		return err
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return db.ErrNoRows
	}
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		if name := byCode(pe); name != nil {
			return fmt.Errorf("%w: %s (%s)", name, pe.Message, pe.Code)
		}
		if pe.Code == "57014" {
			return fmt.Errorf("%w: %s (%s)", context.DeadlineExceeded, pe.Message, pe.Code)
		}
		if pe.Severity != "FATAL" && pe.Severity != "PANIC" {
			return err
		}
	}
	if !pgconn.SafeToRetry(err) && !isPlain(err) {
		if committing {
			return fmt.Errorf("%w: %w", db.ErrUncertain, err)
		}
		return fmt.Errorf("%w: %w", db.ErrUnavailable, err)
	}
	if pgconn.SafeToRetry(err) {
		return fmt.Errorf("%w: %w", db.ErrUnavailable, err)
	}
	return err
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
	_, op := errors.AsType[*db.OpError](err)
	return schema || op
}

// isPlain reports whether the error came from reading a row or building an
// argument rather than from the connection.
func isPlain(err error) bool {
	_, scan := errors.AsType[pgx.ScanArgError](err)
	return scan
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
	case "42P01", "42883":
		return nil
	case "57P03", "53300", "25P03", "40001", "40P01", "55P03":
		return db.ErrUnavailable
	}
	return nil
}
