package outbox

import "time"

// A SettledError is what a handler returns that has marked its row itself, in the
// transaction of what it wrote: nothing is wrong.
type SettledError struct{ Status Status }

func (e *SettledError) Error() string { return "marked by its handler: " + string(e.Status) }

// Settled makes a [SettledError].
func Settled(as Status) error { return &SettledError{as} }

// A LaterError says that a row can't be sent yet, and why: this try does not count,
// however often it comes back.
type LaterError struct {
	Err error
	In  time.Duration // after which it is tried again; 0: up to five minutes
}

func (e *LaterError) Error() string { return e.Err.Error() }
func (e *LaterError) Unwrap() error { return e.Err }

// Later makes a [LaterError].
func Later(err error) error { return &LaterError{Err: err} }

// LaterIn makes a [LaterError] of a row that can be sent after a known time.
func LaterIn(d time.Duration, err error) error { return &LaterError{err, max(d, time.Millisecond)} }

// An UnfinishedError says that a try came to its end before its work did: the row is
// tried again at once, and the try counts.
type UnfinishedError struct{ Err error }

func (e *UnfinishedError) Error() string { return e.Err.Error() }
func (e *UnfinishedError) Unwrap() error { return e.Err }

// Unfinished makes an [UnfinishedError].
func Unfinished(err error) error { return &UnfinishedError{err} }

// A PermanentError says that no further try can send a row.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanently makes a [PermanentError].
func Permanently(err error) error { return &PermanentError{err} }

// An UncertainError says that a row may have had its effect, and that nobody can
// tell.
type UncertainError struct{ Err error }

func (e *UncertainError) Error() string { return e.Err.Error() }
func (e *UncertainError) Unwrap() error { return e.Err }

// Uncertainly makes an [UncertainError].
func Uncertainly(err error) error { return &UncertainError{err} }

// A DeadError says that whoever a row is for is gone.
type DeadError struct{ Err error }

func (e *DeadError) Error() string { return e.Err.Error() }
func (e *DeadError) Unwrap() error { return e.Err }

// Gone makes a [DeadError].
func Gone(err error) error { return &DeadError{err} }

// Delayed is an error of a handler that says after how long another try makes sense.
type Delayed interface {
	error
	RetryAfter() time.Duration
}

// A StatusError says that a row is in no status in which it is sent, and in which it
// is.
type StatusError struct{ Status Status }

func (e *StatusError) Error() string { return "the row is " + string(e.Status) }
