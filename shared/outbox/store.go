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
	Revive                       db.Query
	Due, Claim, End, Resend      db.Query
	DueNow, DueAnew              db.Query
	Claimants, GiveBack          db.Query
	Get, List                    db.Query
}

// Store keeps the outboxes of all workspaces. Safe for concurrent use.
type Store struct {
	db     *db.DB
	q      queries
	ids    func() string
	random func() float64
}

// New makes a store. ids makes time-ordered ids (UUIDv7), random numbers in
// [0, 1) that spread the tries.
func New(d *db.DB, ids func() string, random func() float64) (*Store, error) {
	s := &Store{db: d, ids: ids, random: random}
	if err := db.Load(files, &s.q); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return s, nil
}

// ErrLost says that a claim is over: its lease ran out and another has the row, or
// the row was ended.
var ErrLost = errors.New("the claim on the outbox row is over")

// Enqueue adds a row to a batch: the one that carries the change it belongs to. It
// answers the row's id, under which there is none when the workspace has one of
// that key already.
func (s *Store) Enqueue(ctx context.Context, b *db.Batch, r Row) (id string) {
	return s.add(ctx, b, s.q.Enqueue, r)
}

// Revive adds a row as Enqueue does. Where the workspace has one of that key which has ended, that
// one begins anew, with all its tries before it. One that has not ended stays as it is.
func (s *Store) Revive(ctx context.Context, b *db.Batch, r Row) { s.add(ctx, b, s.q.Revive, r) }

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

// Withdraw ends the row of a key that nobody needs any more, unless it is being
// sent.
func (s *Store) Withdraw(b *db.Batch, key string) { b.Exec(s.q.Withdraw, key) }

// DueNow queues that the row of a key is due at once: now, where it waits for its time, or
// as soon as it is given back, where somebody has claimed it.
func (s *Store) DueNow(b *db.Batch, key string) { b.Exec(s.q.DueNow, key) }

// DueAnew queues that the rows of a topic which are due, and were not claimed, are due
// as of now.
func (s *Store) DueAnew(b *db.Batch, topic string) { b.Exec(s.q.DueAnew, topic) }

// Claimants adds to a batch a look at who has claimed rows that are being sent.
func (s *Store) Claimants(b *db.Batch) *[]string {
	found := new([]string)
	b.Each(func(scan db.Scan) error {
		var by string
		err := scan(&by)
		*found = append(*found, by)
		return err
	}, s.q.Claimants)
	return found
}

// GiveBack queues the end of all claims of a claimant that is known to be dead: its
// rows are found by the next claim, as if their leases had run out. It answers how
// many there were, once the batch is done.
func (s *Store) GiveBack(b *db.Batch, claimant string) *int {
	n := new(int)
	b.Each(func(db.Scan) error { *n++; return nil }, s.q.GiveBack, claimant)
	return n
}

// maxDue is the most that [Store.Due] counts.
const maxDue = 100

// Due adds a look at how many rows of the topics could be claimed now to a batch;
// it counts to a hundred.
func (s *Store) Due(b *db.Batch, topics ...string) *int {
	n := new(int)
	b.Each(func(scan db.Scan) error { return scan(n) }, s.q.Due, list(topics), maxDue)
	return n
}

// list is names as a JSON argument.
func list(names []string) string {
	if len(names) == 0 {
		return "[]"
	}
	raw, _ := json.Marshal(names) // strings always have one
	return string(raw)
}

// A Request asks for rows to send.
type Request struct {
	Workspace db.Workspace
	Topics    []string
	// Unkeyed are those of the topics whose effect no key makes one: a row of theirs
	// that was cut off becomes uncertain.
	Unkeyed []string
	Holder  string // who claims, readably
	Limit   int    // of rows
	// Lease is how long the rows are the holder's; then others may have them.
	Lease time.Duration
	// Leases are those of topics that have one of their own.
	Leases map[string]time.Duration
	// Full are receivers whose rows are passed over.
	Full []string
}

// leases is how long the rows of topics are claimed for, in milliseconds, as a JSON
// argument.
func (r Request) leases() string {
	ms := make(map[string]int64, len(r.Leases))
	for topic, d := range r.Leases {
		ms[topic] = d.Milliseconds()
	}
	raw, _ := json.Marshal(ms) // numbers always have one
	return string(raw)
}

const (
	// MaxLease is the longest time a row may be claimed for.
	MaxLease  = time.Hour
	maxClaim  = 100
	maxHolder = 255
)

// Claim takes rows that are due, the longest due first, and counts the attempt.
// The rows of an order key come one by one. Rows that are due and can't be sent
// any more are ended on the way.
func (s *Store) Claim(ctx context.Context, r Request) ([]Claimed, error) {
	claimed, _, err := s.claim(ctx, r)
	return claimed, err
}

// claim is Claim, and tells which rows it has ended.
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
		b.Each(collect(&rows), s.q.Claim, list(r.Topics), list(r.Unkeyed), min(r.Limit, maxClaim), clip(r.Holder, maxHolder), token.String(), r.Lease.Milliseconds(), r.leases(), list(r.Full))
		switch err := s.db.Do(ctx, r.Workspace, &b); {
		case errors.Is(err, db.ErrUnique):
			continue // another of an order key was sent again at this very moment
		case err != nil:
			return claimed, ended, fmt.Errorf("claim outbox rows: %w", err)
		}
		slices.SortFunc(rows, func(a, b Entry) int { return strings.Compare(a.ID, b.ID) })
		for _, e := range rows {
			if e.Status == Sending {
				claimed = append(claimed, Claimed{Row: e.Row, Workspace: r.Workspace, Attempt: e.Attempts, Until: *e.ClaimedUntil, token: token.String()})
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

// SentIn queues the mark that a row is handled, so that it joins the transaction of what the handler
// writes, and undoes it when the claim is over: [Store.Lost] names that error.
func (s *Store) SentIn(b *db.Batch, c Claimed) { s.endIn(b, c, ending{status: Sent}) }

// retried gives a row back to be tried again, after a while that grows with its
// attempts, and as long as why asks for; a row whose tries are spent has failed.
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

// UncertainIn queues the mark that a row may have had its effect, as [Store.SentIn]
// does. The text of why is kept, and shown to operators.
func (s *Store) UncertainIn(b *db.Batch, c Claimed, why error) {
	s.endIn(b, c, ending{status: Uncertain, why: why})
}

// ending is what becomes of a claimed row.
type ending struct {
	status    Status
	delay     time.Duration
	uncounted int // tries
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

// Lost is [ErrLost] where err is the failure of a claim's proof, else err itself.
func (s *Store) Lost(err error) error {
	op, ok := errors.AsType[*db.OpError](err)
	if ok && op.Query == s.q.End.Name() && errors.Is(op, db.ErrNoRows) {
		return ErrLost
	}
	return err
}

// clip is s as a text column takes it, of at most n bytes.
func clip(s string, n int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
