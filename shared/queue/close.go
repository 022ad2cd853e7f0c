package queue

import (
	"context"
	"errors"
	"fmt"
)

// phase says which jobs are admitted.
type phase int

const (
	open    phase = iota // all jobs
	closing              // only jobs of chains that are in a queue
	cut                  // none
)

// Close lets active jobs finish, together with the inner jobs that they need. It ends all other
// waits with [ErrClosed] and refuses new jobs. When ctx ends before that, Close ends the contexts
// of the jobs, with ErrClosed as the cause, and returns an error that says how many there were. It
// waits for the jobs in this case too: when Close returns, nothing runs any more, no job and no
// observer. Close may be called more than once.
//
// A job that called Close would wait for itself. Such a call returns a [*CycleError].
func (q *Queues) Close(ctx context.Context) error {
	if chain := q.chain(ctx); chain != nil {
		return fmt.Errorf("close the queues: %w", &CycleError{Chain: append(chain, "(end of all)")})
	}
	q.mu.Lock()
	if q.phase == open {
		q.phase = closing
		q.refuse(func(t *ticket) bool { return t.parent == nil })
		if q.inside == 0 {
			close(q.drained)
		}
	}
	q.mu.Unlock()
	select {
	case <-q.drained:
		return nil
	case <-ctx.Done():
	}
	short := q.cut()
	<-q.drained
	if short == 0 {
		return nil
	}
	return fmt.Errorf("close the queues: %d jobs were cut short: %w", short, whyEnded(ctx))
}

// chain returns the queues of the chain that a context belongs to.
func (q *Queues) chain(ctx context.Context) []string {
	t, _ := ctx.Value(chainKey{q}).(*ticket)
	q.mu.Lock()
	defer q.mu.Unlock()
	return t.innermost().chain()
}

// refuse ends the waits that fn selects. The queues stay, because a queue with waiting jobs has
// active ones.
func (q *Queues) refuse(fn func(*ticket) bool) {
	for _, l := range q.queues {
		for class := range l.waiting {
			for e := l.waiting[class].Front(); e != nil; {
				t := e.Value.(*ticket)
				e = e.Next()
				if fn(t) {
					t.refuse(ErrClosed)
				}
			}
		}
	}
}

// cut ends the contexts of all jobs and returns how many were active.
func (q *Queues) cut() int {
	q.mu.Lock()
	q.phase = cut
	q.refuse(func(*ticket) bool { return true })
	var jobs []*ticket
	for _, l := range q.queues {
		jobs = append(jobs, l.active...)
	}
	q.mu.Unlock()
	for _, t := range jobs { // without the lock: cancel runs callbacks of the context's users
		t.cancel(ErrClosed)
	}
	return len(jobs)
}

// gone counts down the admitted jobs.
func (q *Queues) gone() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inside--; q.inside == 0 && q.phase != open {
		close(q.drained)
	}
}

// whyEnded returns a context's error, with the cause when there is another one.
func whyEnded(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
