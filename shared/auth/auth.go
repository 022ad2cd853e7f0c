// Package auth authenticates the sender of a request and says what each sender may do.
//
// A [Verifier] knows one kind of token: the admin token of an installation, a person's token from
// an issuer or signed with a shared secret, a program's key, or an agent's token. An
// [Authenticator] tries them in order. Without a token, it takes the session cookie of the web
// pages. It also chooses the workspace of the request. An [Access] is what a route requires.
//
// Tokens that we create are JSON web tokens. Each kind has its own type and its own key, so that
// none is accepted as another.
package auth

import (
	"context"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Kind says what kind of caller a principal is.
type Kind string

// The kinds of callers.
const (
	Local Kind = "local" // the holder of the admin token of this installation
	User  Kind = "user"  // a person
	Agent Kind = "agent" // a registered agent
	Key   Kind = "key"   // a program with an API key
	Site  Kind = "site"  // the visitors of a web site
)

// Role says what a principal may do in its workspace. A role includes the rights of all lower
// roles.
type Role string

// The roles, highest first.
const (
	Owner  Role = "OWNER"
	Admin  Role = "ADMIN"
	Member Role = "MEMBER"
)

// rank returns a role's position in the order, or 0 for anything that is not a role.
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

// AtLeast reports whether r includes the rights of lowest. It returns false if either is not a
// role.
func (r Role) AtLeast(lowest Role) bool {
	return lowest.rank() > 0 && r.rank() >= lowest.rank()
}

// Principal is the sender of a request.
type Principal struct {
	Workspace db.Workspace // empty until a person's workspace is chosen: see [Principal.In]
	Kind      Kind
	ID        string // of its kind
	Role      Role   // empty for agents and sites

	Email       string       // of a user
	Memberships []Membership // of a user, the oldest first
	SignedIn    time.Time    // when the request's session began; zero without a session
	Generation  int64        // of a person's sessions, or the local admin's
	Scopes      []Scope      // of a key
	Origins     []string     // of a site: the origins that its pages may have; an empty list allows any
	Persona     string       // of a site: the persona that its visitors talk with; empty: visitor_chat
}

// Membership is a person's role in a workspace.
type Membership struct {
	Workspace db.Workspace
	Role      Role
}

// String returns the name of the principal for records, such as "user:…".
func (p Principal) String() string { return string(p.Kind) + ":" + p.ID }

// In returns the principal in the workspace that the request names. If it names none, In chooses
// the workspace of the session, or else the oldest membership. So a new membership does not move a
// person to another workspace. It returns [ErrForbidden] if the principal does not belong to the
// workspace.
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

// With returns a context of work that is done on behalf of p.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From returns the principal of ctx, and whether there is one.
func From(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}
