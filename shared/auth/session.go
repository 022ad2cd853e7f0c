package auth

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// ErrNoSessions says that there is nothing to sign sessions with.
var ErrNoSessions = errors.New("there is nothing to sign sessions with")

const (
	sessionType = "lk-session+jwt"       // of a person's session
	localType   = "lk-local-session+jwt" // of the local admin's

	// SessionLife is how long a session lasts after its last use, to the hour.
	SessionLife = 12 * time.Hour
	// maxSession is how long it lasts in all.
	maxSession = 7 * 24 * time.Hour
	// renewAfter is how old a cookie is before it is replaced.
	renewAfter = time.Hour
)

// sessionClaims are what the cookie says: who it is, and not what they may do.
type sessionClaims struct {
	Subject    string       `json:"sub"`
	Workspace  db.Workspace `json:"ws,omitempty"`
	Generation int64        `json:"gen"`
	SignedIn   int64        `json:"auth_time"`
	Issued     int64        `json:"iat"`
	Expires    int64        `json:"exp"`
}

// SessionConfig says how sessions are signed, and for whom there are any.
type SessionConfig struct {
	// Key answers what the keys of sessions and links are derived from: at least 32 random
	// bytes, the same each time and in each process. It is asked when first needed.
	Key func(context.Context) ([]byte, error)
	// AdminToken is the installation's; empty: the local admin has no sessions. A change
	// ends all of them.
	AdminToken string
	// Secure says that the pages are served over https; otherwise, on loopback, over http.
	Secure bool
	Clock  func() time.Time
}

// Sessions are what the pages are used with: a cookie, for which the admin token or a
// sign-in link is exchanged once. A cookie names the session generation of its person,
// which is kept, and which signing out raises; what the person may do is looked up at
// each request. It is safe for concurrent use.
type Sessions struct {
	SessionConfig
	store *Store
	keys  atomic.Pointer[sessionKeys]
}

// sessionKeys sign sessions and links; local is nil where the local admin has no sessions.
type sessionKeys struct{ session, local, link []byte }

// NewSessions makes sessions of the people of the store.
func (s *Store) NewSessions(c SessionConfig) (*Sessions, error) {
	if c.Key == nil || c.Clock == nil {
		return nil, errors.New("sessions: a key and a clock are needed")
	}
	return &Sessions{SessionConfig: c, store: s}, nil
}

// derived are the keys, derived from the configured one. Those of the local admin's sessions
// are derived from the admin token too.
func (s *Sessions) derived(ctx context.Context) (*sessionKeys, error) {
	if k := s.keys.Load(); k != nil {
		return k, nil
	}
	master, err := s.Key(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the key of sessions: %w", err)
	}
	if len(master) < minKey {
		return nil, fmt.Errorf("read the key of sessions: %w", errShortKey)
	}
	k := new(sessionKeys)
	var err1, err2, err3 error
	k.session, err1 = hkdf.Key(sha256.New, master, nil, "lanekeeper "+sessionType, minKey)
	k.link, err2 = hkdf.Key(sha256.New, master, nil, "lanekeeper "+linkType, minKey)
	if s.AdminToken != "" {
		k.local, err3 = hkdf.Key(sha256.New, master, []byte(s.AdminToken), "lanekeeper "+localType, minKey)
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("derive the keys of sessions: %w", err)
	}
	s.keys.Store(k)
	return k, nil
}

// Name is the cookie's. A browser takes the one with the prefix only over https, for
// this host and all of its paths.
func (s *Sessions) Name() string {
	if s.Secure {
		return "__Host-lanekeeper"
	}
	return "lanekeeper"
}

// Start is the cookie that signs a person or the local admin in, to the principal's
// workspace; of who has a session it goes on with that one. Others have no sessions:
// [ErrForbidden].
func (s *Sessions) Start(ctx context.Context, p Principal) (*http.Cookie, error) {
	if p.Kind != User && (p.Kind != Local || s.AdminToken == "") {
		return nil, ErrForbidden
	}
	if p.SignedIn.IsZero() {
		present, err := s.present(ctx, p.Kind, p.ID)
		if err != nil {
			return nil, fmt.Errorf("start a session: %w", err)
		}
		p.SignedIn, p.Generation = s.Clock(), present.Generation
	}
	return s.cookie(ctx, p)
}

// End ends the session that p came with, and all others of the same person or of the local
// admin, and answers the cookie that has a browser forget it.
func (s *Sessions) End(ctx context.Context, p Principal) (*http.Cookie, error) {
	if !p.SignedIn.IsZero() {
		if err := s.store.endSessions(ctx, p); err != nil {
			return nil, fmt.Errorf("end the sessions of %s: %w", p, err)
		}
	}
	c := s.blank("")
	c.MaxAge = -1
	return c, nil
}

