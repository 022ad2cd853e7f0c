package secret

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Key answers 32 random bytes that are kept sealed among the secrets of a workspace for one
// purpose, such as "session". They are made when first asked for: of several who ask at once
// all get the same. Where the kept ones can't be opened any more, new ones replace them. No
// reference names them, and no listing tells of them; [Store.Rotate] seals them anew.
// Errors: [ErrNoKey], [ErrUnavailable].
func (s *Store) Key(ctx context.Context, ws db.Workspace, purpose string) ([]byte, error) {
	name := ownPrefix + purpose + "-key"
	for range 3 {
		v, sealed, err := s.open(ctx, ws, name)
		if err == nil {
			return hex.DecodeString(v.Reveal())
		}
		lost := errors.Is(err, ErrDamaged) || errors.Is(err, ErrNoKey)
		if !lost && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		if err := s.makeKey(ctx, ws, name, sealed); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("make the key %s: somebody else replaces it all the time", name)
}

// makeKey writes a new key in the place of one that was read, or of none, unless somebody
// was faster.
func (s *Store) makeKey(ctx context.Context, ws db.Workspace, name string, was []byte) error {
	random := make([]byte, keySize)
	rand.Read(random) // never fails
	d, err := s.seal(ctx, ws, name, NewValue(hex.EncodeToString(random)))
	if err != nil {
		return err
	}
	if was == nil {
		_, err = s.db.Exec(ctx, ws, s.q.Make, d.name, d.sealed, d.keyID, "lanekeeper")
	} else {
		_, err = s.db.Exec(ctx, ws, s.q.Reseal, d.name, d.sealed, d.keyID, was)
	}
	if err != nil {
		return fmt.Errorf("keep the key %s: %w", name, err)
	}
	return nil
}
