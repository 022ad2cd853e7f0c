package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

var (
	// ErrMissing says that a request has no token.
	ErrMissing = errors.New("the bearer token is missing")
	// ErrInvalid says that a token is not valid. It does not say why.
	ErrInvalid = errors.New("the bearer token is invalid")
	// ErrForbidden says that the sender of the request does not belong to the workspace.
	ErrForbidden = errors.New("you have no access to this workspace")
	// ErrWorkspace says that a request names several workspaces.
	ErrWorkspace = errors.New("name one workspace in the header X-Workspace-Id")
	// ErrOrigin says that a page of another origin sent the request.
	ErrOrigin = errors.New("this may not be asked for by a page of another origin")
	// ErrSite is the [ErrOrigin] of a site key: the key does not name the origin of the page that
	// sends the request.
	ErrSite = fmt.Errorf("the site key does not name the origin of this page: %w", ErrOrigin)
	// ErrUnusable says that a configured token could not be sent as a bearer token.
	ErrUnusable = errors.New("a token is 1 to 4096 visible ASCII characters")
)

// A Verifier verifies one kind of token. It returns [ErrInvalid] for any other token, and
// [ErrForbidden] for a valid token of someone without access. Any other error means that the token
// could not be checked. A person with several workspaces is returned without one: [Principal.In]
// chooses it.
type Verifier func(ctx context.Context, token string) (Principal, error)

// AdminToken verifies the admin token of an installation. Its holder is the owner of the default
// workspace.
func AdminToken(token string) (Verifier, error) {
	return localToken(token, workspace.Default)
}

// localToken stores only the token's hash and compares it in constant time.
func localToken(token string, ws db.Workspace) (Verifier, error) {
	if len(token) > maxAdminToken || !usable(token) {
		return nil, ErrUnusable
	}
	want := sha256.Sum256([]byte(token))
	return func(_ context.Context, token string) (Principal, error) {
		got := sha256.Sum256([]byte(token))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return Principal{}, ErrInvalid
		}
		return local(ws), nil
	}, nil
}

func local(ws db.Workspace) Principal {
	return Principal{Workspace: ws, Kind: Local, ID: "admin", Role: Owner}
}

const (
	maxAdminToken = 4096
	maxToken      = 8 << 10
)

// usable reports whether a text can be a bearer token.
func usable(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return false
		}
	}
	return token != "" && len(token) <= maxToken
}

// Authenticator tries its verifiers in order. It is safe for concurrent use.
type Authenticator struct {
	verifiers []Verifier
	sessions  *Sessions
}

// New returns an authenticator. Without verifiers it refuses all tokens.
func New(verifiers ...Verifier) *Authenticator {
	return &Authenticator{verifiers: verifiers}
}

// WithSessions returns an authenticator that also accepts the session cookie of requests without a
// token.
func (a *Authenticator) WithSessions(s *Sessions) *Authenticator {
	return &Authenticator{verifiers: a.verifiers, sessions: s}
}

// Authenticate returns the principal of a token. It returns [ErrInvalid] if every verifier does. If
// one verifier failed and no other one accepted the token, it returns that failure. A person with
// several workspaces has none yet: see [Principal.In].
func (a *Authenticator) Authenticate(ctx context.Context, token string) (Principal, error) {
	if !usable(token) {
		return Principal{}, ErrInvalid
	}
	failure := ErrInvalid
	for _, verify := range a.verifiers {
		p, err := verify(ctx, token)
		switch {
		case err == nil, errors.Is(err, ErrForbidden):
			return p, err
		case !errors.Is(err, ErrInvalid):
			failure = err
		}
	}
	return Principal{}, failure
}
