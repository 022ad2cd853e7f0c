package lane

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
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

	db   *db.DB
	q    queries
	owed owed
}

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
	if err := db.Load(files, &s.q); err != nil {
		return nil, fmt.Errorf("lane: %w", err)
	}
	return s, nil
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

func (t *Ticket) read(scan db.Scan) (err error) {
	t.answered = true
	t.info, err = scanInfo(scan, &t.acquired)
	return err
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

// Renew extends a hold to ttl from now, or returns [ErrLost]. When the hold was made from a lane
// and a token only, Renew sets its fence.
func (s *Store) Renew(ctx context.Context, h *Hold, ttl time.Duration) error {
	if ttl < time.Millisecond || ttl > MaxTTL {
		return ErrTTL
	}
	var b db.Batch
	p := s.prove(&b, h, ttl)
	if err := s.lost(s.db.Do(ctx, h.Workspace, &b), h.Lane); err != nil {
		return err
	}
	p.stands()
	if h.Fence == 0 { // the hold was made from a lane and a token only
		h.Fence = p.fence
	}
	return nil
}

// Ensure renews the hold in the foreground when less than need remains. need is the longest
// duration of the next step plus a margin.
func (s *Store) Ensure(ctx context.Context, h *Hold, need time.Duration) error {
	if h.remaining(time.Now()) >= need {
		return nil
	}
	return s.Renew(ctx, h, max(need, h.Lease(ctx)))
}

// Cover ensures that holds last for a step plus a margin. The step takes at most limit and ends
// with ctx. Later renewals during the step do not shorten the holds. Cover returns [ErrTTL] when
// the step could take longer than the longest hold.
func (s *Store) Cover(ctx context.Context, held Held, limit time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, max(0, time.Until(deadline)))
	}
	for _, h := range held.holds() {
		if err := s.Ensure(ctx, h, limit+margin); err != nil {
			return err
		}
		h.cover(time.Now().Add(limit + margin))
	}
	return nil
}

// margin is how much longer than a step a hold lasts.
const margin = 5 * time.Second

// A proof is a renewal in a batch.
type proof struct {
	hold           *Hold
	fence          int64
	until, trusted time.Time
	answered       bool
}

// stands extends the hold. It is called after the transaction of the proof has committed; before
// that, the renewal may still be rolled back.
func (p *proof) stands() { p.hold.extended(p.until, p.trusted) }

func (s *Store) prove(b *db.Batch, h *Hold, ttl time.Duration) *proof {
	p := &proof{hold: h, trusted: time.Now().Add(ttl)}
	b.Each(func(scan db.Scan) error {
		var wantedBy string
		if err := scan(&p.fence, &p.until, db.Optional(&wantedBy)); err != nil {
			return err
		}
		p.answered = true
		h.wanted(wantedBy)
		return nil
	}, s.q.Renew, h.Lane, h.Token, ttl.Milliseconds()).MustFind()
	return p
}

// proveAll proves holds in one statement, in the order given.
func (s *Store) proveAll(ctx context.Context, b *db.Batch, holds []*Hold) []*proof {
	if len(holds) == 1 {
		return []*proof{s.prove(b, holds[0], holds[0].Lease(ctx))}
	}
	type claim struct {
		Lane  Name   `json:"lane"`
		Token string `json:"token"`
		TTL   int64  `json:"ttl_ms"`
	}
	type named struct {
		lane  Name
		token string
	}
	proofs, claims, different := make([]*proof, len(holds)), make([]claim, len(holds)), map[named]bool{}
	for i, h := range holds {
		ttl := h.Lease(ctx)
		proofs[i], claims[i] = &proof{hold: h, trusted: time.Now().Add(ttl)}, claim{h.Lane, h.Token, ttl.Milliseconds()}
		different[named{h.Lane, h.Token}] = true
	}
	list, _ := json.Marshal(claims) // never fails
	b.Each(func(scan db.Scan) error {
		var of Name
		var found proof
		var wantedBy string
		if err := scan(&of, &found.fence, &found.until, db.Optional(&wantedBy)); err != nil {
			return err
		}
		for _, p := range proofs {
			if p.hold.Lane == of {
				p.fence, p.until, p.answered = found.fence, found.until, true
				p.hold.wanted(wantedBy)
			}
		}
		return nil
	}, s.q.RenewAll, string(list)).MustFindAll(len(different))
	return proofs
}

// Release ends a hold. It returns [ErrLost], and changes nothing, when the hold is over already.
func (s *Store) Release(ctx context.Context, h *Hold) error {
	var b db.Batch
	s.ReleaseIn(&b, h)
	return s.lost(s.db.Do(ctx, h.Workspace, &b), h.Lane)
}

// Drop is Release for a hold whose token nobody will use again. When the release fails for another
// reason than [ErrLost], [Store.Settle] tries it again later.
func (s *Store) Drop(ctx context.Context, h *Hold) error {
	err := s.Release(ctx, h)
	s.owed.note(h, err)
	return err
}

// DropAll is Drop for several holds of one workspace. It releases them in one transaction with the
// statements that also adds (nil: none). When a hold is over, it returns [ErrLost], but releases the
// others and runs those statements all the same. A release that fails otherwise is made up for by
// [Store.Settle]. Holds that have ended are left out.
func (s *Store) DropAll(ctx context.Context, held Held, also func(*db.Batch)) error {
	holds := slices.DeleteFunc(slices.Clone(held.holds()), (*Hold).Ended)
	if len(holds) == 0 {
		return nil
	}
	slices.SortFunc(holds, func(a, b *Hold) int { return cmp.Compare(a.Lane, b.Lane) })
	err := s.dropAll(ctx, holds, also)
	for _, h := range holds {
		s.owed.note(h, err)
	}
	return err
}

