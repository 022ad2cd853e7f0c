package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrClosed means that the queues take no more jobs.
var ErrClosed = errors.New("the queues are closed")

// errExited is the error of a job that ended its goroutine.
var errExited = errors.New("the job ended its goroutine")

// FullError means that a queue takes no more waiting jobs.
type FullError struct {
	Queue   string
	Waiting int
	// RetryAfter estimates how long the waiting jobs will take, from how long recent jobs of the
	// queue took: at least 1 second and at most 5 minutes.
	RetryAfter time.Duration
}

func (e *FullError) Error() string {
	return fmt.Sprintf("queue %s is full: %d jobs wait; try again in %s", e.Queue, e.Waiting, e.RetryAfter.Round(time.Second))
}

// CycleError means that a job would wait for itself.
type CycleError struct {
	// Chain are the queues that the job is in, outermost first, followed by the queue that it asked
	// for.
	Chain []string
	// Through is the path from the queue that the job asked for back to its chain. The jobs in each
	// queue wait for the next one; the job's chain is in the last one. It is empty when the job's
	// own chain is in the queue that it asked for.
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

// PanicError is a job's panic. Its text does not contain the value, which may hold any data. The
// stack holds no values and is for the log.
type PanicError struct {
	Queue string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return "a job of queue " + e.Queue + " panicked" }

// timeoutError is the cause of the context of a job that ran too long.
type timeoutError struct {
	queue string
	after time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("the job of queue %s took more than %s", e.queue, e.after)
}

func (e *timeoutError) Unwrap() error { return context.DeadlineExceeded }
