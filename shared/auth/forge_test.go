package auth_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

var b64 = base64.RawURLEncoding

// object is a JSON object. Use json.RawMessage for raw text.
type object map[string]any

// with returns a copy with changes. nil removes a member.
func (o object) with(changes object) object {
	out := maps.Clone(o)
	for name, v := range changes {
		if out[name] = v; v == nil {
			delete(out, name)
		}
	}
	return out
}

func (o object) text() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// add returns the object as text with one more member, in any spelling.
func (o object) add(member string) string {
	return strings.TrimSuffix(o.text(), "}") + "," + member + "}"
}

// signature signs the first two parts of a token.
type signature func([]byte) []byte

// forge makes a token of exactly this header and these claims.
func forge(header, claims string, sign signature) string {
	text := b64.EncodeToString([]byte(header)) + "." + b64.EncodeToString([]byte(claims))
	return text + "." + b64.EncodeToString(sign([]byte(text)))
}

func hmacOf(h func() hash.Hash, key []byte) signature {
	return func(text []byte) []byte {
		m := hmac.New(h, key)
		m.Write(text)
		return m.Sum(nil)
	}
}

func hs256(key []byte) signature { return hmacOf(sha256.New, key) }
func hs384(key []byte) signature { return hmacOf(sha512.New384, key) }
func unsigned([]byte) []byte     { return nil }

func rs256(key *rsa.PrivateKey) signature {
	return func(text []byte) []byte {
		sum := sha256.Sum256(text)
		sig, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		if err != nil {
			panic(err)
		}
		return sig
	}
}

func ps256(key *rsa.PrivateKey) signature {
	return func(text []byte) []byte {
		sum := sha256.Sum256(text)
		sig, err := rsa.SignPSS(rand.Reader, key, crypto.SHA256, sum[:], nil)
		if err != nil {
			panic(err)
		}
		return sig
	}
}

func es256(key *ecdsa.PrivateKey) signature {
	return func(text []byte) []byte {
		sum := sha256.Sum256(text)
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		if err != nil {
			panic(err)
		}
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
}

// keyPairs are generated once, because RSA is slow.
var keyPairs = sync.OnceValues(func() (*rsa.PrivateKey, *ecdsa.PrivateKey) {
	r, err1 := rsa.GenerateKey(rand.Reader, 2048)
	e, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err1, err2); err != nil {
		panic(err)
	}
	return r, e
})

// issuer serves a set of keys, which tests change.
type issuer struct {
	*httptest.Server
	answer  atomic.Pointer[http.HandlerFunc]
	fetches atomic.Int64
}

func newIssuer(t testing.TB, keys ...jose.JSONWebKey) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.fetches.Add(1)
		(*i.answer.Load())(w, r)
	}))
	t.Cleanup(i.Close)
	i.publish(keys...)
	return i
}

func (i *issuer) publish(keys ...jose.JSONWebKey) {
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		panic(err)
	}
	i.serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) })
}

func (i *issuer) serve(h http.HandlerFunc) { i.answer.Store(&h) }

func publicRSA(kid string) jose.JSONWebKey {
	r, _ := keyPairs()
	return jose.JSONWebKey{Key: r.Public(), KeyID: kid, Use: "sig", Algorithm: "RS256"}
}

func publicEC(kid string) jose.JSONWebKey {
	_, e := keyPairs()
	return jose.JSONWebKey{Key: e.Public(), KeyID: kid}
}

// clock stands still until it is moved.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(start.UnixNano())
	return c
}
func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

// gate is the whole authentication, with one principal of each kind.
type gate struct {
	*world
	*clock
	a      *auth.Authenticator
	h      http.Handler
	issuer *issuer

	theirs db.Workspace // of the same installation

	ada, bob auth.Person // ada is a member here; bob is a member of both workspaces
	sessions *auth.Sessions
	agents   auth.AgentTokens
	agent    string

	agentKeys map[db.Workspace][]byte
	gens      map[string]int
}

const (
	hsSecret   = "the secret of HS256, which has at least 32 bytes"
	adminToken = "the-admin-token-of-this-installation"
	iss        = "https://issuer.example"
	aud        = "lanekeeper"
)

func (g *gate) AgentKey(_ context.Context, ws db.Workspace) ([]byte, error) {
	if key, ok := g.agentKeys[ws]; ok {
		return key, nil
	}
	return nil, auth.ErrInvalid
}

func (g *gate) Generation(_ context.Context, ws db.Workspace, agent string) (int, error) {
	if n, ok := g.gens[string(ws)+agent]; ok {
		return n, nil
	}
	return 0, fmt.Errorf("no such agent: %w", db.ErrNoRows)
}

func newGate(t testing.TB) *gate {
	t.Helper()
	g := &gate{world: newWorld(t, dbtest.New(t, dbtest.OnSQLite)).withDefault(t), clock: newClock(), agent: ids()}
	g.theirs = dbtest.NewWorkspace(t, g.DB)
	g.ada = g.join(t, g.Workspace, "ada@example.com", auth.Owner)
	g.bob = g.join(t, g.Workspace, "bob@example.com", auth.Member)
	g.join(t, g.theirs, "bob@example.com", auth.Owner)
	g.join(t, g.theirs, "eve@example.com", auth.Owner)
	g.agentKeys = map[db.Workspace][]byte{g.Workspace: bytes.Repeat([]byte{1}, 32), g.theirs: bytes.Repeat([]byte{2}, 32)}
	g.gens = map[string]int{string(g.Workspace) + g.agent: 3}
	g.agents = auth.AgentTokens{Keys: g, Agents: g, Clock: g.now}
	g.issuer = newIssuer(t, publicRSA("rsa"), publicEC("ec"))

	hs, err1 := g.s.UserTokens(auth.TokenConfig{Secret: hsSecret, Issuer: iss, Audience: aud}, g.now)
	rs, err2 := g.s.UserTokens(auth.TokenConfig{Keys: auth.NewKeySet(g.issuer.URL, g.issuer.Client(), g.now), Issuer: iss, Audience: aud}, g.now)
	local, err3 := auth.AdminToken(adminToken)
	var err4 error
	g.sessions, err4 = g.s.NewSessions(signedWith("ours", g.now))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	g.a = auth.New(local, hs, rs, g.agents.Verify, g.s.VerifyKey).WithSessions(g.sessions)
	g.h = require(g.a, http.HandlerFunc(g.route), func(w http.ResponseWriter, _ *http.Request, err error) {
		t.Errorf("could not tell: %v", err)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	return g
}

// routes are the routes with requirements of their own. Any other path is an ordinary route.
var routes = map[string]auth.Access{
	"/":      {Least: auth.Member, Resource: "tasks"},
	"/admin": {Least: auth.Admin, Resource: "skills", Write: true},
	"/beat":  {Also: []auth.Kind{auth.Agent}},
	"/chat":  {Least: auth.Member, Resource: "chat", Write: true, Also: []auth.Kind{auth.Site}},
}

func (g *gate) route(w http.ResponseWriter, r *http.Request) {
	p, _ := auth.From(r.Context())
	if !p.Allows(routes[r.URL.Path]) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("Who", p.String()+" "+string(p.Role)+" "+string(p.Workspace))
}

// knock sends a request and returns the status.
func (g *gate) knock(r *http.Request) (status int, who string) {
	w := httptest.NewRecorder()
	g.h.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Who")
}

// bearer returns a request with a token.
func bearer(path, token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header["Authorization"] = []string{"Bearer " + token}
	return r
}

func reveal(t testing.TB, v secret.Value, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v.Reveal()
}
