package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	tenant "github.com/lanekeeper/lanekeeper/shared/workspace"
)

// workspaceItem is a tenant.
type workspaceItem struct {
	ID        db.Workspace     `json:"id"`
	Slug      string           `json:"slug"`
	Name      string           `json:"name"`
	Role      auth.Role        `json:"role,omitempty" doc:"The caller's"`
	Settings  map[string]int64 `json:"settings" doc:"All of them, with their defaults where none is set"`
	CreatedAt time.Time        `json:"createdAt"`
	UpdatedAt time.Time        `json:"updatedAt"`
}

func workspaceOf(w tenant.Workspace, role auth.Role) workspaceItem {
	return workspaceItem{
		ID: w.ID, Slug: w.Slug, Name: w.Name, Role: role, Settings: w.Settings.Values(), CreatedAt: w.CreatedAt.UTC(), UpdatedAt: w.UpdatedAt.UTC(),
	}
}

// listWorkspaces lists those that the caller belongs to. It is called by the Engine
// Room.
func (s *server) listWorkspaces(ctx context.Context, in *struct {
	Cursor string `query:"cursor" maxLength:"500"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*answer[page[workspaceItem]], error) {
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	by, _ := auth.From(ctx)
	roles := map[db.Workspace]auth.Role{by.Workspace: by.Role}
	ids := []db.Workspace{by.Workspace}
	for _, m := range by.Memberships {
		if _, known := roles[m.Workspace]; !known {
			ids = append(ids, m.Workspace)
		}
		roles[m.Workspace] = m.Role
	}
	found, err := s.Workspaces.List(ctx, ids)
	if err != nil {
		return nil, err
	}
	items, next := []workspaceItem{}, ""
	for _, w := range found { // by slug
		if w.Slug <= after.key {
			continue
		}
		if len(items) == in.Limit {
			next = cursor{time.UnixMicro(0), items[in.Limit-1].Slug}.String()
			break
		}
		items = append(items, workspaceOf(w, roles[w.ID]))
	}
	return listing(items, next), nil
}

// maxWorkspaces is to how many workspaces a person may belong who makes another: each
// has beats of its own.
const maxWorkspaces = 100

var fullOfWorkspaces = refusal(http.StatusConflict, "full", "you belong to as many workspaces as one may make")

// createWorkspace is called by POST /api/v1/workspaces.
func (s *server) createWorkspace(ctx context.Context, in *struct {
	Body struct {
		Slug  string `json:"slug" minLength:"1" maxLength:"63" doc:"Its name in addresses: lower-case letters, digits and -"`
		Name  string `json:"name" minLength:"1" maxLength:"255"`
		Owner string `json:"owner,omitempty" maxLength:"254" doc:"The e-mail address of its owner: the caller's, unless another is given. The local admin gives one"`
	}
}) (*creation[workspaceItem], error) {
	by, _ := auth.From(ctx)
	owner, role := in.Body.Owner, auth.Role("")
	if owner == "" || strings.EqualFold(owner, by.Email) {
		owner, role = by.Email, auth.Owner
	}
	switch {
	case owner == "": // the local admin is no member of a workspace
		return nil, invalid(FieldError{"body.owner", "expected an e-mail address"})
	case len(by.Memberships) >= maxWorkspaces:
		return nil, fullOfWorkspaces
	}
	var w tenant.Workspace
	err := s.changeIn(ctx, db.Workspace(s.IDs()), "workspaces.create", func(ctx context.Context, tx *db.Tx) (err error) {
		if w, err = s.Workspaces.Create(ctx, tx, in.Body.Slug, in.Body.Name); err != nil {
			return err
		}
		_, err = s.People.AddMember(ctx, tx, owner, "", auth.Owner, by)
		if wrong, ok := errors.AsType[*auth.FieldError](err); ok { // email, here by another name
			return invalid(FieldError{"body.owner", wrong.Problem})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &creation[workspaceItem]{Location: "/api/v1/workspaces/" + string(w.ID), Body: workspaceOf(w, role)}, nil
}

// WorkspacePath names a workspace: the request's own.
type WorkspacePath struct {
	ID string `path:"id" format:"uuid"`
}

// own reads the workspace that a path names; another than the request's is not there.
func (s *server) own(ctx context.Context, id string) (tenant.Workspace, auth.Role, error) {
	by, _ := auth.From(ctx)
	if string(by.Workspace) != id {
		return tenant.Workspace{}, "", notFound
	}
	w, err := s.Workspaces.Get(ctx, by.Workspace)
	return w, by.Role, err
}

// getWorkspace is called by the Engine Room and by scripts.
func (s *server) getWorkspace(ctx context.Context, in *WorkspacePath) (*versioned[workspaceItem], error) {
	w, role, err := s.own(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &versioned[workspaceItem]{tagOf(w.Version), workspaceOf(w, role)}, nil
}

// patchWorkspace is called by the Engine Room and by scripts.
func (s *server) patchWorkspace(ctx context.Context, in *struct {
	WorkspacePath
	IfMatch
	Body struct {
		Name     *string           `json:"name,omitempty" minLength:"1" maxLength:"255"`
		Settings map[string]*int64 `json:"settings,omitempty" doc:"Those to change; null is the default again"`
	}
}) (*versioned[workspaceItem], error) {
	w, role, err := s.own(ctx, in.ID)
	if err == nil {
		err = in.matches(w.Version)
	}
	if err != nil {
		return nil, err
	}
	err = s.change(ctx, "workspaces.update", func(ctx context.Context, tx *db.Tx) (err error) {
		w, err = s.Workspaces.Patch(ctx, tx, w, tenant.Patch{Name: in.Body.Name, Settings: in.Body.Settings})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &versioned[workspaceItem]{tagOf(w.Version), workspaceOf(w, role)}, nil
}
