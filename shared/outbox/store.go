package outbox

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.sql
var files embed.FS

type queries struct {
	Enqueue, Supersede, Withdraw db.Query
	EnqueueAll                   db.Query
	Revive, ReviveNow            db.Query
	Due, Claim, End, Resend      db.Query
	Defer, GoOn                  db.Query
	DueNow, DueAnew, AllDueIn    db.Query
	Rouse, Began                 db.Query
	Claimants, GiveBack          db.Query
	GiveBackClaim, GiveBackRow   db.Query
	Get, List                    db.Query
}

// Store stores the outboxes of all workspaces. It is safe for concurrent use.
type Store struct {
	db     *db.DB
	q      queries
	ids    func() string
	random func() float64
}

// New returns a store. ids returns time-ordered ids (UUIDv7). random returns numbers in [0, 1),
// which spread the retries.
func New(d *db.DB, ids func() string, random func() float64) (*Store, error) {
	s := &Store{db: d, ids: ids, random: random}
	return s, db.Load(files, &s.q)
}

// ErrLost says that a claim has ended: its lease expired and another sender has the row, or the row
// was ended.
var ErrLost = errors.New("the claim on the outbox row is over")

// Enqueue adds a row to a batch, which must be the batch of the change that the row belongs to. It
// returns the row's id. If the workspace has a row of the same key already, no row is added, and
// the id does not exist.
func (s *Store) Enqueue(ctx context.Context, b *db.Batch, r Row) (id string) {
	return s.add(ctx, b, s.q.Enqueue, r)
}

// EnqueueAll adds rows to a batch as Enqueue does, with one statement for all of them. Their
// SupersedeKey has no effect.
func (s *Store) EnqueueAll(ctx context.Context, b *db.Batch, rows []Row) {
	if len(rows) == 0 {
		return
	}
	id, _ := trace.From(ctx)
	all := make([]map[string]any, len(rows))
	for i, r := range rows {
		status := Ready
		if r.Queued {
			status = Queued
		}
		payload := "{}"
		if len(r.Payload) > 0 {
			payload = string(r.Payload)
		}
		all[i] = map[string]any{
			"id": cmp.Or(r.ID, s.ids()), "kind": r.Kind, "topic": r.Topic, "key": r.Key, "order_key": db.Null(r.OrderKey), "seq": db.Null(r.Seq),
			"payload": payload, "format": cmp.Or(r.Format, firstFormat), "status": status, "max_attempts": cmp.Or(r.MaxAttempts, defaultAttempts),
			"delay": r.Delay.Milliseconds(), "ttl": db.Null(r.TTL.Milliseconds()), "trace_id": cmp.Or(r.Trace, id),
			"execution_id": db.Null(cmp.Or(r.Execution, trace.Execution(ctx))), "receiver": db.Null(r.Receiver),
		}
	}
	raw, _ := json.Marshal(all) // texts and numbers always encode
	b.Exec(s.q.EnqueueAll, string(raw))
}

// Revive adds a row as Enqueue does. If the workspace has an ended row of the same key, Revive
// makes that row ready again, with all its attempts and the trace of r. An open row stays unchanged.
func (s *Store) Revive(ctx context.Context, b *db.Batch, r Row) { s.add(ctx, b, s.q.Revive, r) }

// ReviveNow adds a row as Revive does, due at once. An open row of the same key becomes due at once, as
// by DueNow.
func (s *Store) ReviveNow(ctx context.Context, b *db.Batch, r Row) {
	r.Delay = 0
	s.add(ctx, b, s.q.ReviveNow, r)
}

func (s *Store) add(ctx context.Context, b *db.Batch, as db.Query, r Row) (id string) {
	r.ID = cmp.Or(r.ID, s.ids())
	if r.Trace == "" {
		r.Trace, _ = trace.From(ctx)
	}
	r.Execution = cmp.Or(r.Execution, trace.Execution(ctx))
	if len(r.Payload) == 0 {
		r.Payload = json.RawMessage("{}")
	}
	status := Ready
	if r.Queued {
		status = Queued
	}
	b.Exec(as, r.ID, r.Kind, r.Topic, r.Key, db.Null(r.OrderKey), db.Null(r.Seq), r.Payload, cmp.Or(r.Format, firstFormat),
		status, cmp.Or(r.MaxAttempts, defaultAttempts), r.Delay.Milliseconds(), db.Null(r.SupersedeKey), db.Null(r.TTL.Milliseconds()),
		r.Trace, db.Null(r.Execution), db.Null(r.Receiver))
	if r.SupersedeKey != "" {
		b.Exec(s.q.Supersede, r.ID, r.SupersedeKey)
	}
	return r.ID
}

// Withdraw adds to a batch the end of the key's row, which becomes superseded. A row that is being
// sent stays unchanged.
func (s *Store) Withdraw(b *db.Batch, key string) { b.Exec(s.q.Withdraw, key) }

