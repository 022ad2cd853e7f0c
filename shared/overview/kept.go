package overview

import (
	"context"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Kept reads overviews for many callers that ask at the same time: facts that were read less than For ago
// are answered again, and callers that ask during a read wait for it. The facts must not be changed. It
// is safe for concurrent use and must not be copied.
type Kept struct {
	Store *Store
	// For is how long facts are answered again; zero: each call reads.
	For time.Duration

	mu   sync.Mutex
	last map[db.Workspace]*kept
}

// kept is the last read of a workspace.
type kept struct {
	busy  chan struct{} // binary semaphore that guards the fields below
	began time.Time     // the last read
	ended time.Time
	facts *Facts
	err   error
}

const (
	// readLimit bounds a read, which goes on when the client that began it disconnects.
	readLimit = 10 * time.Second
	// maxKept is how many workspaces have facts kept.
	maxKept = 200
)

// Read returns the facts of a workspace. now is the clock by which facts age.
func (k *Kept) Read(ctx context.Context, ws db.Workspace, now func() time.Time) (*Facts, error) {
	if k.For <= 0 {
		f, err := k.Store.Read(ctx, ws, now())
		return &f, err
	}
	of := k.of(ws)
	asked := time.Now()
	select {
	case of.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-of.busy }()
	if of.ended.After(asked) { // it was read while this call waited
		return of.facts, of.err
	}
	if age := now().Sub(of.began); of.facts != nil && age >= 0 && age < k.For {
		return of.facts, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	of.facts, of.began = nil, now()
	f, err := k.Store.Read(ctx, ws, of.began)
	if err == nil {
		of.facts = &f
	}
	of.err, of.ended = err, time.Now()
	return of.facts, of.err
}

// Forget makes the next call read: something has changed in a workspace, and who changed it wants to see
// it. A read that is under way is not answered to callers that come after Forget.
func (k *Kept) Forget(ws db.Workspace) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.last, ws)
}

func (k *Kept) of(ws db.Workspace) *kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	of := k.last[ws]
	if of == nil {
		if k.last == nil || len(k.last) >= maxKept {
			k.last = map[db.Workspace]*kept{}
		}
		of = &kept{busy: make(chan struct{}, 1)}
		k.last[ws] = of
	}
	return of
}
