package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Status is the state of a delivery.
type Status string

// The statuses of a delivery.
const (
	Received Status = "received"
	Working  Status = "working"
	Done     Status = "done"
	Failed   Status = "failed" // it will be retried
	Parked   Status = "parked" // a person may redeliver it
)

// Ended reports whether the delivery has ended. Only a person can continue it then.
func (s Status) Ended() bool { return s == Done || s == Parked }

// Topic is the topic of the deliveries' outbox rows.
const Topic = "inbox"

// maxKicks is how often the outbox tries to begin the work on a delivery. The delivery itself
// counts the attempts of its action.
const maxKicks = 20

// Delivery is one row of the inbox.
type Delivery struct {
	ID         string
	SourceID   string
	Source     string // its name when the delivery arrived
	DeliveryID string
	Event      string
	Headers    map[string]string
	Body       []byte // nil in lists
	Digest     string
	Status     Status
	Attempts   int
	NextAt     *time.Time // time of the retry after a failure
	Action     string     // requested by its rule; empty: no rule matched, or none was checked yet
	Error      string
	Duplicates int
	Conflicts  int // duplicates with another body
	Replays    int // how often its effects got new keys, because a person redelivered it
	// Asked is a digest of the action of its last attempt; empty: it had no action.
	Asked      string
	Effect     bool // an attempt may have had its effect
	Trace      trace.ID
	Execution  string
	ReceivedAt time.Time
	UpdatedAt  time.Time
	EndedAt    *time.Time

	now time.Time // the database's time when the row was read
}

// EffectKey returns the idempotency key of the delivery's effects, which is the same for all
// attempts.
func (d Delivery) EffectKey() string {
	if d.Replays == 0 {
		return "inbox:" + d.ID
	}
	return fmt.Sprintf("inbox:%s:%d", d.ID, d.Replays)
}

// Receiver returns the receiver of the delivery's outbox rows. It is the source, so that the
// deliveries of one source do not take all places of the topic.
func (d Delivery) Receiver() string { return receiverOf(d.SourceID) }

func receiverOf(source string) string { return "inbox:" + source }

// Wait returns the time until a failed delivery is retried.
func (d Delivery) Wait() time.Duration {
	if d.Status != Failed || d.NextAt == nil {
		return 0
	}
	return max(0, d.NextAt.Sub(d.now))
}

// Receipt describes a received delivery.
type Receipt struct {
	ID        string // id of the row; a duplicate has the id of the first delivery
	Duplicate bool
	Conflict  bool // the duplicate has another body
}

// kick is the payload of a delivery's outbox row.
type kick struct {
	Delivery string `json:"delivery"`
}

// Receive stores a delivery with the outbox row that starts its work, in one transaction of one
// round trip. If the delivery is stored already, Receive only counts it. After an error it may be
// stored. The sender then repeats it and gets the response for a duplicate.
func (s *Store) Receive(ctx context.Context, f Found, c Content, body []byte) (Receipt, error) {
	headers, err := encodeHeaders(c.Headers)
	if err != nil {
		return Receipt{}, fmt.Errorf("store a delivery: %w", err)
	}
	if body == nil {
		body = []byte{}
	}
	id, _ := trace.From(ctx)
	row, stored, digest := s.ids(), "", ""
	var b db.Batch
	b.One([]any{&stored, &digest}, s.q.Receive, row, f.ID, f.Name, c.ID, c.Event, headers, body, c.Digest, id)
	k := kickFor(f.ID, row)
	b.Exec(s.q.Kick, row, s.ids(), k.Kind, k.Topic, k.Key, k.Payload, k.MaxAttempts, k.Receiver)
	if err := s.db.Do(ctx, f.Workspace, &b); err != nil {
		return Receipt{}, fmt.Errorf("store a delivery: %w", err)
	}
	return Receipt{ID: stored, Duplicate: stored != row, Conflict: digest != c.Digest}, nil
}

// kickFor returns the outbox row of a delivery. Its key is the delivery's own id, so that a
// leftover row of an earlier delivery of the same request does not block it.
func kickFor(source, row string) outbox.Row {
	payload, _ := json.Marshal(kick{row}) // strings always encode
	return outbox.Row{Kind: outbox.Kick, Topic: Topic, Key: "inbox:" + row, Payload: payload,
		Receiver: receiverOf(source), MaxAttempts: maxKicks}
}

// DeliveryOf returns the id of the delivery that an outbox row names.
func DeliveryOf(payload json.RawMessage) (id string, ok bool) {
	var k kick
	err := json.Unmarshal(payload, &k)
	return k.Delivery, err == nil && k.Delivery != ""
}

// Delivery reads a delivery. It returns [db.ErrNoRows] when there is none.
func (s *Store) Delivery(ctx context.Context, ws db.Workspace, id string) (Delivery, error) {
	var found []Delivery
	err := s.db.Each(ctx, ws, collect(&found), s.q.Get, id)
	return db.Found(found, err, "read a delivery", fmt.Errorf("read a delivery: %w", db.ErrNoRows))
}

