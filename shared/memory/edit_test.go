package memory_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// change runs fn as a person does, without a hold.
func (w world) change(t testing.TB, fn func(*db.Tx) error) error {
	t.Helper()
	return w.DB.Tx(t.Context(), w.Workspace, func(_ context.Context, tx *db.Tx) error { return fn(tx) })
}

func (w world) make(t testing.TB, m memory.Memory) (memory.Memory, error) {
	t.Helper()
	var made memory.Memory
	err := w.change(t, func(tx *db.Tx) (err error) {
		made, err = w.s.Create(t.Context(), tx, m)
		return err
	})
	return made, err
}

func (w world) tryPatch(t testing.TB, m memory.Memory, p memory.Patch) (memory.Memory, error) {
	t.Helper()
	var patched memory.Memory
	err := w.change(t, func(tx *db.Tx) (err error) {
		patched, err = w.s.Patch(t.Context(), tx, m, p)
		return err
	})
	return patched, err
}

func (w world) patch(t testing.TB, m memory.Memory, p memory.Patch) memory.Memory {
	t.Helper()
	patched, err := w.tryPatch(t, m, p)
	if err != nil {
		t.Fatal(err)
	}
	return patched
}

func (w world) get(t testing.TB, id string) memory.Memory {
	t.Helper()
	m, err := w.s.Get(t.Context(), w.Workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAPersonCreatesAMemory(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		m := memory.Memory{Agent: agent, Category: " Vorliebe ", Content: "\nmag\x00 Grüße ", Importance: 7, ExpiresAt: w.in24h()}
		made, err := w.make(t, m)
		if err != nil || made.Category != "Vorliebe" || made.Content != "mag\ufffd Grüße" || made.Version != 1 || made.Importance != 7 {
			t.Errorf("it is %+v (%v)", made, err)
		}
		if diff := cmp.Diff(made, w.get(t, made.ID)); diff != "" {
			t.Error(diff)
		}
		if _, err := w.make(t, m); !errors.Is(err, memory.ErrTaken) {
			t.Errorf("again: %v", err)
		}
		m.Content = "MAG\ufffd grüße!"
		if _, err := w.make(t, m); !errors.Is(err, memory.ErrTaken) {
			t.Errorf("in other letters: %v", err)
		}
		w.Skew.Advance(25 * time.Hour)
		m.ExpiresAt = nil
		again, err := w.make(t, m)
		if err != nil || again.ID != made.ID || again.Content != "MAG\ufffd grüße!" || again.ExpiresAt != nil || !again.CreatedAt.After(made.CreatedAt) {
			t.Errorf("in place of the expired one: %+v (%v)", again, err)
		}
	})
}

func TestTheVersionThatWasReadIsDeleted(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id, _ := w.save(t, memory.Memory{Content: "tea", Importance: 5})
		content := "coffee"
		changed := w.patch(t, w.get(t, id), memory.Patch{Content: &content})
		for version, want := range map[int]error{changed.Version - 1: db.ErrNoRows, changed.Version + 1: db.ErrNoRows} {
			if err := w.change(t, func(tx *db.Tx) error { return w.s.Delete(t.Context(), tx, id, version) }); !errors.Is(err, want) {
				t.Errorf("version %d: %v", version, err)
			}
		}
		if err := w.change(t, func(tx *db.Tx) error { return w.s.Delete(t.Context(), tx, id, changed.Version) }); err != nil {
			t.Error(err)
		}
	})
}

func TestAPersonChangesTheVersionThatWasRead(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id, _ := w.save(t, memory.Memory{Content: "tea", Importance: 5})
		read := w.get(t, id)
		content, category, importance, end := "coffee", "drinks", 9, w.in24h()
		changed := w.patch(t, read, memory.Patch{Content: &content, Category: &category, Importance: &importance, ExpiresAt: end})
		if changed.Content != "coffee" || changed.Category != "drinks" || changed.Importance != 9 || changed.Version != 2 || !changed.ExpiresAt.Equal(*end) ||
			!changed.CreatedAt.Equal(read.CreatedAt) || changed.UpdatedAt.Before(read.UpdatedAt) {
			t.Errorf("it is %+v", changed)
		}
		if diff := cmp.Diff(changed, w.get(t, id)); diff != "" {
			t.Error(diff)
		}
		if _, err := w.tryPatch(t, read, memory.Patch{Content: &category}); !errors.Is(err, memory.ErrChanged) {
			t.Errorf("of the version before: %v", err)
		}
		if m := w.patch(t, changed, memory.Patch{ExpiresAt: new(time.Time)}); m.ExpiresAt != nil || m.Content != "coffee" {
			t.Errorf("for ever it is %+v", m)
		}
		if _, isNew := w.save(t, memory.Memory{Content: "Coffee", Importance: 10}); isNew {
			t.Error("the changed content is remembered anew")
		}
		if _, isNew := w.save(t, memory.Memory{Content: "tea"}); !isNew {
			t.Error("the former content counts still")
		}
	})
}

