package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Waiting describes a job that has waited for a long time and still waits.
type Waiting struct {
	Queue  string
	Class  Class
	Waited time.Duration
	// Ahead is the number of jobs whose turn comes before, Behind the number whose turn comes
	// after. Both assume that no jobs arrive and that background jobs do not get their turn out of
	// order.
	Ahead, Behind int
	Active        int // jobs in the queue
	// Blockers are jobs in the queue, oldest first, at most ten.
	Blockers []Blocker
}

const maxBlockers = 10

// Blocker is a job that others wait for.
type Blocker struct {
	Chain    []string // the queues that it is in, outermost first
	Trace    trace.ID // the trace of its context; "" none
	Active   time.Duration
	WaitsFor []string // queues that its inner jobs wait for
}

// String formats the blocker for people: "session:a → subagent (ch_…) for 10s, waits for memory:a".
func (b Blocker) String() string {
	text := strings.Join(b.Chain, arrow)
	if b.Trace != "" {
		text += " (" + string(b.Trace) + ")"
	}
	text += " for " + b.Active.Round(time.Millisecond).String()
	if len(b.WaitsFor) > 0 {
		text += ", waits for " + strings.Join(b.WaitsFor, ", ")
	}
	return text
}

// wait returns nil when it is the job's turn, and otherwise an error that says why there will be no
// turn. When the turn comes together with the end of the context, wait returns the error.
func (q *Queues) wait(ctx context.Context, t *ticket) (err error) {
	mine := false
	defer func() {
		if !mine { // also when Warn panicked
			q.leave(ctx, t, err)
		}
	}()
	warn := time.NewTimer(q.o.WarnAfter)
	defer warn.Stop()
	for {
		select {
		case <-warn.C:
			q.warn(ctx, t)
			continue
		case <-t.turn:
			if t.refused != nil {
				return fmt.Errorf("wait in queue %s: %w", t.job.Queue, t.refused)
			}
		case <-t.ctx.Done():
		}
		if t.ctx.Err() != nil {
			return t.ended(t.ctx)
		}
		mine = true
		return nil
	}
}

// ended returns the error of a job whose context ended before its turn.
func (t *ticket) ended(ctx context.Context) error {
	return fmt.Errorf("wait in queue %s: %w", t.job.Queue, whyEnded(ctx))
}

// warn reports a job that has waited for a long time.
func (q *Queues) warn(ctx context.Context, t *ticket) {
	w, waits := q.describe(t)
	if !waits {
		return
	}
	if q.o.Log != nil {
		blockers := make([]string, len(w.Blockers))
		for i, b := range w.Blockers {
			blockers[i] = b.String()
		}
		q.o.Log.WarnContext(ctx, "a job waits for its queue", "queue", w.Queue, "class", w.Class.String(), "waited_ms", w.Waited.Milliseconds(),
			"ahead", w.Ahead, "behind", w.Behind, "active", w.Active, "blockers", blockers)
	}
	if q.o.Warn != nil {
		q.o.Warn(ctx, w)
	}
}

// describe describes a ticket's wait. It returns false when the ticket no longer waits.
func (q *Queues) describe(t *ticket) (Waiting, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.state != waits {
		return Waiting{}, false
	}
	l := t.queue
	w := Waiting{Queue: l.name, Class: t.class, Waited: time.Since(t.came), Active: len(l.active)}
	for e := t.place.Prev(); e != nil; e = e.Prev() {
		w.Ahead++
	}
	if t.class == Background {
		w.Ahead += l.waiting[User].Len()
	}
	w.Behind = l.depth() - 1 - w.Ahead
	oldest := slices.SortedFunc(slices.Values(l.active), func(a, b *ticket) int { return a.turned.Compare(b.turned) })
	for _, a := range oldest[:min(len(oldest), maxBlockers)] {
		w.Blockers = append(w.Blockers, a.blocker())
	}
	return w, true
}

// blocker describes an active ticket.
func (t *ticket) blocker() Blocker {
	b := Blocker{Chain: t.chain(), Active: time.Since(t.turned)}
	b.Trace, _ = trace.From(t.ctx)
	t.waiting(func(inner *ticket) bool {
		if !slices.Contains(b.WaitsFor, inner.queue.name) {
			b.WaitsFor = append(b.WaitsFor, inner.queue.name)
		}
		return len(b.WaitsFor) < maxBlockers
	})
	return b
}
