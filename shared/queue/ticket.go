package queue

import (
	"container/list"
	"context"
	"slices"
	"time"
)

// ticket is a job that was let in. Of those in one chain each is the parent of the
// next: it holds its lane and waits for what is inside it.
type ticket struct {
	job    Job
	ctx    context.Context // the job's: ended by cancel
	cancel context.CancelCauseFunc
	came   time.Time

	// Of its own goroutine:
	stop  context.CancelFunc // ends its deadline
	began time.Time
	ran   bool

	// Under the queues' lock. Class and lane stay as they are once it has been let in,
	// and refused once turn has been closed.
	class   Class
	lane    *lane
	turn    chan struct{} // closed when the wait is over; nil: there was none
	refused error         // why it is over without a turn
	state   state
	place   *list.Element // while it waits
	seat    int           // while it is active: among the active of its lane
	turned  time.Time     // when it became active

	parent     *ticket
	first      *ticket // of its inner jobs
	prev, next *ticket // among its parent's
}

type state int

const (
	waits  state = iota // in its lane's list
	active              // in its lane
	out                 // of both
)

// chainKey is where a context keeps the innermost job that it belongs to. Other
// queues have chains of their own.
type chainKey struct{ q *Queues }

// innermost is the innermost of a chain's jobs that is still in its lane. A context
// may outlive its job.
func (t *ticket) innermost() *ticket {
	for t != nil && t.state == out {
		t = t.parent
	}
	return t
}

// join makes it one of its parent's inner jobs.
func (t *ticket) join(parent *ticket) {
	t.parent = parent
	if parent == nil {
		return
	}
	t.prev, t.next = nil, parent.first
	if t.next != nil {
		t.next.prev = t
	}
	parent.first = t
}

// leave takes it out of its chain. Its inner jobs, if it left any behind, are now its
// parent's: so a chain has none that are out.
func (t *ticket) leave() {
	for t.first != nil {
		inner := t.first
		t.first = inner.next
		inner.join(t.parent)
	}
	if t.parent == nil {
		return
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		t.parent.first = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
}

// waiting calls fn with each job inside it, at any depth, that waits, until fn says
// false, which it then returns.
func (t *ticket) waiting(fn func(*ticket) bool) bool {
	for inner := t.first; inner != nil; inner = inner.next {
		if inner.state == waits && !fn(inner) || !inner.waiting(fn) {
			return false
		}
	}
	return true
}

// chain are the lanes of a job and those around it, the outermost first.
func (t *ticket) chain() (names []string) {
	for ; t != nil; t = t.parent {
		names = append(names, t.job.Queue)
	}
	slices.Reverse(names)
	return names
}
