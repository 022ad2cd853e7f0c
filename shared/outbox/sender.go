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

// A Handler performs the rows of a topic, outside of any transaction. It must be safe for
// concurrent use. Its context ends before the claim does. A nil error means success.
//
// After an error the row is retried. A [Delayed] error sets the shortest delay, up to an hour.
// There is no retry after a [PermanentError], a [DeadError] or an [UncertainError]. The attempt of
// a [LaterError] does not count, unless the error says so. A [SettledError] says that the handler has marked the row itself.
// The error's text is stored and shown to operators.
type Handler interface {
	Handle(ctx context.Context, c Claimed) error
}

// Unkeyed is a handler that may have no idempotency key for its effect. An attempt of such a
// handler that was cut off or panicked leaves the row uncertain.
type Unkeyed interface {
	Handler
	Unkeyed() bool
}

// Endless is a handler that ends its rows itself. A row whose last attempt was cut off is not uncertain but
// claimed again, once more as the last attempt. It is for kicks, whose handler may look at the same work again.
type Endless interface {
	Handler
	Endless() bool
}

// Limited is a handler whose attempts end by themselves within a time limit. Its rows are claimed
// for that time and a few seconds. If the sender dies, another one gets the rows soon.
type Limited interface {
	Handler
	Limit() time.Duration
}

// Apart is a handler whose rows have places of their own: they take none from other topics. It is
// for topics with many receivers of which any may hang.
type Apart interface {
	Handler
	// Places returns how many of the topic's rows are handled at the same time in a workspace, and
	// how many of them for one receiver.
	Places() (all, each int)
}

// Sender passes rows to their handlers. It supports concurrent runs, which share the places of a
// workspace. It must not be copied.
type Sender struct {
	Store    *Store
	Handlers map[string]Handler // by topic
	Holder   string             // name of this process in claims, for people
	// Lease is how long a row is claimed if its handler is not [Limited]. The handler has a few
	// seconds less. 0: 5 minutes. The remaining time of the invocation limits every lease.
	Lease time.Duration
	Log   *slog.Logger
	// Observe is called with what became of each row that was tried; nil: nobody asks. Ready means
	// that the row is tried again.
	Observe func(topic string, status Status)

	mu     sync.Mutex
	places map[db.Workspace]*places // workspaces with runs
	owed   []owed
}

// plus returns the sum of two reports.
func (r Report) plus(o Report) Report {
	return Report{
		Claimed: r.Claimed + o.Claimed, Sent: r.Sent + o.Sent, Retried: r.Retried + o.Retried, Failed: r.Failed + o.Failed,
		Uncertain: r.Uncertain + o.Uncertain, Expired: r.Expired + o.Expired, Lost: r.Lost + o.Lost, More: r.More || o.More,
	}
}

// Report counts the outcomes of rows.
type Report struct {
	Claimed   int
	Sent      int
	Retried   int // retried later
	Failed    int // including dead rows
	Uncertain int
	Expired   int
	Lost      int // their claims were lost before their handlers returned
	// More says that more rows may be due. Drain reached its limit, had too little time, or found
	// no free place.
	More bool
}

const (
	defaultLease = 5 * time.Minute
	longestBrief = 35 * time.Second // longest claim of a row whose handler is limited
	leaseMargin  = 5 * time.Second  // between the ends of a handler and of its claim, for marking the row
	minLeft      = 5 * time.Second  // remaining time of the invocation that another row needs
	endTimeout   = 3 * time.Second
)

// Topics returns the topics that have a handler, sorted.
func (s *Sender) Topics() []string { return slices.Sorted(maps.Keys(s.Handlers)) }

// time sets the leases of the next claim. It returns false if there is too little time for another
// row.
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

// ended counts and logs rows that a claim has ended instead of claiming them.
func (s *Sender) ended(ctx context.Context, r *Report, rows []Entry) {
	for _, e := range rows {
		switch e.Status {
		case Uncertain: // its attempt was cut off
			r.Uncertain++
			if s.Observe != nil {
				s.Observe(e.Topic, e.Status)
			}
		case Expired:
			r.Expired++
		}
		s.Log.WarnContext(trace.With(ctx, e.Trace), "outbox row ended unsent", "topic", e.Topic, "row", e.ID, "status",
			e.Status, "attempts", e.Attempts, "error", e.LastError)
	}
}

// send passes one row to its handler and marks the row.
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
		s.count(ctx, r, c, ending{status: settled.Status, why: settled.Why})
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
		s.owe(c.Workspace, c.token, c.ID)
		return lost
	}
	s.count(ctx, r, c, e)
	return fault.Point(ctx, "outbox.sent", c.Key)
}

// handle calls the row's handler within its time limit.
func (s *Sender) handle(ctx context.Context, c Claimed, limit time.Duration) (err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	h := s.Handlers[c.Topic]
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		s.Log.ErrorContext(ctx, "an outbox handler panicked", "topic", c.Topic, "row", c.ID, "panic", fmt.Sprint(p), "stack",
			string(debug.Stack()))
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

func endless(h Handler) bool {
	e, ok := h.(Endless)
	return ok && e.Endless()
}

// classify decides how a handled row ends.
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
	if e, ok := errors.AsType[*LaterError](err); ok && e.Counts {
		if c.Last() {
			return ending{status: Failed, why: e}
		}
		return ending{status: Ready, delay: max(e.In, backoff(c.Attempt, s.Store.random())), why: e}
	} else if ok {
		return ending{status: Ready, delay: cmp.Or(e.In, backoff(math.MaxInt, s.Store.random())), uncounted: 1, why: e}
	}
	return s.Store.retried(c, err)
}

func (s *Sender) count(ctx context.Context, r *Report, c Claimed, e ending) {
	if s.Observe != nil {
		s.Observe(c.Topic, e.status)
	}
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
