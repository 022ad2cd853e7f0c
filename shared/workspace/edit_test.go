package workspace_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

func (w world) get(t testing.TB, ws db.Workspace) workspace.Workspace {
	t.Helper()
	got, err := w.s.Get(t.Context(), ws)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (w world) create(t testing.TB, slug, name string) (made workspace.Workspace, err error) {
	t.Helper()
	err = w.DB.Tx(t.Context(), db.Workspace(uuid.NewString()), func(ctx context.Context, tx *db.Tx) (err error) {
		made, err = w.s.Create(ctx, tx, slug, name, "user:ada")
		return err
	})
	return made, err
}

func (w world) patch(t testing.TB, read workspace.Workspace, p workspace.Patch) (patched workspace.Workspace, err error) {
	t.Helper()
	err = w.DB.Tx(t.Context(), read.ID, func(ctx context.Context, tx *db.Tx) (err error) {
		patched, err = w.s.Patch(ctx, tx, read, p)
		return err
	})
	return patched, err
}

// wrong returns the fields that an error names.
func wrong(t testing.TB, err error) string {
	t.Helper()
	invalid, ok := errors.AsType[*problem.InvalidError](err)
	if !ok {
		t.Errorf("got %v", err)
		return ""
	}
	var fields []string
	for _, f := range invalid.Fields {
		fields = append(fields, f.Field)
	}
	return strings.Join(fields, " ")
}

func slug() string { return "s-" + uuid.NewString()[:18] }

var private = cmpopts.IgnoreUnexported(workspace.Workspace{})

func TestAWorkspaceIsCreated(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		name := slug()
		made, err := w.create(t, name, " Grüße ")
		if err != nil || made.Slug != name || made.Name != "Grüße" || made.Version != 1 || made.Settings != workspace.Defaults() || made.CreatedAt.IsZero() {
			t.Errorf("it is %+v (%v)", made, err)
		}
		if diff := cmp.Diff(made, w.get(t, made.ID), private); diff != "" {
			t.Error(diff)
		}
		if _, err := w.create(t, name, "another"); !errors.Is(err, workspace.ErrTaken) {
			t.Errorf("the slug again: %v", err)
		}
		for slug, name := range map[string]string{"": "", "-a": "a\nb", "A": "\x00", "ü": "\xff", strings.Repeat("a", 64): strings.Repeat("ü", 256)} {
			if _, err := w.create(t, slug, name); wrong(t, err) != "slug name" {
				t.Errorf("%q, %q: %v", slug, name, err)
			}
		}
		if _, err := w.s.Get(t.Context(), db.Workspace(uuid.NewString())); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("one that is not there: %v", err)
		}
	})
}

func TestWorkspacesAreListedByTheirIDs(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		b, err1 := w.create(t, "b"+slug(), "B")
		a, err2 := w.create(t, "a"+slug(), "A")
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		found, err := w.s.List(t.Context(), []db.Workspace{b.ID, db.Workspace(uuid.NewString()), a.ID})
		if diff := cmp.Diff([]workspace.Workspace{a, b}, found, private); diff != "" || err != nil {
			t.Errorf("%s (%v)", diff, err)
		}
		if found, err := w.s.List(t.Context(), nil); err != nil || len(found) > 0 {
			t.Errorf("of none there are %+v (%v)", found, err)
		}
	})
}

func TestAWorkspaceIsDeleted(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		lanes, err := lane.New(w.DB)
		if err != nil {
			t.Fatal(err)
		}
		by := "user:" + uuid.NewString()
		ws := db.Workspace(uuid.NewString())
		made := func() (n int) {
			t.Helper()
			if err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) { n, err = w.s.CountMade(ctx, tx, by); return err }); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if err := w.DB.Tx(t.Context(), ws, func(ctx context.Context, tx *db.Tx) error { _, err := w.s.Create(ctx, tx, slug(), "A", by); return err }); err != nil || made() != 1 {
			t.Fatalf("%d are made (%v)", made(), err)
		}
		end := func(of workspace.Workspace) error {
			return w.DB.Tx(t.Context(), of.ID, func(ctx context.Context, tx *db.Tx) error { return w.s.Delete(ctx, tx, of) })
		}
		a := w.get(t, ws)
		err = lanes.Do(t.Context(), lane.Request{Workspace: ws, Lane: "x", Holder: "us"}, lane.Wait{}, func(context.Context, *lane.Hold) error { return end(a) })
		if !errors.Is(err, workspace.ErrAtWork) {
			t.Errorf("while a lane is held: %v", err)
		}
		if err := end(a); err != nil || made() != 0 {
			t.Errorf("%v, %d are left", err, made())
		}
		if _, err := w.s.Get(t.Context(), ws); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("it is still there: %v", err)
		}
		if err := end(workspace.Workspace{ID: workspace.Default}); !errors.Is(err, workspace.ErrKept) {
			t.Errorf("the default one: %v", err)
		}
		w.get(t, w.Workspace)
	})
}

