package queue

import (
	"context"
	"errors"
	"fmt"
)

// phase says who is let in.
type phase int

const (
	open    phase = iota // everybody
	closing              // jobs of chains that are in a lane
	cut                  // nobody
)

// Close lets what is active finish, with the inner jobs that it needs, ends the
// waits of the rest with [ErrClosed] and refuses what is new. When its context ends
// meanwhile, it ends those of the jobs, whose cause is then ErrClosed, and says in
// an error how many there were. It waits for them also then: when it returns,
// nothing runs any more, no job and no observer. It may be called more than once.
//
// Called by a job it would wait for itself: it is refused with a [*CircleError].
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

// chain are the lanes of the chain that a context belongs to.
func (q *Queues) chain(ctx context.Context) []string {
	t, _ := ctx.Value(chainKey{q}).(*ticket)
	q.mu.Lock()
	defer q.mu.Unlock()
	return t.innermost().chain()
}

// refuse ends the waits that fn chooses. Their lanes stay, as nobody waits for a
// lane with room.
func (q *Queues) refuse(fn func(*ticket) bool) {
	for _, l := range q.lanes {
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

// cut ends the contexts of all jobs and says how many were active.
func (q *Queues) cut() int {
	q.mu.Lock()
	q.phase = cut
	q.refuse(func(*ticket) bool { return true })
	var jobs []*ticket
	for _, l := range q.lanes {
		jobs = append(jobs, l.active...)
	}
	q.mu.Unlock()
	for _, t := range jobs { // without the lock: it calls what the context's users set up
		t.cancel(ErrClosed)
	}
	return len(jobs)
}

// gone counts a job that was let in out.
func (q *Queues) gone() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inside--; q.inside == 0 && q.phase != open {
		close(q.drained)
	}
}

// whyEnded is a context's error, with the cause where there is another.
func whyEnded(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
