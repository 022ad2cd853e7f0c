package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	tenant "github.com/lanekeeper/lanekeeper/shared/workspace"
)

// workspaceItem is a workspace, the unit of tenancy.
type workspaceItem struct {
	ID        db.Workspace      `json:"id"`
	Slug      string            `json:"slug"`
	Name      string            `json:"name"`
	Role      auth.Role         `json:"role,omitempty" doc:"The caller's"`
	Settings  workspaceSettings `json:"settings" doc:"All of them, with their defaults where none is set"`
	CreatedAt time.Time         `json:"createdAt"`
	UpdatedAt time.Time         `json:"updatedAt"`
}

func workspaceOf(w tenant.Workspace, role auth.Role) workspaceItem {
	return workspaceItem{
		ID: w.ID, Slug: w.Slug, Name: w.Name, Role: role, Settings: settingsOf(w), CreatedAt: w.CreatedAt.UTC(), UpdatedAt: w.UpdatedAt.UTC(),
	}
}

// listWorkspaces lists the workspaces that the caller belongs to, by slug. It is called by the
// Engine Room.
func (s *server) listWorkspaces(ctx context.Context, in *struct {
	Cursor string `query:"cursor" maxLength:"500"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*answer[page[workspaceItem]], error) {
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	by, _ := auth.From(ctx)
	ids, roles := workspacesOf(by)
	found, err := s.Workspaces.List(ctx, ids)
	if err != nil {
		return nil, err
	}
	items, next := []workspaceItem{}, ""
	for _, w := range found { // sorted by slug
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

// workspacesOf returns the workspaces in which a principal may ask, with its roles there.
func workspacesOf(by auth.Principal) ([]db.Workspace, map[db.Workspace]auth.Role) {
	roles := map[db.Workspace]auth.Role{by.Workspace: by.Role}
	ids := []db.Workspace{by.Workspace}
	for _, m := range by.Memberships {
		if _, known := roles[m.Workspace]; !known {
			ids = append(ids, m.Workspace)
		}
		roles[m.Workspace] = m.Role
	}
	return ids, roles
}

// maxWorkspaces is how many workspaces one person may create. The number is limited because each
// workspace has heartbeats of its own.
const maxWorkspaces = 100

var fullOfWorkspaces = problem.New(http.StatusConflict, "full", "you have made as many workspaces as one may")

// createWorkspace creates a workspace with its first owner. The caller must be an admin of the
// request's workspace already, because the owner of a workspace spends what the installation pays
// for. It is called by POST /api/v1/workspaces.
func (s *server) createWorkspace(ctx context.Context, in *struct {
	Body struct {
		Slug  string `json:"slug" minLength:"1" maxLength:"63" doc:"Its name in addresses: lower-case letters, digits and -"`
		Name  string `json:"name" minLength:"1" maxLength:"255"`
		Owner string `json:"owner,omitempty" maxLength:"254" doc:"The e-mail address of its owner, which the local admin gives; otherwise it is the caller's"`
	}
}) (*createdAt[workspaceItem], error) {
	by, _ := auth.From(ctx)
	owner, role := in.Body.Owner, auth.Role("")
	if owner == "" || strings.EqualFold(owner, by.Email) {
		owner, role = by.Email, auth.Owner
	}
	switch {
	case owner == "": // the local admin is not a member of any workspace
		return nil, invalid(problem.At("body.owner", "expected an e-mail address: the local admin names the owner"))
	case role == "" && by.Kind != auth.Local:
		return nil, invalid(problem.At("body.owner", "only the local admin names another: add other owners afterwards"))
	}
	var w tenant.Workspace
	var p auth.Person
	err := s.changeIn(ctx, db.Workspace(s.newID(ctx)), "", "workspace.create", func(ctx context.Context, tx *db.Tx) (err error) {
		made, err := s.Workspaces.CountMade(ctx, tx, by.String())
		if err != nil {
			return err
		}
		if made >= maxWorkspaces && by.Kind != auth.Local {
			return fullOfWorkspaces
		}
		if w, err = s.Workspaces.Create(ctx, tx, in.Body.Slug, in.Body.Name, by.String()); err != nil {
			return err
		}
		p, err = s.People.AddMember(ctx, tx, owner, "", auth.Owner, by)
		if wrong, ok := errors.AsType[*auth.FieldError](err); ok { // the field is named email there and owner here
			return invalid(problem.At("body.owner", wrong.Problem))
		}
		return err
	}, "slug", in.Body.Slug, "name", in.Body.Name, "owner", &p.ID)
	w, err = before(ctx, w, err, func(ctx context.Context, _ db.Workspace, id string) (tenant.Workspace, error) {
		return s.Workspaces.Get(ctx, db.Workspace(id))
	})
	if err != nil {
		return nil, err
	}
	return &createdAt[workspaceItem]{"/api/v1/workspaces/" + string(w.ID), tagOf(w.Version), workspaceOf(w, role)}, nil
}

// WorkspacePath names a workspace in which the request takes place: see package auth. A workspace
// that the caller does not belong to does not exist for the caller.
type WorkspacePath struct {
	ID string `path:"workspaceId" format:"uuid"`
}

// own reads the workspace that a path names.
func (s *server) own(ctx context.Context, id string) (tenant.Workspace, auth.Role, error) {
	by, _ := auth.From(ctx)
	if !strings.EqualFold(string(by.Workspace), id) {
		return tenant.Workspace{}, "", notFound
	}
	w, err := s.Workspaces.Get(ctx, by.Workspace)
	return w, by.Role, err
}

// getWorkspace returns a workspace. It is called by the Engine Room and by scripts.
func (s *server) getWorkspace(ctx context.Context, in *WorkspacePath) (*versioned[workspaceItem], error) {
	w, role, err := s.own(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &versioned[workspaceItem]{tagOf(w.Version), workspaceOf(w, role)}, nil
}

// patchWorkspace changes the name and the given settings of a workspace. It is called by the Engine
// Room and by scripts.
func (s *server) patchWorkspace(ctx context.Context, in *struct {
	WorkspacePath
	IfMatch
	Body struct {
		Name     *string        `json:"name,omitempty" minLength:"1" maxLength:"255"`
		Settings *settingsPatch `json:"settings,omitempty" doc:"Those to change; null is the default again"`
	}
}) (*versioned[workspaceItem], error) {
	w, role, err := s.own(ctx, in.ID)
	if err == nil {
		err = in.matches(w.Version)
	}
	if err != nil {
		return nil, err
	}
	change := tenant.Patch{Name: in.Body.Name}
	if in.Body.Settings != nil {
		if err := s.notifiable(in.Body.Settings.notifications); err != nil {
			return nil, err
		}
		change.Settings, change.Notifications = in.Body.Settings.values, in.Body.Settings.notifications
	}
	was := w.Settings
	err = s.change(ctx, "workspace.update", func(ctx context.Context, tx *db.Tx) (err error) {
		w, err = s.Workspaces.Patch(ctx, tx, w, change)
		if is := w.Settings; err == nil && (is.DayTokens != was.DayTokens || is.DayMicroUSD != was.DayMicroUSD) {
			s.Budgets.AllocateDays(tx.Later(), is.DayTokens, is.DayMicroUSD) // the day of the beats has begun
		}
		return err
	}, "name", in.Body.Name, "settings", change.Settings, "notifications", change.Notifications)
	if err != nil {
		return nil, err
	}
	return &versioned[workspaceItem]{tagOf(w.Version), workspaceOf(w, role)}, nil
}

// erasedFor is how long a deletion's request deletes rows. The tending deletes the rest.
const erasedFor = 10 * time.Second

// deleteWorkspace deletes a workspace with all its data. Nobody can use it from the answer on; the rows of
// a large one are deleted in the minutes that follow. Its activities are deleted too, so only
// the log records the deletion. It is called by the Engine Room and by scripts.
func (s *server) deleteWorkspace(ctx context.Context, in *WorkspacePath) (*struct{}, error) {
	by, _ := auth.From(ctx)
	w, _, err := s.own(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, w.ID, func(ctx context.Context, tx *db.Tx) error { return s.Workspaces.Close(ctx, tx, w) })
	if err != nil {
		return nil, err
	}
	s.Log.WarnContext(ctx, "a workspace was deleted", "workspace_id", w.ID, "slug", w.Slug, "by", by.String())
	ctx, cancel := context.WithTimeout(ctx, erasedFor)
	defer cancel()
	if err := s.Workspaces.Erase(ctx, w.ID); err != nil {
		s.Log.ErrorContext(ctx, "the rest of a deleted workspace is deleted later", "error", err)
	}
	return nil, nil
}
