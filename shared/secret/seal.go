package secret

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

var (
	// ErrNoKey says that the key for a value is not available: no keeper is configured, the key
	// file is missing, or the key service refuses its use.
	ErrNoKey = errors.New("the encryption key is not there")
	// ErrUnavailable says that the key service could not be reached or is busy.
	ErrUnavailable = errors.New("the key service can't be reached")
	// ErrDamaged says that a sealed value can't be opened, because it was altered or moved to
	// another place.
	ErrDamaged = errors.New("the sealed value was altered, or put in another place")
)

// Place is the location of a sealed value. It is bound to the value, so a copy in another row,
// column or workspace can't be opened.
type Place struct {
	Workspace          db.Workspace
	Table, Column, Row string
}

// String names the place in errors.
func (p Place) String() string { return p.Table + "." + p.Column + " of " + p.Row }

// bound returns the associated data of an encryption: a label of the caller, the place, and further
// parts. Each part has its length, so that different lists of parts never give the same bytes.
func (p Place) bound(label string, more ...string) []byte {
	var out []byte
	for _, part := range append([]string{label, strings.ToLower(string(p.Workspace)), p.Table, p.Column, p.Row}, more...) {
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	return out
}

// A Keeper holds key-encryption keys and wraps data keys with them. Its errors are [ErrNoKey],
// [ErrUnavailable], [ErrDamaged] and those of the context.
type Keeper interface {
	// Current returns the id of the key that Wrap uses now.
	Current(ctx context.Context) (keyID string, err error)
	// Wrap encrypts a data key for a place. It returns the id of the key-encryption key.
	Wrap(ctx context.Context, dataKey []byte, at Place) (keyID string, wrapped []byte, err error)
	// Unwrap decrypts the result of Wrap. The key may be an older one.
	Unwrap(ctx context.Context, keyID string, wrapped []byte, at Place) (dataKey []byte, err error)
}

// Sealer encrypts values for their places. It is safe for concurrent use if its keeper is.
//
// Unlike elsewhere, its source of randomness can't be passed in, so that no caller can pass a bad
// one.
type Sealer struct{ keeper Keeper }

// NewSealer returns a sealer. With a nil keeper its methods return [ErrNoKey].
func NewSealer(k Keeper) *Sealer { return &Sealer{k} }

// A sealed value consists of
//
//	version   1 byte
//	key id    2 bytes of length, then its text
//	data key  2 bytes of length, then the data key as the keeper wrapped it
//	value     nonce, ciphertext and tag of AES-256-GCM under the data key
//
// Everything before the value is authenticated with it.
const (
	version    = 1
	keySize    = 32
	maxKeyID   = 2048
	maxWrapped = 8192
	sealLabel  = "lanekeeper sealed value"
)

// Seal encrypts v for a place. It may call the key service: don't call it in a transaction.
func (s *Sealer) Seal(ctx context.Context, at Place, v Value) ([]byte, error) {
	if s.keeper == nil {
		return nil, fmt.Errorf("seal %s: %w", at, ErrNoKey)
	}
	key := make([]byte, keySize)
	defer clear(key)
	rand.Read(key) // never fails
	keyID, wrapped, err := s.keeper.Wrap(ctx, key, at)
	if err != nil {
		return nil, fmt.Errorf("seal %s: %w", at, err)
	}
	if len(keyID) == 0 || len(keyID) > maxKeyID || len(wrapped) > maxWrapped {
		return nil, fmt.Errorf("seal %s: a key id of %d bytes and a wrapped key of %d don't fit", at, len(keyID), len(wrapped))
	}
	head := []byte{version}
	head = append(binary.BigEndian.AppendUint16(head, uint16(len(keyID))), keyID...)
	head = append(binary.BigEndian.AppendUint16(head, uint16(len(wrapped))), wrapped...)
	gcm, err := newGCM(key)
	if err != nil {
		return nil, fmt.Errorf("seal %s: %w", at, err)
	}
	return gcm.Seal(head, nil, []byte(v.Reveal()), at.bound(sealLabel, string(head))), nil
}

// Lasting reports whether a value can't be opened for a permanent reason.
func Lasting(err error) bool { return errors.Is(err, ErrDamaged) || errors.Is(err, ErrNoKey) }

// Open decrypts a value that [Sealer.Seal] has encrypted for the place. It returns [ErrDamaged] if
// the value can't be opened, and [ErrNoKey] if its key is missing. It may call the key service:
// don't call it in a transaction.
func (s *Sealer) Open(ctx context.Context, at Place, sealed []byte) (Value, error) {
	e, ok := parse(sealed)
	if !ok {
		return Value{}, fmt.Errorf("open %s: %w", at, ErrDamaged)
	}
	if s.keeper == nil {
		return Value{}, fmt.Errorf("open %s: %w", at, ErrNoKey)
	}
	key, err := s.keeper.Unwrap(ctx, e.keyID, e.wrapped, at)
	if err != nil {
		return Value{}, fmt.Errorf("open %s: %w", at, err)
	}
	defer clear(key)
	if len(key) != keySize {
		return Value{}, fmt.Errorf("open %s: %w", at, ErrDamaged)
	}
	gcm, err := newGCM(key)
	if err != nil {
		return Value{}, fmt.Errorf("open %s: %w", at, err)
	}
	text, err := gcm.Open(nil, nil, e.body, at.bound(sealLabel, string(e.head)))
	if err != nil {
		return Value{}, fmt.Errorf("open %s: %w", at, ErrDamaged)
	}
	return NewValue(string(text)), nil
}

// KeyOf returns the id of the key under which a value is sealed.
func KeyOf(sealed []byte) (string, error) {
	e, ok := parse(sealed)
	if !ok {
		return "", ErrDamaged
	}
	return e.keyID, nil
}

// envelope holds the parts of a sealed value.
type envelope struct {
	keyID               string
	wrapped, head, body []byte
}

func parse(sealed []byte) (envelope, bool) {
	if len(sealed) == 0 || sealed[0] != version {
		return envelope{}, false
	}
	keyID, rest, ok1 := prefixed(sealed[1:])
	wrapped, body, ok2 := prefixed(rest)
	if !ok1 || !ok2 || len(keyID) == 0 || len(keyID) > maxKeyID || len(wrapped) > maxWrapped {
		return envelope{}, false
	}
	return envelope{string(keyID), wrapped, sealed[:len(sealed)-len(body)], body}, true
}

// prefixed returns a part that begins with its length, and the rest.
func prefixed(b []byte) (part, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return nil, nil, false
	}
	return b[2 : 2+n], b[2+n:], true
}

// newGCM returns an AEAD that puts a random nonce before each ciphertext.
func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