// DueNow adds to a batch that the key's row is due at once. A claimed row becomes due when its
// claim ends; a kick does so also when its handler succeeds or gives up.
func (s *Store) DueNow(b *db.Batch, key string) { b.Exec(s.q.DueNow, key) }

// maxHurried is the largest number of rows that AllDueIn concerns.
const maxHurried = 1000

// AllDueNow adds to a batch that the rows of a topic are due at once, because the reason for which they wait
// may be over. At most 1,000 of them are, those that are due first.
func (s *Store) AllDueNow(b *db.Batch, topic string) { s.AllDueIn(b, topic, 0) }

// AllDueIn is AllDueNow after a delay.
func (s *Store) AllDueIn(b *db.Batch, topic string, delay time.Duration) {
	b.Exec(s.q.AllDueIn, topic, maxHurried, delay.Milliseconds())
}

// Rouse adds to a batch that the rows of the keys are due at once, as DueNow does, also those that have ended. It adds
// no row. It is for kicks: a message could be sent twice.
func (s *Store) Rouse(b *db.Batch, keys ...string) {
	raw, _ := json.Marshal(keys) // texts always encode
	b.Exec(s.q.Rouse, string(raw))
}

// Began adds to a batch that the work which the key's row looks after was begun: its attempts so far no
// longer count.
func (s *Store) Began(b *db.Batch, key string) { b.Exec(s.q.Began, key) }

// DueAnew sets the due time of a topic's overdue unclaimed rows to now. The statement joins the
// batch.
func (s *Store) DueAnew(b *db.Batch, topic string) { b.Exec(s.q.DueAnew, topic) }

// Claimants adds to a batch a query for the holders of all rows that are being sent.
func (s *Store) Claimants(b *db.Batch) *[]string {
	found := new([]string)
	b.Each(db.Column(found), s.q.Claimants)
	return found
}

// GiveBack adds to a batch the end of all claims of a dead holder. The next claim finds the rows as
// if their leases had expired. The result is their number, after the batch has run.
func (s *Store) GiveBack(b *db.Batch, claimant string) *int {
	n := new(int)
	b.Each(func(db.Scan) error { *n++; return nil }, s.q.GiveBack, claimant)
	return n
}

// maxDue is the largest number that [Store.Due] counts to.
const maxDue = 100

// Due adds to a batch a query for the number of rows of the topics that could be claimed now. It
// counts up to 100.
func (s *Store) Due(b *db.Batch, topics ...string) *int {
	n := new(int)
	b.Each(func(scan db.Scan) error { return scan(n) }, s.q.Due, db.List(topics), maxDue)
	return n
}

// A Request describes the rows to claim.
type Request struct {
	Workspace db.Workspace
	Topics    []string
	// Unkeyed lists those of the topics whose handlers are [Unkeyed]. A row of theirs whose
	// attempt was cut off becomes uncertain.
	Unkeyed []string
	// Endless lists those of the topics whose handlers are [Endless]. A row of theirs is claimed again
	// although its last attempt was cut off.
	Endless []string
	Holder  string // name of the claiming process, for people
	Limit   int    // number of rows
	// Lease is how long the rows are claimed. Afterwards another sender may claim them.
	Lease time.Duration
	// Leases has the leases of topics that differ from Lease.
	Leases map[string]time.Duration
	// Full lists receivers whose rows are skipped.
	Full []string
}

// leases returns the leases of topics in milliseconds, as a JSON argument.
func (r Request) leases() string {
	ms := make(map[string]int64, len(r.Leases))
	for topic, d := range r.Leases {
		ms[topic] = d.Milliseconds()
	}
	return db.Encode(ms)
}

const (
	// MaxLease is the longest lease of a row.
	MaxLease  = time.Hour
	maxClaim  = 100
	maxHolder = 255
)

// Claim claims due rows, longest overdue first, and counts their attempts. It claims one row of an
// order key at a time. It ends due rows that may no longer be sent.
func (s *Store) Claim(ctx context.Context, r Request) ([]Claimed, error) {
	claimed, _, err := s.claim(ctx, r)
	return claimed, err
}

// claim is Claim, but also returns the rows that it has ended.
func (s *Store) claim(ctx context.Context, r Request) (claimed []Claimed, ended []Entry, err error) {
	if r.Lease < time.Millisecond || r.Lease > MaxLease || r.Limit < 1 {
		return nil, nil, fmt.Errorf("claim outbox rows: %d rows for %s", r.Limit, r.Lease)
	}
	for range maxClaim {
		token, err := uuid.NewRandom()
		if err != nil {
			return claimed, ended, fmt.Errorf("make a claim token: %w", err)
		}
		var rows []Entry
		var b db.Batch
		b.Each(collect(&rows), s.q.Claim, db.List(r.Topics), db.List(r.Unkeyed), min(r.Limit, maxClaim), clip(r.Holder, maxHolder),
			token.String(), r.Lease.Milliseconds(), r.leases(), db.List(r.Full), db.List(r.Endless))
		switch err := s.db.Do(ctx, r.Workspace, &b); {
		case errors.Is(err, db.ErrUnique):
			continue // another row of an order key was resent at the same moment
		case err != nil:
			return claimed, ended, &claimError{token.String(), fmt.Errorf("claim outbox rows: %w", err)}
		}
		slices.SortFunc(rows, func(a, b Entry) int { return strings.Compare(a.ID, b.ID) })
		for _, e := range rows {
			if e.Status == Sending {
				claimed = append(claimed, Claimed{Row: e.Row, Workspace: r.Workspace, Attempt: e.Attempts, Until: *e.ClaimedUntil,
					token: token.String()})
			} else {
				ended = append(ended, e)
			}
		}
		if len(claimed) > 0 || len(rows) == 0 {
			return claimed, ended, nil
		}
	}
	return claimed, ended, nil
}

