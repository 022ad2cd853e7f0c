package project_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/project"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine with its projects, milestones and tasks.
type world struct {
	dbtest.Env
	projects, milestones *project.Store
	tasks                *task.Store
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		w := world{Env: e}
		ids := func() string { return uuid.Must(uuid.NewV7()).String() }
		var err1, err2 error
		w.projects, w.milestones, err1 = project.New(e.DB, ids)
		w.tasks, err2 = task.New(e.DB, ids, func() float64 { return 0.5 })
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		fn(t, w)
	})
}

// change runs fn in a transaction.
func (w world) change(t testing.TB, fn func(context.Context, *db.Tx) (project.Item, error)) (i project.Item, err error) {
	t.Helper()
	err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		i, err = fn(ctx, tx)
		return err
	})
	return i, err
}

func (w world) create(t testing.TB, of *project.Store, i project.Item) (project.Item, error) {
	t.Helper()
	i.CreatedBy = "user:ada"
	return w.change(t, func(ctx context.Context, tx *db.Tx) (project.Item, error) { return of.Create(ctx, tx, i) })
}

func (w world) patch(t testing.TB, of *project.Store, id string, p project.Patch) (project.Item, error) {
	t.Helper()
	return w.change(t, func(ctx context.Context, tx *db.Tx) (project.Item, error) {
		return of.Patch(ctx, tx, id, func(project.Item) error { return nil }, p)
	})
}

func (w world) remove(t testing.TB, of *project.Store, id string) error {
	t.Helper()
	return w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error { return of.Delete(ctx, tx, id) })
}

// task creates a task of a project and a milestone.
func (w world) task(t testing.TB, in, milestone string) (is task.Task, err error) {
	t.Helper()
	err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		is, err = w.tasks.Create(ctx, tx, task.Task{
			Title: "x", Priority: task.DefaultPriority, BackoffSeconds: task.DefaultBackoff, CreatedBy: "user:ada", Project: in, Milestone: milestone,
		})
		return err
	})
	return is, err
}

func names(items []project.Item) (out []string) {
	for _, i := range items {
		out = append(out, i.Name)
	}
	return out
}

func field(err error) string {
	wrong, ok := errors.AsType[*problem.InvalidError](err)
	if !ok {
		return ""
	}
	return wrong.Fields[0].Field
}

func TestProjectsAndMilestones(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		shop, err := w.create(t, w.projects, project.Item{Name: " The shop\x00 ", Description: "sells ice"})
		if err != nil || shop.Name != "The shop\ufffd" || shop.Version != 1 || shop.ArchivedAt != nil {
			t.Fatalf("%+v, %v", shop, err)
		}
		due := time.Date(2030, 5, 1, 9, 0, 0, 0, time.UTC)
		opening, err := w.create(t, w.milestones, project.Item{Name: "It opens", Project: shop.ID, DueAt: &due})
		if err != nil || opening.Project != shop.ID || !opening.DueAt.Equal(due) {
			t.Fatalf("%+v, %v", opening, err)
		}
		if _, err := w.create(t, w.projects, project.Item{Name: shop.Name}); !errors.Is(err, project.ErrTaken) {
			t.Errorf("the same name again: %v", err)
		}
		if _, err := w.create(t, w.milestones, project.Item{Name: "It opens", Project: uuid.NewString()}); !errors.Is(err, project.ErrNoProject) {
			t.Errorf("a milestone of no project: %v", err)
		}
		if _, err := w.create(t, w.projects, project.Item{Name: strings.Repeat("é", 256)}); field(err) != "name" {
			t.Errorf("a long name: %v", err)
		}
		made, err := w.task(t, "", opening.ID)
		if err != nil || made.Project != shop.ID || made.Milestone != opening.ID {
			t.Errorf("a task of a milestone: %+v, %v", made, err)
		}
		for of, id := range map[*project.Store]string{w.projects: shop.ID, w.milestones: opening.ID} {
			i, tasks, err := of.Get(t.Context(), w.Workspace, id)
			if err != nil || i.ID != id || len(tasks) != 1 || tasks["PENDING"] != 1 {
				t.Errorf("%+v %v, %v", i, tasks, err)
			}
		}
		if found, err := w.tasks.List(t.Context(), w.Workspace, task.Filter{Project: shop.ID, Milestone: opening.ID, Limit: 9}); err != nil || len(found) != 1 {
			t.Errorf("its tasks: %+v, %v", found, err)
		}
		if found, err := w.tasks.List(t.Context(), w.Workspace, task.Filter{Project: opening.ID, Limit: 9}); err != nil || len(found) != 0 {
			t.Errorf("tasks of another project: %+v, %v", found, err)
		}
		for _, c := range []struct {
			of   *project.Store
			id   string
			want project.InUseError
		}{{w.projects, shop.ID, project.InUseError{Milestones: 1, Tasks: 1}}, {w.milestones, opening.ID, project.InUseError{Tasks: 1}}} {
			used, ok := errors.AsType[*project.InUseError](w.remove(t, c.of, c.id))
			if !ok || *used != c.want {
				t.Errorf("deleted, with a task: %+v", used)
			}
		}
		neighbour := w
		neighbour.Workspace = dbtest.NewWorkspace(t, w.DB)
		if _, _, err := neighbour.projects.Get(t.Context(), neighbour.Workspace, shop.ID); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("of another workspace: %v", err)
		}
		if _, err := neighbour.create(t, w.milestones, project.Item{Name: "mine", Project: shop.ID}); !errors.Is(err, project.ErrNoProject) {
			t.Errorf("of another workspace: %v", err)
		}
		if err := neighbour.remove(t, w.projects, shop.ID); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("of another workspace: %v", err)
		}
	})
}

