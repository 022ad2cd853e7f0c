package auth_test

import (
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

func TestAllows(t *testing.T) {
	read := auth.Access{Least: auth.Member, Resource: "tasks"}
	write := auth.Access{Least: auth.Member, Resource: "tasks", Write: true}
	manage := auth.Access{Least: auth.Admin, Resource: "skills", Write: true}
	beat := auth.Access{Least: auth.Admin, Resource: "agents", Write: true, Also: []auth.Kind{auth.Agent}}
	chat := auth.Access{Least: auth.Member, Resource: "chat", Write: true, Also: []auth.Kind{auth.Site}}
	agentsOnly := auth.Access{Also: []auth.Kind{auth.Agent}}
	nobody := auth.Access{}
	persons := auth.Access{Least: auth.Member, Resource: "tasks", Write: true, Persons: true}
	all := []auth.Access{read, write, manage, beat, chat, agentsOnly, nobody, persons}
	key := func(role auth.Role, scopes ...auth.Scope) auth.Principal {
		return auth.Principal{Kind: auth.Key, Role: role, Scopes: scopes}
	}
	for _, c := range []struct {
		name string
		p    auth.Principal
		want [8]bool // of all principals
	}{
		{"an owner", auth.Principal{Kind: auth.User, Role: auth.Owner}, [8]bool{true, true, true, true, true, 7: true}},
		{"the local admin", auth.Principal{Kind: auth.Local, Role: auth.Owner}, [8]bool{true, true, true, true, true, 7: true}},
		{"a member", auth.Principal{Kind: auth.User, Role: auth.Member}, [8]bool{true, true, false, false, true, 7: true}},
		{"nobody", auth.Principal{}, [8]bool{}},
		{"a role without a kind", auth.Principal{Role: auth.Owner}, [8]bool{}},
		{"a made-up role", auth.Principal{Kind: auth.User, Role: "ROOT"}, [8]bool{}},
		{"an agent", auth.Principal{Kind: auth.Agent}, [8]bool{3: true, 5: true}},
		{"an agent that has a role", auth.Principal{Kind: auth.Agent, Role: auth.Owner}, [8]bool{3: true, 5: true}},
		{"a site", auth.Principal{Kind: auth.Site}, [8]bool{4: true}},
		{"a key for everything", key(auth.Owner, "*"), [8]bool{true, true, true, true, true}},
		{"a key without scopes", key(auth.Owner), [8]bool{}},
		{"a key without a role", key("", "*"), [8]bool{}},
		{"a member's key for everything", key(auth.Member, "*"), [8]bool{true, true, false, false, true}},
		{"a key that reads", key(auth.Owner, "*:read"), [8]bool{0: true}},
		{"a key that writes", key(auth.Admin, "*:write"), [8]bool{true, true, true, true, true}},
		{"a key that reads tasks", key(auth.Owner, "tasks:read"), [8]bool{0: true}},
		{"a key that writes tasks", key(auth.Owner, "tasks:write"), [8]bool{true, true}},
		{"a key for two things", key(auth.Owner, "tasks:read", "skills:write"), [8]bool{0: true, 2: true}},
		{"a scope that says nothing", key(auth.Owner, "tasks", ":write", "", "*:", "tasks:"), [8]bool{}},
	} {
		for i, a := range all {
			if got := c.p.Allows(a); got != c.want[i] {
				t.Errorf("%s: %+v is %v", c.name, a, got)
			}
		}
	}
}

func TestTheRequestChoosesAmongMemberships(t *testing.T) {
	const a, b, c db.Workspace = "00000000-0000-7000-8000-00000000000a", "00000000-0000-7000-8000-00000000000b", "00000000-0000-7000-8000-00000000000c"
	of := func(chosen db.Workspace, ms ...auth.Membership) auth.Principal {
		return auth.Principal{Kind: auth.User, ID: "x", Workspace: chosen, Memberships: ms}
	}
	inA, inB := auth.Membership{Workspace: a, Role: auth.Owner}, auth.Membership{Workspace: b, Role: auth.Member}
	for _, k := range []struct {
		name  string
		p     auth.Principal
		asked string
		ws    db.Workspace
		role  auth.Role
		err   error
	}{
		{"none", of(""), "", "", "", auth.ErrForbidden},
		{"none, asked", of(""), string(a), "", "", auth.ErrForbidden},
		{"one", of("", inA), "", a, auth.Owner, nil},
		{"one, asked", of("", inA), string(a), a, auth.Owner, nil},
		{"one, another asked", of("", inA), string(b), "", "", auth.ErrForbidden},
		{"two: the first", of("", inA, inB), "", a, auth.Owner, nil},
		{"two, asked", of("", inA, inB), string(b), b, auth.Member, nil},
		{"two, in capitals", of("", inA, inB), "00000000-0000-7000-8000-00000000000B", b, auth.Member, nil},
		{"two, a third asked", of("", inA, inB), string(c), "", "", auth.ErrForbidden},
		{"two, nonsense asked", of("", inA, inB), "default", "", "", auth.ErrForbidden},
		{"a session's choice", auth.Principal{Kind: auth.User, Workspace: a, Role: auth.Owner, Memberships: []auth.Membership{inA, inB}}, "", a, auth.Owner, nil},
		{"another than the session's", auth.Principal{Kind: auth.User, Workspace: a, Role: auth.Owner, Memberships: []auth.Membership{inA, inB}}, string(b), b, auth.Member, nil},
		{"an agent's", auth.Principal{Kind: auth.Agent, Workspace: a}, "", a, "", nil},
		{"another than an agent's", auth.Principal{Kind: auth.Agent, Workspace: a}, string(b), "", "", auth.ErrForbidden},
	} {
		got, err := k.p.In(k.asked)
		if !errors.Is(err, k.err) || got.Workspace != k.ws || got.Role != k.role {
			t.Errorf("%s: %+v, %v", k.name, got, err)
		}
	}
}