func (s *Sessions) cookie(ctx context.Context, p Principal) (*http.Cookie, error) {
	keys, err := s.derived(ctx)
	if err != nil {
		return nil, err
	}
	key, typ := keys.session, sessionType
	if p.Kind == Local {
		key, typ = keys.local, localType
	}
	now, signedIn := s.Clock(), p.SignedIn.Unix()
	end := min(now.Add(SessionLife).Unix(), signedIn+int64(maxSession/time.Second))
	token, err := sign(key, typ, sessionClaims{
		Subject: p.ID, Workspace: p.Workspace, Generation: p.Generation, SignedIn: signedIn, Issued: now.Unix(), Expires: end,
	})
	if err != nil {
		return nil, fmt.Errorf("start a session: %w", err)
	}
	c := s.blank(token.Reveal())
	c.MaxAge = int(end - now.Unix())
	return c, nil
}

func (s *Sessions) blank(value string) *http.Cookie {
	return &http.Cookie{Name: s.Name(), Value: value, Path: "/", HttpOnly: true, Secure: s.Secure, SameSite: http.SameSiteStrictMode}
}

// verify is whose session a request belongs to, and the cookie that goes on with it
// where it is time for one.
func (s *Sessions) verify(r *http.Request) (Principal, *http.Cookie, error) {
	cookies := r.CookiesNamed(s.Name())
	if len(cookies) == 0 {
		return Principal{}, nil, ErrMissing
	}
	if len(cookies) > 1 { // one of them is not ours
		return Principal{}, nil, ErrInvalid
	}
	kind, c, err := s.read(r.Context(), cookies[0].Value)
	if err != nil {
		return Principal{}, nil, err
	}
	if !safe(r.Method) && !s.SameOrigin(r) {
		return Principal{}, nil, ErrOrigin
	}
	p, err := s.principal(r.Context(), kind, c)
	if err != nil {
		return Principal{}, nil, err
	}
	if s.Clock().Sub(time.Unix(c.Issued, 0)) < renewAfter {
		return p, nil, nil
	}
	renewed, err := s.cookie(r.Context(), p)
	return p, renewed, err
}

// read is whose session a cookie is, and what it says. The type of its token names the key.
func (s *Sessions) read(ctx context.Context, value string) (kind Kind, c sessionClaims, err error) {
	t, err := parseJWS(value)
	if err != nil || t.typ != sessionType && t.typ != localType {
		return "", c, ErrInvalid
	}
	keys, err := s.derived(ctx)
	if errors.Is(err, ErrNoSessions) {
		return "", c, ErrInvalid
	}
	if err != nil {
		return "", c, err
	}
	kind, key := User, keys.session
	if t.typ == localType {
		kind, key = Local, keys.local
	}
	if key == nil || t.verify(jose.HS256, key) != nil || t.claims.timely(s.Clock(), 0) != nil {
		return "", c, ErrInvalid
	}
	return kind, c, t.read(&c)
}

// principal is who a session's person is now. A session of an older generation has ended.
func (s *Sessions) principal(ctx context.Context, kind Kind, c sessionClaims) (Principal, error) {
	p, err := s.present(ctx, kind, c.Subject)
	if err != nil {
		return Principal{}, err
	}
	if p.Generation != c.Generation {
		return Principal{}, ErrInvalid
	}
	p.SignedIn = time.Unix(c.SignedIn, 0)
	if chosen, err := p.In(string(c.Workspace)); err == nil {
		p = chosen // unless they have left it
	}
	return p, nil
}

// present is a person or the local admin as they are now, with their session generation.
func (s *Sessions) present(ctx context.Context, kind Kind, id string) (Principal, error) {
	if kind == User {
		p, _, err := s.store.person(ctx, who{id: id})
		return p, err
	}
	p := local(workspace.Default)
	err := s.store.db.One(ctx, p.Workspace, []any{&p.Generation}, s.store.q.LocalGeneration)
	if err != nil {
		return Principal{}, fmt.Errorf("read the session generation of the local admin: %w", err)
	}
	return p, nil
}

// safe reports whether a method changes nothing.
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// SameOrigin reports whether a request was made by a page of ours. Browsers say so in
// one header or both; what says nothing is no page.
func (s *Sessions) SameOrigin(r *http.Request) bool {
	site, origin := r.Header.Values("Sec-Fetch-Site"), r.Header.Values("Origin")
	if len(site) > 1 || len(origin) > 1 || len(site)+len(origin) == 0 {
		return false
	}
	if len(site) == 1 && site[0] != "same-origin" {
		return false
	}
	if len(origin) == 0 {
		return true
	}
	scheme := "http://"
	if s.Secure {
		scheme = "https://"
	}
	return origin[0] == scheme+r.Host
}
