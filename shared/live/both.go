package live

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// Both is a database with a Redis before it. The Redis saves work and decides nothing. Its errors never
// reach a caller: what it can't do, the database does.
type Both struct {
	*Database
	near Ephemeral
}

var _ State = (*Both)(nil)

// NewBoth returns a database with a Redis before it.
func NewBoth(far *Database, near Ephemeral) *Both { return &Both{far, near} }

// hint is how long a lock in the Redis lives at most. A hint that is left behind, because its holder
// could not reach the Redis, refuses others no longer.
const hint = 5 * time.Second

// TryLock implements [Locks]. Where the Redis knows of another holder, the database is not asked. It
// decides otherwise.
func (b *Both) TryLock(ctx context.Context, ws db.Workspace, l Lock, ttl time.Duration) (bool, error) {
	if err := l.CheckFor(ttl); err != nil {
		return false, err
	}
	if free, err := b.near.TryLock(ctx, ws, l, min(ttl, hint)); err == nil && !free {
		return false, nil
	}
	got, err := b.Database.TryLock(ctx, ws, l, ttl)
	if !got {
		_, _ = b.near.ReleaseLock(ctx, ws, l) // else it ends by itself
	}
	return got, err
}

// ReleaseLock implements [Locks].
func (b *Both) ReleaseLock(ctx context.Context, ws db.Workspace, l Lock) (bool, error) {
	got, err := b.Database.ReleaseLock(ctx, ws, l)
	if err == nil {
		_, _ = b.near.ReleaseLock(ctx, ws, l) // else it ends by itself
	}
	return got, err
}

// SetResult implements [Results]. The Redis keeps it, or else the database.
func (b *Both) SetResult(ctx context.Context, ws db.Workspace, of Attempt, result json.RawMessage, ttl time.Duration) error {
	err := b.near.SetResult(ctx, ws, of, result, ttl)
	if _, bad := errors.AsType[*problem.InvalidError](err); err == nil || bad {
		return err
	}
	return b.Database.SetResult(ctx, ws, of, result, ttl)
}

// GetResult implements [Results].
func (b *Both) GetResult(ctx context.Context, ws db.Workspace, of Attempt) (json.RawMessage, bool, error) {
	result, there, err := b.near.GetResult(ctx, ws, of)
	if _, bad := errors.AsType[*problem.InvalidError](err); bad || err == nil && there {
		return result, there, err
	}
	return b.Database.GetResult(ctx, ws, of)
}
