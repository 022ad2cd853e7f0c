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

// A Name names a lane: "heartbeat", "objective:{id}", or any name that the user chooses.
type Name string

// The lanes with a fixed meaning.
const (
	Heartbeat   Name = "heartbeat"
	Operate     Name = "operate"
	Coordinator Name = "coordinator"
)

// Objective returns the lane for work on an objective.
func Objective(id string) Name { return objectives + Name(id) }

// ObjectiveOf returns the id of the objective that the lane belongs to, and whether there is one.
func ObjectiveOf(n Name) (id string, ok bool) {
	return strings.CutPrefix(string(n), string(objectives))
}

const objectives Name = "objective:"

// Automation returns the lane for runs of an automation.
func Automation(id string) Name { return automations + Name(id) }

// AutomationOf returns the id of the automation that the lane belongs to, and whether there is one.
func AutomationOf(n Name) (id string, ok bool) {
	return strings.CutPrefix(string(n), string(automations))
}

const automations Name = "automation:"

// Execution returns the lane for work on an execution whose subject is the execution itself.
func Execution(id string) Name { return executions + Name(id) }

// ExecutionOf returns the id of the execution that the lane belongs to, and whether there is one.
func ExecutionOf(n Name) (id string, ok bool) {
	return strings.CutPrefix(string(n), string(executions))
}

const executions Name = "execution:"

// Task returns the lane for the built-in worker's attempts at a task.
func Task(id string) Name { return tasks + Name(id) }

// TaskOf returns the id of the task that the lane belongs to, and whether there is one.
func TaskOf(n Name) (id string, ok bool) {
	return strings.CutPrefix(string(n), string(tasks))
}

const tasks Name = "task:"

// Memory returns the lane for writes to an agent's memories.
func Memory(agent string) Name { return Name("memory:" + agent) }

var wellFormed = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:@/+-]*$`)

// maxName is the length of the longest name in bytes. It is not part of the regular expression,
// because counted repetitions compile slowly.
const maxName = 200

// ParseName checks a lane's name that came from a client.
func ParseName(s string) (Name, error) {
	if len(s) > maxName || !wellFormed().MatchString(s) {
		return "", errors.New("a lane's name is 1 to 200 letters, digits and . _ : @ / + -, and begins with a letter or digit")
	}
	return Name(s), nil
}

// TTL returns how long a hold on the lane lives when no deadline shortens it.
func (n Name) TTL() time.Duration {
	switch {
	case n == Coordinator:
		return 30 * time.Second
	case strings.HasPrefix(string(n), "memory:"):
		return time.Minute
	}
	return 5 * time.Minute
}

// MaxTTL is the longest TTL that one request may ask for.
const MaxTTL = time.Hour

// A Holder names the holder of a lane for people. It is no proof of identity; the token is.
type Holder string

// NewHolder names one invocation by function, instance and trace.
func NewHolder(function, instance string, id trace.ID) Holder {
	return Holder(fmt.Sprintf("%s/%s/%s", function, instance, id))
}

var (
	// ErrLost means that the hold is over. It expired, was released, or was taken away.
	ErrLost = errors.New("the hold on the lane is over")
	// ErrFence means that the hold with the given fence is over.
	ErrFence = errors.New("the lane is not held under this fence")
	// ErrTTL means that the time to live is not between 1 ms and [MaxTTL].
	ErrTTL = errors.New("a lane is held for 1 ms to 1 h")
	// ErrToken means that the token of a request is not a UUID.
	ErrToken = errors.New("a lane's token is a UUID")
	// ErrNotProven means that a store got a transaction that does not prove the lane which protects the
	// store's rows.
	ErrNotProven = errors.New("the transaction does not prove the lane")
)

// A BusyError says who holds a lane, and until when at the latest. It is not a failure: a schedule
// that gets it skips its run.
type BusyError struct {
	Info
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("lane %s is held by %s for at most another %s", e.Lane, e.Holder, e.Remaining.Round(time.Second))
}

// Info describes a lane's row.
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
	// Age and Remaining are measured on the database's clock, at the time of the answer. Remaining
	// is zero for a free lane.
	Age, Remaining time.Duration
}

// Held reports whether somebody held the lane when the answer was made.
func (i Info) Held() bool { return i.Remaining > 0 }

// lingering is how long the lane operate counts as held after a turn. A person who has just talked
// to the agent probably continues.
const lingering = 2 * time.Minute

// Lingers returns how much longer a free lane counts as held. Only the lane operate does so, after
// a person's turn, unless its hold was ended by force.
func (i Info) Lingers() time.Duration {
	if i.Lane != Operate || i.Execution == "" || i.Held() {
		return 0
	}
	now := i.LockedAt.Add(i.Age)
	return max(0, min(lingering, i.ExpiresAt.Add(lingering).Sub(now)))
}

// InUse reports whether the lane was held when the answer was made, or still counts as held.
func (i Info) InUse() bool { return i.Held() || i.Lingers() > 0 }

func (i *Info) scan(scan db.Scan, lead ...any) error {
	*i = Info{}
	var ttl int64
	var owned bool
	var now time.Time
	err := scan(append(lead, &i.Lane, &i.Holder, &i.Fence, &ttl, &i.LockedAt, &i.ExpiresAt, &i.WantedAt,
		db.Optional(&i.WantedBy), db.Optional(&i.Execution), db.Optional(&i.Trace), &owned, &now)...)
	i.TTL = time.Duration(ttl) * time.Millisecond
	i.Age = now.Sub(i.LockedAt)
	if owned { // a released lane is free, even when the clock steps back
		i.Remaining = max(0, i.ExpiresAt.Sub(now))
	}
	return err
}

// A Hold is a lane that is held now. It is safe for concurrent use.
type Hold struct {
	Lane      Name
	Workspace db.Workspace
	Token     string
	Fence     int64
	Holder    Holder

	ttl   time.Duration // what the request asked for; zero: the lane's default
	since time.Time     // when it was acquired, on our own clock; zero: elsewhere

	mu       sync.Mutex
	until    time.Time // on the database's clock
	trusted  time.Time // on our own clock; may only shorten trust
	covered  time.Time // on our own clock; the latest end of the current step
	wantedBy string
	released bool
}

// Until returns when the hold ends unless it is renewed, on the database's clock.
func (h *Hold) Until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

// WantedBy names who waits for the lane, as of the last renewal or proof. It is empty when nobody
// waits.
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

// Held is one hold or several, for [Store.InHold] to prove.
type Held interface{ holds() []*Hold }

// Holds are several holds. They are proven together, in the order of their lanes.
type Holds []*Hold

func (hs Holds) holds() []*Hold { return hs }
