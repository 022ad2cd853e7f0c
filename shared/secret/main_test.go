package secret_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(sealWith); path != "" { // this is a process of TestProcessesMakeOneKeyFile
		os.Exit(sealOnce(path))
	}
	dbtest.Main(m)
}

// world is a fresh workspace on one engine with its secrets, which are sealed under a new key file.
type world struct {
	dbtest.Env
	*secret.Store
	keys *secret.KeyFile
	path string // of the key file
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		w := world{Env: e, path: filepath.Join(t.TempDir(), "key")}
		w.keys = secret.NewKeyFile(w.path)
		var err error
		if w.Store, err = secret.New(e.DB, w.keys); err != nil {
			t.Fatal(err)
		}
		fn(t, w)
	})
}

func (w world) put(t testing.TB, name, text string) secret.Info {
	t.Helper()
	info, err := w.Put(t.Context(), w.Workspace, name, secret.NewValue(text), "local:test")
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// has checks the text of a secret.
func (w world) has(t testing.TB, name, text string) {
	t.Helper()
	v, err := w.Resolve(t.Context(), w.Workspace, name)
	if err != nil || v.Reveal() != text {
		t.Errorf("%s is not what was put (%d bytes, %v)", name, len(v.Reveal()), err)
	}
}

var somewhere = secret.Place{Workspace: "0190d0a8-0000-7000-8000-000000000001", Table: "secrets", Column: "sealed", Row: "github"}

func keyFile(t testing.TB) *secret.KeyFile {
	t.Helper()
	return secret.NewKeyFile(filepath.Join(t.TempDir(), "deep", "key"))
}

// awkward are secrets that encodings change.
var awkward = []string{`with spaces`, `"quotes"and\back/slashes`, "tab\tand\nline", `<html>&'quotes'`, `🦜 and \u2028`, `{"json":1}`, "-----BEGIN A-----\nb+c/d\n-----END A-----"}

var _ secret.Resolver = (*secret.Store)(nil)

// knowing returns a redactor that knows the texts.
func knowing(texts ...string) *redact.Redactor {
	r := redact.New(nil)
	for _, text := range texts {
		r.Add(secret.NewValue(text))
	}
	return r
}
