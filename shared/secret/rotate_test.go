package secret_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// rotate is one call that must not fail.
func (w world) rotate(t testing.TB, batch int) secret.Rotation {
	t.Helper()
	r, err := w.Rotate(t.Context(), w.Workspace, batch)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w world) addKey(t testing.TB) {
	t.Helper()
	if _, err := w.keys.AddKey(); err != nil {
		t.Fatal(err)
	}
}

func TestRotate(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for i := range 7 {
			w.put(t, fmt.Sprint("s", i), fmt.Sprint("hunter", i))
		}
		if r := w.rotate(t, 10); r.Resealed != 0 || r.Left != 0 || !r.Done() {
			t.Errorf("nothing to do: %+v", r)
		}
		before, err := w.List(t.Context(), w.Workspace, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		w.addKey(t)
		w.put(t, "s3", "hunter3") // sealed with the new key already
		for _, want := range []secret.Rotation{{Resealed: 3, Left: 3}, {Resealed: 3}, {}} {
			r := w.rotate(t, 3)
			if r.Resealed != want.Resealed || r.Left != want.Left || r.Failed != nil || r.Done() != (want.Left == 0) {
				t.Errorf("%+v, want %+v", r, want)
			}
			for i := range 7 {
				w.has(t, fmt.Sprint("s", i), fmt.Sprint("hunter", i))
			}
		}
		after, err := w.List(t.Context(), w.Workspace, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		for i := range after {
			if i != 3 && !after[i].UpdatedAt.Equal(before[i].UpdatedAt) {
				t.Errorf("%s counts as updated", after[i].Name)
			}
		}
		w.dropOldKeys(t)
		for i := range 7 {
			w.has(t, fmt.Sprint("s", i), fmt.Sprint("hunter", i))
		}
	})
}

// dropOldKeys removes all keys except the one in use from the file.
func (w world) dropOldKeys(t testing.TB) {
	t.Helper()
	text, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSpace(string(text)), "\n")
	if err := os.WriteFile(w.path, []byte(lines[len(lines)-1]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A secret that can't be opened is reported, stays unchanged, and does not delay the others.
func TestRotatePassesOverWhatDoesNotOpen(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d, err := w.Seal(t.Context(), w.Workspace, "elsewhere", secret.NewValue("x"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			w.plant(t, w.Workspace, name, d)
		}
		w.put(t, "c", "hunter2")
		w.addKey(t)
		r := w.rotate(t, 1)
		if r.Resealed != 1 || !slices.Equal(r.Failed, []string{"a", "b"}) || r.Left != 2 || !r.Done() {
			t.Errorf("%+v", r)
		}
		w.has(t, "c", "hunter2")
	})
}

// A rotation runs concurrently with readers and writers. Readers only get values that were stored,
// no stored value is lost, and several rotations may run concurrently.
func TestRotateWhileInUse(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		const names = 6
		for i := range names {
			w.put(t, fmt.Sprint("s", i), "v0")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var readers, others sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					v, err := w.Resolve(t.Context(), w.Workspace, fmt.Sprint("s", i%names))
					if err != nil || !strings.HasPrefix(v.Reveal(), "v") {
						t.Errorf("a reader got %d bytes, %v", len(v.Reveal()), err)
					}
				}
			})
		}
		last := make([]string, names)
		others.Go(func() { // one writer, so that the last value is known
			for n := range 20 {
				i := n % names
				last[i] = fmt.Sprint("v", n)
				w.put(t, fmt.Sprint("s", i), last[i])
			}
		})
		for range 2 {
			others.Go(func() {
				for range 5 {
					if _, err := w.keys.AddKey(); err != nil {
						t.Error(err)
					}
					if _, err := w.Rotate(t.Context(), w.Workspace, 4); err != nil {
						t.Error(err)
					}
				}
			})
		}
		others.Wait()
		cancel()
		readers.Wait()
		for r := w.rotate(t, 4); !r.Done(); r = w.rotate(t, 4) {
			if r.Resealed == 0 {
				t.Fatalf("%+v", r)
			}
		}
		w.dropOldKeys(t)
		for i, text := range last {
			w.has(t, fmt.Sprint("s", i), text)
		}
	})
}

// A secret that is deleted and stored again during its rotation keeps the new text.
func TestRotateDoesNotBringBackWhatWasReplaced(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.put(t, "github", "old")
		w.addKey(t)
		// The keeper is called between reading and writing.
		meddled, err := secret.New(w.DB, meddler{w.keys, func() {
			if err := w.Delete(t.Context(), w.Workspace, "github"); err != nil {
				t.Error(err)
			}
			w.put(t, "github", "new")
		}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := meddled.Rotate(t.Context(), w.Workspace, 5); err != nil || r.Resealed != 0 || r.Left != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		w.has(t, "github", "new")
	})
}

// meddler calls meddle whenever a data key is unwrapped.
type meddler struct {
	secret.Keeper
	meddle func()
}

func (m meddler) Unwrap(ctx context.Context, id string, wrapped []byte, at secret.Place) ([]byte, error) {
	m.meddle()
	return m.Keeper.Unwrap(ctx, id, wrapped, at)
}

// The key service may be down. Secrets that were rotated before stay rotated.
func TestRotateEndsWhenTheKeyServiceIsAway(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for i := range 4 {
			w.put(t, fmt.Sprint("s", i), "hunter2")
		}
		w.addKey(t)
		calls := 0
		s, err := secret.New(w.DB, failing{w.keys, func() error {
			if calls++; calls > 2 {
				return secret.ErrUnavailable
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.Rotate(t.Context(), w.Workspace, 10); !errors.Is(err, secret.ErrUnavailable) || r.Resealed != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		if r := w.rotate(t, 10); r.Resealed != 2 || !r.Done() {
			t.Errorf("%+v", r)
		}
	})
}

type failing struct {
	secret.Keeper
	err func() error
}

func (f failing) Unwrap(ctx context.Context, id string, wrapped []byte, at secret.Place) ([]byte, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Keeper.Unwrap(ctx, id, wrapped, at)
}
