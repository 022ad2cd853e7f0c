package event_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/event"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine.
type world struct {
	dbtest.Env
	events *event.Store
	q      struct{ Add db.Query }
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e}
	dbtest.Load(t, "testdata/events", &w.q)
	var err error
	if w.events, err = event.New(e.DB); err != nil {
		t.Fatal(err)
	}
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

// add appends events of a kind.
func (w world) add(t testing.TB, kind string, subjects ...string) {
	t.Helper()
	for _, s := range subjects {
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Add, kind, s); err != nil {
			t.Fatal(err)
		}
	}
}

func (w world) read(t testing.TB, after event.Cursor, kinds []string, limit int) ([]event.Event, event.Cursor) {
	t.Helper()
	found, next, err := w.events.Read(t.Context(), w.Workspace, after, kinds, limit)
	if err != nil {
		t.Fatal(err)
	}
	return found, next
}

func (w world) now(t testing.TB) event.Cursor {
	t.Helper()
	c, err := w.events.Now(t.Context(), w.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// settled reads on until n events are there. Open transactions of other tests may hold ours back.
func (w world) settled(t testing.TB, after event.Cursor, n int) (all []event.Event, next event.Cursor) {
	t.Helper()
	for next = after; len(all) < n; {
		if err := t.Context().Err(); err != nil {
			t.Fatalf("%d of %d events: %v", len(all), n, err)
		}
		var found []event.Event
		found, next = w.read(t, next, nil, 100)
		all = append(all, found...)
	}
	return all, next
}

func subjects(events []event.Event) (s []string) {
	for _, e := range events {
		s = append(s, e.Subject)
	}
	return s
}
