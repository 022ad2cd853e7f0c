package lane

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.sql
var files embed.FS

type queries struct {
	Acquire, Renew, Release        db.Query
	RenewAll                       db.Query
	Peek, List, Want, Force, Sweep db.Query
	ReleaseOf, Hurry, Line         db.Query
	ForceHold                      db.Query
}

// Store is the lanes of all workspaces.
type Store struct {
	// Observe, when it is set before the store is used, is called with what happens to requests and
	// holds. took is how long an acquired lane was waited for, and how long a released one was held.
	Observe func(lane Name, event Event, took time.Duration)

	// Warn, when it is set before the store is used, is called once by a request that has waited longer than
	// [WarnAfter], while it waits on, with who holds the lane. It runs in the waiter.
	Warn func(ctx context.Context, r Request, held Info, waited time.Duration)

	db   *db.DB
	q    queries
	owed owed
}

// WarnAfter is after how long a wait for a lane is reported.
const WarnAfter = 2 * time.Second

// An Event is what happened to a request for a lane, or to a hold.
type Event string

// The events that [Store.Observe] is called with.
const (
	Acquired Event = "acquired"
	Busy     Event = "busy" // and the caller was told so
	Released Event = "released"
	Lost     Event = "lost"
)

func (s *Store) observe(lane Name, event Event, since time.Time) {
	if s.Observe != nil {
		s.Observe(lane, event, time.Since(since))
	}
}

// answered observes how a request ended that began at since.
func (s *Store) answered(lane Name, since time.Time, err error) {
	if err == nil {
		s.observe(lane, Acquired, since)
	} else if _, busy := errors.AsType[*BusyError](err); busy {
		s.observe(lane, Busy, since)
	}
}

// New returns a store on a database.
func New(d *db.DB) (*Store, error) {
	s := &Store{db: d}
	return s, db.Load(files, &s.q)
}

// A Request asks for a lane.
type Request struct {
	Workspace db.Workspace
	Lane      Name
	Holder    Holder
	// TTL is how long the hold lives unless it is renewed. Zero means the lane's default, or the
	// time left of the invocation plus 5 s, whichever is shorter.
	TTL time.Duration
	// Token repeats a request whose answer was lost. Empty makes a new token.
	Token string
	// Under is a hold that the caller already has. It is proven and renewed in the same
	// transaction, so that a caller whose hold is over acquires no further lane.
	Under *Hold
}

// A Ticket is a request in a batch.
type Ticket struct {
	hold     *Hold
	asked    time.Time
	ttl      time.Duration
	acquired bool
	answered bool
	info     Info
}

// Ask adds an acquire to a batch, so that other reads share its round trip. The caller must send
// the batch with [db.DB.Do]. After that [Store.Answer] returns the outcome.
func (s *Store) Ask(ctx context.Context, b *db.Batch, r Request) (*Ticket, error) {
	asked := r.TTL
	if r.TTL == 0 {
		r.TTL = leaseFor(ctx, r.Lane)
	}
	if r.TTL < time.Millisecond || r.TTL > MaxTTL {
		return nil, ErrTTL
	}
	token, err := tokenOf(r)
	if err != nil {
		return nil, err
	}
	t := &Ticket{
		hold:  &Hold{Lane: r.Lane, Workspace: r.Workspace, Token: token, Holder: r.Holder, ttl: asked},
		asked: time.Now(), ttl: r.TTL,
	}
	id, _ := trace.From(ctx)
	b.Each(t.read, s.q.Acquire, r.Lane, token, r.Holder, r.TTL.Milliseconds(),
		db.Null(trace.Execution(ctx)), db.Null(string(id)))
	return t, nil
}

// tokenOf returns the request's token in canonical form, or a new token.
func tokenOf(r Request) (string, error) {
	if r.Token == "" {
		token, err := uuid.NewRandom()
		if err != nil {
			return "", fmt.Errorf("make a lane token: %w", err)
		}
		return token.String(), nil
	}
	token, err := uuid.Parse(r.Token)
	if err != nil {
		return "", ErrToken
	}
	return token.String(), nil
}

func (t *Ticket) read(scan db.Scan) error {
	t.answered = true
	return t.info.scan(scan, &t.acquired)
}

// Answer returns the hold that a sent ticket acquired, or a [BusyError].
func (s *Store) Answer(ctx context.Context, t *Ticket) (*Hold, error) {
	h, err := s.answer(ctx, t)
	s.answered(t.hold.Lane, t.asked, err)
	return h, err
}

func (s *Store) answer(ctx context.Context, t *Ticket) (*Hold, error) {
	if !t.answered { // SQLite refuses without a row
		info, err := s.Peek(ctx, t.hold.Workspace, t.hold.Lane)
		if err != nil {
			return nil, fmt.Errorf("acquire lane %s: %w", t.hold.Lane, err)
		}
		return nil, &BusyError{info}
	}
	if !t.acquired {
		return nil, &BusyError{t.info}
	}
	t.hold.Fence, t.hold.since = t.info.Fence, t.asked
	t.hold.extended(t.info.ExpiresAt, t.asked.Add(t.ttl))
	t.hold.wanted(t.info.WantedBy)
	return t.hold, nil
}

// Acquire acquires a lane in one statement and one round trip. It returns a [BusyError] when
// somebody else holds the lane. After any other error the state of the lane is unknown, and the
// caller may repeat the same request with its Token. When an answer is lost, Acquire repeats the
// request itself. When it gets no answer in the end, it releases the hold, provided that only
// Acquire knows the token.
func (s *Store) Acquire(ctx context.Context, r Request) (*Hold, error) {
	begun := time.Now()
	h, err := s.acquire(ctx, r, nil)
	s.answered(r.Lane, begun, err)
	return h, err
}

