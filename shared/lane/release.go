package lane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

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

// Sweep deletes the rows of lanes that were idle for seven days. Fences still rise afterwards,
// because a new fence is never below the clock.
func (s *Store) Sweep(ctx context.Context, ws db.Workspace) (int64, error) {
	n, err := s.db.Exec(ctx, ws, s.q.Sweep, -idleKept.Milliseconds())
	if err != nil {
		return 0, fmt.Errorf("sweep lanes: %w", err)
	}
	return n, nil
}
