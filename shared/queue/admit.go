package queue

import (
	"container/list"
	"maps"
	"strings"
	"time"
)

// queue is a queue in use. While jobs wait in a queue, it has no room.
type queue struct {
	name    string
	family  *family
	active  []*ticket
	waiting [2]list.List  // by class, in order of arrival
	passed  int           // users that passed since a background job had its turn or none waited
	service time.Duration // how long recent jobs took; 0: none has ended
}

func (l *queue) room() bool { return len(l.active) < l.family.limits.MaxConcurrent }

func (l *queue) depth() int { return l.waiting[Background].Len() + l.waiting[User].Len() }

// queue returns the queue of a name. A new queue is stored once a job is in it.
func (q *Queues) queue(name string) *queue {
	if l := q.queues[name]; l != nil {
		return l
	}
	f := q.families[name]
	if f == nil {
		before, _, _ := strings.Cut(name, ":")
		f = q.families[before]
	}
	if f == nil {
		f = q.families[""]
	}
	return &queue{name: name, family: f}
}

// admit adds a job to its queue when there is room, or else to the waiting jobs.
func (q *Queues) admit(t, parent *ticket) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	parent = parent.innermost()
	if q.phase == cut || q.phase == closing && parent == nil {
		return ErrClosed
	}
	t.class = min(max(t.job.Class, Background), User)
	if parent != nil {
		t.class = max(t.class, parent.class)
	}
	t.queue = q.queue(t.job.Queue)
	if err := t.queue.refusal(parent, t.came); err != nil {
		t.queue.family.refused++
		return err
	}
	q.inside++
	t.join(parent)
	if t.queue.room() {
		q.queues[t.queue.name] = t.queue
		q.most = max(q.most, len(q.queues))
		t.activate(t.came)
	} else {
		t.turn = make(chan struct{})
		t.place = t.queue.waiting[t.class].PushBack(t)
	}
	return nil
}

// refusal returns the error of a job that the queue does not admit, or nil.
func (l *queue) refusal(chain *ticket, now time.Time) error {
	for p := chain; p != nil; p = p.parent {
		if p.queue == l {
			return &CycleError{Chain: append(chain.chain(), l.name)}
		}
	}
	if l.room() {
		return nil
	}
	if back := l.wayBack(chain); back != nil {
		return &CycleError{Chain: append(chain.chain(), l.name), Through: back}
	}
	if n := l.depth(); n >= l.family.limits.Cap {
		return &FullError{Queue: l.name, Waiting: n, RetryAfter: l.retryAfter(now)}
	}
	return nil
}

// activate adds a ticket that is in no list to its queue.
func (t *ticket) activate(now time.Time) {
	t.state, t.turned, t.seat = active, now, len(t.queue.active)
	t.queue.active = append(t.queue.active, t)
}

// unqueue removes a waiting ticket from its list.
func (t *ticket) unqueue() {
	t.queue.waiting[t.class].Remove(t.place)
	t.place = nil
	if t.class == Background && t.queue.waiting[Background].Len() == 0 {
		t.queue.passed = 0
	}
}

// refuse ends the wait of a ticket with an error.
func (t *ticket) refuse(err error) {
	t.unqueue()
	t.leave()
	t.state, t.refused = out, err
	close(t.turn)
}

// remove removes a ticket from its queue or list, and passes its turn on.
func (q *Queues) remove(t *ticket, d Done) {
	l := t.queue
	l.count(d)
	switch t.state {
	case out:
		return
	case waits:
		t.unqueue()
	case active:
		last := len(l.active) - 1
		l.active[t.seat] = l.active[last]
		l.active[t.seat].seat = t.seat
		l.active[last] = nil
		l.active = l.active[:last]
		if next := l.next(q.o.MaxPassed); next != nil {
			next.unqueue()
			next.activate(time.Now())
			close(next.turn)
		}
	}
	t.leave()
	t.state = out
	q.forget(l)
}

// next returns the ticket whose turn is next, or nil when none waits.
func (l *queue) next(maxPassed int) *ticket {
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

// forget removes a queue without jobs. A Go map never shrinks, so after a peak forget makes a new
// one.
func (q *Queues) forget(l *queue) {
	if len(l.active) > 0 || l.depth() > 0 {
		return
	}
	delete(q.queues, l.name)
	if q.most > 1024 && len(q.queues) < q.most/8 {
		left := make(map[string]*queue, len(q.queues)) // maps.Clone would keep the size
		maps.Copy(left, q.queues)
		q.queues, q.most = left, len(left)
	}
}
