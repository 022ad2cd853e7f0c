package inbox_test

import (
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func ids() string { return uuid.Must(uuid.NewV7()).String() }

var traces = trace.NewSource(time.Now, rand.Reader)

// world is a fresh workspace on one engine with its inbox.
type world struct {
	dbtest.Env
	s      *inbox.Store
	outbox *outbox.Store
	keys   *secret.KeyFile

	keyPath string
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	w := &world{Env: e, keyPath: filepath.Join(t.TempDir(), "key")}
	w.keys = secret.NewKeyFile(w.keyPath)
	var err error
	if w.outbox, err = outbox.New(e.DB, ids, mathrand.Float64); err != nil {
		t.Fatal(err)
	}
	w.s = w.store(t)
	return w
}

// store is a store as a process has that begins.
func (w *world) store(t testing.TB) *inbox.Store {
	t.Helper()
	secrets, err1 := secret.New(w.DB, w.keys)
	s, err2 := inbox.New(w.DB, secrets, w.outbox, ids)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return s
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

type ownQueries struct{ Slug, CopySecret, ForgetKick, ForgetDelivery db.Query }

// own are the queries of these tests.
func own(t testing.TB) (q ownQueries) {
	t.Helper()
	dbtest.Load(t, "testdata", &q)
	return q
}
