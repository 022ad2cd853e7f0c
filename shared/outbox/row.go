package outbox

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Kind says what a row is.
type Kind string

// The kinds of rows.
const (
	Message Kind = "message" // to a person, over a channel
	Webhook Kind = "webhook" // an event to somebody's endpoint
	Spawn   Kind = "spawn"   // the start of an agent elsewhere
	Kick    Kind = "kick"    // work of our own that is to be done next
)

// Status is where a row is in its life.
type Status string

// The statuses of a row.
const (
	Queued     Status = "queued"     // who has queued it makes it ready
	Ready      Status = "ready"      // to be sent once it is due
	Sending    Status = "sending"    // claimed
	Sent       Status = "sent"       // handled
	Failed     Status = "failed"     // its tries are spent; a person may have it sent again
	Superseded Status = "superseded" // a newer one took its place
	Expired    Status = "expired"    // its time was over before it was sent
	Uncertain  Status = "uncertain"  // it may have had its effect; a person has to look
	Dead       Status = "dead"       // whoever it was for is gone
)

// transitions are the legal changes of status; what is not here is refused. A row
// that is being sent and is sent once more was cut off.
var transitions = map[Status][]Status{
	Queued:    {Ready, Superseded}, // to ready: package thread
	Ready:     {Sending, Superseded, Expired},
	Sending:   {Sending, Ready, Sent, Failed, Uncertain, Dead},
	Failed:    {Queued},
	Uncertain: {Queued},
}

// Can reports whether a row may go from s to next.
func (s Status) Can(next Status) bool { return slices.Contains(transitions[s], next) }

// Open reports whether a row is still to be sent.
func (s Status) Open() bool { return s == Queued || s == Ready || s == Sending }

// Row is what is to be sent.
type Row struct {
	ID    string // empty: a new one
	Kind  Kind
	Topic string // names the handler
	// Key is that of the row's effect. A workspace has one row of a key: a second
	// is not added.
	Key string
	// OrderKey has rows of the same key sent one after the other; empty: any order.
	OrderKey string
	// Seq is the place among them, from 1; who gives it has locked something that
	// others who do would lock too.
	Seq int64
	// Receiver is who gets it, so that one that is slow does not hold up others; empty:
	// the same for all of its topic.
	Receiver string
	Payload  json.RawMessage
	Format   int // of the payload; 0: 1
	// MaxAttempts is how often it is tried; 0: 8.
	MaxAttempts int
	// SupersedeKey has open rows of the same key that are not being sent give way.
	SupersedeKey string
	Trace        trace.ID // empty: the context's
	Execution    string   // empty: the context's

	// For a new row alone:

	Queued bool          // it is not ready yet
	Delay  time.Duration // before it is due
	TTL    time.Duration // after which it is not sent any more; 0: never
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

// Claimed is a row that is its holder's to send until Until.
type Claimed struct {
	Row
	Workspace db.Workspace
	// Attempt counts this try.
	Attempt int
	Until   time.Time // on the database's clock

	token string
}

// receiver is whose place among those that are sent at once the row takes.
func (c Claimed) receiver() string { return cmp.Or(c.Receiver, c.Topic) }

// Last reports whether this is the last try.
func (c Claimed) Last() bool { return c.Attempt >= c.MaxAttempts }

func collect(into *[]Entry) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, e *Entry) error {
		return scan(&e.ID, &e.Kind, &e.Topic, &e.Key, db.Optional(&e.OrderKey), db.Optional(&e.Seq), &e.Payload, &e.Format, &e.Status,
			&e.Attempts, &e.MaxAttempts, &e.DueAt, db.Optional(&e.ClaimedBy), &e.ClaimedUntil, db.Optional(&e.LastError),
			db.Optional(&e.SupersedeKey), &e.ExpiresAt, &e.Trace, db.Optional(&e.Execution), &e.CreatedAt, &e.UpdatedAt, &e.SentAt,
			db.Optional(&e.Receiver))
	})
}
