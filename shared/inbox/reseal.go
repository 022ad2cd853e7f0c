package inbox

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// resealPage is how many sources are read at a time.
const resealPage = 50

// sealedSource holds the encrypted secrets of a source.
type sealedSource struct {
	id       string
	now, old []byte
}

// Reseal encrypts the secrets of a workspace's sources with the current key if another key encrypts
// them. It does not encrypt a previous secret that has expired: the first change of a secret clears
// it. Sources may be used and changed at the same time; Reseal skips a source that was changed.
// failed lists the ids of sources whose secrets could not be decrypted.
func (s *Store) Reseal(ctx context.Context, ws db.Workspace) (resealed int, failed []string, err error) {
	for after := uuid.Nil.String(); ; {
		var page []sealedSource
		err := s.db.Each(ctx, ws, db.Append(&page, func(scan db.Scan, n *sealedSource) error {
			return scan(&n.id, &n.now, &n.old)
		}), s.q.SealedSources, after, resealPage)
		if err != nil {
			return resealed, failed, fmt.Errorf("read the secrets of webhook sources: %w", err)
		}
		if len(page) == 0 {
			return resealed, failed, nil
		}
		for _, n := range page {
			after = n.id
			did, err := s.reseal(ctx, ws, n)
			switch {
			case lasting(err):
				failed = append(failed, n.id)
			case err != nil:
				return resealed, failed, err
			case did:
				resealed++
			}
		}
	}
}

func (s *Store) reseal(ctx context.Context, ws db.Workspace, n sealedSource) (bool, error) {
	now, err := s.anew(ctx, ws, n.id, n.now)
	if err != nil {
		return false, err
	}
	old, err := s.anew(ctx, ws, n.id, n.old)
	if err != nil {
		return false, err
	}
	if now == nil && old == nil {
		return false, nil
	}
	if now == nil {
		now = n.now
	}
	if old == nil {
		old = n.old
	}
	rows, err := s.db.Exec(ctx, ws, s.q.ResealSource, n.id, now, n.now, old, n.old)
	if err != nil {
		return false, fmt.Errorf("seal the secret of webhook source %s anew: %w", n.id, err)
	}
	return rows > 0, nil
}

// anew encrypts one secret with the current key. It returns nil if there is no secret, or if the
// current key encrypts it already.
func (s *Store) anew(ctx context.Context, ws db.Workspace, id string, sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	return s.secrets.ResealAt(ctx, secretPlace(ws, id), sealed)
}