func (s *Store) acquire(ctx context.Context, r Request, reads func(*db.Batch)) (h *Hold, err error) {
	requests := []Request{r}
	err = s.settle(ctx, requests, func() error {
		h, err = s.try(ctx, requests[0], reads)
		return err
	})
	return h, err
}

func (s *Store) try(ctx context.Context, r Request, reads func(*db.Batch)) (*Hold, error) {
	var b db.Batch
	var under *proof
	if r.Under != nil {
		under = s.prove(&b, r.Under, r.Under.Lease(ctx))
	}
	t, err := s.Ask(ctx, &b, r)
	if err != nil {
		return nil, err
	}
	if reads != nil {
		reads(&b)
	}
	err = s.db.Do(ctx, r.Workspace, &b)
	switch {
	case r.Under != nil && s.over(err):
		return nil, s.lostLane(r.Under.Lane)
	case err != nil:
		return nil, fmt.Errorf("acquire lane %s: %w", r.Lane, err)
	case under != nil:
		under.stands()
	}
	return s.answer(ctx, t)
}

// AcquireAll acquires several lanes of one workspace in sorted order, all or none.
func (s *Store) AcquireAll(ctx context.Context, requests ...Request) (Holds, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	requests = slices.Clone(requests)
	slices.SortFunc(requests, func(a, b Request) int { return cmp.Compare(a.Lane, b.Lane) })
	for i, r := range requests[1:] {
		if r.Lane == requests[i].Lane {
			return nil, fmt.Errorf("acquire %d lanes: %s is among them twice", len(requests), r.Lane)
		}
	}
	var held Holds
	err := s.settle(ctx, requests, func() (err error) {
		held, err = s.tryAll(ctx, requests)
		return err
	})
	for _, h := range held {
		s.observe(h.Lane, Acquired, h.since)
	}
	return held, err
}

func (s *Store) tryAll(ctx context.Context, requests []Request) (Holds, error) {
	var held Holds
	var refused *Ticket
	err := s.db.Tx(ctx, requests[0].Workspace, func(ctx context.Context, tx *db.Tx) error {
		for _, r := range requests {
			if r.Workspace != requests[0].Workspace {
				return errors.New("lanes of different workspaces can't be taken together")
			}
			t, err := s.Ask(ctx, tx.Later(), r)
			if err != nil {
				return err
			}
			if err := tx.Flush(ctx); err != nil {
				return err
			}
			if !t.acquired {
				refused = t
				return errRefused
			}
			h, err := s.answer(ctx, t)
			if err != nil {
				return err
			}
			held = append(held, h)
		}
		return nil
	})
	if errors.Is(err, errRefused) {
		return s.refusal(ctx, refused)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire %d lanes: %w", len(requests), err)
	}
	return held, nil
}

var errRefused = errors.New("refused")

func (s *Store) refusal(ctx context.Context, t *Ticket) (Holds, error) {
	_, err := s.Answer(ctx, t)
	return nil, err
}

// Peek reads a lane's row. It returns [db.ErrNoRows] when the lane has no row.
func (s *Store) Peek(ctx context.Context, ws db.Workspace, name Name) (Info, error) {
	var b db.Batch
	info := s.PeekIn(&b, name)
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return Info{}, fmt.Errorf("look at lane %s: %w", name, err)
	}
	if info.Lane == "" {
		return Info{}, fmt.Errorf("look at lane %s: %w", name, db.ErrNoRows)
	}
	return *info, nil
}

// PeekIn adds a read of a lane to a batch. The Info stays empty, and not held, when the lane has no
// row.
func (s *Store) PeekIn(b *db.Batch, name Name) *Info {
	info := new(Info)
	b.Each(func(scan db.Scan) error { return info.scan(scan) }, s.q.Peek, name)
	return info
}

// List returns the workspace's live holds, oldest first, at most limit.
func (s *Store) List(ctx context.Context, ws db.Workspace, limit int) ([]Info, error) {
	var out []Info
	err := s.db.Each(ctx, ws, db.Append(&out, func(scan db.Scan, i *Info) error { return i.scan(scan) }), s.q.List, limit)
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	return out, nil
}

// ListIn adds to a batch a read of the lanes that are held now, as [Store.List] does.
func (s *Store) ListIn(b *db.Batch, limit int) *[]Info {
	found := new([]Info)
	b.Each(db.Append(found, func(scan db.Scan, i *Info) error { return i.scan(scan) }), s.q.List, limit)
	return found
}

// Want marks the current hold, once, to say that somebody waits for the lane. The holder learns it
// at its next renewal or proof. Want skips a hold whose row a transaction has locked at this
// moment.
func (s *Store) Want(ctx context.Context, ws db.Workspace, present Info, by string) error {
	if _, err := s.db.Exec(ctx, ws, s.q.Want, present.Lane, present.Fence, by); err != nil {
		return fmt.Errorf("ask for lane %s: %w", present.Lane, err)
	}
	return nil
}

// Hurry queues a limit: the transaction waits at most 2 s for each row that others have locked, and
// then fails with [db.ErrUnavailable]. SQLite has no row locks.
func (s *Store) Hurry(b *db.Batch) { b.Exec(s.q.Hurry) }

// idleKept is how long Sweep keeps the row of an idle lane.
const idleKept = 7 * 24 * time.Hour
