package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// rotation is the verifier of an issuer's tokens, and ada.
type rotation struct {
	*world
	*clock
	*issuer
	verify auth.Verifier
}

func newRotation(t testing.TB, keys ...jose.JSONWebKey) *rotation {
	t.Helper()
	r := &rotation{world: newWorld(t, dbtest.New(t, dbtest.OnSQLite)), clock: newClock(), issuer: newIssuer(t, keys...)}
	r.join(t, r.Workspace, "ada@example.com", auth.Member)
	var err error
	r.verify, err = r.s.UserTokens(auth.TokenConfig{Keys: auth.NewKeySet(r.issuer.URL, r.issuer.Client(), r.now), Issuer: iss}, r.now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// token returns a token of ada, signed with the key of that id.
func (r *rotation) token(kid string) string {
	key, _ := keyPairs()
	claims := object{"iss": iss, "sub": "ada", "email": "ada@example.com", "email_verified": true, "exp": float64(r.now().Unix()) + 600.5} // a NumericDate may have a fraction
	return forge(object{"alg": "RS256", "kid": kid}.text(), claims.text(), rs256(key))
}

func (r *rotation) expect(t testing.TB, what, kid string, want error, fetches int64) {
	t.Helper()
	_, err := r.verify(t.Context(), r.token(kid))
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
	if got := r.fetches.Load(); got != fetches {
		t.Errorf("%s: %d fetches so far, want %d", what, got, fetches)
	}
}

func TestKeysRotate(t *testing.T) {
	r := newRotation(t, publicRSA("one"))
	r.expect(t, "the first", "one", nil, 1)
	r.expect(t, "again", "one", nil, 1)
	r.publish(publicRSA("one"), publicRSA("two"))
	r.expect(t, "a new key at once", "two", nil, 2)
	r.expect(t, "one that the issuer does not have", "three", auth.ErrInvalid, 3)
	r.publish(publicRSA("two"), publicRSA("three"))
	r.expect(t, "a new key within half a minute", "three", auth.ErrInvalid, 3)
	r.advance(30 * time.Second)
	r.expect(t, "after half a minute", "three", nil, 4)
	r.publish(publicRSA("two"))
	r.expect(t, "a key that is gone, kept for an hour", "three", nil, 4)
	r.advance(time.Hour)
	r.expect(t, "after an hour", "two", nil, 5)
	r.expect(t, "a key that is gone", "three", auth.ErrInvalid, 6)
	r.expect(t, "and does not have them fetched each time", "three", auth.ErrInvalid, 6)
}

// An issuer may replace a key under the same id.
func TestAKeyIsReplacedUnderItsName(t *testing.T) {
	old, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	before := jose.JSONWebKey{Key: old.Public(), KeyID: "one", Use: "sig", Algorithm: "RS256"}
	r := newRotation(t, before, publicRSA("two"))
	r.expect(t, "the first to ask", "two", nil, 1)
	r.expect(t, "of another key", "one", auth.ErrInvalid, 2)
	r.publish(publicRSA("one"))
	r.expect(t, "within half a minute", "one", auth.ErrInvalid, 2)
	r.advance(30 * time.Second)
	r.expect(t, "of the new one", "one", nil, 3)
}

func TestOldKeysHoldWhileTheIssuerIsDown(t *testing.T) {
	r := newRotation(t, publicRSA("one"))
	r.expect(t, "up", "one", nil, 1)
	for i, answer := range []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"keys":`)
		},
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"keys":[]}`) },
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"keys":[{"kty":"oct","k":"AAAA"}]}`) },
		func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"x":"`+strings.Repeat("x", 1<<20)+`","keys":[]}`)
		},
	} {
		r.serve(answer)
		r.advance(2 * time.Hour)
		r.expect(t, fmt.Sprintf("down in way %d", i), "one", nil, int64(i)+2)
		r.expect(t, "and not asked again at once", "one", nil, int64(i)+2)
		r.expect(t, "nor for an unknown key", "two", auth.ErrInvalid, int64(i)+2)
	}
	r.publish(publicRSA("two"))
	r.advance(5 * time.Minute)
	r.expect(t, "up again", "two", nil, 8)
}

func TestAnIssuerThatWasNeverReached(t *testing.T) {
	r := newRotation(t)
	r.serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	for range 3 {
		if _, err := r.verify(t.Context(), r.token("one")); err == nil || errors.Is(err, auth.ErrInvalid) {
			t.Errorf("nobody can tell: %v", err)
		}
	}
	if n := r.fetches.Load(); n != 1 {
		t.Errorf("%d fetches", n)
	}
	r.publish(publicRSA("one"))
	r.advance(10 * time.Second)
	r.expect(t, "reached", "one", nil, 2)
}