func (s *Store) dropAll(ctx context.Context, holds []*Hold, also func(*db.Batch)) error {
	var b db.Batch
	for _, h := range holds {
		s.ReleaseIn(&b, h)
	}
	if also != nil {
		also(&b)
	}
	err := s.db.Do(ctx, holds[0].Workspace, &b)
	if err == nil {
		return nil
	}
	for _, h := range holds {
		h.end(false)
	}
	if !s.over(err) {
		return fmt.Errorf("release lane %s: %w", holds[0].Lane, err)
	}
	var lost error
	for _, h := range holds {
		if err := s.Release(ctx, h); errors.Is(err, ErrLost) {
			lost = err
		} else if err != nil {
			return err
		}
	}
	if also == nil {
		return lost
	}
	var alone db.Batch
	also(&alone)
	if err := s.db.Do(ctx, holds[0].Workspace, &alone); err != nil {
		return fmt.Errorf("write what goes with the release of lane %s: %w", holds[0].Lane, err)
	}
	return lost
}

// ReleaseIn adds the release of a hold to a batch, so that it is sent with the last write of a run.
func (s *Store) ReleaseIn(b *db.Batch, h *Hold) {
	b.Each(func(db.Scan) error {
		h.end(true)
		if !h.since.IsZero() { // the hold was acquired here
			s.observe(h.Lane, Released, h.since)
		}
		return nil
	}, s.q.Release, h.Lane, h.Token).MustFind()
}

// lost turns a failed proof or release into [ErrLost].
func (s *Store) lost(err error, lane Name) error {
	if s.over(err) {
		return s.lostLane(lane)
	}
	if err != nil {
		return fmt.Errorf("lane %s: %w", lane, err)
	}
	return nil
}

func (s *Store) lostLane(lane Name) error {
	s.observe(lane, Lost, time.Time{})
	return fmt.Errorf("lane %s: %w", lane, ErrLost)
}

// over reports whether err is a failed proof or release. Either the statement found no hold with
// the token, or the token is not a UUID (Postgres refuses such a text).
func (s *Store) over(err error) bool {
	op, ok := errors.AsType[*db.OpError](err)
	return ok && (op.Query == s.q.Renew.Name() || op.Query == s.q.RenewAll.Name() || op.Query == s.q.Release.Name()) &&
		(errors.Is(op, db.ErrNoRows) || errors.Is(op, db.ErrCheck))
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
	b.Each(func(scan db.Scan) (err error) {
		*info, err = scanInfo(scan)
		return err
	}, s.q.Peek, name)
	return info
}

// List returns the workspace's live holds, oldest first, at most limit.
func (s *Store) List(ctx context.Context, ws db.Workspace, limit int) ([]Info, error) {
	var out []Info
	err := s.db.Each(ctx, ws, func(scan db.Scan) error {
		i, err := scanInfo(scan)
		out = append(out, i)
		return err
	}, s.q.List, limit)
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	return out, nil
}

// ListIn adds to a batch a read of the lanes that are held now, as [Store.List] does.
func (s *Store) ListIn(b *db.Batch, limit int) *[]Info {
	found := new([]Info)
	b.Each(func(scan db.Scan) error {
		i, err := scanInfo(scan)
		*found = append(*found, i)
		return err
	}, s.q.List, limit)
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

// ForceRelease ends any hold on a lane; the holder's token is invalid from then on. It reports
// whether there was a hold. The caller records who did it and why, in the same transaction.
func (s *Store) ForceRelease(ctx context.Context, tx *db.Tx, name Name) (bool, error) {
	n, err := tx.Exec(ctx, s.q.Force, name)
	if err != nil {
		return false, fmt.Errorf("force the release of lane %s: %w", name, err)
	}
	return n > 0, nil
}

// ForceReleaseHold ends the hold on a lane that has a fence. It returns [ErrFence] when that hold is over.
func (s *Store) ForceReleaseHold(ctx context.Context, tx *db.Tx, name Name, fence int64) error {
	n, err := tx.Exec(ctx, s.q.ForceHold, name, fence)
	if err == nil && n == 0 {
		err = ErrFence
	}
	if err != nil {
		return fmt.Errorf("force the release of lane %s: %w", name, err)
	}
	return nil
}

// ForceReleaseIn adds to a batch the end of any hold on a lane, like [Store.ForceRelease].
func (s *Store) ForceReleaseIn(b *db.Batch, name Name) { b.Exec(s.q.Force, name) }

// ReleaseOf adds to a batch the release of a dead holder's hold on a lane. The holder must be known
// to be dead, and no other holder may have its name. The result says whether there was such a hold;
// read it after the batch has run.
func (s *Store) ReleaseOf(b *db.Batch, name Name, dead Holder) *bool {
	released := new(bool)
	b.Each(func(db.Scan) error { *released = true; return nil }, s.q.ReleaseOf, name, dead)
	return released
}

// idleKept is how long Sweep keeps the row of an idle lane.
const idleKept = 7 * 24 * time.Hour

// Sweep deletes the rows of lanes that were idle for seven days. Fences still rise afterwards,
// because a new fence is never below the clock.
func (s *Store) Sweep(ctx context.Context, ws db.Workspace) (int64, error) {
	n, err := s.db.Exec(ctx, ws, s.q.Sweep, -idleKept.Milliseconds())
	if err != nil {
		return 0, fmt.Errorf("sweep lanes: %w", err)
	}
	return n, nil
}