// If an agent saves or forgets the memory between a person's read and write, the person's write
// fails.
func TestAnAgentIsFaster(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id, _ := w.save(t, memory.Memory{Content: "tea", Importance: 5})
		read := w.get(t, id)
		w.save(t, memory.Memory{Content: "tea", Importance: 8})
		one := 1
		if _, err := w.tryPatch(t, read, memory.Patch{Importance: &one}); !errors.Is(err, memory.ErrChanged) {
			t.Errorf("said again meanwhile: %v", err)
		}
		read = w.get(t, id)
		if read.Importance != 8 {
			t.Errorf("it is %+v", read)
		}
		if _, _, err := w.use(t, "forget_memory", `{"memoryId": "`+id+`"}`); err != nil {
			t.Fatal(err)
		}
		if _, err := w.tryPatch(t, read, memory.Patch{Importance: &one}); !errors.Is(err, memory.ErrChanged) {
			t.Errorf("forgotten meanwhile: %v", err)
		}
	})
}

func TestAChangeTakesThePlaceOfWhatHasExpired(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		old, _ := w.save(t, memory.Memory{Content: "tea"}, 24*time.Hour)
		id, _ := w.save(t, memory.Memory{Content: "coffee"})
		w.Skew.Advance(25 * time.Hour)
		content := "Tea."
		if m := w.patch(t, w.get(t, id), memory.Patch{Content: &content}); m.ID != id || m.Content != "Tea." {
			t.Errorf("it is %+v", m)
		}
		if _, err := w.s.Get(t.Context(), w.Workspace, old); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("the expired one: %v", err)
		}
	})
}

func TestAChangeToWhatIsRememberedIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.save(t, memory.Memory{Content: "tea"})
		id, _ := w.save(t, memory.Memory{Content: "coffee"})
		content := "Tea."
		if _, err := w.tryPatch(t, w.get(t, id), memory.Patch{Content: &content}); !errors.Is(err, memory.ErrTaken) {
			t.Errorf("got %v", err)
		}
		if m := w.get(t, id); m.Content != "coffee" || m.Version != 1 {
			t.Errorf("it is %+v", m)
		}
	})
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		good := memory.Memory{Agent: agent, Category: "fact", Content: "tea", Importance: 5}
		past := time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)
		for want, spoil := range map[string]func(*memory.Memory){
			"agent":      func(m *memory.Memory) { m.Agent = strings.Repeat("x", 256) },
			"category":   func(m *memory.Memory) { m.Category = strings.Repeat("ü", 101) },
			"content":    func(m *memory.Memory) { m.Content = " \n" },
			"importance": func(m *memory.Memory) { m.Importance = 11 },
			"expiresAt":  func(m *memory.Memory) { m.ExpiresAt = &past },
			"agent category content importance": func(m *memory.Memory) {
				*m = memory.Memory{Content: strings.Repeat("x", 8001)}
			},
		} {
			m := good
			spoil(&m)
			_, err := w.make(t, m)
			invalid, ok := errors.AsType[*problem.InvalidError](err)
			if !ok {
				t.Errorf("%s: %v", want, err)
				continue
			}
			var got []string
			for _, f := range invalid.Fields {
				got = append(got, f.Field)
			}
			if !slices.Equal(got, strings.Fields(want)) {
				t.Errorf("wrong is %q, want %s", got, want)
			}
		}
		id, _ := w.save(t, good)
		zero := 0
		if _, err := w.tryPatch(t, w.get(t, id), memory.Patch{Importance: &zero}); err == nil || !strings.Contains(err.Error(), "importance") {
			t.Errorf("a change: %v", err)
		}
	})
}

func TestANeighboursMemoryIsNotThere(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id, _ := w.save(t, memory.Memory{Content: "tea"})
		there, read := w.neighbour(t), w.get(t, id)
		if _, err := there.s.Get(t.Context(), there.Workspace, id); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("get: %v", err)
		}
		if _, err := there.tryPatch(t, read, memory.Patch{Content: &read.Agent}); !errors.Is(err, memory.ErrChanged) {
			t.Errorf("patch: %v", err)
		}
		if err := there.change(t, func(tx *db.Tx) error { return there.s.Delete(t.Context(), tx, id, 0) }); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("delete: %v", err)
		}
		if diff := cmp.Diff(read, w.get(t, id)); diff != "" {
			t.Error(diff)
		}
		if err := w.change(t, func(tx *db.Tx) error { return w.s.Delete(t.Context(), tx, id, 0) }); err != nil {
			t.Error(err)
		}
		if _, err := w.s.Get(t.Context(), w.Workspace, id); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("deleted: %v", err)
		}
	})
}
