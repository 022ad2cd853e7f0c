package secret_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// A key of ours is one for all who ask, at once or later, and nobody else reads, writes or
// names it.
func TestAKeyOfOursIsOneForAll(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var mu sync.Mutex
		var all [][]byte
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				key, err := w.Key(t.Context(), w.Workspace, "session")
				mu.Lock()
				defer mu.Unlock()
				if all = append(all, key); err != nil || len(key) != 32 {
					t.Errorf("%d bytes, %v", len(key), err)
				}
			})
		}
		wg.Wait()
		same := func(when string) {
			t.Helper()
			key, err := w.Key(t.Context(), w.Workspace, "session")
			if err != nil {
				t.Fatal(when, err)
			}
			for _, one := range all {
				if !bytes.Equal(one, key) {
					t.Errorf("%s it is another", when)
				}
			}
		}
		same("later")
		if other, err := w.Key(t.Context(), w.Workspace, "agent"); err != nil || bytes.Equal(other, all[0]) {
			t.Errorf("for another purpose: the same %t, %v", bytes.Equal(other, all[0]), err)
		}

		const name = "lanekeeper.session-key"
		w.put(t, "lanekeepers", "hunter2")
		if listed, err := w.List(t.Context(), w.Workspace, "", 10); err != nil || len(listed) != 1 || listed[0].Name != "lanekeepers" {
			t.Errorf("listed are %+v, %v", listed, err)
		}
		for what, err := range map[string]error{
			"resolve": second(w.Resolve(t.Context(), w.Workspace, name)), "delete": w.Delete(t.Context(), w.Workspace, name),
			"put": second(w.Put(t.Context(), w.Workspace, name, secret.NewValue("mine"), "local:test")),
		} {
			if !errors.Is(err, secret.ErrName) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := w.Info(t.Context(), w.Workspace, name); !errors.Is(err, secret.ErrNotFound) {
			t.Errorf("info: %v", err)
		}
		w.addKey(t)
		if r := w.rotate(t, 10); r.Resealed != 3 || !r.Done() {
			t.Errorf("%+v", r)
		}
		same("after a rotation")
	})
}

// What can't be opened any more is of no use to anybody: it is made anew.
func TestAKeyWhoseOwnKeyIsLostIsMadeAnew(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		old, err := w.Key(t.Context(), w.Workspace, "session")
		if err != nil {
			t.Fatal(err)
		}
		elsewhere, err := secret.New(w.DB, secret.NewKeyFile(filepath.Join(t.TempDir(), "key")))
		if err != nil {
			t.Fatal(err)
		}
		fresh, err := elsewhere.Key(t.Context(), w.Workspace, "session")
		if err != nil || bytes.Equal(fresh, old) {
			t.Errorf("the same %t, %v", bytes.Equal(fresh, old), err)
		}
		if again, err := elsewhere.Key(t.Context(), w.Workspace, "session"); err != nil || !bytes.Equal(again, fresh) {
			t.Errorf("the next time: %v", err)
		}
		sealless, err := secret.New(w.DB, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sealless.Key(t.Context(), w.Workspace, "session"); !errors.Is(err, secret.ErrNoKey) {
			t.Errorf("without a keeper: %v", err)
		}
	})
}
