package api

import (
	"context"
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
func (s *server) listWorkspaces(ctx context.Context, _ *struct{}) (*answer[page[workspaceItem]], error) {
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
	items := []workspaceItem{}
	for _, w := range found {
		items = append(items, workspaceOf(w, roles[w.ID]))
	}
	return listing(items, ""), nil
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
