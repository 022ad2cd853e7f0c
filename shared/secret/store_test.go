package secret_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

func TestPutResolveReplaceDelete(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		first := w.put(t, "github", "hunter2")
		if first.Version != 1 || first.CreatedBy != "local:test" || time.Since(first.CreatedAt).Abs() > time.Minute {
			t.Errorf("%+v", first)
		}
		w.has(t, "github", "hunter2")
		w.Skew.Advance(time.Hour)
		next := w.put(t, "github", "hunter3")
		if next.Version != 2 || !next.CreatedAt.Equal(first.CreatedAt) || next.UpdatedAt.Sub(first.UpdatedAt) < time.Hour {
			t.Errorf("%+v after %+v", next, first)
		}
		w.has(t, "github", "hunter3")
		if err := w.Delete(t.Context(), w.Workspace, "github"); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"resolve": second(w.Resolve(t.Context(), w.Workspace, "github")), "delete": w.Delete(t.Context(), w.Workspace, "github"),
		} {
			if nf, ok := errors.AsType[*secret.NotFoundError](err); !errors.Is(err, secret.ErrNotFound) || !ok || nf.Name != "github" {
				t.Errorf("%s: %v", what, err)
			}
		}
		if again := w.put(t, "github", "hunter4"); again.Version != 1 {
			t.Errorf("a new secret of an old name: %+v", again)
		}
	})
}

func TestTextsOfAllSortsAreKept(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		texts := append(slices.Clone(awkward), "x", strings.Repeat("ü", secret.MaxValue/2), "nul\x00byte")
		for i, text := range texts {
			w.put(t, fmt.Sprint("s", i), text)
		}
		for i, text := range texts {
			w.has(t, fmt.Sprint("s", i), text)
		}
	})
}

func TestWhatCannotBeKept(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, name := range []string{"", strings.Repeat("n", 65), "a b", "a/b", "ä", "a\x00", "a\n", "$x", `"`} {
			for what, err := range map[string]error{
				"put":     second(w.Put(t.Context(), w.Workspace, name, secret.NewValue("hunter2"), "me")),
				"resolve": second(w.Resolve(t.Context(), w.Workspace, name)),
				"delete":  w.Delete(t.Context(), w.Workspace, name),
			} {
				if !errors.Is(err, secret.ErrName) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%s %q: %v", what, name, err)
				}
			}
		}
		for what, text := range map[string]string{"empty": "", "too long": strings.Repeat("v", secret.MaxValue+1), "not UTF-8": "canary\xff"} {
			_, err := w.Put(t.Context(), w.Workspace, "x", secret.NewValue(text), "me")
			if !errors.Is(err, secret.ErrValue) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v", what, err)
			}
		}
		w.put(t, strings.Repeat("n", 64), "x")
		w.put(t, "A-z_0.9", "x")
	})
}

func TestListTellsNamesAndDates(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, name := range []string{"c", "a", "e", "b", "d"} {
			w.put(t, name, "canary-"+name)
		}
		var names []string
		for after := ""; ; {
			page, err := w.List(t.Context(), w.Workspace, after, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, i := range page {
				names = append(names, i.Name)
				if i.Version != 1 || i.CreatedBy != "local:test" || i.CreatedAt.IsZero() || i.UpdatedAt.IsZero() {
					t.Errorf("%+v", i)
				}
			}
			after = page[len(page)-1].Name
		}
		if !slices.Equal(names, []string{"a", "b", "c", "d", "e"}) {
			t.Errorf("%q", names)
		}
	})
}

func TestWorkspacesKeepTheirOwn(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		other := dbtest.NewWorkspace(t, w.DB)
		w.put(t, "github", "mine")
		if _, err := w.Put(t.Context(), other, "github", secret.NewValue("theirs"), "them"); err != nil {
			t.Fatal(err)
		}
		w.has(t, "github", "mine")
		if err := w.Delete(t.Context(), other, "github"); err != nil {
			t.Fatal(err)
		}
		w.has(t, "github", "mine")
		if list, err := w.List(t.Context(), other, "", 10); len(list) != 0 || err != nil {
			t.Errorf("%v, %v", list, err)
		}
	})
}

