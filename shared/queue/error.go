package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrClosed says that the queues take no more work.
var ErrClosed = errors.New("the queues are closed")

// errExited stands for a job that ended its goroutine.
var errExited = errors.New("the job ended its goroutine")

// FullError says that a lane takes no more waiting jobs.
type FullError struct {
	Queue   string
	Waiting int
	// RetryAfter is how long those that wait will take, going by how long jobs of
	// the lane took lately: 1 second at least and 5 minutes at most.
	RetryAfter time.Duration
}

func (e *FullError) Error() string {
	return fmt.Sprintf("lane %s is full: %d jobs wait; try again in %s", e.Queue, e.Waiting, e.RetryAfter.Round(time.Second))
}

// CycleError says that a job would wait for itself.
type CycleError struct {
	// Chain are the lanes that the job is in, the outermost first, and the one it
	// asked for last.
	Chain []string
	// Through are the lanes, where it is not in that one itself, for which the jobs
	// there wait: from one to the next, the last of which it is in.
	Through []string
}

const arrow = " → "

func (e *CycleError) Error() string {
	text := "the job would wait for itself: " + strings.Join(e.Chain, arrow)
	if len(e.Through) > 0 {
		text += ", whose jobs wait for " + strings.Join(e.Through, arrow)
	}
	return text
}

// PanicError is a job's panic. Its text does not tell the value, which may hold
// anything; the stack holds no values and is for the log.
type PanicError struct {
	Queue string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return "a job of lane " + e.Queue + " panicked" }

// timeoutError is the cause of a context whose job took too long.
type timeoutError struct {
	lane  string
	after time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("the job of lane %s took more than %s", e.lane, e.after)
}

func (e *timeoutError) Unwrap() error { return context.DeadlineExceeded }
