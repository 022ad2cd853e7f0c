package lane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Tx is a transaction that has proven its holds. Only [Store.InHold] makes one. Stores that write
// protected state take only a Tx.
type Tx struct {
	tx *db.Tx
	p  *proving
}

// Proves returns [ErrNotProven] unless the transaction proves the lane. Stores call it with the
// lane that protects their rows.
func (t Tx) Proves(name Name) error {
	if t.p != nil && slices.ContainsFunc(t.p.proofs, func(p *proof) bool { return p.hold.Lane == name }) {
		return nil
	}
	return fmt.Errorf("%w %s", ErrNotProven, name)
}

// Later returns a batch of statements that are sent with the next statement whose answer is needed,
// or with COMMIT.
func (t Tx) Later() *db.Batch { return t.tx.Later() }

// Flush sends the statements in [Tx.Later].
func (t Tx) Flush(ctx context.Context) error { return t.p.lostHold(t.tx.Flush(ctx)) }

// Exec runs a statement and returns the number of affected rows.
func (t Tx) Exec(ctx context.Context, q db.Query, args ...any) (int64, error) {
	n, err := t.tx.Exec(ctx, q, args...)
	return n, t.p.lostHold(err)
}

// One runs a statement and scans its row. It returns [db.ErrNoRows] when there is none.
func (t Tx) One(ctx context.Context, dest []any, q db.Query, args ...any) error {
	return t.p.lostHold(t.tx.One(ctx, dest, q, args...))
}

// Each runs a statement and calls row for each row.
func (t Tx) Each(ctx context.Context, row func(db.Scan) error, q db.Query, args ...any) error {
	return t.p.lostHold(t.tx.Each(ctx, row, q, args...))
}

// Release queues the release of a proven hold, so that it is sent with this transaction's COMMIT.
func (t Tx) Release(s *Store, h *Hold) {
	t.p.released = append(t.p.released, h)
	s.ReleaseIn(t.tx.Later(), h)
}

// proving is the state of a transaction's proofs.
type proving struct {
	s        *Store
	proofs   []*proof
	released []*Hold
	lost     error
}

// lostHold returns [ErrLost] with the lane's name when a statement failed because a hold is over,
// and remembers it. It returns other errors unchanged.
func (p *proving) lostHold(err error) error {
	if !p.s.over(err) {
		return err
	}
	at := slices.IndexFunc(p.proofs, func(p *proof) bool { return !p.answered })
	p.lost = p.s.lostLane(p.proofs[max(0, at)].hold.Lane)
	return p.lost
}

// InHold runs fn in a transaction. The first statement, in the round trip of BEGIN, proves and
// renews every hold. When a hold is over, InHold rolls everything back and returns [ErrLost]: the
// holder of a lost lane cannot write.
func (s *Store) InHold(ctx context.Context, held Held, fn func(context.Context, Tx) error) error {
	return s.InHoldBeside(ctx, held, nil, fn)
}

// InHoldBeside is InHold for a transaction that depends on the holds of others, or ends them: it locks the rows
// of their lanes too, all in the one order of names.
func (s *Store) InHoldBeside(ctx context.Context, held Held, beside []Name, fn func(context.Context, Tx) error) error {
	holds := slices.Clone(held.holds())
	if len(holds) == 0 {
		return errors.New("in hold: no hold to prove")
	}
	slices.SortFunc(holds, func(a, b *Hold) int { return strings.Compare(string(a.Lane), string(b.Lane)) })
	p := &proving{s: s}
	defer p.undo() // also when fn panics
	err := s.db.Tx(ctx, holds[0].Workspace, func(ctx context.Context, tx *db.Tx) error {
		if len(beside) > 0 {
			all := slices.Clone(beside)
			for _, h := range holds {
				all = append(all, h.Lane)
			}
			tx.Later().Exec(s.q.Line, db.Encode(all))
		}
		p.proofs = s.proveAll(ctx, tx.Later(), holds)
		return fn(ctx, Tx{tx, p})
	})
	if err = p.lostHold(err); err != nil {
		if p.lost != nil && !errors.Is(err, ErrLost) {
			err = errors.Join(p.lost, err) // fn did not return the error
		}
		return err
	}
	for _, proof := range p.proofs {
		proof.stands()
	}
	p.released = nil
	return nil
}

// undo marks holds as not released when the transaction that released them did not commit.
func (p *proving) undo() {
	for _, h := range p.released {
		h.end(false)
	}
}

// Wait says what [Store.Do] does when a lane is busy.
type Wait struct {
	// Limit is how long to wait. With zero, Do returns the [BusyError] at once.
	Limit time.Duration
}

// Do acquires a lane and runs fn under a context that ends at the inner deadline. It releases the
// lane on return, error, panic and cancellation. When the lane is still busy after the wait, Do
// returns a [BusyError]. A waiter marks the hold, so that its holder learns that somebody waits.
func (s *Store) Do(ctx context.Context, r Request, wait Wait, fn func(context.Context, *Hold) error) error {
	return s.DoAfter(ctx, r, wait, nil, fn)
}

// DoAfter is Do with additional reads. The reads share the round trip of the acquire and run after
// it: lock, then decide.
func (s *Store) DoAfter(ctx context.Context, r Request, wait Wait, reads func(*db.Batch), fn func(context.Context, *Hold) error) (err error) {
	h, err := s.Take(ctx, r, wait, reads)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil && h.Ended() {
			return // fn's last transaction released it
		}
		clean, cancel := LastWritesWithin(ctx, releaseTimeout)
		defer cancel()
		if rerr := s.Drop(clean, h); rerr != nil && (err == nil || !errors.Is(rerr, ErrLost)) {
			err = errors.Join(err, rerr)
		}
	}()
	inner, cancel := WithInnerDeadline(ctx)
	defer cancel()
	return fn(inner, h)
}

const (
	releaseTimeout = 3 * time.Second
	firstPause     = 50 * time.Millisecond
	longestPause   = time.Second
)

// Take acquires a lane and waits for it as wait says. reads may be nil; otherwise it adds
// statements that run after the acquire in the same round trip. Take calls reads again for each
// try.
func (s *Store) Take(ctx context.Context, r Request, wait Wait, reads func(*db.Batch)) (h *Hold, err error) {
	begun := time.Now()
	defer func() { s.answered(r.Lane, begun, err) }()
	until, warned := begun.Add(wait.Limit), false
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		h, err := s.acquire(ctx, r, reads)
		busy, isBusy := errors.AsType[*BusyError](err)
		if !isBusy {
			return h, err
		}
		left := time.Until(until)
		if left <= 0 {
			return nil, err
		}
		if busy.WantedAt == nil { // also when an earlier mark was skipped because a transaction held the row
			s.mark(ctx, r, busy.Info, left)
		}
		if waited := time.Since(begun); waited > WarnAfter && !warned && s.Warn != nil {
			warned = true
			s.Warn(ctx, r, busy.Info, waited)
		}
		jittered := pause/2 + rand.N(pause/2+1) //nolint:gosec // spreads retries, keeps no secret
		timer := time.NewTimer(min(jittered, left))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("wait for lane %s: %w", r.Lane, ctx.Err())
		}
	}
}

// mark tells the holder of a lane that somebody waits. It takes no longer than left. An error is
// ignored: the next try to acquire reports what is wrong.
func (s *Store) mark(ctx context.Context, r Request, present Info, left time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	_ = s.Want(ctx, r.Workspace, present, string(r.Holder))
}
