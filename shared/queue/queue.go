package queue

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Main is the lane of jobs that name none.
const Main = "main"

// Class says who waits for a job.
type Class int

// The classes of jobs.
const (
	Background Class = iota // nobody waits
	User                    // a person does: before the others
)

func (c Class) String() string {
	if c == User {
		return "user"
	}
	return "background"
}

// Job says where a job queues, and how long it may run.
type Job struct {
	Queue string // "": Main
	// Class is at least that of the job in which it was asked for: the person waits
	// for both.
	Class Class
	// Timeout ends the job's context so long after its turn began; 0: its lane's does.
	// The wait before it is bounded by the caller's context.
	Timeout time.Duration
}

// Limits bound a lane. A zero value is the default.
type Limits struct {
	MaxConcurrent int           // jobs at once; 1
	Cap           int           // jobs that may wait; 1000
	Timeout       time.Duration // of jobs that name none; none
}

// Options make a set of queues. What is left out has a default.
type Options struct {
	// Lanes have limits of their own, by name, or by the part of the name before its
	// first colon: "session" bounds each of session:web:anna and session:web:ben.
	// They are counted by these names, and all other lanes together.
	Lanes map[string]Limits
	// Default bounds all other lanes.
	Default Limits
	// MaxPassed is how many jobs of class User may pass a waiting background job; 8.
	MaxPassed int
	// WarnAfter is when a wait is worth a warning; 2 seconds.
	WarnAfter time.Duration
	// Warn is told once of a wait that lasts so long, while it lasts. It runs in the
	// goroutine that waits, so it must be quick, and be safe for concurrent use.
	Warn func(context.Context, Waiting)
	// Observe is told of each job that was let in and has left its lane, run or not.
	// It gets the caller's context, which may have ended, and runs in the caller's
	// goroutine. Close waits for it, so it must not call Close.
	Observe func(context.Context, Done)
	Log     *slog.Logger // of long waits; nil: they are not logged
}

const (
	defaultCap       = 1000
	defaultMaxPassed = 8
	defaultWarnAfter = 2 * time.Second
)

// Queues are the lanes of a process. They are safe for concurrent use.
type Queues struct {
	o Options

	families map[string]*family // by name; "": of all lanes that have no other

	mu      sync.Mutex       // of everything below, and in the families, lanes and tickets
	lanes   map[string]*lane // in use
	most    int              // lanes at once since the map was made
	inside  int              // jobs that were let in and have not gone
	phase   phase
	drained chan struct{} // closed when no more are let in and nobody is inside
}

// New makes queues.
func New(o Options) *Queues {
	if o.MaxPassed <= 0 {
		o.MaxPassed = defaultMaxPassed
	}
	if o.WarnAfter <= 0 {
		o.WarnAfter = defaultWarnAfter
	}
	q := &Queues{o: o, families: map[string]*family{}, lanes: map[string]*lane{}, drained: make(chan struct{})}
	for name, limits := range o.Lanes {
		q.families[name] = &family{name: name, limits: limits.orDefault()}
	}
	q.families[""] = &family{limits: o.Default.orDefault()}
	return q
}

func (l Limits) orDefault() Limits {
	if l.MaxConcurrent <= 0 {
		l.MaxConcurrent = 1
	}
	if l.Cap <= 0 {
		l.Cap = defaultCap
	}
	return l
}

// Do runs fn in its turn, in the caller's goroutine, and returns what it brings.
// The context that fn gets is the caller's with the job in it, and ends with the
// job: what fn asks for under it in other lanes is one chain with it.
//
// Where fn did not run, the error is a [*FullError], a [*CircleError], [ErrClosed],
// or that of the context which ended before the job's turn, with its cause. Where
// it panicked, it is a [*PanicError].
func Do[T any](ctx context.Context, q *Queues, job Job, fn func(context.Context) (T, error)) (value T, err error) {
	t, err := q.enter(ctx, job)
	if err != nil {
		return value, err
	}
	returned := false
	defer func() {
		if !returned {
			err = t.broken(recover())
		}
		q.leave(ctx, t, err)
	}()
	value, err = fn(t.begin())
	returned = true
	return value, err
}

// enter waits for the job's turn. Where it returns a ticket, leave must follow.
func (q *Queues) enter(ctx context.Context, job Job) (*ticket, error) {
	if job.Queue == "" {
		job.Queue = Main
	}
	t := &ticket{job: job, came: time.Now()}
	if ctx.Err() != nil {
		return nil, t.ended(ctx)
	}
	parent, _ := ctx.Value(chainKey{q}).(*ticket)
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.ctx = context.WithValue(t.ctx, chainKey{q}, t)
	if err := q.admit(t, parent); err != nil {
		t.cancel(err)
		return nil, fmt.Errorf("queue for lane %s: %w", job.Queue, err)
	}
	if t.turn == nil {
		return t, nil // the lane had room
	}
	if err := q.wait(ctx, t); err != nil {
		return nil, err
	}
	return t, nil
}

// begin starts the job's time and returns its context.
func (t *ticket) begin() context.Context {
	timeout := t.job.Timeout
	if timeout <= 0 {
		timeout = t.lane.family.limits.Timeout
	}
	t.began, t.ran = time.Now(), true
	if timeout <= 0 {
		return t.ctx
	}
	ctx, stop := context.WithTimeoutCause(t.ctx, timeout, &timeoutError{t.job.Queue, timeout})
	t.stop = stop
	return ctx
}

// broken is the error of a job that did not return.
func (t *ticket) broken(thrown any) error {
	if thrown == nil {
		return errExited // it ended its goroutine: there is nobody to tell
	}
	return &PanicError{Queue: t.job.Queue, Value: thrown, Stack: debug.Stack()}
}

// leave ends a job, whether it waits, has its turn, or was sent away, and hands its
// turn on.
func (q *Queues) leave(ctx context.Context, t *ticket, err error) {
	d := Done{Queue: t.job.Queue, Class: t.class, Started: t.ran, Err: err}
	if t.ran {
		d.Waited, d.Ran = t.began.Sub(t.came), time.Since(t.began)
	} else {
		d.Waited = time.Since(t.came)
	}
	defer q.gone()
	q.mu.Lock()
	q.remove(t, d)
	q.mu.Unlock()
	if t.stop != nil {
		t.stop()
	}
	t.cancel(nil)
	if q.o.Observe != nil {
		q.o.Observe(ctx, d)
	}
}
