package secret_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// All callers get the same key, concurrently or later. No public method reads, writes or lists it.
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

		const name, theirs = ":session-key", "lanekeeper.session-key"
		w.put(t, theirs, "hunter2") // like any other name
		if listed, err := w.List(t.Context(), w.Workspace, "", 10); err != nil || len(listed) != 1 || listed[0].Name != theirs {
			t.Errorf("listed are %+v, %v", listed, err)
		}
		if v, err := w.Resolve(t.Context(), w.Workspace, theirs); err != nil || v.Reveal() != "hunter2" {
			t.Errorf("a secret of the user's: %v", err)
		}
		same("beside a secret of the user's")
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

// A key that can't be opened stays stored: another process may be able to open it.
func TestAKeyThatCannotBeOpenedStays(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		old, err := w.Key(t.Context(), w.Workspace, "session")
		if err != nil {
			t.Fatal(err)
		}
		for what, keeper := range map[string]secret.Keeper{
			"another key file": secret.NewKeyFile(filepath.Join(t.TempDir(), "key")), "no keeper": nil,
		} {
			elsewhere, err := secret.New(w.DB, keeper)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := elsewhere.Key(t.Context(), w.Workspace, "session"); !errors.Is(err, secret.ErrNoKey) {
				t.Errorf("with %s: %v, want %v", what, err, secret.ErrNoKey)
			}
		}
		if again, err := w.Key(t.Context(), w.Workspace, "session"); err != nil || !bytes.Equal(again, old) {
			t.Errorf("afterwards it is the same: %t, %v", bytes.Equal(again, old), err)
		}
	})
}

// service acts as a key service with its keys in a file.
type service struct{ *secret.KeyFile }

func (s service) Current(ctx context.Context) (string, error) {
	id, err := s.KeyFile.Current(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		id, err = "file-none", nil
	}
	return strings.Replace(id, "file-", "service-", 1), err
}

func (s service) Wrap(ctx context.Context, dataKey []byte, at secret.Place) (string, []byte, error) {
	id, wrapped, err := s.KeyFile.Wrap(ctx, dataKey, at)
	return strings.Replace(id, "file-", "service-", 1), wrapped, err
}

func (s service) Unwrap(ctx context.Context, keyID string, wrapped []byte, at secret.Place) ([]byte, error) {
	return s.KeyFile.Unwrap(ctx, strings.Replace(keyID, "service-", "file-", 1), wrapped, at)
}

// A command was run with a key file beside functions that use a key service. The functions still
// get their own key.
func TestAKeyServiceOutranksAKeyFile(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		ofFile, err := w.Key(t.Context(), w.Workspace, "session")
		if err != nil {
			t.Fatal(err)
		}
		functions, err := secret.New(w.DB, service{secret.NewKeyFile(filepath.Join(t.TempDir(), "key"))})
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := functions.Key(t.Context(), w.Workspace, "session")
		if err != nil || bytes.Equal(theirs, ofFile) {
			t.Fatalf("the functions' key is that of the file: %t, %v", bytes.Equal(theirs, ofFile), err)
		}
		if _, err := w.Key(t.Context(), w.Workspace, "session"); !errors.Is(err, secret.ErrNoKey) {
			t.Errorf("with the key file again: %v, want %v", err, secret.ErrNoKey)
		}
		if again, err := functions.Key(t.Context(), w.Workspace, "session"); err != nil || !bytes.Equal(again, theirs) {
			t.Errorf("the functions' key is the same: %t, %v", bytes.Equal(again, theirs), err)
		}
	})
}
