package secret_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// sealWith makes this test's binary seal a value with a key file, print the key's id, and exit.
const sealWith = "LANEKEEPER_TEST_SEAL_WITH"

func sealOnce(path string) int {
	id, _, err := secret.NewKeyFile(path).Wrap(context.Background(), make([]byte, 32), somewhere)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Print(id)
	return 0
}

func TestProcessesMakeOneKeyFile(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "new", "key")
	ids := make([]string, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), sealWith+"="+path)
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("process %d: %v", i, err)
			}
			ids[i] = string(out)
		})
	}
	all.Wait()
	oneKey(t, path, ids)
}

func TestGoroutinesMakeOneKeyFile(t *testing.T) {
	for range 50 {
		path := filepath.Join(t.TempDir(), "key")
		ids := make([]string, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				var err error
				if ids[i], _, err = secret.NewKeyFile(path).Wrap(t.Context(), make([]byte, 32), somewhere); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		oneKey(t, path, ids)
	}
}

// oneKey checks that all processes used the only key in the file, and left no other files.
func oneKey(t *testing.T, path string, ids []string) {
	t.Helper()
	keys, err := secret.NewKeyFile(path).Keys()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v", keys, err)
	}
	for _, id := range ids {
		if id != keys[0] {
			t.Errorf("somebody sealed with %q", id)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v beside the file, %v", entries, err)
	}
}

func TestAMissingKeyFileIsMadeOnlyToSeal(t *testing.T) {
	keys := keyFile(t)
	for what, err := range map[string]error{
		"current": second(keys.Current(t.Context())),
		"unwrap":  second(keys.Unwrap(t.Context(), "file-0011", make([]byte, 60), somewhere)),
		"keys":    second(keys.Keys()),
	} {
		if _, ok := errors.AsType[*secret.KeyFileError](err); !ok || !errors.Is(err, secret.ErrNoKey) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, err := keys.Wrap(t.Context(), make([]byte, 32), somewhere); err != nil {
		t.Errorf("wrap: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestKeyFilesThatAreRefused(t *testing.T) {
	good := filepath.Join(t.TempDir(), "key")
	if _, err := secret.NewKeyFile(good).AddKey(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.SplitAfter(string(text), "\n")[1]
	swapped := strings.Replace(line, line[:12], "file-0000000", 1)
	for name, c := range map[string]struct {
		text string
		mode fs.FileMode
	}{
		"readable by the group":   {string(text), 0o640},
		"readable by all":         {string(text), 0o644},
		"writable by all":         {string(text), 0o602},
		"empty":                   {"", 0o600},
		"only a comment":          {"# nothing\n", 0o600},
		"no key behind the id":    {strings.Fields(line)[0] + "\n", 0o600},
		"another id":              {swapped, 0o600},
		"a short key":             {"file-0011223344556677 AAAA\n", 0o600},
		"not base64":              {"file-0011223344556677 !!!!\n", 0o600},
		"a line damaged above":    {"x" + line + line, 0o600},
		"only a line not whole":   {strings.TrimSuffix(line, "\n"), 0o600},
		"larger than it can be":   {strings.Repeat("# \n", 1<<20), 0o600},
		"binary":                  {"\x00\x01\x02\n", 0o600},
		"a second word on a line": {strings.TrimSuffix(line, "\n") + " more\n", 0o600},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			keys := secret.NewKeyFile(path)
			_, _, err := keys.Wrap(t.Context(), make([]byte, 32), somewhere)
			if _, ok := errors.AsType[*secret.KeyFileError](err); !ok || !errors.Is(err, secret.ErrNoKey) {
				t.Errorf("wrap: %v", err)
			}
			if _, err := keys.AddKey(); err == nil {
				t.Error("a key was added")
			}
			if _, key, _ := strings.Cut(strings.TrimSpace(line), " "); err != nil && strings.Contains(err.Error(), key) {
				t.Error("the error shows the key")
			}
			if now, _ := os.ReadFile(path); string(now) != c.text {
				t.Error("the file was changed")
			}
		})
	}
	t.Run("a folder", func(t *testing.T) {
		if _, err := secret.NewKeyFile(t.TempDir()).Current(t.Context()); !errors.Is(err, secret.ErrNoKey) {
			t.Error(err)
		}
	})
	t.Run("under a file", func(t *testing.T) {
		_, _, err := secret.NewKeyFile(filepath.Join(good, "key")).Wrap(t.Context(), make([]byte, 32), somewhere)
		if !errors.Is(err, secret.ErrNoKey) {
			t.Error(err)
		}
	})
}

func TestAddedKeysAreUsedAndOldOnesOpen(t *testing.T) {
	keys := keyFile(t)
	s := secret.NewSealer(keys)
	var sealed [][]byte
	var ids []string
	for range 3 {
		b, err := s.Seal(t.Context(), somewhere, secret.NewValue("hunter2"))
		if err != nil {
			t.Fatal(err)
		}
		id, err := secret.KeyOf(b)
		if err != nil {
			t.Fatal(err)
		}
		sealed, ids = append(sealed, b), append(ids, id)
		if _, err := keys.AddKey(); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range sealed {
		if v, err := s.Open(t.Context(), somewhere, b); err != nil || v.Reveal() != "hunter2" {
			t.Errorf("under an older key: %v", err)
		}
	}
	all, err := keys.Keys()
	if err != nil || len(all) != 4 || !slices.Equal(all[:3], ids) {
		t.Errorf("keys %q, used %q, %v", all, ids, err)
	}
}

func TestAKeyTakenOutOfTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	keys := secret.NewKeyFile(path)
	s := secret.NewSealer(keys)
	sealed, err := s.Seal(t.Context(), somewhere, secret.NewValue("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	old, err := secret.KeyOf(sealed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.AddKey(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rest []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, old) {
			rest = append(rest, line)
		}
	}
	if err := os.WriteFile(path, []byte(strings.Join(rest, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), somewhere, sealed); !errors.Is(err, secret.ErrNoKey) || !strings.Contains(err.Error(), old) {
		t.Errorf("%v does not name the key", err)
	}
}

// A reader may see an incomplete line while a process writes a key, or after that process has died.
func TestALineThatIsNotWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	keys := secret.NewKeyFile(path)
	first, err := keys.AddKey()
	if err != nil {
		t.Fatal(err)
	}
	before, err := keys.Keys()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("file-00112233"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if id, err := keys.Current(t.Context()); err != nil || id != first {
		t.Errorf("current is %q, %v", id, err)
	}
	if _, err := keys.AddKey(); err == nil {
		t.Error("a key was added to a line that is not whole")
	}
	if now, err := keys.Keys(); err != nil || !slices.Equal(now, before) {
		t.Errorf("%q, %v", now, err)
	}
}

func TestKeysAddedAtOnceAreAllThere(t *testing.T) {
	keys := keyFile(t)
	ids := make([]string, 16)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			var err error
			if ids[i], err = keys.AddKey(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	now, err := keys.Keys()
	if err != nil || len(now) != len(ids)+1 {
		t.Fatalf("%d keys, %v", len(now), err)
	}
	for _, id := range ids {
		if !slices.Contains(now, id) {
			t.Errorf("%s is lost", id)
		}
	}
}
