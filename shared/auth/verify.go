package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

var (
	// ErrMissing says that a request carries no token.
	ErrMissing = errors.New("the bearer token is missing")
	// ErrInvalid says that a token belongs to nobody. Why is not said.
	ErrInvalid = errors.New("the bearer token is invalid")
	// ErrForbidden says that whoever sends the request does not belong where it goes.
	ErrForbidden = errors.New("you have no access to this workspace")
	// ErrWorkspace says that a request names several workspaces.
	ErrWorkspace = errors.New("name one workspace in the header X-Workspace-Id")
	// ErrOrigin says that a request comes from a page that may not send it.
	ErrOrigin = errors.New("this may not be asked for by a page of another origin")
	// ErrUnusable says that a configured token could not be sent as a bearer.
	ErrUnusable = errors.New("a token is 1 to 4096 visible ASCII characters")
)

// A Verifier knows one sort of token. A token that is not one of them is
// [ErrInvalid], a good one of somebody who has no access is [ErrForbidden]; any other
// error means that nothing is known of it. A person of several workspaces is
// answered without one: [Principal.In] chooses.
type Verifier func(ctx context.Context, token string) (Principal, error)

// AdminToken verifies the admin token of an installation: the owner of the
// default workspace.
func AdminToken(token string) (Verifier, error) {
	return localToken(token, workspace.Default)
}

// localToken keeps the hash only and compares in constant time.
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

// usable reports whether a bearer token can look like this.
func usable(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return false
		}
	}
	return token != "" && len(token) <= maxToken
}

// Authenticator tries its verifiers in turn. It is safe for concurrent use.
type Authenticator struct {
	verifiers []Verifier
	sessions  *Sessions
}

// New makes an authenticator. Without verifiers it knows nobody.
func New(verifiers ...Verifier) *Authenticator {
	return &Authenticator{verifiers: verifiers}
}

// WithSessions is the authenticator that also takes the session cookie of requests
// that carry no token.
func (a *Authenticator) WithSessions(s *Sessions) *Authenticator {
	return &Authenticator{verifiers: a.verifiers, sessions: s}
}

// Authenticate answers whose token it is. It is [ErrInvalid] when every verifier
// says so; when one of them could not tell and no other knew the token, it is
// that one's error. A person of several workspaces has none yet: see [Principal.In].
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
