package secret

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/redact"
)

const (
	// maxWorkspace is the most secrets of a workspace that are known, the latest first,
	// and maxSealed the most bytes that one of them has, sealed.
	maxWorkspace = 100
	maxSealed    = 16 << 10
	// minWorkspace is the fewest bytes that one of them has. Shorter ones are known to the
	// runs that resolve them: elsewhere they stand for something else.
	minWorkspace = 8
	// maxWorkspaces is of how many workspaces a process keeps them.
	maxWorkspaces = 200
	// fresh is how long they count as known, soon after how long it is looked again where
	// nothing is, and reading the limit of one look for them.
	fresh   = 5 * time.Second
	soon    = 500 * time.Millisecond
	reading = 3 * time.Second
	// patience is after how long secrets that did not open are tried again.
	patience = time.Minute
	// opening is how many are opened at once.
	opening = 8
)

// Guard knows the secrets of the configuration and of all workspaces, so that they can be
// taken out of what is written or asked of a model. It is safe for concurrent use; a nil
// Guard knows nothing.
type Guard struct {
	store *Store
	base  *redact.Redactor
	clock func() time.Time
	log   *slog.Logger
	mu    sync.Mutex
	of    map[db.Workspace]*guarded
	uses  uint64
}

// guarded are the secrets of one workspace.
type guarded struct {
	mu       sync.Mutex // of those who look
	looked   time.Time
	known    bool      // they have been read
	damaged  bool      // one of them does not open, which a while does not mend
	tried    time.Time // when that was seen
	used     uint64    // counts the uses of all: the least is the longest ago
	mark     mark
	opened   map[string]opened // by name
	redactor *redact.Redactor
}

// mark changes with the secrets of a workspace.
type mark struct {
	count, versions int64
	updated         int64 // Unix milliseconds
}

type opened struct {
	sealed string
	value  Value
}

// NewGuard makes a guard. base has the secrets of the configuration.
func NewGuard(s *Store, base *redact.Redactor, clock func() time.Time, log *slog.Logger) *Guard {
	return &Guard{store: s, base: base, clock: clock, log: log, of: map[db.Workspace]*guarded{}}
}

// Redactor knows the configuration's secrets and the workspace's: the latest 100 of them,
// those of 8 bytes to 16 KiB that are not [Ordinary]. What another process has put is known 5 seconds later at the
// latest. Where secrets can't be read or opened, it knows those that were before. It may ask
// the key service: don't call it in a transaction. Whoever adds values makes a redactor of
// their own of it.
func (g *Guard) Redactor(ctx context.Context, ws db.Workspace) *redact.Redactor {
	if g == nil {
		return nil
	}
	at := g.at(ws)
	at.mu.Lock()
	defer at.mu.Unlock()
	now := g.clock()
	if age := now.Sub(at.looked); at.looked.IsZero() || age < 0 || age >= fresh {
		// The caller may leave, but other callers need what is read here.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reading)
		defer cancel()
		err := g.look(ctx, ws, at)
		if err != nil {
			g.log.WarnContext(ctx, "secrets of the workspace are not known", "error", err)
		}
		at.looked = now
		if err != nil && !at.known { // nothing at all
			at.looked = now.Add(soon - fresh)
		}
	}
	return at.redactor
}

// worthKnowing reports whether a value is looked for in all texts of its workspace.
func worthKnowing(v Value) bool {
	return len(v.Reveal()) >= minWorkspace && !redact.Ordinary(v.Reveal())
}

// Learn makes a value known that is about to be a secret of the workspace.
func (g *Guard) Learn(ws db.Workspace, v Value) {
	if g != nil && worthKnowing(v) {
		at := g.at(ws)
		at.mu.Lock()
		defer at.mu.Unlock()
		at.redactor.Add(v)
	}
}

// at is the place of a workspace.
func (g *Guard) at(ws db.Workspace) *guarded {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.of[ws]
	if at == nil {
		if len(g.of) >= maxWorkspaces {
			delete(g.of, g.oldest())
		}
		at = &guarded{redactor: redact.New(g.base)}
		g.of[ws] = at
	}
	g.uses++
	at.used = g.uses
	return at
}

// oldest is the workspace that nobody has asked for the longest.
func (g *Guard) oldest() (oldest db.Workspace) {
	least := uint64(math.MaxUint64)
	for ws, at := range g.of {
		if at.used < least {
			oldest, least = ws, at.used
		}
	}
	return oldest
}

// look reads what has changed since the last look.
func (g *Guard) look(ctx context.Context, ws db.Workspace, at *guarded) error {
	var now mark
	var updated *time.Time
	if err := g.store.db.One(ctx, ws, []any{&now.count, &now.versions, &updated}, g.store.q.Mark); err != nil {
		return fmt.Errorf("look for secrets: %w", err)
	}
	if updated != nil {
		now.updated = updated.UnixMilli()
	}
	if clock := g.clock(); now == at.mark && !(at.damaged && clock.Sub(at.tried).Abs() >= patience) {
		return nil
	}
	found, err := g.sealed(ctx, ws)
	if err != nil {
		return fmt.Errorf("read secrets: %w", err)
	}
	all, failed := g.open(ctx, ws, found, at.opened)
	redactor := redact.New(g.base)
	for _, o := range all {
		if worthKnowing(o.value) {
			redactor.Add(o.value)
		}
	}
	at.opened, at.redactor, at.known = all, redactor, true
	at.damaged = errors.Is(failed, ErrDamaged) || errors.Is(failed, ErrNoKey)
	if failed == nil || at.damaged {
		at.mark, at.tried = now, g.clock()
	} else {
		at.mark = mark{} // whoever is away may be back
	}
	return failed
}

func (g *Guard) sealed(ctx context.Context, ws db.Workspace) (map[string]string, error) {
	found := map[string]string{}
	err := g.store.db.Each(ctx, ws, func(scan db.Scan) error {
		var name string
		var sealed []byte
		err := scan(&name, &sealed)
		found[name] = string(sealed)
		return err
	}, g.store.q.Known, maxSealed, maxWorkspace)
	return found, err
}

// open opens what was not open before. Of those that don't open it answers what they were
// before, and an error: that of the key service where it is away.
func (g *Guard) open(ctx context.Context, ws db.Workspace, found map[string]string, before map[string]opened) (
	all map[string]opened, failed error,
) {
	all = map[string]opened{}
	var mu sync.Mutex
	var busy sync.WaitGroup
	slots := make(chan struct{}, opening)
	for name, sealed := range found { // what is there, before others write beside
		if o, ok := before[name]; ok && o.sealed == sealed {
			all[name] = o
			delete(found, name)
		}
	}
	for name, sealed := range found {
		slots <- struct{}{}
		busy.Go(func() {
			defer func() { <-slots }()
			v, err := g.store.sealer.Open(ctx, placeOf(ws, name), []byte(sealed))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if failed == nil || !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNoKey) {
					failed = err
				}
				if o, ok := before[name]; ok {
					all[name] = o
				}
				return
			}
			all[name] = opened{sealed, v}
		})
	}
	busy.Wait()
	return all, failed
}
