package db_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

func TestTx(t *testing.T) {
	mine := errors.New("mine")
	for _, c := range []struct {
		name  string
		after func() error // what the function does after it has written
		want  error
		holds []string
	}{
		{"commits", func() error { return nil }, nil, []string{"a", "b"}},
		{"undoes on an error", func() error { return mine }, mine, nil},
		{"undoes on a panic", func() error { panic(mine) }, mine, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w world) {
				err := func() (err error) {
					defer func() {
						if p := recover(); p != nil {
							err = p.(error)
						}
					}()
					return w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
						tx.Later().Exec(w.q.Add, uuid.NewString(), "a")
						if _, err := tx.Exec(ctx, w.q.Add, uuid.NewString(), "b"); err != nil {
							return err
						}
						return c.after()
					})
				}()
				if !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				w.holds(t, c.holds...)
				w.add(t, "z") // the handle still works
			})
		})
	}
}

// TestLaterTravelsWithTheNext: statements in Later are sent in order, with the next statement whose
// answer is needed, or with COMMIT.
func TestLaterTravelsWithTheNext(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := uuid.NewString()
		cost := w.spent(func() {
			err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				tx.Later().Exec(w.q.Add, id, "a")
				tx.Later().Exec(w.q.Rename, id, "b")
				var agent string
				if err := tx.One(ctx, []any{&agent}, w.q.Agent, id); err != nil || agent != "b" {
					t.Errorf("read %q, %v", agent, err)
				}
				tx.Later().Exec(w.q.Rename, id, "c")
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		if want := (db.Stats{Statements: 4, RoundTrips: 2}); cost != want {
			t.Errorf("it cost %+v, want %+v", cost, want)
		}
		w.holds(t, "c")
	})
}

func TestTxCosts(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.add(t, "a")
		for _, c := range []struct {
			name string
			fn   func(ctx context.Context, tx *db.Tx) error
			want db.Stats
		}{
			{"nothing", func(context.Context, *db.Tx) error { return nil }, db.Stats{}},
			{"a flush of nothing", func(ctx context.Context, tx *db.Tx) error { return tx.Flush(ctx) }, db.Stats{}},
			{"later only", func(_ context.Context, tx *db.Tx) error {
				tx.Later().Exec(w.q.Rename, id, "b")
				tx.Later().Exec(w.q.Rename, id, "c")
				return nil
			}, db.Stats{Statements: 2, RoundTrips: 1}},
			{"an answer", func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, w.q.Rename, id, "d")
				return err
			}, db.Stats{Statements: 1, RoundTrips: 2}},
			{"a flush", func(ctx context.Context, tx *db.Tx) error {
				tx.Later().Exec(w.q.Rename, id, "e")
				return tx.Flush(ctx)
			}, db.Stats{Statements: 1, RoundTrips: 2}},
		} {
			cost := w.spent(func() {
				if err := w.DB.Tx(t.Context(), w.Workspace, c.fn); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			})
			if cost != c.want {
				t.Errorf("%s cost %+v, want %+v", c.name, cost, c.want)
			}
		}
		w.holds(t, "e")
	})
}

// TestAFailedTransactionCannotCommit: a failed statement fails its transaction, even when the
// function ignores the error. Postgres would answer COMMIT with a silent ROLLBACK; SQLite would
// commit the rest.
func TestAFailedTransactionCannotCommit(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		taken := w.add(t, "there")
		for _, c := range []struct {
			name string
			fail func(ctx context.Context, tx *db.Tx) error
			want error
		}{
			{"refused by the database", func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, w.q.Add, taken, "b")
				return err
			}, db.ErrUnique},
			{"no row where one must be", func(ctx context.Context, tx *db.Tx) error {
				var agent string
				return tx.One(ctx, []any{&agent}, w.q.Agent, uuid.NewString())
			}, db.ErrNoRows},
			{"no row changed where one must be", func(ctx context.Context, tx *db.Tx) error {
				tx.Later().Exec(w.q.Rename, uuid.NewString(), "b").MustFind()
				return tx.Flush(ctx)
			}, db.ErrNoRows},
			{"an argument no engine takes", func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, w.q.Rename, taken, "\x00")
				return err
			}, db.ErrCheck},
		} {
			t.Run(c.name, func(t *testing.T) {
				err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
					if _, err := tx.Exec(ctx, w.q.Add, uuid.NewString(), "a"); err != nil {
						t.Fatal(err)
					}
					if err := c.fail(ctx, tx); !errors.Is(err, c.want) {
						t.Errorf("the statement: %v, want %v", err, c.want)
					}
					if _, err := tx.Exec(ctx, w.q.Add, uuid.NewString(), "c"); !errors.Is(err, c.want) {
						t.Errorf("the statement behind it: %v, want %v", err, c.want)
					}
					tx.Later().Exec(w.q.Add, uuid.NewString(), "d")
					return nil
				})
				if !errors.Is(err, c.want) {
					t.Errorf("the transaction: %v, want %v", err, c.want)
				}
				w.holds(t, "there")
			})
		}
	})
}

// TestNested: the pool would wait for itself under the context of an open transaction.
func TestNested(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.add(t, "a")
		one, _ := w.Open(t, 1)
		err := one.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, w.q.Rename, id, "b"); err != nil {
				return err
			}
			_, exec := one.Exec(ctx, w.Workspace, w.q.Rename, id, "c")
			for name, err := range map[string]error{
				"Exec":    exec,
				"Do":      one.Do(ctx, w.Workspace, new(db.Batch)),
				"Read":    one.Read(ctx, w.Workspace, new(db.Batch)),
				"One":     one.One(ctx, w.Workspace, nil, w.q.Count),
				"Each":    one.Each(ctx, w.Workspace, nil, w.q.Agents),
				"Tx":      one.Tx(ctx, w.Workspace, func(context.Context, *db.Tx) error { return nil }),
				"Check":   one.Check(ctx),
				"Prepare": one.Prepare(ctx, w.q.Count),
			} {
				if !errors.Is(err, db.ErrNested) {
					t.Errorf("%s: %v", name, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		w.holds(t, "b")
	})
}
