package queue

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Main is the queue of jobs that name no queue.
const Main = "main"

// Class says who waits for a job.
type Class int

// The classes of jobs.
const (
	Background Class = iota // nobody waits for the result
	User                    // a person waits: served first
)

func (c Class) String() string {
	if c == User {
		return "user"
	}
	return "background"
}

// Job says in which queue a job queues, and how long it may run.
type Job struct {
	Queue string // "": Main
	// Class is raised to the class of the outer job, because the same person waits for both.
	Class Class
	// Timeout ends the job's context that long after its turn began; 0 means the queue's timeout.
	// The caller's context bounds the wait before the turn.
	Timeout time.Duration
}

// Limits bound a queue. A zero field means its default.
type Limits struct {
	MaxConcurrent int           // jobs at once; default 1
	Cap           int           // jobs that may wait; default 1000
	Timeout       time.Duration // of jobs that set none; default none
}

// Options configure a set of queues. A zero field means its default.
type Options struct {
	// Queues are limits by name, or by the part of the name before its first colon: "session" bounds
	// each of session:web:anna and session:web:ben. Counts are kept by these names, and together
	// for all other queues.
	Queues map[string]Limits
	// Default bounds all other queues.
	Default Limits
	// MaxPassed is how many jobs of class User may pass a waiting background job; default 8.
	MaxPassed int
	// WarnAfter is after how long a wait is reported; default 2 seconds.
	WarnAfter time.Duration
	// Warn is called once for a wait longer than WarnAfter, while it lasts. It runs in the waiting
	// goroutine. It must be quick and safe for concurrent use.
	Warn func(context.Context, Waiting)
	// Observe is called for each job that was admitted and has left its queue, whether it ran or
	// not. It gets the caller's context, which may have ended, and runs in the caller's goroutine.
	// Close waits for it, so it must not call Close.
	Observe func(context.Context, Done)
	Log     *slog.Logger // for long waits; nil: not logged
}

const (
	defaultCap       = 1000
	defaultMaxPassed = 8
	defaultWarnAfter = 2 * time.Second
)

// Queues are the queues of a process. They are safe for concurrent use.
type Queues struct {
	o Options

	families map[string]*family // by name; "": for all queues without another family

	mu      sync.Mutex        // guards the fields below, and the families, queues and tickets
	queues  map[string]*queue // in use
	most    int               // largest number of queues since the map was made
	inside  int               // admitted jobs that have not left
	phase   phase
	drained chan struct{} // closed when nothing is admitted any more and no job is inside
}

// New returns queues.
func New(o Options) *Queues {
	if o.MaxPassed <= 0 {
		o.MaxPassed = defaultMaxPassed
	}
	if o.WarnAfter <= 0 {
		o.WarnAfter = defaultWarnAfter
	}
	q := &Queues{o: o, families: map[string]*family{}, queues: map[string]*queue{}, drained: make(chan struct{})}
	for name, limits := range o.Queues {
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

// Do runs fn when its turn comes, in the caller's goroutine, and returns what fn returns. fn gets
// the caller's context with the job in it; that context ends with the job. Jobs that fn enters
// under it in other queues belong to the same chain.
//
// When fn did not run, the error is a [*FullError], a [*CycleError], [ErrClosed], or the error of
// the context that ended before the job's turn, with its cause. When fn panicked, it is a
// [*PanicError].
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

// enter waits for the job's turn. When it returns a ticket, the caller must call leave.
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
		return nil, fmt.Errorf("wait in queue %s: %w", job.Queue, err)
	}
	if t.turn == nil {
		return t, nil // the queue had room
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
		timeout = t.queue.family.limits.Timeout
	}
	t.began, t.ran = time.Now(), true
	if timeout <= 0 {
		return t.ctx
	}
	ctx, stop := context.WithTimeoutCause(t.ctx, timeout, &timeoutError{t.job.Queue, timeout})
	t.stop = stop
	return ctx
}

// broken returns the error of a job that did not return.
func (t *ticket) broken(thrown any) error {
	if thrown == nil {
		return errExited // it ended its goroutine: no caller receives the error
	}
	return &PanicError{Queue: t.job.Queue, Value: thrown, Stack: debug.Stack()}
}

// leave ends a job that waits, has its turn, or was refused, and passes its turn on.
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
