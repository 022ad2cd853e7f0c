package lane

import (
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

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
	}, s.q.RenewAll, db.Encode(claims)).MustFindAll(len(different))
	return proofs
}
