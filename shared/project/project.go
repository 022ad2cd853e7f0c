// Package project stores projects and their milestones. Tasks and budgets belong to them.
package project

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/redact"
)

//go:embed *.sql
var files embed.FS

// Limits of names and descriptions, in characters.
const (
	MaxName        = 255
	MaxDescription = 16_000
)

var (
	// ErrTaken says that the workspace has a project of that name, or the project such a milestone.
	ErrTaken = errors.New("the name is taken: choose another one")
	// ErrChanged says that the row was changed, or deleted, after it was read.
	ErrChanged = errors.New("it has been changed meanwhile")
	// ErrNoProject says that the project of a milestone is not in the workspace.
	ErrNoProject = errors.New("the project that projectId names is not in this workspace")
)

// InUseError says what refers to a project or a milestone that was to be deleted.
type InUseError struct{ Milestones, Tasks, Budgets int }

func (e *InUseError) Error() string {
	var held []string
	for _, of := range []struct {
		n    int
		noun string
	}{{e.Milestones, "milestone"}, {e.Tasks, "task"}, {e.Budgets, "budget"}} {
		switch {
		case of.n == 1:
			held = append(held, "1 "+of.noun)
		case of.n > 1:
			held = append(held, fmt.Sprintf("%d %ss", of.n, of.noun))
		}
	}
	return "it has " + strings.Join(held, ", ") + ", which stay: archive it instead"
}

// Item is a project or a milestone.
type Item struct {
	ID          string
	Name        string
	Description string
	ArchivedAt  *time.Time // nil: new tasks may belong to it
	Version     int        // counts changes
	CreatedBy   string
	CreatedAt   time.Time
	UpdatedAt   time.Time

	// Of milestones only.
	Project string // its id
	DueAt   *time.Time
}

// statements are the queries of one kind of items.
type statements struct{ list, get, create, hold, patch, remove, counts, users db.Query }

// Store stores the projects of all workspaces, or the milestones.
type Store struct {
	db       *db.DB
	q        statements
	projects *Store // of a store of milestones
	ids      func() string
}

// New returns a store of projects and one of milestones. ids returns time-ordered ids.
func New(d *db.DB, ids func() string) (projects, milestones *Store, err error) {
	var q struct {
		Projects, GetProject, CreateProject, HoldProject, PatchProject, DeleteProject, ProjectTasks, ProjectUsers                 db.Query
		Milestones, GetMilestone, CreateMilestone, HoldMilestone, PatchMilestone, DeleteMilestone, MilestoneTasks, MilestoneUsers db.Query
	}
	if err := db.Load(files, &q); err != nil {
		return nil, nil, fmt.Errorf("project: %w", err)
	}
	projects = &Store{db: d, ids: ids, q: statements{
		q.Projects, q.GetProject, q.CreateProject, q.HoldProject, q.PatchProject, q.DeleteProject, q.ProjectTasks, q.ProjectUsers,
	}}
	milestones = &Store{db: d, ids: ids, projects: projects, q: statements{
		q.Milestones, q.GetMilestone, q.CreateMilestone, q.HoldMilestone, q.PatchMilestone, q.DeleteMilestone, q.MilestoneTasks, q.MilestoneUsers,
	}}
	return projects, milestones, nil
}

func collect(into *[]Item) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, i *Item) error {
		return scan(&i.ID, &i.Name, &i.Description, &i.ArchivedAt, &i.Version, &i.CreatedBy, &i.CreatedAt, &i.UpdatedAt,
			db.Optional(&i.Project), &i.DueAt)
	})
}

// Get reads an item, and counts its tasks by their status. It returns [db.ErrNoRows] if there is none.
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Item, map[string]int, error) {
	var b db.Batch
	var found []Item
	tasks := map[string]int{}
	b.Each(collect(&found), s.q.get, id)
	b.Each(db.Put(tasks, func(scan db.Scan, status *string, n *int) error { return scan(status, n) }), s.q.counts, id)
	err := s.db.Read(ctx, ws, &b)
	if err == nil && len(found) == 0 {
		err = db.ErrNoRows
	}
	if err != nil {
		return Item{}, nil, fmt.Errorf("read a project or a milestone: %w", err)
	}
	return found[0], tasks, nil
}

// Filter narrows a listing.
type Filter struct {
	Archived bool   // lists archived items instead of those in use
	Project  string // of milestones; empty: of all projects
	Before   db.Position
	Limit    int
}

// List reads items, newest first.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) ([]Item, error) {
	args := append(f.Before.Args(f.Archived), f.Limit)
	if s.projects != nil {
		args = append(args, db.Null(f.Project))
	}
	var found []Item
	if err := s.db.Each(ctx, ws, collect(&found), s.q.list, args...); err != nil {
		return nil, fmt.Errorf("list projects or milestones: %w", err)
	}
	return found, nil
}

// check normalizes what a caller says of an item, and validates it.
func (i *Item) check(ctx context.Context) error {
	bad := &problem.InvalidError{}
	for _, f := range []struct {
		name              string
		text              *string
		shortest, longest int
	}{{"name", &i.Name, 1, MaxName}, {"description", &i.Description, 0, MaxDescription}} {
		*f.text = redact.From(ctx).Values().Text(strings.TrimSpace(activity.Text(*f.text)))
		n := utf8.RuneCountInString(*f.text)
		bad.If(n < f.shortest || n > f.longest, f.name, fmt.Sprintf("must have %d to %d characters", f.shortest, f.longest))
	}
	bad.If(!problem.Storable(i.DueAt), "dueAt", problem.BadTime)
	return bad.OrNil()
}
