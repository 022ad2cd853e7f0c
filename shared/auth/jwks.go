package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// KeySet holds the public keys of an issuer. It fetches them when they are needed and caches them.
// It fetches again when a token is signed by none of them, because the issuer may have a new key.
// If that did not help, it waits half a minute before the next such fetch. It also fetches again
// after an hour. The old keys stay valid while the issuer can't be reached. A KeySet is safe for
// concurrent use.
type KeySet struct {
	url    string
	client *http.Client
	clock  func() time.Time

	known atomic.Pointer[keys]
	turn  chan struct{} // holds one token; its receiver may fetch
}

// keys is the result of a fetch.
type keys struct {
	list    []jose.JSONWebKey
	fetched time.Time // the last success
	tried   time.Time
	missed  time.Time // the last fetch for a token that was still signed by none of the keys
	err     error     // of the last try
}

const (
	maxKeyAge    = time.Hour
	missedAfter  = 30 * time.Second // between two fetches for tokens that no key signed
	refetchAfter = 5 * time.Minute  // after a failure while there are keys
	retryAfter   = 10 * time.Second // after a failure while there are no keys, or not the right one
	fetchLimit   = 5 * time.Second
	maxKeySet    = 1 << 20 // bytes
	maxKeys      = 100
	minRSA       = 2048 // bits
)

// NewKeySet returns the set of keys at a URL. client must be the guarded client. Nothing is fetched
// yet.
func NewKeySet(url string, client *http.Client, clock func() time.Time) *KeySet {
	k := &KeySet{url: url, client: client, clock: clock, turn: make(chan struct{}, 1)}
	k.known.Store(&keys{})
	k.turn <- struct{}{}
	return k
}

// verify checks the signature of a token with the key that it names.
func (k *KeySet) verify(ctx context.Context, t *jws) error {
	if t.alg != jose.RS256 && t.alg != jose.ES256 {
		return ErrInvalid
	}
	now := k.clock()
	known := k.known.Load()
	good := known.signed(t)
	if known.refreshDue(now, good) {
		var err error
		if known, err = k.fetched(ctx, now, t, good); err != nil {
			return err
		}
		good = known.signed(t)
	}
	switch {
	case good:
		return nil
	case len(known.list) == 0 && known.err != nil:
		return known.err
	}
	return ErrInvalid
}

// signed reports whether the key that the token names has signed it.
func (k *keys) signed(t *jws) bool {
	key, found := k.find(t.kid, t.alg)
	return found && t.verify(t.alg, key.Key) == nil
}

// find returns the key of that id for an algorithm. A token without a key id matches the only key
// of a set.
func (k *keys) find(kid string, alg jose.SignatureAlgorithm) (jose.JSONWebKey, bool) {
	for _, key := range k.list {
		if algorithm(key) == alg && (key.KeyID == kid || kid == "" && len(k.list) == 1) {
			return key, true
		}
	}
	return jose.JSONWebKey{}, false
}

// refreshDue reports whether the keys should be fetched now. good says whether the present keys
// verify the token.
func (k *keys) refreshDue(now time.Time, good bool) bool {
	since := now.Sub(k.tried)
	switch {
	case k.tried.IsZero(), since < 0:
		return true
	case len(k.list) == 0:
		return since >= retryAfter
	case !good:
		return now.Sub(k.missed) >= missedAfter && (k.err == nil || since >= retryAfter)
	}
	return now.Sub(k.fetched) >= maxKeyAge && since >= refetchAfter
}

// fetched returns the keys after a fetch by this or another request. If the token is good already,
// it does not wait for another request's fetch.
func (k *KeySet) fetched(ctx context.Context, now time.Time, t *jws, good bool) (*keys, error) {
	if good {
		select {
		case <-k.turn:
		default:
			return k.known.Load(), nil
		}
	} else {
		select {
		case <-k.turn:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the issuer's keys: %w", context.Cause(ctx))
		}
	}
	defer func() { k.turn <- struct{}{} }()
	known := k.known.Load()
	if !known.refreshDue(now, known.signed(t)) {
		return known, nil
	}
	// A caller that cancels must not waste the only try.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchLimit)
	defer cancel()
	next := &keys{list: known.list, fetched: known.fetched, tried: now, missed: known.missed}
	if list, err := k.fetch(ctx); err != nil {
		next.err = fmt.Errorf("fetch the issuer's keys: %w", err)
	} else {
		next.list, next.fetched = list, now
	}
	if !next.signed(t) {
		next.missed = now
	}
	k.known.Store(next)
	return next, nil
}

func (k *KeySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	response, err := k.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxKeySet+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxKeySet {
		return nil, errors.New("the answer is larger than 1 MiB")
	}
	return parseKeys(body)
}

// parseKeys parses a JWK set and drops keys that can't verify tokens here.
func parseKeys(body []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, errors.New("the answer is no JWK set")
	}
	var list []jose.JSONWebKey
	for _, raw := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var key jose.JSONWebKey
		if err := json.Unmarshal(raw, &key); err == nil && algorithm(key) != "" {
			list = append(list, key)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the JWK set has no key for RS256 or ES256")
	}
	return list, nil
}

// algorithm returns the algorithm that a key is for, or "" if it is not supported.
func algorithm(key jose.JSONWebKey) jose.SignatureAlgorithm {
	var alg jose.SignatureAlgorithm
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() >= minRSA {
			alg = jose.RS256
		}
	case *ecdsa.PublicKey:
		if public.Curve == elliptic.P256() {
			alg = jose.ES256
		}
	}
	if key.Use != "" && key.Use != "sig" || key.Algorithm != "" && key.Algorithm != string(alg) {
		return ""
	}
	return alg
}
