package lane

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// A Name names a lane: "heartbeat", "objective:{id}", or any name of the user's.
type Name string

// The lanes with a meaning of their own.
const (
	Heartbeat   Name = "heartbeat"
	Operate     Name = "operate"
	Coordinator Name = "coordinator"
)

// Objective is the lane of whoever advances an objective.
func Objective(id string) Name { return objectives + Name(id) }

// ObjectiveOf is the id of the objective whose lane it is; false: none's.
func ObjectiveOf(n Name) (id string, ok bool) {
	return strings.CutPrefix(string(n), string(objectives))
}

const objectives Name = "objective:"

// Automation is the lane of whoever runs an automation.
func Automation(id string) Name { return automations + Name(id) }

// AutomationOf is the automation whose lane it is.
func AutomationOf(n Name) (id string, ok bool) {
	return strings.CutPrefix(string(n), string(automations))
}

const automations Name = "automation:"

// Execution is the lane of whoever works on an execution that stands for itself.
func Execution(id string) Name { return executions + Name(id) }

// ExecutionOf is the id of the execution whose lane it is; false: none's.
func ExecutionOf(n Name) (id string, ok bool) {
	return strings.CutPrefix(string(n), string(executions))
}

const executions Name = "execution:"

// Memory is the lane of whoever writes an agent's memories.
func Memory(agent string) Name { return Name("memory:" + agent) }

var wellFormed = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:@/+-]*$`)

// maxName is the longest name. It is not in the expression: counted repetitions are
// slow to compile.
const maxName = 200

// ParseName checks a lane's name that came from outside.
func ParseName(s string) (Name, error) {
	if len(s) > maxName || !wellFormed().MatchString(s) {
		return "", errors.New("a lane's name is 1 to 200 letters, digits and . _ : @ / + -, and begins with a letter or digit")
	}
	return Name(s), nil
}

// TTL is how long a hold on the lane lives when no deadline says otherwise.
func (n Name) TTL() time.Duration {
	switch {
	case n == Coordinator:
		return 30 * time.Second
	case strings.HasPrefix(string(n), "memory:"):
		return time.Minute
	}
	return 5 * time.Minute
}

// MaxTTL is the longest time a hold may be asked for at once.
const MaxTTL = time.Hour

// A Holder says readably who holds a lane. It identifies nobody: the token does.
type Holder string

// NewHolder names one invocation: function, instance, trace.
func NewHolder(function, instance string, id trace.ID) Holder {
	return Holder(fmt.Sprintf("%s/%s/%s", function, instance, id))
}

var (
	// ErrLost says that a hold is over: it expired, was released, or was taken away.
	ErrLost = errors.New("the hold on the lane is over")
	// ErrTTL says that a time to live is not within 1 ms and [MaxTTL].
	ErrTTL = errors.New("a lane is held for 1 ms to 1 h")
	// ErrToken says that a request's token is not a UUID.
	ErrToken = errors.New("a lane's token is a UUID")
	// ErrNotProven says that a store was handed a transaction that does not prove
	// the lane which protects its rows.
	ErrNotProven = errors.New("the transaction does not prove the lane")
)

// A BusyError says who holds a lane and until when at the latest. It is not a
// failure: a schedule takes it as a reason to skip.
type BusyError struct {
	Info
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("lane %s is held by %s for at most another %s", e.Lane, e.Holder, e.Remaining.Round(time.Second))
}

// Info is what can be told of a lane's row.
type Info struct {
	Lane      Name
	Holder    Holder
	Fence     int64
	TTL       time.Duration
	LockedAt  time.Time
	ExpiresAt time.Time
	WantedAt  *time.Time
	WantedBy  string
	Execution string
	Trace     string
	// Age and Remaining are as of the answer, on the database's clock; a lane
	// that is free has no time remaining.
	Age, Remaining time.Duration
}

// Held reports whether somebody held the lane when the answer was made.
func (i Info) Held() bool { return i.Remaining > 0 }

// lingering is for how long operate counts as held after a turn: whoever has just
// talked to the agent is likely to go on.
const lingering = 2 * time.Minute

// Lingers is for how much longer a lane that is free counts as held: operate does
// after the turn of a person, unless its hold was ended by force.
func (i Info) Lingers() time.Duration {
	if i.Lane != Operate || i.Execution == "" || i.Held() {
		return 0
	}
	now := i.LockedAt.Add(i.Age)
	return max(0, min(lingering, i.ExpiresAt.Add(lingering).Sub(now)))
}

// InUse reports whether the lane was held when the answer was made, or counts as
// held.
func (i Info) InUse() bool { return i.Held() || i.Lingers() > 0 }

func scanInfo(scan db.Scan, lead ...any) (Info, error) {
	var i Info
	var ttl int64
	var wantedBy, execution, id *string
	var owned bool
	var now time.Time
	err := scan(append(lead, &i.Lane, &i.Holder, &i.Fence, &ttl, &i.LockedAt, &i.ExpiresAt, &i.WantedAt, &wantedBy, &execution, &id, &owned, &now)...)
	i.TTL = time.Duration(ttl) * time.Millisecond
	i.WantedBy, i.Execution, i.Trace = text(wantedBy), text(execution), text(id)
	i.Age = now.Sub(i.LockedAt)
	if owned { // a released lane is free, also when the clock steps back
		i.Remaining = max(0, i.ExpiresAt.Sub(now))
	}
	return i, err
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// A Hold is a lane held now. It is safe for concurrent use.
type Hold struct {
	Lane      Name
	Workspace db.Workspace
	Token     string
	Fence     int64
	Holder    Holder

	ttl time.Duration // what the request asked for; zero: what the lane says

	mu       sync.Mutex
	until    time.Time // the database's clock
	trusted  time.Time // our own clock; may only shorten trust
	covered  time.Time // our own clock; until when a step may take
	wantedBy string
	released bool
}

// Until is when the hold ends unless it is renewed, on the database's clock.
func (h *Hold) Until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

// WantedBy names who waits for the lane, as of the last renewal or proof; empty
// when nobody does.
func (h *Hold) WantedBy() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wantedBy
}

func (h *Hold) extended(until, trusted time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until, h.trusted = until, trusted
}

func (h *Hold) wanted(by string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wantedBy = by
}

// end notes that the hold was released, or that its release was undone.
func (h *Hold) end(released bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = released
}

// Ended reports whether the hold was released.
func (h *Hold) Ended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.released
}

func (h *Hold) remaining(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trusted.Sub(now)
}

func (h *Hold) cover(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.After(h.covered) {
		h.covered = until
	}
}

func (h *Hold) coveredFor(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.covered.Sub(now)
}

func (h *Hold) holds() []*Hold { return []*Hold{h} }

// Held is one hold or several: what [Store.InHold] proves.
type Held interface{ holds() []*Hold }

// Holds are several holds, proven together in their lanes' order.
type Holds []*Hold

func (hs Holds) holds() []*Hold { return hs }
