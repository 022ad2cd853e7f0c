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

// ErrNoSessions says that there is no key to sign sessions with.
var ErrNoSessions = errors.New("there is nothing to sign sessions with")

const (
	sessionType = "lk-session+jwt"       // of a person's session
	localType   = "lk-local-session+jwt" // of the local admin's

	// SessionLife is how long a session lasts after its last use, accurate to the hour.
	SessionLife = 12 * time.Hour
	// maxSession is the longest life of a session.
	maxSession = 7 * 24 * time.Hour
	// renewAfter is the age after which a cookie is replaced.
	renewAfter = time.Hour
)

// sessionClaims are the claims of the cookie. They say who the person is, but not what the person
// may do.
type sessionClaims struct {
	Subject    string       `json:"sub"`
	Workspace  db.Workspace `json:"ws,omitempty"`
	Generation int64        `json:"gen"`
	SignedIn   int64        `json:"auth_time"`
	Issued     int64        `json:"iat"`
	Expires    int64        `json:"exp"`
}

// SessionConfig says how sessions are signed, and who may have one.
type SessionConfig struct {
	// Key returns the master key of the keys of sessions and links: at least 32 random bytes, the
	// same each time and in each process. It is called when it is first needed.
	Key func(context.Context) ([]byte, error)
	// AdminToken is the installation's token. If it is empty, the local admin has no sessions.
	// Changing it ends all sessions of the local admin.
	AdminToken string
	// Everywhere lists the workspaces of an installation whose local admin owns all of them. If it is nil, the
	// local admin has only the default workspace.
	Everywhere func(context.Context) ([]db.Workspace, error)
	// Secure says that the pages are served over https. Otherwise they are served on loopback, over
	// http, perhaps to a proxy that serves https.
	Secure bool
	Clock  func() time.Time
}

// Sessions signs people in to the web pages with a cookie. The admin token or a sign-in link is
// exchanged for it once. A cookie contains the session generation of its person. The generation is
// stored, and signing out increments it. The person's rights are looked up for each request. It is
// safe for concurrent use.
type Sessions struct {
	SessionConfig
	store *Store
	keys  atomic.Pointer[sessionKeys]
}

// sessionKeys sign sessions and links. local is nil if the local admin has no sessions.
type sessionKeys struct{ session, local, link []byte }

// NewSessions returns the sessions of the store's people.
func (s *Store) NewSessions(c SessionConfig) (*Sessions, error) {
	if c.Key == nil || c.Clock == nil {
		return nil, errors.New("sessions: a key and a clock are needed")
	}
	return &Sessions{SessionConfig: c, store: s}, nil
}

// derived returns the keys that are derived from the configured one. The key of the local admin's
// sessions is also derived from the admin token.
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

// Name returns the name of the cookie. A browser accepts the name with the prefix only over https,
// for this host and all of its paths.
func (s *Sessions) Name() string {
	if s.Secure {
		return "__Host-lanekeeper"
	}
	return "lanekeeper"
}

// Start returns the cookie that signs in a person or the local admin, to the principal's workspace.
// If p already has a session, the cookie continues it. Other principals have no sessions:
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

// End ends the session of p, and all other sessions of the same person or of the local admin. It
// returns a cookie that makes the browser delete the old one.
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

// verify returns the principal of a request's session, and the renewed cookie if it is time for
// one.
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

// read returns the kind of a cookie's session and its claims. The type of the token selects the
// key.
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

// principal returns the person of a session as of now. It refuses a session of an older generation.
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
		p = chosen // unless the person has left it
	}
	return p, nil
}

// present returns a person or the local admin as of now, with the session generation.
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
	if s.Everywhere == nil {
		return p, nil
	}
	return Everywhere(ctx, p, s.Everywhere)
}

// Everywhere returns the local admin as the owner of all of the listed workspaces.
func Everywhere(ctx context.Context, p Principal, list func(context.Context) ([]db.Workspace, error)) (Principal, error) {
	all, err := list(ctx)
	if err != nil {
		return Principal{}, fmt.Errorf("list the workspaces of the local admin: %w", err)
	}
	for _, ws := range all {
		p.Memberships = append(p.Memberships, Membership{Workspace: ws, Role: Owner})
	}
	return p, nil
}

// safe reports whether a method changes nothing.
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// SameOrigin reports whether a page of ours sent the request. Browsers say so in one or both of two
// headers. A request without both is not from a page.
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
	return origin[0] == "https://"+r.Host || !s.Secure && origin[0] == "http://"+r.Host // a proxy may serve https
}