// claimError is the error of a claim that may have been made: its answer may be lost.
type claimError struct {
	token string
	error
}

func (e *claimError) Unwrap() error { return e.error }

// SentIn adds to a batch the mark that a row was handled, so that the mark joins the transaction of
// the handler's writes. If the claim has ended, the transaction fails; [Store.Lost] recognizes that
// error.
func (s *Store) SentIn(b *db.Batch, c Claimed) { s.endIn(b, c, ending{status: Sent}) }

// retried returns how a failed attempt ends. The delay before the retry grows with the attempts,
// and is at least as long as why asks for. After the last attempt the row has failed.
func (s *Store) retried(c Claimed, why error) ending {
	if c.Last() {
		return ending{status: Failed, why: why}
	}
	if _, ok := errors.AsType[*UnfinishedError](why); ok {
		return ending{status: Ready, why: why}
	}
	delay := backoff(c.Attempt, s.random())
	if asked, ok := errors.AsType[Delayed](why); ok {
		delay = max(delay, min(asked.RetryAfter(), longestAsked))
	}
	return ending{status: Ready, delay: delay, why: why}
}

// UncertainIn adds to a batch the mark that a row may have had its effect, like [Store.SentIn]. The
// text of why is stored and shown to operators.
func (s *Store) UncertainIn(b *db.Batch, c Claimed, why error) {
	s.endIn(b, c, ending{status: Uncertain, why: why})
}

// RetryIn adds to a batch the mark that an attempt failed and that the next one is due after a delay,
// like [Store.SentIn]. The caller looks whether an attempt is left.
func (s *Store) RetryIn(b *db.Batch, c Claimed, delay time.Duration, why error) {
	s.endIn(b, c, ending{status: Ready, delay: delay, why: why})
}

// FailIn adds to a batch the mark that a row has failed, like [Store.SentIn].
func (s *Store) FailIn(b *db.Batch, c Claimed, why error) {
	s.endIn(b, c, ending{status: Failed, why: why})
}

// DieIn adds to a batch the mark that the receiver of a row is gone, like [Store.SentIn].
func (s *Store) DieIn(b *db.Batch, c Claimed, why error) {
	s.endIn(b, c, ending{status: Dead, why: why})
}

// DeferIn adds to a batch that the rows that wait for a row of their order key are not due before its next
// attempt, so that no claim looks at them in vain. It follows [Store.RetryIn].
func (s *Store) DeferIn(b *db.Batch, c Claimed, delay time.Duration) {
	if c.OrderKey != "" {
		b.Exec(s.q.Defer, c.OrderKey, c.ID, delay.Milliseconds())
	}
}

// GoOnIn adds to a batch that the rows that waited for a row of their order key are due now. It follows the
// mark by which that row ends.
func (s *Store) GoOnIn(b *db.Batch, c Claimed) {
	if c.OrderKey != "" {
		b.Exec(s.q.GoOn, c.OrderKey)
	}
}

// ending says how a claim ends.
type ending struct {
	status    Status
	delay     time.Duration
	uncounted int // attempts that do not count
	why       error
}

const maxError = 4 << 10

func (s *Store) endIn(b *db.Batch, c Claimed, e ending) {
	var why any
	if e.why != nil {
		why = clip(e.why.Error(), maxError)
	}
	b.Each(func(db.Scan) error { return nil }, s.q.End, c.ID, c.token, e.status, e.delay.Milliseconds(), e.uncounted, why).MustFind()
}

func (s *Store) end(ctx context.Context, c Claimed, e ending) error {
	var b db.Batch
	s.endIn(&b, c, e)
	if err := s.Lost(s.db.Do(ctx, c.Workspace, &b)); err != nil {
		return fmt.Errorf("mark outbox row %s %s: %w", c.ID, e.status, err)
	}
	return nil
}

// Lost returns [ErrLost] if err says that a claim has ended, otherwise err.
func (s *Store) Lost(err error) error {
	op, ok := errors.AsType[*db.OpError](err)
	if ok && op.Query == s.q.End.Name() && errors.Is(op, db.ErrNoRows) {
		return ErrLost
	}
	return err
}

// clip returns s as valid text of at most n bytes that the database can store.
func clip(s string, n int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
