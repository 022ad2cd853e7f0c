package db_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

func TestDoIsOneTransactionInOneRoundTrip(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var b db.Batch
		id := uuid.NewString()
		b.Exec(w.q.Add, id, "a")
		renamed := b.Exec(w.q.Rename, id, "b")
		var agent string
		b.One([]any{&agent}, w.q.Agent, id)
		var agents []string
		b.Each(func(scan db.Scan) error {
			agents = append(agents, "")
			return scan(&agents[len(agents)-1])
		}, w.q.Agents)
		cost := w.spent(func() {
			if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
		})
		if want := (db.Stats{Statements: 4, RoundTrips: 1}); cost != want {
			t.Errorf("it cost %+v, want %+v", cost, want)
		}
		if renamed.Affected() != 1 || agent != "b" || len(agents) != 1 || agents[0] != "b" {
			t.Errorf("answers: %d, %q, %q", renamed.Affected(), agent, agents)
		}
	})
}

func TestALaterFailureUndoesTheEarlierStatements(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		taken := w.add(t, "there")
		var b db.Batch
		b.Exec(w.q.Add, uuid.NewString(), "a")
		b.Exec(w.q.Add, taken, "b")
		b.Exec(w.q.Add, uuid.NewString(), "c")
		err := w.DB.Do(t.Context(), w.Workspace, &b)
		if op, ok := errors.AsType[*db.OpError](err); !ok || op.Query != "seam.Add" || !errors.Is(err, db.ErrUnique) {
			t.Errorf("got %v", err)
		}
		w.holds(t, "there")
	})
}

func TestReadSeesOneState(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.add(t, "a")
		var b db.Batch
		var before, after int
		b.One([]any{&before}, w.q.Count)
		b.One([]any{&after}, w.q.Count)
		cost := w.spent(func() {
			if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
		})
		if before != 1 || after != 1 || cost.RoundTrips != 1 {
			t.Errorf("counted %d, then %d, in %d round trips", before, after, cost.RoundTrips)
		}
	})
}

func TestAnEmptyBatch(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		if err := errors.Join(
			w.DB.Do(t.Context(), w.Workspace, new(db.Batch)),
			w.DB.Read(t.Context(), w.Workspace, new(db.Batch)),
			w.DB.Check(t.Context()),
		); err != nil {
			t.Error(err)
		}
	})
}

func TestAffected(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.add(t, "a")
		w.add(t, "b")
		for _, c := range []struct {
			name string
			q    db.Query
			args []any
			want int64
		}{
			{"a row changed", w.q.Rename, []any{id, "c"}, 1},
			{"none changed", w.q.Rename, []any{uuid.NewString(), "c"}, 0},
			{"a row returned, not read", w.q.Lock, []any{id}, 1},
			{"rows selected, not read", w.q.Agents, nil, 2},
			{"none selected", w.q.Agent, []any{uuid.NewString()}, 0},
		} {
			if n, err := w.DB.Exec(t.Context(), w.Workspace, c.q, c.args...); err != nil || n != c.want {
				t.Errorf("%s: %d, %v; want %d", c.name, n, err, c.want)
			}
		}
	})
}

func TestNoRows(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		there, gone := w.add(t, "a"), uuid.NewString()
		var agent string
		err := w.DB.One(t.Context(), w.Workspace, []any{&agent}, w.q.Agent, gone)
		if op, ok := errors.AsType[*db.OpError](err); !ok || op.Query != "seam.Agent" || !errors.Is(err, db.ErrNoRows) {
			t.Errorf("One: %v", err)
		}
		var n int
		if err := w.DB.One(t.Context(), w.Workspace, []any{&n}, w.q.Count); err != nil || n != 1 {
			t.Errorf("One of a row: %d, %v", n, err)
		}
		if err := w.DB.Each(t.Context(), w.Workspace, nil, w.q.Agent, gone); err != nil {
			t.Errorf("Each of nothing: %v", err)
		}
		for id, want := range map[string]error{there: nil, gone: db.ErrNoRows} {
			var b db.Batch
			b.Exec(w.q.Rename, id, "b").MustFind()
			if err := w.DB.Do(t.Context(), w.Workspace, &b); !errors.Is(err, want) {
				t.Errorf("MustFind: %v, want %v", err, want)
			}
		}
	})
}

// TestRefusals: refusals of the database have the same errors on every engine, and name the
// statement.
func TestRefusals(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		taken := w.add(t, "there")
		for _, c := range []struct {
			name string
			q    db.Query
			args []any
			want error
		}{
			{"a key that is taken", w.q.Add, []any{taken, "a"}, db.ErrUnique},
			{"a row that is not there", w.q.AddChild, []any{uuid.NewString(), uuid.NewString()}, db.ErrReference},
			{"a value outside the set", w.q.AddOdd, []any{uuid.NewString(), "a", "xx", "{}"}, db.ErrCheck},
			{"text that is too long", w.q.AddOdd, []any{uuid.NewString(), strings.Repeat("a", 256), "hb", "{}"}, db.ErrCheck},
			{"JSON that is none", w.q.AddOdd, []any{uuid.NewString(), "a", "hb", "{"}, db.ErrCheck},
			{"nothing where something must be", w.q.AddOdd, []any{uuid.NewString(), nil, "hb", "{}"}, db.ErrCheck},
			{"text where a number must be", w.q.Store, []any{uuid.NewString(), "a", "hb", nil, nil, true, "many", 0, 0, "{}", nil, time.Now(), nil}, db.ErrCheck},
		} {
			t.Run(c.name, func(t *testing.T) {
				_, err := w.DB.Exec(t.Context(), w.Workspace, c.q, c.args...)
				op, ok := errors.AsType[*db.OpError](err)
				if !ok || op.Query != c.q.Name() || !errors.Is(err, c.want) || strings.Count(err.Error(), c.q.Name()) != 1 {
					t.Errorf("got %v, want %v", err, c.want)
				}
			})
		}
		w.holds(t, "there")
	})
}

