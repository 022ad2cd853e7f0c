package endpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// sealing is an encrypted secret with its place. A secret that was copied from another place cannot
// be decrypted.
type sealing struct {
	at     secret.Place
	sealed string
}

// maxOpened is the largest number of decrypted secrets that are cached. The cache avoids a call to
// the key service for each request.
const maxOpened = 500

// keys decrypts the secrets that are valid for an endpoint now. It omits one that is damaged or whose
// key is lost, as long as there is another one.
func (s *Store) keys(ctx context.Context, ws db.Workspace, e Endpoint) ([][]byte, error) {
	var keys [][]byte
	var unopened error
	for _, sealed := range e.sealed {
		key, err := s.open(ctx, sealing{secretPlace(ws, e.ID), string(sealed)})
		switch {
		case err == nil:
			keys = append(keys, key)
		case lasting(err):
			unopened = errors.Join(unopened, err)
		default:
			return nil, fmt.Errorf("open the secret of webhook endpoint %s: %w", e.ID, err)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("open the secret of webhook endpoint %s: %w", e.ID, unopened)
	}
	return keys, nil
}

func (s *Store) open(ctx context.Context, of sealing) ([]byte, error) {
	s.mu.Lock()
	key, ok := s.opened[of]
	s.mu.Unlock()
	if ok {
		return key, nil
	}
	v, err := s.secrets.OpenAt(ctx, of.at, []byte(of.sealed))
	if err != nil {
		return nil, err
	}
	if key, err = keyOf(v); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.opened) >= maxOpened {
		clear(s.opened)
	}
	s.opened[of] = key
	return key, nil
}

// lasting reports whether the decryption failed for a permanent reason.
func lasting(err error) bool {
	return errors.Is(err, secret.ErrDamaged) || errors.Is(err, secret.ErrNoKey)
}

// resealPage is how many endpoints are read at a time.
const resealPage = 50

// Reseal encrypts the secrets of a workspace's endpoints with the current key if another key encrypts
// them. Endpoints may be used and changed at the same time; Reseal skips one that was changed. failed
// lists the ids of endpoints whose secrets could not be decrypted.
func (s *Store) Reseal(ctx context.Context, ws db.Workspace) (resealed int, failed []string, err error) {
	type row struct {
		id       string
		now, old []byte
	}
	for after := uuid.Nil.String(); ; {
		var page []row
		err := s.db.Each(ctx, ws, db.Append(&page, func(scan db.Scan, r *row) error { return scan(&r.id, &r.now, &r.old) }), s.q.Sealed, after, resealPage)
		if err != nil {
			return resealed, failed, fmt.Errorf("read the secrets of webhook endpoints: %w", err)
		}
		if len(page) == 0 {
			return resealed, failed, nil
		}
		for _, r := range page {
			after = r.id
			n, err := s.reseal(ctx, ws, r.id, r.now, r.old)
			switch {
			case lasting(err):
				failed = append(failed, r.id)
			case err != nil:
				return resealed, failed, err
			}
			resealed += n
		}
	}
}

func (s *Store) reseal(ctx context.Context, ws db.Workspace, id string, now, old []byte) (int, error) {
	anew := func(sealed []byte) ([]byte, bool, error) {
		if sealed == nil {
			return nil, false, nil
		}
		made, err := s.secrets.ResealAt(ctx, secretPlace(ws, id), sealed)
		if made == nil {
			made = sealed
			return made, false, err
		}
		return made, true, err
	}
	newNow, changed, err := anew(now)
	if err != nil {
		return 0, err
	}
	newOld, oldChanged, err := anew(old)
	if err != nil || !changed && !oldChanged {
		return 0, err
	}
	rows, err := s.db.Exec(ctx, ws, s.q.Reseal, id, newNow, now, newOld, old)
	if err != nil {
		return 0, fmt.Errorf("seal the secret of webhook endpoint %s anew: %w", id, err)
	}
	return int(rows), nil
}
