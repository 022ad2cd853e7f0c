package endpoint

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// keys decrypts the secrets that are valid for an endpoint now, as [secret.Pairs.Open] does.
func (s *Store) keys(ctx context.Context, ws db.Workspace, e Endpoint) ([][]byte, error) {
	all, err := s.pairs.Open(ctx, ws, e.ID, e.sealed)
	if err != nil {
		return nil, fmt.Errorf("open the secret of webhook endpoint %s: %w", e.ID, err)
	}
	keys := make([][]byte, len(all))
	for i, v := range all {
		if keys[i], err = keyOf(v); err != nil {
			return nil, fmt.Errorf("open the secret of webhook endpoint %s: %w", e.ID, err)
		}
	}
	return keys, nil
}

// Reseal encrypts the secrets of a workspace's endpoints with the current key, as [secret.Pairs.Reseal] does.
func (s *Store) Reseal(ctx context.Context, ws db.Workspace) (resealed int, failed []string, err error) {
	return s.pairs.Reseal(ctx, ws, s.q.Sealed, s.q.Reseal)
}