// DeliveryIn adds the read of a delivery to a batch. The result is empty when there is none.
func (s *Store) DeliveryIn(b *db.Batch, id string) *[]Delivery {
	found := new([]Delivery)
	b.Each(collect(found), s.q.Get, id)
	return found
}

// Filter narrows a listing. Empty fields have no effect.
type Filter struct {
	Status Status
	Source string // its id
	Event  string
	Before db.Position
	Limit  int
}

// List reads deliveries without their bodies, newest first.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) ([]Delivery, error) {
	var found []Delivery
	err := s.db.Each(ctx, ws, collect(&found), s.q.List,
		append(f.Before.Args(db.Null(f.Status), db.Null(f.Source)), f.Limit, db.Null(f.Event))...)
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	return found, nil
}

// ErrWorking says that work on the delivery is in progress.
var ErrWorking = errors.New("the delivery is being worked on")

// Replay starts a delivery again, with a new count of attempts. If it was done, or certainly had no
// effect, its effects get new keys. Otherwise they keep the keys of the earlier attempts, so that
// no effect happens twice; anew forces new keys. A delivery in progress whose outbox row has ended
// continues where it was cut off, because its execution knows which call has begun. Errors:
// [db.ErrNoRows], [ErrWorking].
func (s *Store) Replay(ctx context.Context, tx *db.Tx, id string, anew bool) (Delivery, error) {
	replayed, err := tx.Exec(ctx, s.q.Replay, id, anew)
	if err != nil {
		return Delivery{}, fmt.Errorf("redeliver: %w", err)
	}
	var found []Delivery
	if err := tx.Each(ctx, collect(&found), s.q.Get, id); err != nil {
		return Delivery{}, fmt.Errorf("redeliver: %w", err)
	}
	if len(found) == 0 {
		return Delivery{}, fmt.Errorf("redeliver: %w", db.ErrNoRows)
	}
	d := found[0]
	row := kickFor(d.SourceID, d.ID)
	if replayed == 0 {
		kicked := false
		err := tx.Each(ctx, func(db.Scan) error { kicked = true; return nil }, s.q.Kicked, row.Key)
		if err != nil {
			return Delivery{}, fmt.Errorf("redeliver: %w", err)
		}
		if kicked {
			return d, ErrWorking
		}
		tx.Later().Exec(s.q.Unkick, id)
	}
	row.Trace = d.Trace
	s.outbox.ReviveNow(ctx, tx.Later(), row)
	return d, nil
}

// Tx is an open transaction: a [db.Tx] or a lane's.
type Tx = db.Writer

// Try describes an attempt of a delivery.
type Try struct {
	Action    string // in a few words
	Asked     string // digest of the action; empty: there is none
	Execution string // empty: none
}

// Begin counts an attempt and records what it does. ok is false if the delivery has ended or is not
// due yet. The caller must hold the delivery's lane.
func (s *Store) Begin(ctx context.Context, tx Tx, id string, t Try) (attempts int, ok bool, err error) {
	err = tx.Each(ctx, func(scan db.Scan) error {
		ok = true
		return scan(&attempts)
	}, s.q.Begin, id, db.Null(t.Action), db.Null(t.Execution), db.Null(t.Asked))
	if err != nil {
		return 0, false, fmt.Errorf("begin with a delivery: %w", err)
	}
	return attempts, ok, nil
}

// Ending describes how an attempt ended.
type Ending struct {
	Status Status // done, failed or parked
	Error  string
	Wait   time.Duration // after a failure: until the next attempt
	Effect bool          // the attempt may have had its effect
}

const maxError = 2000

// End adds the end of an attempt to a batch.
func (s *Store) End(b *db.Batch, id string, e Ending) {
	var wait any
	if e.Status == Failed {
		wait = e.Wait.Milliseconds()
	}
	b.Exec(s.q.End, id, e.Status, db.Null(clip(e.Error, maxError)), wait, e.Effect)
}

// Park ends a delivery that could not be begun. A delivery in progress stays unchanged.
func (s *Store) Park(ctx context.Context, ws db.Workspace, id, why string) error {
	if _, err := s.db.Exec(ctx, ws, s.q.Park, id, clip(why, maxError)); err != nil {
		return fmt.Errorf("park a delivery: %w", err)
	}
	return nil
}

func collect(into *[]Delivery) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, d *Delivery) error {
		var headers string
		if err := scan(&d.ID, &d.SourceID, &d.Source, &d.DeliveryID, &d.Event, &headers, &d.Body, &d.Digest, &d.Status, &d.Attempts,
			&d.NextAt, db.Optional(&d.Action), db.Optional(&d.Error), &d.Duplicates, &d.Conflicts, &d.Replays, db.Optional(&d.Asked),
			&d.Effect, &d.Trace, db.Optional(&d.Execution), &d.ReceivedAt, &d.UpdatedAt, &d.EndedAt, &d.now); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(headers), &d.Headers); err != nil {
			return fmt.Errorf("delivery %s: %w", d.ID, err)
		}
		return nil
	})
}

// Turns adds to a batch a count of the webhooks' turns that have not ended. It counts to most.
func (s *Store) Turns(b *db.Batch, most int) *int {
	n := new(int)
	b.One([]any{n}, s.q.Turns, most)
	return n
}