func TestWhatIsArchivedGetsNoTasks(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		old, err1 := w.create(t, w.projects, project.Item{Name: "old"})
		first, err2 := w.create(t, w.milestones, project.Item{Name: "first", Project: old.ID})
		second, err3 := w.create(t, w.milestones, project.Item{Name: "second", Project: old.ID})
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		yes, no := true, false
		first, err := w.patch(t, w.milestones, first.ID, project.Patch{Archived: &yes})
		if err != nil || first.ArchivedAt == nil || first.Version != 2 {
			t.Fatalf("%+v, %v", first, err)
		}
		if _, err := w.task(t, "", first.ID); field(err) != "milestoneId" {
			t.Errorf("a task of an archived milestone: %v", err)
		}
		at := *first.ArchivedAt
		name := "again"
		if first, err = w.patch(t, w.milestones, first.ID, project.Patch{Archived: &yes, Name: &name}); err != nil || !first.ArchivedAt.Equal(at) || first.Name != name {
			t.Errorf("archived twice: %+v, %v", first, err)
		}
		if old, err = w.patch(t, w.projects, old.ID, project.Patch{Archived: &yes}); err != nil || old.ArchivedAt == nil {
			t.Fatalf("%+v, %v", old, err)
		}
		if _, err := w.task(t, old.ID, ""); field(err) != "projectId" {
			t.Errorf("a task of an archived project: %v", err)
		}
		if _, err := w.task(t, "", second.ID); field(err) != "milestoneId" {
			t.Errorf("a task of a milestone of an archived project: %v", err)
		}
		if _, err := w.create(t, w.milestones, project.Item{Name: "third", Project: old.ID}); field(err) != "projectId" {
			t.Errorf("a milestone of an archived project: %v", err)
		}
		if used, err := w.projects.List(t.Context(), w.Workspace, project.Filter{Limit: 9}); err != nil || len(used) != 0 {
			t.Errorf("in use: %q, %v", names(used), err)
		}
		if all, err := w.projects.List(t.Context(), w.Workspace, project.Filter{Archived: true, Limit: 9}); err != nil || !slices.Equal(names(all), []string{"old"}) {
			t.Errorf("archived: %q, %v", names(all), err)
		}
		if old, err = w.patch(t, w.projects, old.ID, project.Patch{Archived: &no}); err != nil || old.ArchivedAt != nil {
			t.Fatalf("%+v, %v", old, err)
		}
		if _, err := w.task(t, old.ID, second.ID); err != nil {
			t.Errorf("a task of a restored project: %v", err)
		}
		var none *time.Time
		if first, err = w.patch(t, w.milestones, first.ID, project.Patch{DueAt: &none}); err != nil || first.DueAt != nil {
			t.Errorf("%+v, %v", first, err)
		}
		if err := w.remove(t, w.milestones, first.ID); err != nil {
			t.Errorf("deleted, without tasks: %v", err)
		}
		if err := w.remove(t, w.milestones, first.ID); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("deleted twice: %v", err)
		}
	})
}

// TestPagesOfProjects are in the order of their creation, the newest first.
func TestPagesOfProjects(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, name := range []string{"a", "b", "c"} {
			of, err := w.create(t, w.projects, project.Item{Name: name})
			if err == nil {
				_, err = w.create(t, w.milestones, project.Item{Name: "of " + name, Project: of.ID})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var all []string
		var last db.Position
		for range 3 {
			found, err := w.projects.List(t.Context(), w.Workspace, project.Filter{Before: last, Limit: 1})
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			all = append(all, found[0].Name)
			last = db.Position{At: found[0].CreatedAt, ID: found[0].ID}
		}
		if !slices.Equal(all, []string{"c", "b", "a"}) {
			t.Errorf("%q", all)
		}
		b, err := w.projects.List(t.Context(), w.Workspace, project.Filter{Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		of, err := w.milestones.List(t.Context(), w.Workspace, project.Filter{Project: b[1].ID, Limit: 3})
		if err != nil || !slices.Equal(names(of), []string{"of b"}) {
			t.Errorf("%q, %v", names(of), err)
		}
	})
}

// TestWhoArchivesWaitsForNewTasks: while a task is being added to a milestone, nobody archives or
// deletes the milestone or its project. Afterwards the task counts.
func TestWhoArchivesWaitsForNewTasks(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		p, err1 := w.create(t, w.projects, project.Item{Name: "p"})
		m, err2 := w.create(t, w.milestones, project.Item{Name: "m", Project: p.ID})
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		removed := make(chan error, 1)
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.tasks.Create(ctx, tx, task.Task{
				Title: "x", Priority: task.DefaultPriority, BackoffSeconds: task.DefaultBackoff, CreatedBy: "user:ada", Milestone: m.ID,
			})
			if err != nil {
				return err
			}
			go func() {
				removed <- w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error { return w.milestones.Delete(ctx, tx, m.ID) })
			}()
			for name, of := range map[string]struct {
				in *project.Store
				id string
			}{"project": {w.projects, p.ID}, "milestone": {w.milestones, m.ID}} {
				soon, end := context.WithTimeout(t.Context(), 300*time.Millisecond)
				err := w.DB.Tx(soon, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
					_, err := of.in.Patch(ctx, tx, of.id, func(project.Item) error { return nil }, project.Patch{Archived: new(true)})
					return err
				})
				end()
				if err == nil {
					t.Errorf("a %s was archived while a task was added to it", name)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if used, ok := errors.AsType[*project.InUseError](<-removed); !ok || used.Tasks != 1 {
			t.Errorf("a milestone that had just got a task was deleted: %v", used)
		}
	})
}
