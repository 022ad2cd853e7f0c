package secret

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Rotation is the result of one call of [Store.Rotate].
type Rotation struct {
	Resealed int
	// Failed are the names of secrets that could not be opened, because they are damaged or their
	// key is missing. They stay unchanged.
	Failed []string
	// Left is the number of secrets that are still sealed under another key than the current one.
	// It includes those that failed.
	Left int
}

// Done reports whether another call would change nothing.
func (r Rotation) Done() bool { return r.Left <= len(r.Failed) }

type stale struct {
	name   string
	sealed []byte
}

// Rotate re-encrypts up to batch secrets of a workspace that are sealed under another key than the
// current one. Each gets a new data key. Call it until it is done; only then may the old key be
// deleted.
//
// Secrets can be read and written meanwhile. Each is replaced separately, and only if it has not
// changed since it was read. So calls may run concurrently, may be interrupted, and may be
// repeated. An error of the key service or of the database ends the call.
func (s *Store) Rotate(ctx context.Context, ws db.Workspace, batch int) (Rotation, error) {
	var r Rotation
	if s.sealer.keeper == nil {
		return r, fmt.Errorf("rotate secrets: %w", ErrNoKey)
	}
	current, err := s.sealer.keeper.Current(ctx)
	if err != nil {
		return r, fmt.Errorf("rotate secrets: %w", err)
	}
	batch = max(1, batch)
	for after := ""; r.Resealed < batch; {
		page, err := s.stale(ctx, ws, current, after, batch-r.Resealed)
		if err != nil {
			return r, fmt.Errorf("rotate secrets: %w", err)
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].name
		for _, old := range page {
			if err := s.reseal(ctx, ws, old, &r); err != nil {
				return r, fmt.Errorf("rotate secrets: %w", err)
			}
		}
	}
	if err := s.db.One(ctx, ws, []any{&r.Left}, s.q.CountStale, current); err != nil {
		return r, fmt.Errorf("rotate secrets: %w", err)
	}
	return r, nil
}

func (s *Store) stale(ctx context.Context, ws db.Workspace, current, after string, limit int) (page []stale, err error) {
	err = s.db.Each(ctx, ws, db.Append(&page, func(scan db.Scan, row *stale) error {
		return scan(&row.name, &row.sealed)
	}), s.q.Stale, current, after, limit)
	return page, err
}

// ResealAt re-encrypts a value that [Store.SealAt] has sealed for a place, unless it is sealed
// under the current key. In that case it returns nil.
func (s *Store) ResealAt(ctx context.Context, at Place, sealed []byte) ([]byte, error) {
	if s.sealer.keeper == nil {
		return nil, fmt.Errorf("seal %s anew: %w", at, ErrNoKey)
	}
	current, err := s.sealer.keeper.Current(ctx)
	if err != nil {
		return nil, fmt.Errorf("seal %s anew: %w", at, err)
	}
	if key, err := KeyOf(sealed); err == nil && key == current {
		return nil, nil
	}
	v, err := s.sealer.Open(ctx, at, sealed)
	if err != nil {
		return nil, err
	}
	return s.sealer.Seal(ctx, at, v)
}

func (s *Store) reseal(ctx context.Context, ws db.Workspace, old stale, r *Rotation) error {
	v, err := s.sealer.Open(ctx, placeOf(ws, old.name), old.sealed)
	if Lasting(err) {
		r.Failed = append(r.Failed, old.name)
		return nil
	}
	if err != nil {
		return err
	}
	d, err := s.seal(ctx, ws, old.name, v)
	if err != nil {
		return err
	}
	n, err := s.db.Exec(ctx, ws, s.q.Reseal, d.name, d.sealed, d.keyID, old.sealed)
	if err != nil {
		return err
	}
	r.Resealed += int(n) // 0: it has been replaced meanwhile
	return nil
}
