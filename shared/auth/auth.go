// Package auth says who sends a request, and what each may do.
//
// A [Verifier] knows one sort of token: the admin token of an installation, a
// person's token from an issuer or signed with a shared secret, a program's key, an
// agent's token. An [Authenticator] asks them in turn, takes the session cookie of
// the pages where there is no token, and settles in which workspace the request
// takes place. What a route demands is an [Access].
//
// Tokens of ours are JSON web tokens of a type of their own, each signed with a key
// of its own, so that none passes for another.
package auth

import (
	"context"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Kind says what sort of caller a principal is.
type Kind string

// The kinds of callers.
const (
	Local Kind = "local" // whoever has the admin token of this installation
	User  Kind = "user"  // a person
	Agent Kind = "agent" // a registered agent
	Key   Kind = "key"   // a program with an API key
	Site  Kind = "site"  // the visitors of a web site
)

// Role says what a principal may do in its workspace. A role includes the rights
// of those below it.
type Role string

// The roles, highest first.
const (
	Owner  Role = "OWNER"
	Admin  Role = "ADMIN"
	Member Role = "MEMBER"
)

// rank is a role's place in the order; what is no role has none.
func (r Role) rank() int {
	switch r {
	case Owner:
		return 3
	case Admin:
		return 2
	case Member:
		return 1
	}
	return 0
}

// AtLeast reports whether r includes the rights of lowest. What is no role
// includes nothing and is included in nothing.
func (r Role) AtLeast(lowest Role) bool {
	return lowest.rank() > 0 && r.rank() >= lowest.rank()
}

// Principal is who sends a request.
type Principal struct {
	Workspace db.Workspace // empty before a person's is settled: see [Principal.In]
	Kind      Kind
	ID        string // of its kind
	Role      Role   // empty for agents and sites

	Email       string       // of a user
	Memberships []Membership // of a user, the oldest first
	SignedIn    time.Time    // when the session began that the request came with; zero: with none
	Generation  int64        // of a person's sessions, or the local admin's
	Scopes      []Scope      // of a key
	Origins     []string     // of a site: where its pages come from; none is any
}

// Membership is what a person is in a workspace.
type Membership struct {
	Workspace db.Workspace
	Role      Role
}

// String names the principal where it is noted who did something: "user:…".
func (p Principal) String() string { return string(p.Kind) + ":" + p.ID }

// In is the principal in the workspace that the request asks for, or where it asks
// for none, in the one that a session has chosen, or else that they have belonged to
// for longest: who makes somebody a member of another does not move them. It is
// [ErrForbidden] where the principal does not belong.
func (p Principal) In(asked string) (Principal, error) {
	asked = strings.ToLower(asked)
	if p.Workspace != "" && (asked == "" || asked == string(p.Workspace)) {
		return p, nil
	}
	for _, m := range p.Memberships {
		if asked == "" || asked == string(m.Workspace) {
			p.Workspace, p.Role = m.Workspace, m.Role
			return p, nil
		}
	}
	return Principal{}, ErrForbidden
}

type principalKey struct{}

// With returns a context whose work is done for p.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From returns for whom the work of ctx is done, and whether that is known.
func From(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}
