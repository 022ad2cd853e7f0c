package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// KeyKind says what a key is for.
type KeyKind string

// The kinds of keys.
const (
	APIKind  KeyKind = "api"  // programs
	SiteKind KeyKind = "site" // the chat of a web site; everyone can read the key
)

// prefix returns the beginning of keys of a kind.
func (k KeyKind) prefix() string {
	if k == SiteKind {
		return "lks_"
	}
	return "lk_"
}

const (
	secretSize = 32
	shownSize  = 6 // characters of a key after its prefix that are shown
)

// spellKey formats a key: the prefix, then base64url of the secret and a checksum of both. 36 bytes
// are 48 characters, so there is only one spelling.
func spellKey(k KeyKind, random []byte) string {
	sum := crc32.ChecksumIEEE(append([]byte(k.prefix()), random...))
	return k.prefix() + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(slices.Clone(random), sum))
}

// readKey returns the kind and the secret of a key that is spelled correctly.
func readKey(key string) (KeyKind, []byte, bool) {
	for _, k := range []KeyKind{APIKind, SiteKind} {
		rest, ok := strings.CutPrefix(key, k.prefix())
		if !ok || len(rest) != 48 {
			continue
		}
		raw, err := decodeSegment(rest)
		if err == nil && len(raw) == secretSize+4 && spellKey(k, raw[:secretSize]) == key {
			return k, raw[:secretSize], true
		}
	}
	return "", nil, false
}

// VerifyKey is the [Verifier] of keys. A key with a wrong spelling causes no database query. A key
// is found by the hash of its secret, so the timing of the query reveals something about the hash
// only.
func (s *Store) VerifyKey(ctx context.Context, token string) (Principal, error) {
	kind, random, ok := readKey(token)
	if !ok {
		return Principal{}, ErrInvalid
	}
	hash := sha256.Sum256(random)
	p := Principal{Kind: Key}
	var found KeyKind
	var scopes, origins json.RawMessage
	var stale bool
	err := s.db.Each(ctx, "", func(scan db.Scan) error {
		return scan(&p.Workspace, &p.ID, &found, db.Optional(&p.Role), &scopes, &origins, &stale, db.Optional(&p.Persona))
	}, s.q.KeyByHash, hash[:])
	switch {
	case err != nil:
		return Principal{}, fmt.Errorf("look up a key: %w", err)
	case found != kind: // also if there is none
		return Principal{}, ErrInvalid
	}
	if kind == SiteKind {
		p.Kind = Site
	}
	if err := readLists(scopes, &p.Scopes, origins, &p.Origins); err != nil {
		return Principal{}, err
	}
	if stale {
		if _, err := s.db.Exec(ctx, p.Workspace, s.q.TouchKey, p.ID); err != nil {
			return Principal{}, fmt.Errorf("note the use of a key: %w", err)
		}
	}
	return p, nil
}