// Write access to the table does not allow using one secret as another.
func TestARowThatWasSwapped(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.put(t, "mine", "hunter2")
		d, err := w.Seal(t.Context(), w.Workspace, "theirs", secret.NewValue("canary"))
		if err != nil {
			t.Fatal(err)
		}
		w.plant(t, w.Workspace, "mine", d)
		other := dbtest.NewWorkspace(t, w.DB)
		w.plant(t, other, "theirs", d)
		for ws, name := range map[db.Workspace]string{w.Workspace: "mine", other: "theirs"} {
			if v, err := w.Resolve(t.Context(), ws, name); !errors.Is(err, secret.ErrDamaged) || v.Reveal() != "" || strings.Contains(err.Error(), "canary") {
				t.Errorf("%v", err)
			}
		}
	})
}

// plant stores a draft under a name for which it was not sealed.
func (w world) plant(t testing.TB, ws db.Workspace, name string, d secret.Draft) {
	t.Helper()
	err := w.DB.Tx(t.Context(), ws, func(ctx context.Context, tx *db.Tx) error {
		_, err := w.PutIn(ctx, tx, d.As(name), "a thief")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPutInIsUndoneWithItsTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d, err := w.Seal(t.Context(), w.Workspace, "github", secret.NewValue("hunter2"))
		if err != nil {
			t.Fatal(err)
		}
		stop := errors.New("stop")
		err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			if _, err := w.PutIn(ctx, tx, d, "me"); err != nil {
				return err
			}
			return stop
		})
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
		if _, err := w.Resolve(t.Context(), w.Workspace, "github"); !errors.Is(err, secret.ErrNotFound) {
			t.Error(err)
		}
	})
}

func TestAKeyFileThatIsGone(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.put(t, "github", "hunter2")
		if err := os.Rename(w.path, w.path+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Resolve(t.Context(), w.Workspace, "github"); !errors.Is(err, secret.ErrNoKey) {
			t.Errorf("resolve: %v", err)
		}
		if _, err := w.Rotate(t.Context(), w.Workspace, 10); !errors.Is(err, secret.ErrNoKey) {
			t.Errorf("rotate: %v", err)
		}
		// Methods that need no key work without one.
		if list, err := w.List(t.Context(), w.Workspace, "", 10); len(list) != 1 || err != nil {
			t.Errorf("%v, %v", list, err)
		}
		if _, err := os.Stat(w.path); err == nil {
			t.Error("another key file was made")
		}
		if err := os.Rename(w.path+".away", w.path); err != nil {
			t.Fatal(err)
		}
		w.has(t, "github", "hunter2")
	})
}

func TestNoKeeper(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	s, err := secret.New(e.DB, nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"put":    second(s.Put(t.Context(), e.Workspace, "x", secret.NewValue("x"), "me")),
		"rotate": second(s.Rotate(t.Context(), e.Workspace, 1)),
	} {
		if !errors.Is(err, secret.ErrNoKey) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestResolveTellsTheRedactor(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.put(t, "github", "tr0ub4dor")
		r := redact.New(nil)
		if got := r.Text("a tr0ub4dor"); got != "a tr0ub4dor" {
			t.Errorf("before: %q", got)
		}
		if _, err := w.Resolve(redact.With(t.Context(), r), w.Workspace, "github"); err != nil {
			t.Fatal(err)
		}
		if got := r.Text("a tr0ub4dor"); got != "a [redacted]" {
			t.Errorf("after: %q", got)
		}
	})
}

func TestStoresOfTwoProcesses(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.put(t, "github", "hunter2")
		d, _ := w.Open(t, 0)
		other, err := secret.New(d, secret.NewKeyFile(w.path))
		if err != nil {
			t.Fatal(err)
		}
		w.addKey(t)
		w.put(t, "gitlab", "hunter3") // under a key that the other process has not read yet
		for name, text := range map[string]string{"github": "hunter2", "gitlab": "hunter3"} {
			if v, err := other.Resolve(t.Context(), w.Workspace, name); err != nil || v.Reveal() != text {
				t.Errorf("%s: %v", name, err)
			}
		}
		missing, err := secret.New(d, secret.NewKeyFile(filepath.Join(t.TempDir(), "key")))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := missing.Resolve(t.Context(), w.Workspace, "github"); !errors.Is(err, secret.ErrNoKey) {
			t.Errorf("without the key: %v", err)
		}
	})
}
