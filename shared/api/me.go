package api

import (
	"context"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	tenant "github.com/lanekeeper/lanekeeper/shared/workspace"
)

// meItem is the principal of a request.
type meItem struct {
	Kind        auth.Kind    `json:"kind"`
	ID          string       `json:"id"`
	Name        string       `json:"name,omitempty"`
	Email       string       `json:"email,omitempty"`
	Role        auth.Role    `json:"role,omitempty"`
	WorkspaceID db.Workspace `json:"workspaceId"`
	Scopes      []auth.Scope `json:"scopes,omitempty"`
	// Memberships lists a person's workspaces; nil for other principals.
	Memberships []membershipItem `json:"memberships,omitempty" doc:"Of a person: where they belong, the oldest first, which is where a request goes that names no workspace"`
	Workspaces  []myWorkspace    `json:"workspaces" nullable:"false" doc:"Those in which the caller may ask, by slug"`
	Permissions []string         `json:"permissions" nullable:"false" doc:"The ids of the operations that the caller may use in this workspace"`
	Cursor      string           `json:"cursor,omitempty" doc:"The position in the events before this answer: who follows them from here misses nothing that happens after it. Left out: it is not known now"`
}

// membershipItem is one workspace that a person may choose.
type membershipItem struct {
	WorkspaceID db.Workspace `json:"workspaceId"`
	Role        auth.Role    `json:"role" enum:"OWNER,ADMIN,MEMBER"`
}

// myWorkspace is a workspace in which the caller may ask.
type myWorkspace struct {
	ID   db.Workspace `json:"id"`
	Name string       `json:"name"`
	Slug string       `json:"slug"`
	Role auth.Role    `json:"role,omitempty"`
	Demo bool         `json:"demo,omitempty" doc:"It is the demo of the local runner"`
	// Script is the same in every workspace, because a process has one model.
	Script bool `json:"script,omitempty" doc:"Its agents ask the demo model, a script, and no language model"`
}

// meOf returns the fields that the principal itself holds.
func (s *server) meOf(p auth.Principal) meItem {
	item := meItem{
		Kind: p.Kind, ID: p.ID, Email: p.Email, Role: p.Role, WorkspaceID: p.Workspace, Scopes: p.Scopes,
		Workspaces: []myWorkspace{}, Permissions: []string{},
	}
	for _, m := range p.Memberships {
		item.Memberships = append(item.Memberships, membershipItem{m.Workspace, m.Role})
	}
	for _, rt := range s.table {
		if rt.least == public || p.Allows(rt.access()) || rt.front && p.Role.AtLeast(rt.least) {
			item.Permissions = append(item.Permissions, rt.id)
		}
	}
	return item
}

// introduce is meOf with the names of the person and the workspaces, and with the position in the events.
// Without the database they have none.
func (s *server) introduce(ctx context.Context, p auth.Principal) meItem {
	item := s.meOf(p)
	if at, err := s.Events.Now(ctx, p.Workspace); err != nil {
		s.Log.WarnContext(ctx, "could not read the position in the events", "error", err)
	} else {
		item.Cursor = at.String()
	}
	ids, roles := workspacesOf(p)
	found, err := s.Workspaces.List(ctx, ids)
	if err != nil {
		s.Log.WarnContext(ctx, "could not read the names of workspaces", "error", err)
		for _, id := range ids {
			item.Workspaces = append(item.Workspaces, myWorkspace{ID: id, Role: roles[id]})
		}
		return item
	}
	for _, w := range found {
		item.Workspaces = append(item.Workspaces, myWorkspace{
			ID: w.ID, Name: w.Name, Slug: w.Slug, Role: roles[w.ID], Demo: w.ID == tenant.Demo, Script: s.DemoModel,
		})
	}
	if p.Kind != auth.User {
		return item
	}
	person, err := s.People.Member(ctx, p.Workspace, p.ID)
	if err != nil && !errors.Is(err, auth.ErrNotFound) {
		s.Log.WarnContext(ctx, "could not read the name of a person", "error", err)
	}
	item.Name = person.Name
	return item
}

// me returns the caller's principal. It is called by GET /api/v1/me.
func (s *server) me(ctx context.Context, _ *struct{}) (*answer[meItem], error) {
	p, _ := auth.From(ctx)
	return answered(s.introduce(ctx, p)), nil
}
