package thread

import (
	"context"
	"slices"
	"sync"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// rounds records the last workspace of the previous round, so that the next round begins with the
// workspaces that the previous one did not reach. It is safe for concurrent use.
type rounds struct {
	mu   sync.Mutex
	last db.Workspace
}

// from returns a function that returns each workspace once, in the order of their ids, beginning
// after the last one of the previous round. It stops when ctx ends. The function is safe for
// concurrent use.
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
