package lane_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine, with what tests do in it.
type world struct {
	dbtest.Env
	s *lane.Store
	q struct{ Put, Get db.Query }
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e, s: open(t, e.DB)}
	dbtest.Load(t, "testdata/register", &w.q)
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

// another returns the same world as another process sees it, with its own handle and clock.
func (w world) another(t testing.TB) world {
	t.Helper()
	w.DB, w.Skew = w.Open(t, 0)
	w.s = open(t, w.DB)
	return w
}

func open(t testing.TB, d *db.DB) *lane.Store {
	t.Helper()
	s, err := lane.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// request returns a request for a lane for 10 minutes.
func (w world) request(name lane.Name) lane.Request {
	return lane.Request{Workspace: w.Workspace, Lane: name, Holder: "holder", TTL: 10 * time.Minute}
}

// acquire acquires a lane that must be free.
func acquire(t testing.TB, s *lane.Store, r lane.Request) *lane.Hold {
	t.Helper()
	h, err := s.Acquire(context.Background(), r)
	if err != nil {
		t.Fatalf("acquire %s: %v", r.Lane, err)
	}
	return h
}

// refused requests a lane that must be busy, and returns who holds it.
func refused(t testing.TB, s *lane.Store, r lane.Request) lane.Info {
	t.Helper()
	h, err := s.Acquire(context.Background(), r)
	busy, ok := errors.AsType[*lane.BusyError](err)
	if !ok {
		t.Fatalf("acquire %s: got hold %v and error %v, want a BusyError", r.Lane, h, err)
	}
	return busy.Info
}

func (w world) release(t testing.TB, h *lane.Hold) {
	t.Helper()
	if err := w.s.Release(context.Background(), h); err != nil {
		t.Fatal(err)
	}
}

func (w world) peek(t testing.TB, name lane.Name) lane.Info {
	t.Helper()
	i, err := w.s.Peek(context.Background(), w.Workspace, name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// mustBeFree fails when somebody holds one of the lanes.
func (w world) mustBeFree(t testing.TB, names ...lane.Name) {
	t.Helper()
	for _, name := range names {
		i, err := w.s.Peek(context.Background(), w.Workspace, name)
		if err != nil && !errors.Is(err, db.ErrNoRows) {
			t.Fatal(err)
		}
		if i.Held() {
			t.Errorf("lane %s is held: %+v", name, i)
		}
	}
}

func (w world) force(t testing.TB, name lane.Name) (ended bool) {
	t.Helper()
	err := w.DB.Tx(context.Background(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		ended, err = w.s.ForceRelease(ctx, tx, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

func (w world) sweep(t testing.TB, want int64) {
	t.Helper()
	n, err := w.s.Sweep(context.Background(), w.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	if n != want {
		t.Fatalf("swept %d rows, want %d", n, want)
	}
}

// register is a row that the lanes of a test protect.
const register = "register"

// put queues a write to the register under a proof.
func (w world) put(tx lane.Tx, h *lane.Hold, value string) {
	tx.Later().Exec(w.q.Put, register, h.Fence, value)
}

// value returns what the register holds; "" at first.
func (w world) value(t testing.TB) (value string) {
	t.Helper()
	var fence int64
	err := w.DB.One(context.Background(), w.Workspace, []any{&fence, &value}, w.q.Get, register)
	if err != nil && !errors.Is(err, db.ErrNoRows) {
		t.Fatal(err)
	}
	return value
}

func nothing(context.Context, lane.Tx) error { return nil }

// about allows for the real time that passes while a test runs.
func about(got, want time.Duration) bool { return (got - want).Abs() < 15*time.Second }