// However many unknown keys are named at the same time, the issuer is asked once. A caller with a
// known key does not wait for that.
func TestAFloodOfUnknownKeys(t *testing.T) {
	r := newRotation(t, publicRSA("one"))
	r.expect(t, "the first", "one", nil, 1)
	asked, answer := make(chan struct{}), make(chan struct{})
	r.serve(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	r.advance(5 * time.Minute)
	var flood sync.WaitGroup
	for i := range 50 {
		token := r.token(fmt.Sprint("unknown", i))
		flood.Go(func() {
			if _, err := r.verify(t.Context(), token); !errors.Is(err, auth.ErrInvalid) {
				t.Error(err)
			}
		})
	}
	<-asked
	if _, err := r.verify(t.Context(), r.token("one")); err != nil {
		t.Errorf("a known key meanwhile: %v", err)
	}
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.verify(hurried, r.token("unknown")); !errors.Is(err, context.Canceled) {
		t.Errorf("who can't wait: %v", err)
	}
	close(answer)
	flood.Wait()
	r.expect(t, "after the flood", "unknown", auth.ErrInvalid, 2)
}

// A caller that cancels does not keep the new keys from the others.
func TestAFetchOutlivesItsCaller(t *testing.T) {
	r := newRotation(t, publicRSA("one"))
	caller, leave := context.WithCancel(t.Context())
	publish := *r.answer.Load()
	r.serve(func(w http.ResponseWriter, q *http.Request) { leave(); publish(w, q) })
	_, _ = r.verify(caller, r.token("one")) // the database may notice that the caller has canceled
	r.expect(t, "the next caller", "one", nil, 1)
}

func TestKeysThatCantBeUsed(t *testing.T) {
	key, ec := keyPairs()
	short, err1 := rsa.GenerateKey(rand.Reader, 1024)
	p384, err2 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	r := newRotation(t, publicRSA("other"),
		jose.JSONWebKey{Key: short.Public(), KeyID: "short"},
		jose.JSONWebKey{Key: p384.Public(), KeyID: "p384"},
		jose.JSONWebKey{Key: key.Public(), KeyID: "encrypts", Use: "enc"},
		jose.JSONWebKey{Key: key.Public(), KeyID: "rs512", Algorithm: "RS512"},
		jose.JSONWebKey{Key: key, KeyID: "private"},
		jose.JSONWebKey{Key: ec.Public(), KeyID: "ec"},
		jose.JSONWebKey{Key: []byte(strings.Repeat("k", 32)), KeyID: "symmetric"})
	for _, kid := range []string{"short", "p384", "encrypts", "rs512", "private", "ec", "symmetric"} {
		r.expect(t, kid, kid, auth.ErrInvalid, 1)
	}
	r.expect(t, "one that can", "other", nil, 1)
}

func TestUserTokensAreConfigured(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	keys := auth.NewKeySet("https://issuer.example/keys", http.DefaultClient, time.Now)
	for name, c := range map[string]auth.TokenConfig{
		"nothing": {}, "both": {Secret: hsSecret, Keys: keys, Issuer: iss}, "a short secret": {Secret: hsSecret[:31]}, "keys of nobody": {Keys: keys},
	} {
		if _, err := w.s.UserTokens(c, time.Now); err == nil || strings.Contains(err.Error(), hsSecret[:10]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The person that a token identifies, on each engine.
func TestWhoATokenStandsFor(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		c := newClock()
		one, both, sub := address("one"), address("both"), ids()
		first := w.join(t, w.Workspace, one, auth.Admin)
		second := w.join(t, w.Workspace, both, auth.Member)
		theirs := dbtest.NewWorkspace(t, w.DB)
		w.join(t, theirs, both, auth.Owner)
		iss := "https://" + ids()
		key, _ := keyPairs()
		issuer := newIssuer(t, publicRSA("rsa"))
		hs, err1 := w.s.UserTokens(auth.TokenConfig{Secret: hsSecret}, c.now)
		rs, err2 := w.s.UserTokens(auth.TokenConfig{Keys: auth.NewKeySet(issuer.URL, issuer.Client(), c.now), Issuer: iss}, c.now)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		for _, k := range []struct {
			name   string
			issuer bool // the token is the issuer's; otherwise it is signed with the shared secret
			claims object
			id     string
			n      int
		}{
			{"an id", false, object{"sub": first.ID}, first.ID, 1},
			{"an address", false, object{"sub": "x", "email": strings.ToUpper(one), "email_verified": true}, first.ID, 1},
			{"an id of another's, and an address", false, object{"sub": ids(), "email": one, "email_verified": true}, first.ID, 1},
			{"a person of two workspaces", false, object{"sub": second.ID}, second.ID, 2},
			{"an address not verified", false, object{"sub": "x", "email": one}, "", 0},
			{"a stranger's id", false, object{"sub": ids()}, "", 0},
			{"a subject nobody is tied to", true, object{"sub": sub}, "", 0},
			{"a subject with an address", true, object{"sub": sub, "email": one, "email_verified": true}, first.ID, 1},
			{"the subject from then on", true, object{"sub": sub}, first.ID, 1},
			{"the subject with another's address", true, object{"sub": sub, "email": both, "email_verified": true}, first.ID, 1},
			{"another subject with the address", true, object{"sub": sub + "2", "email": one, "email_verified": true}, "", 0},
			{"an id is no subject", true, object{"sub": first.ID}, "", 0},
		} {
			claims := k.claims.with(object{"iss": iss, "exp": c.now().Unix() + 60}).text()
			verify, token := hs, forge(`{"alg":"HS256"}`, claims, hs256([]byte(hsSecret)))
			if k.issuer {
				verify, token = rs, forge(`{"alg":"RS256","kid":"rsa"}`, claims, rs256(key))
			}
			p, err := verify(t.Context(), token)
			if p.ID != k.id || len(p.Memberships) != k.n || (k.id == "") != errors.Is(err, auth.ErrForbidden) {
				t.Errorf("%s: %+v, %v", k.name, p, err)
			}
		}
	})
}
