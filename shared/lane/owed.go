package lane

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// owed are holds that nobody needs any more and that could not be released, because the database or
// its answer was lost. Without a further try they would last until they expire.
type owed struct {
	mu    sync.Mutex
	holds map[string]debt // by token
}

type debt struct {
	hold  *Hold
	until time.Time // the hold has expired by then
}

// note remembers h when its release failed with err, and forgets it when the outcome is known.
func (o *owed) note(h *Hold, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil || errors.Is(err, ErrLost) {
		delete(o.holds, h.Token)
		return
	}
	if o.holds == nil {
		o.holds = map[string]debt{}
	}
	o.holds[h.Token] = debt{&Hold{Workspace: h.Workspace, Lane: h.Lane, Token: h.Token}, time.Now().Add(MaxTTL)}
}

func (o *owed) all() (all []*Hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for token, d := range o.holds {
		if time.Now().After(d.until) {
			delete(o.holds, token)
			continue
		}
		all = append(all, d.hold)
	}
	return all
}

// Settle releases the holds whose release failed before, each in one transaction with the
// statements that also adds for it. It returns those that were still live. What fails now is tried
// again by the next call. It is called on a ticker, and after requests of people.
func (s *Store) Settle(ctx context.Context, also func(*db.Batch, *Hold)) (released []*Hold, err error) {
	for _, h := range s.owed.all() {
		switch rerr := s.DropAll(ctx, h, func(b *db.Batch) { also(b, h) }); {
		case rerr == nil:
			released = append(released, h)
		case !errors.Is(rerr, ErrLost):
			return released, rerr // the others would fail for the same reason
		}
	}
	return released, nil
}
