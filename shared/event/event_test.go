package event_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/event"
)

func TestRead(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		start := w.now(t)
		w.add(t, "a.b", "1", "2")
		w.add(t, "c", "3")
		another := w
		another.Workspace = dbtest.NewWorkspace(t, w.DB)
		another.add(t, "a.b", "theirs")

		all, end := w.settled(t, start, 3)
		if diff := cmp.Diff([]string{"1", "2", "3"}, subjects(all)); diff != "" {
			t.Fatal(diff)
		}
		first := all[0]
		if first.Kind != "a.b" || first.Trace != "" || string(first.Data) != `{"a":1}` || first.CreatedAt.IsZero() {
			t.Errorf("%+v", first)
		}
		if found, _ := w.read(t, end, nil, 10); len(found) > 0 {
			t.Errorf("behind the end: %v", subjects(found))
		}
		if found, _ := w.read(t, first.Cursor, nil, 10); !slices.Equal(subjects(found), []string{"2", "3"}) {
			t.Errorf("behind the first: %v", subjects(found))
		}
		if found, _ := w.read(t, event.Cursor{}, nil, 10); !slices.Equal(subjects(found), []string{"1", "2", "3"}) {
			t.Errorf("from the beginning: %v", subjects(found))
		}
		if found, _ := w.read(t, start, []string{"c", "d"}, 10); !slices.Equal(subjects(found), []string{"3"}) {
			t.Errorf("of a kind: %v", subjects(found))
		}
		found, next := w.read(t, start, nil, 2)
		if !slices.Equal(subjects(found), []string{"1", "2"}) || next != found[1].Cursor {
			t.Errorf("two at most: %v, on with %v", subjects(found), next)
		}
	})
}

func TestTell(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		start := w.now(t)
		told := event.Event{Kind: "queue.waiting", Subject: "subagent", Trace: "op_0mh8c1v2q_a7x2p1k9d4", Data: []byte(`{"ahead":1}`)}
		if err := w.events.Tell(t.Context(), w.Workspace, told); err != nil {
			t.Fatal(err)
		}
		all, _ := w.settled(t, start, 1)
		told.Cursor, told.CreatedAt = all[0].Cursor, all[0].CreatedAt
		if diff := cmp.Diff(told, all[0], cmp.AllowUnexported(event.Cursor{})); diff != "" {
			t.Error(diff)
		}
	})
}

func TestReadIsOneStatement(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		before := w.DB.Stats()
		w.read(t, event.Cursor{}, []string{"a"}, 10)
		if got, want := w.DB.Stats().Sub(before), (db.Stats{Statements: 1, RoundTrips: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// TestAReadIsPlannedOnce for each way to read: with kinds and without.
func TestAReadIsPlannedOnce(t *testing.T) {
	w := newWorld(t, dbtest.OneConnection(t))
	for range 3 {
		w.read(t, event.Cursor{}, nil, 10)
		w.read(t, event.Cursor{}, []string{"a"}, 10)
	}
	if n := w.Plans(t, "FROM events"); n != 2 {
		t.Errorf("the plans of %d statements about events are kept, want 2", n)
	}
}

// TestUndoneEventsAreNotSeen: nobody sees an event whose transaction was rolled back.
func TestUndoneEventsAreNotSeen(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		start, undone := w.now(t), errors.New("undone")
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, w.q.Add, "a", "undone"); err != nil {
				return err
			}
			return undone
		})
		if !errors.Is(err, undone) {
			t.Fatal(err)
		}
		w.add(t, "a", "done")
		if found, _ := w.settled(t, start, 1); !slices.Equal(subjects(found), []string{"done"}) {
			t.Errorf("%v", subjects(found))
		}
	})
}

// TestAnOpenTransactionHoldsBackWhatBeganAfterIt: a transaction begins first and commits last. Its
// event, and those after it, are held back and not lost.
func TestAnOpenTransactionHoldsBackWhatBeganAfterIt(t *testing.T) {
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnPgBouncer} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, dbtest.New(t, engine))
			start := w.now(t)
			var beside event.Cursor
			other, _ := w.Open(t, 0)
			err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				if _, err := tx.Exec(ctx, w.q.Add, "a", "slow"); err != nil {
					return err
				}
				quick := w
				quick.DB = other
				quick.add(t, "a", "quick")
				events, err := event.New(other)
				if err != nil {
					return err
				}
				found, next, err := events.Read(t.Context(), w.Workspace, start, nil, 10)
				if len(found) > 0 {
					t.Errorf("already seen: %v", subjects(found))
				}
				beside = next
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			for name, from := range map[string]event.Cursor{"the start": start, "beside it": beside} {
				if found, _ := w.settled(t, from, 2); !slices.Equal(subjects(found), []string{"slow", "quick"}) {
					t.Errorf("from %s: %v", name, subjects(found))
				}
			}
		})
	}
}

func TestACursorOfAnotherDatabase(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.add(t, "a", "1")
		for _, foreign := range []string{"9000000000000000000-0", "9000000000000000000-9000000000000000000"} {
			c, err := event.ParseCursor(foreign)
			if err != nil {
				t.Fatal(err)
			}
			found, present, err := w.events.Read(t.Context(), w.Workspace, c, nil, 10)
			if !errors.Is(err, event.ErrReset) || len(found) > 0 {
				t.Errorf("%s: %v, %v", foreign, found, err)
			}
			if _, _, err := w.events.Read(t.Context(), w.Workspace, present, nil, 10); err != nil {
				t.Errorf("from the position it names: %v", err)
			}
		}
	})
	t.Run("of SQLite's own kind", func(t *testing.T) {
		w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
		w.add(t, "a", "1")
		ahead := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
		ahead.add(t, "a", "1", "2")
		if _, _, err := w.events.Read(t.Context(), w.Workspace, ahead.now(t), nil, 10); !errors.Is(err, event.ErrReset) {
			t.Error(err)
		}
	})
}

func TestReadWithoutADatabase(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	d, _ := w.Open(t, 0)
	events, err := event.New(d)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var zero event.Cursor
	if _, next, err := events.Read(ctx, w.Workspace, zero, nil, 10); err == nil || next != zero {
		t.Errorf("%v, on with %v", err, next)
	}
}