// TestAnErrorOfTheReader: an error of the reader of the rows is returned unchanged.
func TestAnErrorOfTheReader(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.add(t, "a")
		mine := errors.New("mine")
		for name, err := range map[string]error{
			"Each": w.DB.Each(t.Context(), w.Workspace, func(db.Scan) error { return mine }, w.q.Agents),
			"Tx": w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				return tx.Each(ctx, func(db.Scan) error { return mine }, w.q.Lock, id)
			}),
		} {
			if !errors.Is(err, mine) || errors.Is(err, db.ErrUnavailable) || errors.Is(err, db.ErrUncertain) {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.holds(t, "a")
	})
}

// TestAPanicOfTheReader: a reader's panic loses neither a connection nor the writer's turn, and the
// changes of its batch are rolled back.
func TestAPanicOfTheReader(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d, _ := w.Open(t, 1)
		id := w.add(t, "a")
		panics := func(fn func(row func(db.Scan) error)) {
			t.Helper()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			fn(func(db.Scan) error { panic("reader") })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 6 { // more than there are connections
			panics(func(row func(db.Scan) error) { _ = d.Each(ctx, w.Workspace, row, w.q.Agents) })
			panics(func(row func(db.Scan) error) {
				var b db.Batch
				b.Each(row, w.q.Lock, id)
				_ = d.Do(ctx, w.Workspace, &b)
			})
			panics(func(row func(db.Scan) error) {
				_ = d.Tx(ctx, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
					tx.Later().Exec(w.q.Rename, id, "b")
					return tx.Each(ctx, row, w.q.Agents)
				})
			})
		}
		if _, err := d.Exec(ctx, w.Workspace, w.q.Lock, id); err != nil {
			t.Error(err)
		}
		w.holds(t, "a")
	})
}

// TestWaitingEndsWithTheContext: a caller that waits for the writer or a connection stops when its
// context ends, and leaves the queue intact.
func TestWaitingEndsWithTheContext(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d, _ := w.Open(t, 1)
		id := w.add(t, "a")
		err := d.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, w.q.Rename, id, "b"); err != nil {
				return err
			}
			soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					_, err := d.Exec(soon, w.Workspace, w.q.Rename, id, "c")
					if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, db.ErrUncertain) {
						t.Errorf("while waiting: %v", err)
					}
				})
			}
			wg.Wait()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Exec(t.Context(), w.Workspace, w.q.Rename, id, "d"); err != nil {
			t.Fatal(err)
		}
		w.holds(t, "d")
	})
}

func TestACancelledContextChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.add(t, "a")
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.DB.Exec(cancelled, w.Workspace, w.q.Rename, id, "b"); !errors.Is(err, context.Canceled) {
			t.Errorf("Exec: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := w.DB.Tx(ctx, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, w.q.Rename, id, "b"); err != nil {
				return err
			}
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Tx cancelled before its commit: %v", err)
		}
		w.holds(t, "a")
	})
}

// TestSkewBelongsToItsHandle: time passes only for the handle whose clock is skewed, even when
// handles share server connections.
func TestSkewBelongsToItsHandle(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		other, _ := w.Open(t, 0)
		now := func(d *db.DB) (at time.Time) {
			t.Helper()
			if err := d.One(t.Context(), w.Workspace, []any{&at}, w.q.Now); err != nil {
				t.Fatal(err)
			}
			return at
		}
		w.Skew.Advance(time.Hour)
		for range 3 {
			skewed, plain := now(w.DB), now(other)
			if ahead := skewed.Sub(plain); ahead < 59*time.Minute || ahead > 61*time.Minute {
				t.Errorf("the skewed clock is %s ahead", ahead)
			}
		}
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			var first, second, later time.Time
			if err := tx.One(ctx, []any{&first}, w.q.Now); err != nil {
				return err
			}
			if err := tx.One(ctx, []any{&second, &later}, w.q.Later, 90_000); err != nil {
				return err
			}
			if first.Sub(now(other)) < 59*time.Minute || second.Before(first) {
				t.Errorf("in a transaction: %s, then %s", first, second)
			}
			if d := later.Sub(second); d < 90*time.Second || d > 91*time.Second {
				t.Errorf("90,000 ms later is %s later", d)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestPrepareTellsWrongStatements(t *testing.T) {
	queries, err := db.Parse(sources{"a.sql": get + "-- name: Wrong\nSELECT nothing FROM nowhere WHERE $1;\n"}.fs())
	if err != nil {
		t.Fatal(err)
	}
	onEach(t, func(t *testing.T, w world) {
		for _, q := range queries {
			if err := w.DB.Prepare(t.Context(), q); (err == nil) != (q.Name() == "a.Get") {
				t.Errorf("%s: %v", q.Name(), err)
			}
		}
	})
}
