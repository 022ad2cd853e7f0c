package secret

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/redact"
)

const (
	// maxWorkspace is the largest number of a workspace's secrets that a guard knows, the latest
	// first. maxSealed is the largest size of one of them, sealed, in bytes.
	maxWorkspace = 100
	maxSealed    = 16 << 10
	// minWorkspace is the smallest size of one of them, in bytes. Only the runs that resolve a
	// shorter secret know it, because elsewhere such a text has other meanings.
	minWorkspace = 8
	// maxWorkspaces is the number of workspaces whose secrets a process keeps.
	maxWorkspaces = 200
	// fresh is how long a read counts as current. soon replaces it while nothing is known. reading
	// is the time limit of one read.
	fresh   = 5 * time.Second
	soon    = 500 * time.Millisecond
	reading = 3 * time.Second
	// patience is the pause before secrets that could not be opened are tried again.
	patience = time.Minute
	// opening is the number of secrets that are opened concurrently.
	opening = 8
)

// Guard knows the secrets of the configuration and of all workspaces, so that they can be removed
// from stored texts and from requests to models. It is safe for concurrent use. A nil Guard knows
// nothing.
type Guard struct {
	store *Store
	base  *redact.Redactor
	clock func() time.Time
	log   *slog.Logger
	mu    sync.Mutex
	of    map[db.Workspace]*guarded
	uses  uint64
}

// guarded holds the secrets of one workspace.
type guarded struct {
	mu       sync.Mutex // held during a read
	looked   time.Time
	known    bool      // a read has succeeded
	damaged  bool      // a secret can't be opened, and a short pause will not change that
	tried    time.Time // when that was noticed
	used     uint64    // value of Guard.uses at the last use
	mark     mark
	opened   map[string]opened // by name
	redactor *redact.Redactor
}

// mark changes whenever the secrets of a workspace change.
type mark struct {
	count, versions int64
	updated         int64 // Unix milliseconds
}

type opened struct {
	sealed string
	value  Value
}

// NewGuard returns a guard. base knows the secrets of the configuration.
func NewGuard(s *Store, base *redact.Redactor, clock func() time.Time, log *slog.Logger) *Guard {
	return &Guard{store: s, base: base, clock: clock, log: log, of: map[db.Workspace]*guarded{}}
}

// Redactor returns a redactor that knows the secrets of the configuration and of the workspace: the
// latest 100 that have 8 bytes to 16 KiB and are not [redact.Ordinary]. A secret that another
// process has stored is known after 5 seconds at the latest. If secrets can't be read or opened,
// the redactor knows the earlier ones. Redactor may call the key service: don't call it in a
// transaction. A caller that adds values must create its own redactor with this one as the parent.
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
		if err != nil && !at.known { // nothing was ever read
			at.looked = now.Add(soon - fresh)
		}
	}
	return at.redactor
}

// worthKnowing reports whether a value is searched for in all texts of its workspace.
func worthKnowing(v Value) bool {
	return len(v.Reveal()) >= minWorkspace && !redact.Ordinary(v.Reveal())
}

// Learn makes a value known that is about to become a secret of the workspace.
func (g *Guard) Learn(ws db.Workspace, v Value) {
	if g != nil && worthKnowing(v) {
		at := g.at(ws)
		at.mu.Lock()
		defer at.mu.Unlock()
		at.redactor.Add(v)
	}
}

// at returns the state of a workspace.
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

// oldest returns the least recently used workspace.
func (g *Guard) oldest() (oldest db.Workspace) {
	least := uint64(math.MaxUint64)
	for ws, at := range g.of {
		if at.used < least {
			oldest, least = ws, at.used
		}
	}
	return oldest
}

// look reads the secrets that have changed since the last look.
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
	at.damaged = Lasting(failed)
	if failed == nil || at.damaged {
		at.mark, at.tried = now, g.clock()
	} else {
		at.mark = mark{} // so that the next look tries again when the key service is back
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

// open opens the secrets that are not open yet. It keeps the earlier value of a secret that can't
// be opened, and returns an error. If the key service is down, it returns that error.
func (g *Guard) open(ctx context.Context, ws db.Workspace, found map[string]string, before map[string]opened) (
	all map[string]opened, failed error,
) {
	all = map[string]opened{}
	var mu sync.Mutex
	var busy sync.WaitGroup
	slots := make(chan struct{}, opening)
	for name, sealed := range found { // the open ones first, before the goroutines write to all
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
				if failed == nil || !Lasting(err) {
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
