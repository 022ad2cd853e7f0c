package llm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/outbound"
)

// ErrorClass says what kind of failure an Error is, and so how to react to it.
type ErrorClass string

// The classes of errors, for all providers.
const (
	ClassAuthentication ErrorClass = "authentication"   // the key is wrong or has no permission; a person must act
	ClassBilling        ErrorClass = "billing"          // no money or quota left; a person must act
	ClassRateLimit      ErrorClass = "rate_limit"       // too many requests from us; retry later
	ClassOverloaded     ErrorClass = "overloaded"       // too many requests from all clients; retry later
	ClassBadRequest     ErrorClass = "bad_request"      // the same request will fail again
	ClassContextTooLong ErrorClass = "context_too_long" // the conversation must be shortened first
	ClassUnavailable    ErrorClass = "unavailable"      // not reached, or the provider failed; retry later
	ClassTimeout        ErrorClass = "timeout"          // the deadline passed first
	ClassRefused        ErrorClass = "refused"          // declined by the provider's policy before it answered
	ClassCanceled       ErrorClass = "canceled"         // we canceled the call
)

// Retryable reports whether the same request may succeed a little later. A timeout counts as
// retryable. The caller must decide whether there is time for a retry.
func (c ErrorClass) Retryable() bool {
	switch c {
	case ClassRateLimit, ClassOverloaded, ClassUnavailable, ClassTimeout:
		return true
	}
	return false
}

// Error is a model's failure to answer. It wraps its cause. The cause's text may come from the
// provider, so it belongs in the log, never in a prompt or in an answer to a caller.
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

// ClassOf returns the class of the Error that err is or wraps. A bare context error is
// ClassCanceled or ClassTimeout. Any other error has no class: "".
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

// Interrupted returns the *Error of a call whose context ended, or under whose context nothing is
// sent ([outbound.ErrBarred]), or nil.
func Interrupted(ctx context.Context, provider string) error {
	if err := outbound.Barred(ctx); err != nil {
		return &Error{Class: ClassBadRequest, Provider: provider, Err: err}
	}
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
