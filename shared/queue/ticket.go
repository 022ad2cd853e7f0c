package queue

import (
	"container/list"
	"context"
	"slices"
	"time"
)

// ticket is an admitted job. In a chain each ticket is the parent of the next: it occupies its queue
// and waits for its inner jobs.
type ticket struct {
	job    Job
	ctx    context.Context // the job's context, ended by cancel
	cancel context.CancelCauseFunc
	came   time.Time

	// Used by the job's goroutine only:
	stop  context.CancelFunc // ends its deadline
	began time.Time
	ran   bool

	// Guarded by the queues' lock. Class and queue do not change after admission, and refused does
	// not change after turn is closed.
	class   Class
	queue   *queue
	turn    chan struct{} // closed when the wait is over; nil: the job did not wait
	refused error         // why the wait ended without a turn
	state   state
	place   *list.Element // while it waits
	seat    int           // index among the active jobs of its queue, while active
	turned  time.Time     // when it became active

	parent     *ticket
	first      *ticket // first inner job
	prev, next *ticket // siblings: the other inner jobs of the parent
}

type state int

const (
	waits  state = iota // in its queue's list
	active              // in its queue
	out                 // in neither
)

// chainKey is the key under which a context carries its innermost job. Other queues have their own
// chains.
type chainKey struct{ q *Queues }

// innermost returns the innermost job of a chain that has not left. A context may outlive its job.
func (t *ticket) innermost() *ticket {
	for t != nil && t.state == out {
		t = t.parent
	}
	return t
}

// join makes t an inner job of parent.
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

// leave removes t from its chain. Inner jobs that are still there become inner jobs of t's parent,
// so that no ticket that is out stays in a chain.
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

// waiting calls fn with each inner job that waits, at any depth, until fn returns false. It reports
// whether fn never returned false.
func (t *ticket) waiting(fn func(*ticket) bool) bool {
	for inner := t.first; inner != nil; inner = inner.next {
		if inner.state == waits && !fn(inner) || !inner.waiting(fn) {
			return false
		}
	}
	return true
}

// chain returns the queues of a job and its outer jobs, outermost first.
func (t *ticket) chain() (names []string) {
	for ; t != nil; t = t.parent {
		names = append(names, t.job.Queue)
	}
	slices.Reverse(names)
	return names
}
