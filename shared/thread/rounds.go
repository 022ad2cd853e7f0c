package thread

import (
	"context"
	"slices"
	"sync"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// rounds remembers how far the last round through the workspaces came, so that the next
// begins with those that it did not reach. It is safe for concurrent use.
type rounds struct {
	mu   sync.Mutex
	last db.Workspace
}

// from answers what yields the workspaces one by one, each once, for as long as ctx is
// alive: those behind the last one first, in the order of their ids. It may be called by
// several at once.
func (r *rounds) from(ctx context.Context, all []db.Workspace) func() (db.Workspace, bool) {
	r.mu.Lock()
	behind, found := slices.BinarySearch(all, r.last)
	r.mu.Unlock()
	if found {
		behind++
	}
	left := slices.Concat(all[behind:], all[:behind])
	return func() (db.Workspace, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(left) == 0 || ctx.Err() != nil {
			return "", false
		}
		r.last, left = left[0], left[1:]
		return r.last, true
	}
}
