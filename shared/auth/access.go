package auth

import (
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// Scope narrows what a key may do: "tasks:read", "tasks:write" (which includes
// reading), "*:read", "*:write"; "*" is everything its role may.
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

// Access is what a route demands of who calls it.
type Access struct {
	Least    Role   // of people and keys; empty: none of them
	Resource string // what a key's scope must name
	Write    bool   // whether the key's scope must include writing
	Persons  bool   // people and the local admin only: no key, whatever its role
	Also     []Kind // Agent and Site, where they may call it
}

// Allows reports whether the principal may do what a demands. Agents and sites have
// no role: they reach only what names them.
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
