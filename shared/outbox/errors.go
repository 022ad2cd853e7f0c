package outbox

import "time"

// A SettledError is returned by a handler that has marked its row itself, in the transaction of its
// own writes. It is not a failure.
type SettledError struct {
	Status Status
	Why    error // for which it is not sent
}

func (e *SettledError) Error() string { return "marked by its handler: " + string(e.Status) }

// Settled returns a [SettledError].
func Settled(as Status, why error) error { return &SettledError{as, why} }

// A LaterError says that a row cannot be sent yet, and why. The attempt does not count, however
// often it is repeated.
type LaterError struct {
	Err error
	In  time.Duration // delay before the next attempt; 0: a random delay up to five minutes
	// Counts says that the attempt counts, because something was begun elsewhere that may be lost. The
	// delay then grows with the attempts, from In on.
	Counts bool
}

func (e *LaterError) Error() string { return e.Err.Error() }
func (e *LaterError) Unwrap() error { return e.Err }

// Later returns a [LaterError].
func Later(err error) error { return &LaterError{Err: err} }

// LaterIn returns a [LaterError] for a row that can be sent after a known time.
func LaterIn(d time.Duration, err error) error {
	return &LaterError{Err: err, In: max(d, time.Millisecond)}
}

// LookIn returns a [LaterError] of an attempt that counts: the row looks again at what it has begun.
func LookIn(d time.Duration, err error) error {
	return &LaterError{Err: err, In: max(d, time.Millisecond), Counts: true}
}

// An UnfinishedError says that an attempt ended before its work was done. The row is retried at
// once, and the attempt counts.
type UnfinishedError struct{ Err error }

func (e *UnfinishedError) Error() string { return e.Err.Error() }
func (e *UnfinishedError) Unwrap() error { return e.Err }

// Unfinished returns an [UnfinishedError].
func Unfinished(err error) error { return &UnfinishedError{err} }

// A PermanentError says that a retry cannot succeed.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanently returns a [PermanentError].
func Permanently(err error) error { return &PermanentError{err} }

// An UncertainError says that it is unknown whether the row had its effect.
type UncertainError struct{ Err error }

func (e *UncertainError) Error() string { return e.Err.Error() }
func (e *UncertainError) Unwrap() error { return e.Err }

// Uncertainly returns an [UncertainError].
func Uncertainly(err error) error { return &UncertainError{err} }

// A DeadError says that the receiver of the row no longer exists.
type DeadError struct{ Err error }

func (e *DeadError) Error() string { return e.Err.Error() }
func (e *DeadError) Unwrap() error { return e.Err }

// Gone returns a [DeadError].
func Gone(err error) error { return &DeadError{err} }

// Delayed is a handler's error that says when a retry makes sense.
type Delayed interface {
	error
	RetryAfter() time.Duration
}

// A StatusError says that a row cannot be sent in its present status.
type StatusError struct{ Status Status }

func (e *StatusError) Error() string { return "the row is " + string(e.Status) }
