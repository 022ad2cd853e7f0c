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

// Key returns 32 random bytes for one purpose, such as "session". They are stored sealed among the
// secrets of a workspace and are created at the first call. Concurrent callers all get the same
// bytes. If stored bytes can't be opened, Key returns an error and keeps them, since another
// process may be able to open them. It replaces them only if a key file sealed them and this
// process uses a key service. References cannot name them, and listings omit them. [Store.Rotate]
// re-encrypts them. Errors: [ErrNoKey], [ErrUnavailable], [ErrDamaged].
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

// outranks reports whether this process uses a key service and the value was sealed by a key file,
// such as that of a command that was run beside the deployed functions.
func (s *Store) outranks(ctx context.Context, sealed []byte) bool {
	under, err := KeyOf(sealed)
	if err != nil || !strings.HasPrefix(under, fileKeyPrefix) || s.sealer.keeper == nil {
		return false
	}
	ours, err := s.sealer.keeper.Current(ctx)
	return err == nil && !strings.HasPrefix(ours, fileKeyPrefix)
}

// makeKey stores a new key in place of was, which nil means to be missing. It does nothing if
// another process has stored a key meanwhile.
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
