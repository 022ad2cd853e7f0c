package llm

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrorClass says what kind of failure an Error is, and so what to do about it.
type ErrorClass string

// The classes of errors, whatever the provider.
const (
	ClassAuthentication ErrorClass = "authentication"   // the key is wrong or may not do this; a person has to act
	ClassBilling        ErrorClass = "billing"          // no money or quota left; a person has to act
	ClassRateLimit      ErrorClass = "rate_limit"       // too much from us; later
	ClassOverloaded     ErrorClass = "overloaded"       // too much from everybody; later
	ClassBadRequest     ErrorClass = "bad_request"      // the same request will fail again
	ClassContextTooLong ErrorClass = "context_too_long" // the conversation must be shortened first
	ClassUnavailable    ErrorClass = "unavailable"      // not reached, or failed on its side; later
	ClassTimeout        ErrorClass = "timeout"          // the deadline passed first
	ClassRefused        ErrorClass = "refused"          // declined by policy before it answered
	ClassCanceled       ErrorClass = "canceled"         // we gave up ourselves
)

// Retryable reports whether the same request may succeed a little later.
// A timeout counts: whether time is left to try again the caller knows best.
func (c ErrorClass) Retryable() bool {
	switch c {
	case ClassRateLimit, ClassOverloaded, ClassUnavailable, ClassTimeout:
		return true
	}
	return false
}

// Error is a model's failure to answer. It wraps its cause, whose text may
// come from the provider: for the log, never for a prompt or a caller.
type Error struct {
	Class      ErrorClass
	Provider   string
	RetryAfter time.Duration // what the provider asked for; 0: it did not say
	Err        error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s", e.Provider, e.Class)
	}
	return fmt.Sprintf("%s: %s: %v", e.Provider, e.Class, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of the Error that err is or wraps. Bare context
// errors are ClassCanceled and ClassTimeout; of what else there is no class: "".
func ClassOf(err error) ErrorClass {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Class
	case errors.Is(err, context.Canceled):
		return ClassCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return ClassTimeout
	}
	return ""
}

// Interrupted returns the *Error of a call that its context ended, or nil
// while ctx is alive.
func Interrupted(ctx context.Context, provider string) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	class := ClassOf(err)
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return &Error{Class: class, Provider: provider, Err: err}
}
