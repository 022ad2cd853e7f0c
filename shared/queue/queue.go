package queue

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Class says who waits for a job.
type Class int

// The classes of jobs.
const (
	Background Class = iota // nobody waits
	User                    // a person does: before the others
)

// Job says where a job queues, and how long it may run.
type Job struct {
	Lane  string
	Class Class
	// Timeout ends the job's context; 0: its caller's does.
	Timeout time.Duration
}

// Limits bound a lane. A zero value is the default.
type Limits struct {
	MaxConcurrent int // 1
	Cap           int // jobs that may wait; 1000
}

// Waiting describes a job that has waited for long, while it waits.
type Waiting struct {
	Lane    string
	Class   Class
	Waited  time.Duration
	Ahead   int      // of it in the lane
	Active  int      // in the lane
	Blocked []string // by whom: the chains of the jobs in the lane
}

// Done describes a job that has left its lane.
type Done struct {
	Lane   string
	Class  Class
	Waited time.Duration
	Ran    time.Duration
	Err    error
}

// Options make a set of queues. What is left out has a default.
type Options struct {
	// Lanes have limits of their own, by name, or by the part of the name before its
	// first colon. Their counts are kept for ever, those of all others as one.
	Lanes map[string]Limits
	// Default bounds all other lanes.
	Default Limits
	// MaxPassed is how many jobs of class User may pass a waiting background job; 8.
	MaxPassed int
	// WarnAfter is when a wait is worth a warning; 2 seconds.
	WarnAfter time.Duration
	// Warn is told of such a wait, once, in the goroutine of the one who waits.
	Warn func(context.Context, Waiting)
	// Observe is told of each job that has left its lane, in its goroutine.
	Observe func(Done)
	Slog    *slog.Logger // nil: nothing is logged
}

const (
	defaultCap       = 1000
	defaultMaxPassed = 8
	defaultWarnAfter = 2 * time.Second
)

// Queues are the lanes of a process. They are safe for concurrent use.
type Queues struct {
	o Options

	mu      sync.Mutex
	lanes   map[string]*lane
	totals  map[string]*totals
	active  int
	closing bool
	closed  chan struct{} // by Close: nothing waits on
	drained chan struct{} // closed when closing and nothing is active
}

// New makes queues.
func New(o Options) *Queues {
	if o.MaxPassed <= 0 {
		o.MaxPassed = defaultMaxPassed
	}
	if o.WarnAfter <= 0 {
		o.WarnAfter = defaultWarnAfter
	}
	return &Queues{
		o: o, lanes: map[string]*lane{}, totals: map[string]*totals{}, closed: make(chan struct{}), drained: make(chan struct{}),
	}
}

// Do runs fn in its turn and returns what it brings. The context that fn gets is
// the caller's with the job in it: what fn does under it in other lanes is one
// chain with it.
//
// Errors of the queue's own are [*FullError], [*CircleError], [*PanicError],
// [ErrClosed], and that of the context when it ends before the job's turn.
func Do[T any](ctx context.Context, q *Queues, job Job, fn func(context.Context) (T, error)) (value T, err error) {
	t, err := q.enter(ctx, job)
	if err != nil {
		return value, err
	}
	begun := time.Now()
	finished := false
	defer func() {
		if thrown := recover(); thrown != nil {
			err = &PanicError{Lane: job.Lane, Value: thrown, Stack: debug.Stack()}
		} else if !finished {
			err = errExited // fn ends the goroutine: there is nobody to tell
		}
		q.leave(t, time.Since(begun), err)
	}()
	inner := context.WithValue(ctx, chainKey{}, t)
	if job.Timeout > 0 {
		var cancel context.CancelFunc
		inner, cancel = context.WithTimeout(inner, job.Timeout)
		defer cancel()
	}
	value, err = fn(inner)
	finished = true
	return value, err
}

// enter waits for the job's turn.
func (q *Queues) enter(ctx context.Context, job Job) (*ticket, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("queue for lane %s: %w", job.Lane, context.Cause(ctx))
	}
	t := &ticket{job: job, parent: chain(ctx), since: time.Now(), turn: make(chan struct{})}
	if err := q.admit(t); err != nil {
		return nil, err
	}
	select {
	case <-t.turn:
		return t, nil // the lane was free
	default:
	}
	warn := time.NewTimer(q.o.WarnAfter)
	defer warn.Stop()
	for {
		select {
		case <-t.turn:
			return t, nil
		case <-warn.C:
			q.warn(ctx, t)
		case <-ctx.Done():
			q.withdraw(t)
			return nil, fmt.Errorf("queue for lane %s: %w", job.Lane, context.Cause(ctx))
		case <-q.closed:
			q.withdraw(t)
			return nil, fmt.Errorf("queue for lane %s: %w", job.Lane, ErrClosed)
		}
	}
}

// warn tells of a job that has waited for long.
func (q *Queues) warn(ctx context.Context, t *ticket) {
	w, waits := q.describe(t)
	if !waits {
		return
	}
	if q.o.Slog != nil {
		q.o.Slog.WarnContext(ctx, "a job waits for its lane", "lane", w.Lane, "waited_ms", w.Waited.Milliseconds(), "ahead", w.Ahead, "active", w.Active, "blocked_by", w.Blocked)
	}
	if q.o.Warn != nil {
		q.o.Warn(ctx, w)
	}
}

// Close lets what is active finish, refuses what is new, and ends the waits of the
// rest with [ErrClosed]. When it returns nil nothing runs any more; the context
// ends its patience.
func (q *Queues) Close(ctx context.Context) error {
	q.mu.Lock()
	if !q.closing {
		q.closing = true
		close(q.closed)
		if q.active == 0 {
			close(q.drained)
		}
	}
	q.mu.Unlock()
	select {
	case <-q.drained:
		return nil
	case <-ctx.Done():
		q.mu.Lock()
		defer q.mu.Unlock()
		return fmt.Errorf("close the queues: %d jobs are active: %w", q.active, context.Cause(ctx))
	}
}
