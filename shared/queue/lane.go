package queue

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ticket is a job in its lane, waiting or active.
type ticket struct {
	job    Job
	parent *ticket // the job it was asked for in
	since  time.Time
	turn   chan struct{} // closed when it is its turn

	// Under the queues' lock:
	lane   *lane
	place  *list.Element    // in the waiting list; nil: it is active
	inner  map[*ticket]bool // jobs of its own that wait
	waited time.Duration
}

type chainKey struct{}

// chain is the innermost job of a context; nil: it is in none.
func chain(ctx context.Context) *ticket {
	t, _ := ctx.Value(chainKey{}).(*ticket)
	return t
}

// lane is a queue in use.
type lane struct {
	name    string
	limits  Limits
	totals  *totals
	active  map[*ticket]bool
	waiting [2]list.List // by class
	passed  int          // by users, of the background job that is first
}

func (l *lane) depth() int { return l.waiting[Background].Len() + l.waiting[User].Len() }

// limits are those of the name, or of its family.
func (q *Queues) limits(name string) (family string, l Limits) {
	family, l = "", q.o.Default
	before, _, _ := strings.Cut(name, ":")
	for _, known := range []string{name, before} {
		if own, ok := q.o.Lanes[known]; ok {
			family, l = known, own
			break
		}
	}
	if l.MaxConcurrent <= 0 {
		l.MaxConcurrent = 1
	}
	if l.Cap <= 0 {
		l.Cap = defaultCap
	}
	return family, l
}

// admit puts a ticket into its lane, active where there is room.
func (q *Queues) admit(t *ticket) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing {
		return fmt.Errorf("queue for lane %s: %w", t.job.Lane, ErrClosed)
	}
	for p := t.parent; p != nil; p = p.parent {
		if p.job.Lane == t.job.Lane {
			return &CircleError{Chain: append(lanesOf(t.parent), t.job.Lane)}
		}
	}
	l := q.lanes[t.job.Lane]
	if l == nil {
		family, limits := q.limits(t.job.Lane)
		l = &lane{name: t.job.Lane, limits: limits, totals: q.total(family), active: map[*ticket]bool{}}
		q.lanes[l.name] = l
	}
	t.lane = l
	if len(l.active) < l.limits.MaxConcurrent {
		q.activate(t)
		return nil
	}
	if through := l.backTo(t.parent); through != nil {
		return &CircleError{Chain: append(lanesOf(t.parent), t.job.Lane), Through: through}
	}
	if n := l.depth(); n >= l.limits.Cap {
		return &FullError{Lane: l.name, Waiting: n, RetryAfter: l.totals.service * time.Duration(n+1) / time.Duration(l.limits.MaxConcurrent)}
	}
	t.place = l.waiting[t.class()].PushBack(t)
	if t.parent != nil {
		if t.parent.inner == nil {
			t.parent.inner = map[*ticket]bool{}
		}
		t.parent.inner[t] = true
	}
	return nil
}

func (t *ticket) class() Class {
	if t.job.Class == User {
		return User
	}
	return Background
}

// activate gives a ticket its turn.
func (q *Queues) activate(t *ticket) {
	t.waited = time.Since(t.since)
	t.lane.active[t] = true
	q.active++
	close(t.turn)
}

// withdraw takes a ticket out that does not want its turn any more, also when it
// has just been given it.
func (q *Queues) withdraw(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.place == nil {
		q.release(t)
		return
	}
	q.unqueue(t)
	q.forget(t.lane)
}

// unqueue ends a ticket's wait.
func (q *Queues) unqueue(t *ticket) {
	t.lane.waiting[t.class()].Remove(t.place)
	t.place = nil
	if t.parent != nil {
		delete(t.parent.inner, t)
	}
}

// leave ends a job and hands its turn on.
func (q *Queues) leave(t *ticket, ran time.Duration, err error) {
	q.mu.Lock()
	t.lane.totals.count(t.waited, ran, err)
	q.release(t)
	q.mu.Unlock()
	if q.o.Observe != nil {
		q.o.Observe(Done{Lane: t.job.Lane, Class: t.job.Class, Waited: t.waited, Ran: ran, Err: err})
	}
}

// release gives a turn back, and to the next.
func (q *Queues) release(t *ticket) {
	l := t.lane
	delete(l.active, t)
	q.active--
	if !q.closing {
		if next := l.next(q.o.MaxPassed); next != nil {
			q.unqueue(next)
			q.activate(next)
		}
	} else if q.active == 0 {
		close(q.drained)
	}
	q.forget(l)
}

// next is whose turn it is.
func (l *lane) next(maxPassed int) *ticket {
	user, background := l.waiting[User].Front(), l.waiting[Background].Front()
	switch {
	case user == nil && background == nil:
		return nil
	case background == nil:
		return user.Value.(*ticket)
	case user == nil || l.passed >= maxPassed:
		l.passed = 0
		return background.Value.(*ticket)
	}
	l.passed++
	return user.Value.(*ticket)
}

// forget drops a lane that nobody is in.
func (q *Queues) forget(l *lane) {
	if len(l.active) == 0 && l.depth() == 0 {
		delete(q.lanes, l.name)
	}
}

// backTo is the way from a full lane back to a chain, where it never gets free
// before a job of that chain ends: nil, where it does.
func (l *lane) backTo(chain *ticket) []string {
	if chain == nil {
		return nil
	}
	own := map[*ticket]bool{}
	for p := chain; p != nil; p = p.parent {
		own[p] = true
	}
	var way []string
	if l.stuck(own, map[*lane]bool{}, &way) {
		return slices.Compact(way)
	}
	return nil
}

// stuck reports whether every job of the lane waits for one of own, each perhaps
// through other lanes.
func (l *lane) stuck(own map[*ticket]bool, seen map[*lane]bool, way *[]string) bool {
	if seen[l] {
		return true // it waits for what is being looked at
	}
	seen[l] = true
	for t := range l.active {
		if !own[t] && !t.stuck(own, seen, way) {
			delete(seen, l)
			return false
		}
	}
	return len(l.active) >= l.limits.MaxConcurrent
}

// stuck reports whether a job waits for one of own.
func (t *ticket) stuck(own map[*ticket]bool, seen map[*lane]bool, way *[]string) bool {
	for inner := range t.inner {
		if inner.lane.stuck(own, seen, way) {
			*way = append(*way, inner.lane.name)
			return true
		}
	}
	return false
}

// lanesOf are the lanes of a chain, the outermost first.
func lanesOf(t *ticket) (names []string) {
	for ; t != nil; t = t.parent {
		names = append(names, t.job.Lane)
	}
	slices.Reverse(names)
	return names
}

// describe tells of a ticket's wait; false: it waits no more.
func (q *Queues) describe(t *ticket) (Waiting, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.place == nil {
		return Waiting{}, false
	}
	w := Waiting{Lane: t.job.Lane, Class: t.job.Class, Waited: time.Since(t.since), Active: len(t.lane.active)}
	for e := t.place.Prev(); e != nil; e = e.Prev() {
		w.Ahead++
	}
	if t.class() == Background {
		w.Ahead += t.lane.waiting[User].Len()
	}
	for a := range t.lane.active {
		w.Blocked = append(w.Blocked, strings.Join(lanesOf(a), " → "))
	}
	slices.Sort(w.Blocked)
	return w, true
}
