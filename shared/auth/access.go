package auth

import (
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// Scope limits what a key may do. Examples: "agent-tasks:read", "agent-tasks:write" (includes reading),
// "*:read", "*:write". "*" allows everything that the key's role allows.
type Scope string

var scopeShape = pattern.New(`^(\*|(\*|[a-z][a-z0-9-]{0,63}):(read|write))$`)

// covers reports whether the scope includes reading or writing a resource.
func (s Scope) covers(resource string, write bool) bool {
	if s == "*" {
		return true
	}
	what, how, _ := strings.Cut(string(s), ":")
	return (what == "*" || what == resource && resource != "") && (how == "write" || how == "read" && !write)
}

// Access is what a route requires of its caller.
type Access struct {
	Least    Role   // of people and keys; empty: neither may call it
	Resource string // what a key's scope must name
	Write    bool   // whether the key's scope must include writing
	Persons  bool   // only people and the local admin; no key, whatever its role
	Also     []Kind // Agent and Site, if they may call it
}

// Allows reports whether the principal meets the requirements of a. Agents and sites have no role:
// only Also admits them.
func (p Principal) Allows(a Access) bool {
	switch p.Kind {
	case Local, User:
		return p.Role.AtLeast(a.Least)
	case Key:
		return !a.Persons && p.Role.AtLeast(a.Least) &&
			slices.ContainsFunc(p.Scopes, func(s Scope) bool { return s.covers(a.Resource, a.Write) })
	case Agent, Site:
		return slices.Contains(a.Also, p.Kind)
	}
	return false
}
