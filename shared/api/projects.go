package api

import (
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/project"
)

// ProjectItem is a project. It holds the fields that a milestone has as well.
type ProjectItem struct {
	ID          string         `json:"id" format:"uuid"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Archived    bool           `json:"archived" doc:"It stays, and gets no new tasks"`
	ArchivedAt  *time.Time     `json:"archivedAt,omitempty"`
	Tasks       map[string]int `json:"tasks,omitempty" doc:"Only of a single one: how many of its tasks have which status"`
	CreatedBy   string         `json:"createdBy"`
	CreatedAt   time.Time      `json:"createdAt"`
	UpdatedAt   time.Time      `json:"updatedAt"`
}

// milestoneItem is a milestone of a project.
type milestoneItem struct {
	ProjectItem
	ProjectID string     `json:"projectId" format:"uuid"`
	DueAt     *time.Time `json:"dueAt,omitempty"`
}

func projectOf(i project.Item) ProjectItem {
	return ProjectItem{
		ID: i.ID, Name: i.Name, Description: i.Description, Archived: i.ArchivedAt != nil, ArchivedAt: utc(i.ArchivedAt), CreatedBy: i.CreatedBy,
		CreatedAt: i.CreatedAt.UTC(), UpdatedAt: i.UpdatedAt.UTC(),
	}
}

func milestoneOf(i project.Item) milestoneItem {
	return milestoneItem{projectOf(i), i.Project, utc(i.DueAt)}
}

// ProjectsInput narrows a listing of projects or milestones.
type ProjectsInput struct {
	Archived string `query:"archived" enum:"true,false" default:"false" doc:"true: those that are archived, instead of the others"`
	Paging
}

// listOf lists the items of a store, as the API shows them.
func listOf[T any](ctx context.Context, s *project.Store, in ProjectsInput, of string, show func(project.Item) T) (*answer[page[T]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.List(ctx, workspace(ctx), project.Filter{
		Archived: in.Archived == "true", Project: of, Before: before, Limit: in.Limit + 1,
	})
	if err != nil {
		return nil, err
	}
	found, more := db.Page(found, in.Limit)
	return newest(found, more, func(x project.Item) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} }, show), nil
}

// listProjects is called by the Engine Room, scripts and lanekeeper projects.
func (s *server) listProjects(ctx context.Context, in *ProjectsInput) (*answer[page[ProjectItem]], error) {
	return listOf(ctx, s.Projects, *in, "", projectOf)
}

// listMilestones is called by the Engine Room, scripts and lanekeeper milestones.
func (s *server) listMilestones(ctx context.Context, in *struct {
	ProjectsInput
	ProjectID string `query:"projectId" format:"uuid"`
}) (*answer[page[milestoneItem]], error) {
	return listOf(ctx, s.Milestones, in.ProjectsInput, in.ProjectID, milestoneOf)
}

// getProject is called by the Engine Room, scripts and lanekeeper projects.
func (s *server) getProject(ctx context.Context, in *IDPath) (*versioned[ProjectItem], error) {
	i, tasks, err := s.Projects.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	item := projectOf(i)
	item.Tasks = tasks
	return &versioned[ProjectItem]{tagOf(i.Version), item}, nil
}

// getMilestone is called by the Engine Room, scripts and lanekeeper milestones.
func (s *server) getMilestone(ctx context.Context, in *IDPath) (*versioned[milestoneItem], error) {
	i, tasks, err := s.Milestones.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	item := milestoneOf(i)
	item.Tasks = tasks
	return &versioned[milestoneItem]{tagOf(i.Version), item}, nil
}

func (s *server) createItem(ctx context.Context, of *project.Store, what string, i project.Item) (project.Item, error) {
	by, _ := auth.From(ctx)
	i.ID, i.CreatedBy = s.newID(ctx), principal(by)
	err := s.change(ctx, what, func(ctx context.Context, tx *db.Tx) (err error) {
		i, err = of.Create(ctx, tx, i)
		return err
	}, "id", &i.ID, "name", i.Name)
	return before(ctx, i, err, func(ctx context.Context, ws db.Workspace, id string) (project.Item, error) {
		i, _, err := of.Get(ctx, ws, id)
		return i, err
	})
}

// createProject is called by the Engine Room, scripts and lanekeeper projects.
func (s *server) createProject(ctx context.Context, in *struct {
	Body struct {
		Name        string `json:"name" minLength:"1" maxLength:"255"`
		Description string `json:"description,omitempty" maxLength:"16000"`
	}
}) (*createdAt[ProjectItem], error) {
	i, err := s.createItem(ctx, s.Projects, "project.create", project.Item{Name: in.Body.Name, Description: in.Body.Description})
	if err != nil {
		return nil, err
	}
	return &createdAt[ProjectItem]{"/api/v1/projects/" + i.ID, tagOf(i.Version), projectOf(i)}, nil
}

// createMilestone is called by the Engine Room, scripts and lanekeeper milestones.
func (s *server) createMilestone(ctx context.Context, in *struct {
	Body struct {
		ProjectID   string     `json:"projectId" format:"uuid"`
		Name        string     `json:"name" minLength:"1" maxLength:"255"`
		Description string     `json:"description,omitempty" maxLength:"16000"`
		DueAt       *time.Time `json:"dueAt,omitempty"`
	}
}) (*createdAt[milestoneItem], error) {
	i, err := s.createItem(ctx, s.Milestones, "milestone.create", project.Item{
		Project: in.Body.ProjectID, Name: in.Body.Name, Description: in.Body.Description, DueAt: in.Body.DueAt,
	})
	if err != nil {
		return nil, err
	}
	return &createdAt[milestoneItem]{"/api/v1/milestones/" + i.ID, tagOf(i.Version), milestoneOf(i)}, nil
}

// ProjectPatch is what may be changed of a project or a milestone.
type ProjectPatch struct {
	Name        *string `json:"name,omitempty" minLength:"1" maxLength:"255"`
	Description *string `json:"description,omitempty" maxLength:"16000"`
	Archived    *bool   `json:"archived,omitempty" doc:"true: it stays, and gets no new tasks; false: it is in use again"`
}

func (s *server) patchItem(ctx context.Context, of *project.Store, what, id string, match IfMatch,
	p project.Patch) (i project.Item, err error) {
	err = s.change(ctx, what, func(ctx context.Context, tx *db.Tx) (err error) {
		i, err = of.Patch(ctx, tx, id, func(i project.Item) error { return match.matches(i.Version) }, p)
		return err
	}, "id", id)
	return i, err
}

// patchProject is called by the Engine Room, scripts and lanekeeper projects.
func (s *server) patchProject(ctx context.Context, in *struct {
	IDPath
	IfMatch
	Body ProjectPatch
}) (*versioned[ProjectItem], error) {
	p := project.Patch{Name: in.Body.Name, Description: in.Body.Description, Archived: in.Body.Archived}
	i, err := s.patchItem(ctx, s.Projects, "project.update", in.ID, in.IfMatch, p)
	if err != nil {
		return nil, err
	}
	return &versioned[ProjectItem]{tagOf(i.Version), projectOf(i)}, nil
}

// patchMilestone is called by the Engine Room, scripts and lanekeeper milestones.
func (s *server) patchMilestone(ctx context.Context, in *struct {
	IDPath
	IfMatch
	Body struct {
		ProjectPatch
		DueAt optional[time.Time] `json:"dueAt,omitempty" doc:"Null: it has none"`
	}
}) (*versioned[milestoneItem], error) {
	b := in.Body
	p := project.Patch{Name: b.Name, Description: b.Description, Archived: b.Archived, DueAt: changedTime(b.DueAt)}
	i, err := s.patchItem(ctx, s.Milestones, "milestone.update", in.ID, in.IfMatch, p)
	if err != nil {
		return nil, err
	}
	return &versioned[milestoneItem]{tagOf(i.Version), milestoneOf(i)}, nil
}

func (s *server) deleteItem(ctx context.Context, of *project.Store, what, id string) (*struct{}, error) {
	return nil, s.change(ctx, what, func(ctx context.Context, tx *db.Tx) error { return of.Delete(ctx, tx, id) }, "id", id)
}

// deleteProject is called by the Engine Room, scripts and lanekeeper projects.
func (s *server) deleteProject(ctx context.Context, in *IDPath) (*struct{}, error) {
	return s.deleteItem(ctx, s.Projects, "project.delete", in.ID)
}

// deleteMilestone is called by the Engine Room, scripts and lanekeeper milestones.
func (s *server) deleteMilestone(ctx context.Context, in *IDPath) (*struct{}, error) {
	return s.deleteItem(ctx, s.Milestones, "milestone.delete", in.ID)
}
