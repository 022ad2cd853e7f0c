package edge

import (
	"context"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// An EventError says what is wrong with an event. It names the field and never repeats a value.
type EventError struct {
	Field   string // empty: the event as a whole
	Problem string // the rest of a sentence that begins with the field
}

func (e *EventError) Error() string {
	if e.Field == "" {
		return "the event " + e.Problem
	}
	return "the event's field " + e.Field + " " + e.Problem
}

// A SecretError says why a secret in Secrets Manager could not be used. It never repeats the secret's
// content.
type SecretError struct {
	Variable string // that names the secret; several with commas
	ARN      string
	Problem  string // and what helps
	Err      error  // nil where the secret itself is wrong
}

func (e *SecretError) Error() string {
	if e.Err != nil {
		return e.plain() + ": " + e.Err.Error()
	}
	return e.plain()
}

// plain is the error without its cause.
func (e *SecretError) plain() string { return fmt.Sprintf("%s (%s): %s", e.Variable, e.ARN, e.Problem) }

func (e *SecretError) Unwrap() error { return e.Err }

// A MigrationError is the failure that stopped the migrations. Lambda's caller receives its text, so
// that the person who deploys sees which file failed and why.
type MigrationError struct{ Err error }

func (e *MigrationError) Error() string { return e.Err.Error() }
func (e *MigrationError) Unwrap() error { return e.Err }

// failureOf converts an error to the form that Lambda, its caller and the dead-letter queue receive.
// Errors that this table does not list appear in the log only.
func failureOf(ctx context.Context, err error) *failure {
	say := func(kind, text string) *failure { return &failure{Type: kind, Message: text} }
	if e, ok := errors.AsType[*EventError](err); ok {
		return say("InvalidEvent", e.Error())
	}
	if e, ok := errors.AsType[*problem.ConfigError](err); ok {
		return say("InvalidConfiguration", e.Error())
	}
	if e, ok := errors.AsType[*SecretError](err); ok {
		return say("SecretUnusable", e.plain())
	}
	if e, ok := errors.AsType[*db.SchemaError](err); ok {
		return say("SchemaOutdated", e.Error()+", or invoke the migrate function")
	}
	if e, ok := errors.AsType[*db.NewerSchemaError](err); ok {
		return say("SchemaNewer", e.Error())
	}
	switch {
	case errors.Is(err, db.ErrUnsafeRole):
		return say("UnsafeRole", db.ErrUnsafeRole.Error())
	case app.CredentialsRefused(err):
		return say("CredentialsRefused", "the database refused the user or the password of DATABASE_URL or DATABASE_SECRET_ARN")
	case errors.Is(err, db.ErrUnavailable): // includes a connection timeout
		return say("DatabaseUnavailable", "the database can't be reached, or is too busy: "+seeLog(ctx))
	case errors.Is(err, context.DeadlineExceeded):
		return say("TimedOut", "the time of the invocation was up: "+seeLog(ctx))
	}
	if e, ok := errors.AsType[*MigrationError](err); ok {
		return say("MigrationFailed", fmt.Sprintf("the migrations failed: %.1000s (%s)", e, seeLog(ctx)))
	}
	return say("Internal", internal(ctx))
}

func internal(ctx context.Context) string { return "internal error: " + seeLog(ctx) }

func seeLog(ctx context.Context) string {
	return fmt.Sprintf("the log has the details under request_id %s", requestID(ctx))
}
