package auth

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

const (
	sessionType = "lk-session+jwt"

	// SessionLife is how long a session lasts after its last use, to the hour.
	SessionLife = 12 * time.Hour
	// maxSession is how long it lasts in all.
	maxSession = 7 * 24 * time.Hour
	// renewAfter is how old a cookie is before it is replaced.
	renewAfter = time.Hour
)

// sessionClaims are what the cookie says: who it is, and not what they may do.
type sessionClaims struct {
	Kind      Kind         `json:"kind"`
	Subject   string       `json:"sub"`
	Workspace db.Workspace `json:"ws,omitempty"`
	SignedIn  int64        `json:"auth_time"`
	Issued    int64        `json:"iat"`
	Expires   int64        `json:"exp"`
}

// Sessions are what the pages are used with: a cookie, for which the admin token or a
// sign-in link is exchanged once. Nothing is kept of a session; what its person may do
// is looked up at each request. It is safe for concurrent use.
type Sessions struct {
	store            *Store
	clock            func() time.Time
	session, linkKey []byte
	secure           bool
}

// NewSessions makes sessions whose cookies and links are signed with keys derived from
// a secret. Who changes it ends them all: it should contain the admin token, for the
// sessions of the local admin end in no other way. secure says that the pages are
// served over https; otherwise, that is on loopback, over http.
func (s *Store) NewSessions(master string, secure bool, clock func() time.Time) (*Sessions, error) {
	if master == "" {
		return nil, errors.New("sessions: a secret to derive their keys from is needed")
	}
	session, err1 := hkdf.Key(sha256.New, []byte(master), nil, "lanekeeper "+sessionType, minKey)
	link, err2 := hkdf.Key(sha256.New, []byte(master), nil, "lanekeeper "+linkType, minKey)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("sessions: derive keys: %w", err)
	}
	return &Sessions{store: s, clock: clock, session: session, linkKey: link, secure: secure}, nil
}

// Name is the cookie's. A browser takes the one with the prefix only over https, for
// this host and all of its paths.
func (s *Sessions) Name() string {
	if s.secure {
		return "__Host-lanekeeper"
	}
	return "lanekeeper"
}

// Start is the cookie that signs a person or the local admin in, to the principal's
// workspace; of who has a session it goes on with that one. Others have no sessions:
// [ErrForbidden].
func (s *Sessions) Start(p Principal) (*http.Cookie, error) {
	if p.Kind != Local && p.Kind != User {
		return nil, ErrForbidden
	}
	if p.SignedIn.IsZero() {
		p.SignedIn = s.clock()
	}
	return s.cookie(p)
}

// End is the cookie that signs out.
func (s *Sessions) End() *http.Cookie {
	c := s.blank("")
	c.MaxAge = -1
	return c
}

func (s *Sessions) cookie(p Principal) (*http.Cookie, error) {
	now, signedIn := s.clock(), p.SignedIn.Unix()
	end := min(now.Add(SessionLife).Unix(), signedIn+int64(maxSession/time.Second))
	token, err := sign(s.session, sessionType, sessionClaims{p.Kind, p.ID, p.Workspace, signedIn, now.Unix(), end})
	if err != nil {
		return nil, fmt.Errorf("start a session: %w", err)
	}
	c := s.blank(token.Reveal())
	c.MaxAge = int(end - now.Unix())
	return c, nil
}

func (s *Sessions) blank(value string) *http.Cookie {
	return &http.Cookie{Name: s.Name(), Value: value, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteStrictMode}
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
	c, err := s.read(cookies[0].Value)
	if err != nil {
		return Principal{}, nil, err
	}
	if !safe(r.Method) && !s.SameOrigin(r) {
		return Principal{}, nil, ErrOrigin
	}
	p, err := s.principal(r.Context(), c)
	if err != nil {
		return Principal{}, nil, err
	}
	if s.clock().Sub(time.Unix(c.Issued, 0)) < renewAfter {
		return p, nil, nil
	}
	renewed, err := s.cookie(p)
	return p, renewed, err
}

func (s *Sessions) read(value string) (c sessionClaims, err error) {
	t, err := parseJWS(value)
	if err != nil || t.typ != sessionType || t.verify(jose.HS256, s.session) != nil || t.claims.timely(s.clock(), 0) != nil {
		return c, ErrInvalid
	}
	return c, t.read(&c)
}

// principal is who a session's person is now.
func (s *Sessions) principal(ctx context.Context, c sessionClaims) (Principal, error) {
	p := local(workspace.Default)
	if c.Kind != Local {
		var err error
		if p, _, err = s.store.person(ctx, who{id: c.Subject}); err != nil {
			return Principal{}, err
		}
	}
	p.SignedIn = time.Unix(c.SignedIn, 0)
	if chosen, err := p.In(string(c.Workspace)); err == nil {
		p = chosen // unless they have left it
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
	if s.secure {
		scheme = "https://"
	}
	return origin[0] == scheme+r.Host
}
