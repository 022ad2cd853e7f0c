// Package auth says who sends a request, and what each may do.
package auth

import (
	"context"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Kind says what sort of caller a principal is.
type Kind string

// Local is whoever has the admin token of this installation.
const Local Kind = "local"

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
	Workspace db.Workspace
	Kind      Kind
	ID        string // of its kind
	Role      Role
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