func TestAPatchMergesSettings(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		there := w.get(t, dbtest.NewWorkspace(t, w.DB))
		w.set(t, `{"steps_per_run": 7, "skill_timeout": 5, "of_another_build": {"a": 1}}`)
		read := w.get(t, w.Workspace)
		name, nine := "New", int64(9)
		patched, err := w.patch(t, read, workspace.Patch{Name: &name, Settings: map[string]*int64{"stepsPerRun": nil, "beatMemories": &nine}})
		want := workspace.Defaults()
		want.SkillTimeout, want.BeatMemories = 5, 9
		if err != nil || patched.Name != "New" || patched.Settings != want || patched.Version != 2 || patched.UpdatedAt.Before(read.UpdatedAt) {
			t.Errorf("it is %+v (%v)", patched, err)
		}
		if diff := cmp.Diff(patched, w.get(t, w.Workspace), private); diff != "" {
			t.Error(diff)
		}
		var raw string
		if err := w.DB.One(t.Context(), w.Workspace, []any{&raw}, w.q.Unknown); err != nil || raw != "1" {
			t.Errorf("what this build does not know is %q (%v)", raw, err)
		}
		if _, err := w.patch(t, read, workspace.Patch{Name: &name}); !errors.Is(err, workspace.ErrChanged) {
			t.Errorf("of the version before: %v", err)
		}
		stolen := read
		stolen.ID = there.ID // a transaction changes only its own workspace, whatever the argument says
		stolen.Version = 5
		if _, err := w.patch(t, stolen, workspace.Patch{Name: &name}); !errors.Is(err, workspace.ErrChanged) {
			t.Errorf("of another workspace: %v", err)
		}
		if diff := cmp.Diff(there, w.get(t, there.ID), private); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAPatchNamesWhatIsWrong(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		read, name, zero := w.get(t, w.Workspace), "", int64(0)
		_, err := w.patch(t, read, workspace.Patch{Name: &name, Settings: map[string]*int64{
			"stepsPerRun": &zero, "steps_per_run": &zero, "toolRetries": &zero, "unknown": nil,
		}})
		if got := wrong(t, err); got != "name settings.stepsPerRun settings.steps_per_run settings.unknown" {
			t.Errorf("wrong is %s", got)
		}
		if diff := cmp.Diff(read, w.get(t, w.Workspace), private); diff != "" {
			t.Error(diff)
		}
	})
}

// TestBoundsOfSettings: each setting accepts every value within its bounds, and none outside.
func TestBoundsOfSettings(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, s := range workspace.Schema() {
			for v, legal := range map[int64]bool{s.Min: true, s.Max: true, s.Default: true, s.Min - 1: false, s.Max + 1: false, math.MinInt64: false} {
				patched, err := w.patch(t, w.get(t, w.Workspace), workspace.Patch{Settings: map[string]*int64{s.Name: &v}})
				if legal && (err != nil || patched.Settings.Values()[s.Name] != v) {
					t.Errorf("%s = %d: it is %d (%v)", s.Name, v, patched.Settings.Values()[s.Name], err)
				}
				if !legal && wrong(t, err) != "settings."+s.Name {
					t.Errorf("%s = %d: %v", s.Name, v, err)
				}
			}
		}
	})
}

func TestTheTableOfSettings(t *testing.T) {
	schema := workspace.Schema()
	if n := reflect.TypeFor[workspace.Settings]().NumField(); len(schema) != n || len(workspace.Defaults().Values()) != n {
		t.Errorf("%d settings, want %d by different names", len(schema), n)
	}
	for _, s := range schema {
		// Money has no cap by default.
		if s.Doc == "" || s.Name == "" || strings.Contains(s.Name, "_") || s.Min < 0 || s.Max <= s.Min || s.Default < s.Min || s.Default > s.Max || (s.Default == 0) != strings.HasSuffix(s.Name, "MicroUsd") {
			t.Errorf("it is %+v", s)
		}
	}
	i := slices.IndexFunc(schema, func(s workspace.Setting) bool { return s.Name == "stepsPerRun" })
	if s := schema[i]; s.Default != 20 || s.Min != 1 || s.Max != 1000 {
		t.Errorf("it is %+v", s)
	}
}
