package secret

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Key answers 32 random bytes that are kept sealed among the secrets of a workspace for one
// purpose, such as "session". They are made when first asked for: of several who ask at once
// all get the same. Kept ones that can't be opened are an error and stay, since another
// process may open them: only those that a key file sealed are replaced by a process whose
// keys are in a key service. No reference names them, and no listing tells of them;
// [Store.Rotate] seals them anew.
// Errors: [ErrNoKey], [ErrUnavailable], [ErrDamaged].
func (s *Store) Key(ctx context.Context, ws db.Workspace, purpose string) ([]byte, error) {
	name := ownPrefix + purpose + "-key"
	for range 3 {
		v, sealed, err := s.open(ctx, ws, name)
		if err == nil {
			return hex.DecodeString(v.Reveal())
		}
		if !errors.Is(err, ErrNotFound) && !s.outranks(ctx, sealed) {
			return nil, fmt.Errorf("open the key %s: %w", name, err)
		}
		if err := s.makeKey(ctx, ws, name, sealed); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("make the key %s: somebody else replaces it all the time", name)
}

// outranks reports whether our keys are in a key service, and what is sealed was sealed by
// a key file, such as that of a command which was run beside the deployed functions.
func (s *Store) outranks(ctx context.Context, sealed []byte) bool {
	under, err := KeyOf(sealed)
	if err != nil || !strings.HasPrefix(under, fileKeyPrefix) || s.sealer.keeper == nil {
		return false
	}
	ours, err := s.sealer.keeper.Current(ctx)
	return err == nil && !strings.HasPrefix(ours, fileKeyPrefix)
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
