package outbox

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Kind is the kind of a row.
type Kind string

// The kinds of rows.
const (
	Message Kind = "message" // to a person, over a channel
	Webhook Kind = "webhook" // an event to a receiver's endpoint
	Spawn   Kind = "spawn"   // the start of an external agent
	Kick    Kind = "kick"    // internal work to be done next
)

// Status is the state of a row.
type Status string

// The statuses of a row.
const (
	Queued     Status = "queued"     // waits until its owner makes it ready
	Ready      Status = "ready"      // will be sent when it is due
	Sending    Status = "sending"    // claimed
	Sent       Status = "sent"       // handled
	Failed     Status = "failed"     // no attempt is left; a person may resend it
	Superseded Status = "superseded" // replaced by a newer row
	Expired    Status = "expired"    // its TTL passed before it was sent
	Uncertain  Status = "uncertain"  // it is unknown whether it had its effect; a person has to look
	Dead       Status = "dead"       // the receiver no longer exists
)

// transitions lists the legal changes of status. All others are refused. A row goes from sending to
// sending if an attempt was cut off.
var transitions = map[Status][]Status{
	Queued:    {Ready, Superseded}, // package thread makes a row ready
	Ready:     {Sending, Superseded, Expired},
	Sending:   {Sending, Ready, Sent, Failed, Uncertain, Dead},
	Failed:    {Queued},
	Uncertain: {Queued},
}

// Can reports whether a row may change from s to next.
func (s Status) Can(next Status) bool { return slices.Contains(transitions[s], next) }

// Open reports whether a row may still be sent.
func (s Status) Open() bool { return s == Queued || s == Ready || s == Sending }

// Row is an effect or a piece of work to be done.
type Row struct {
	ID    string // empty: a new id
	Kind  Kind
	Topic string // selects the handler
	// Key is the idempotency key of the row's effect. A workspace has one row per key; a second
	// one is not added.
	Key string
	// OrderKey orders rows: rows with the same key are sent one after the other. Empty: in any
	// order.
	OrderKey string
	// Seq is the position among the rows of the order key, from 1. Before assigning it, the caller
	// locks a row that all callers lock.
	Seq int64
	// Receiver names the receiver, so that a slow one does not block others. Empty: all rows of
	// the topic have the same receiver.
	Receiver string
	Payload  json.RawMessage
	Format   int // version of the payload's format; 0: 1
	// MaxAttempts is the largest number of attempts; 0: 8.
	MaxAttempts int
	// SupersedeKey supersedes open rows of the same key that are not being sent.
	SupersedeKey string
	Trace        trace.ID // empty: the context's
	Execution    string   // empty: the context's

	// The following fields apply to a new row only.

	Queued bool          // not ready yet
	Delay  time.Duration // until it is due
	TTL    time.Duration // from now; afterwards it is not sent; 0: forever
}

const (
	defaultAttempts = 8
	firstFormat     = 1
)

// Entry is a stored row.
type Entry struct {
	Row
	Status       Status
	Attempts     int
	DueAt        time.Time
	ClaimedBy    string
	ClaimedUntil *time.Time
	LastError    string
	ExpiresAt    *time.Time
	CreatedAt    time.Time
	UpdatedAt    time.Time
	SentAt       *time.Time
}

// Claimed is a row that its holder may send until Until.
type Claimed struct {
	Row
	Workspace db.Workspace
	// Attempt is the number of this attempt, from 1.
	Attempt int
	Until   time.Time // by the database's clock

	token string
}

// receiver returns the receiver whose share of places the row uses.
func (c Claimed) receiver() string { return cmp.Or(c.Receiver, c.Topic) }

// Last reports whether this is the last attempt.
func (c Claimed) Last() bool { return c.Attempt >= c.MaxAttempts }

func collect(into *[]Entry) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, e *Entry) error {
		return scan(&e.ID, &e.Kind, &e.Topic, &e.Key, db.Optional(&e.OrderKey), db.Optional(&e.Seq), &e.Payload, &e.Format, &e.Status,
			&e.Attempts, &e.MaxAttempts, &e.DueAt, db.Optional(&e.ClaimedBy), &e.ClaimedUntil, db.Optional(&e.LastError),
			db.Optional(&e.SupersedeKey), &e.ExpiresAt, &e.Trace, db.Optional(&e.Execution), &e.CreatedAt, &e.UpdatedAt, &e.SentAt,
			db.Optional(&e.Receiver))
	})
}
