package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// A Handler does what the rows of a topic ask for, in no transaction, and serves
// several at once. The context ends before the claim does. nil means done. An
// error has the row tried again, a [Delayed] one no earlier than it says, within an
// hour, unless it is a [PermanentError], a [DeadError] or an [UncertainError]; its
// text is kept and shown to operators. The try of a [LaterError] does not count. A
// [SettledError] says that the handler has marked the row itself.
type Handler interface {
	Handle(ctx context.Context, c Claimed) error
}

// Unkeyed is a handler that may say that no key makes its effect one: a try that
// was cut off, or panicked, then leaves the row uncertain.
type Unkeyed interface {
	Handler
	Unkeyed() bool
}

// Limited is a handler whose tries end by themselves after so long: a row of its topic
// is claimed for that and a few seconds, so that others have it soon where its sender
// dies.
type Limited interface {
	Handler
	Limit() time.Duration
}

// Sender hands rows to their handlers. It serves several runs at once, which share the
// places of a workspace, and must not be copied.
type Sender struct {
	Store    *Store
	Handlers map[string]Handler // by topic
	Holder   string             // who claims, readably
	// Lease is how long a row is claimed for whose handler is not [Limited], a few
	// seconds more than that has; 0: 5 minutes. What is left of the invocation
	// shortens both.
	Lease time.Duration
	Log   *slog.Logger

	mu     sync.Mutex
	places map[db.Workspace]*places // those that have some
}

// plus is two reports as one.
func (r Report) plus(o Report) Report {
	return Report{
		Claimed: r.Claimed + o.Claimed, Sent: r.Sent + o.Sent, Retried: r.Retried + o.Retried, Failed: r.Failed + o.Failed,
		Uncertain: r.Uncertain + o.Uncertain, Expired: r.Expired + o.Expired, Lost: r.Lost + o.Lost, More: r.More || o.More,
	}
}

// Report counts what became of rows.
type Report struct {
	Claimed   int
	Sent      int
	Retried   int // will be tried again
	Failed    int // and dead
	Uncertain int
	Expired   int
	Lost      int // were another's when their handler came back
	// More says that it ended for its limit, for want of time, or because other runs of
	// the sender have all places, so that there may be more to send.
	More bool
}

const (
	defaultLease = 5 * time.Minute
	longestBrief = 35 * time.Second // claim of a row whose handler is limited
	leaseMargin  = 5 * time.Second  // between a handler's end and its claim's, in which the row is marked
	minLeft      = 5 * time.Second  // of the invocation, for another row
	endTimeout   = 3 * time.Second
)

// Topics are those that have a handler.
func (s *Sender) Topics() []string { return slices.Sorted(maps.Keys(s.Handlers)) }

// time sets how long the next row may take, and reports whether there is time for
// one.
func (s *Sender) time(ctx context.Context, r *Request) bool {
	longest := MaxLease
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		if left < minLeft {
			return false
		}
		longest = left + leaseMargin
	}
	r.Lease, r.Leases = min(cmp.Or(s.Lease, defaultLease), longest), map[string]time.Duration{}
	for topic, h := range s.Handlers {
		if l, ok := h.(Limited); ok {
			r.Leases[topic] = min(l.Limit()+leaseMargin, longestBrief, longest)
		}
	}
	return ctx.Err() == nil
}

// ended counts and tells of rows that a claim found and ended.
func (s *Sender) ended(ctx context.Context, r *Report, rows []Entry) {
	for _, e := range rows {
		switch e.Status {
		case Uncertain:
			r.Uncertain++
		case Expired:
			r.Expired++
		}
		s.Log.WarnContext(trace.With(ctx, e.Trace), "outbox row ended unsent", "topic", e.Topic, "row", e.ID, "status", e.Status, "attempts", e.Attempts, "error", e.LastError)
	}
}

// send has one row handled and marks it.
func (s *Sender) send(ctx context.Context, r *Report, c Claimed, lease time.Duration) error {
	ctx, done := lane.WithLastWrites(trace.WithExecution(trace.With(ctx, c.Trace), c.Execution))
	defer done()
	if err := fault.Point(ctx, "outbox.claimed", c.Key); err != nil {
		return err
	}
	err := s.handle(ctx, c, lease-min(leaseMargin, lease/2))
	if err := fault.Point(ctx, "outbox.handled", c.Key); err != nil {
		return err
	}
	if settled, ok := errors.AsType[*SettledError](err); ok {
		s.count(ctx, r, c, ending{status: settled.Status})
		return fault.Point(ctx, "outbox.sent", c.Key)
	}
	e := s.classify(c, err)
	last, cancel := lane.LastWritesWithin(ctx, endTimeout)
	defer cancel()
	switch lost := s.Store.end(last, c, e); {
	case errors.Is(lost, ErrLost):
		r.Lost++
		s.Log.WarnContext(ctx, "the claim was over before its handler", "topic", c.Topic, "row", c.ID, "attempt", c.Attempt)
		return nil
	case lost != nil:
		return lost
	}
	s.count(ctx, r, c, e)
	return fault.Point(ctx, "outbox.sent", c.Key)
}

// handle calls the row's handler within its limit.
func (s *Sender) handle(ctx context.Context, c Claimed, limit time.Duration) (err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	h := s.Handlers[c.Topic]
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		s.Log.ErrorContext(ctx, "an outbox handler panicked", "topic", c.Topic, "row", c.ID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		err = errPanicked
		if unkeyed(h) {
			err = Uncertainly(err)
		}
	}()
	return h.Handle(limited, c)
}

var errPanicked = errors.New("the handler panicked")

func unkeyed(h Handler) bool {
	u, ok := h.(Unkeyed)
	return ok && u.Unkeyed()
}

// classify decides what becomes of a row that was handled.
func (s *Sender) classify(c Claimed, err error) ending {
	if err == nil {
		return ending{status: Sent}
	}
	if e, ok := errors.AsType[*UncertainError](err); ok {
		return ending{status: Uncertain, why: e}
	}
	if e, ok := errors.AsType[*DeadError](err); ok {
		return ending{status: Dead, why: e}
	}
	if e, ok := errors.AsType[*PermanentError](err); ok {
		return ending{status: Failed, why: e}
	}
	if e, ok := errors.AsType[*LaterError](err); ok {
		return ending{status: Ready, delay: cmp.Or(e.In, backoff(math.MaxInt, s.Store.random())), uncounted: 1, why: e}
	}
	return s.Store.retried(c, err)
}

func (s *Sender) count(ctx context.Context, r *Report, c Claimed, e ending) {
	switch e.status {
	case Sent:
		r.Sent++
		s.Log.InfoContext(ctx, "outbox row sent", "topic", c.Topic, "row", c.ID, "attempt", c.Attempt)
		return
	case Ready:
		r.Retried++
		if later, ok := errors.AsType[*LaterError](e.why); ok {
			s.Log.DebugContext(ctx, "outbox row put off", "topic", c.Topic, "row", c.ID, "why", later)
			return
		}
	case Uncertain:
		r.Uncertain++
	default:
		r.Failed++
	}
	s.Log.WarnContext(ctx, "outbox row not sent", "topic", c.Topic, "row", c.ID, "status", e.status, "attempt", c.Attempt, "error", e.why)
}
