package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
)

// fill opens n connections of the world's pool. They are idle when it returns.
func (w world) fill(t testing.TB, n int) {
	t.Helper()
	var wg, all sync.WaitGroup
	all.Add(n)
	for range n {
		wg.Go(func() {
			err := w.DB.Tx(t.Context(), "", func(ctx context.Context, tx *db.Tx) error {
				var pid int
				err := tx.One(ctx, []any{&pid}, w.q.Pid)
				all.Done()
				all.Wait() // each on its own connection
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// kill ends the world's server processes, as a failover does, and waits until they have ended. It
// returns how many there were.
func (w world) kill(t testing.TB) (n int) {
	t.Helper()
	n = one[int](t, w.admin, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1`, w.name)
	w.until(t, `SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = $1`)
	return n
}

// until repeats a query until its answer is true.
func (w world) until(t testing.TB, question string) {
	t.Helper()
	for !one[bool](t, w.admin, question, w.name) {
	}
}

// waiting returns when one of the world's connections waits for a lock.
func (w world) waiting(t testing.TB) {
	t.Helper()
	w.until(t, `SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`)
}

// TestDeadConnectionsAreReplacedSilently: all connections of a pool, or of a pooler, may have died
// since they were used. No caller notices.
func TestDeadConnectionsAreReplacedSilently(t *testing.T) {
	const conns = 2
	for name, w := range map[string]world{
		"postgres":  newWorld(t, dbtest.OnPostgres, conns),
		"pgbouncer": newWorld(t, dbtest.OnPgBouncer, conns).behindAPoolerOfItsOwn(t),
	} {
		t.Run(name, func(t *testing.T) {
			id := w.add(t, "a")
			for name, use := range map[string]func() error{
				"Exec": func() error {
					_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Rename, id, "b")
					return err
				},
				"One": func() error {
					return w.DB.One(t.Context(), w.Workspace, []any{new(string)}, w.q.Agent, id)
				},
				"Check": func() error { return w.DB.Check(t.Context()) },
				"Tx": func() error {
					return w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
						tx.Later().Exec(w.q.Rename, id, "c")
						return tx.One(ctx, []any{new(string)}, w.q.Agent, id)
					})
				},
			} {
				t.Run(name, func(t *testing.T) {
					w.fill(t, conns)
					if n := w.kill(t); n < conns {
						t.Fatalf("killed %d connections, want %d", n, conns)
					}
					if err := use(); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// TestKilledDuringAStatement: a connection that breaks before a commit has changed nothing, and the
// error says so.
func TestKilledDuringAStatement(t *testing.T) {
	w := newWorld(t, dbtest.OnPostgres, 2)
	other := newWorld(t, dbtest.OnPostgres, 1)
	id := w.add(t, "a")
	for name, use := range map[string]func() error{
		"Exec": func() error {
			_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Rename, id, "b")
			return err
		},
		"Tx": func() error {
			return w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, w.q.Rename, id, "b")
				return err
			})
		},
		"Tx at its commit": func() error {
			return w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				if err := tx.One(ctx, []any{new(int)}, w.q.Pid); err != nil {
					return err
				}
				tx.Later().Exec(w.q.Rename, id, "b")
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan error, 1)
			err := other.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				if _, err := tx.Exec(ctx, w.q.Rename, id, "held"); err != nil {
					return err
				}
				go func() { failed <- use() }()
				w.waiting(t)
				w.kill(t)
				if err := <-failed; !errors.Is(err, db.ErrUnavailable) || errors.Is(err, db.ErrUncertain) {
					t.Errorf("got %v, want %v", err, db.ErrUnavailable)
				}
				return errUndo
			})
			if !errors.Is(err, errUndo) {
				t.Fatal(err)
			}
			w.is(t, id, "a")
		})
	}
}

var errUndo = errors.New("undo")

// TestBrokenConnections: when the connection breaks between the commit and its answer, the outcome
// is unknown. In all other cases nothing has changed.
func TestBrokenConnections(t *testing.T) {
	for _, c := range []struct {
		name  string
		use   func(w world, p *proxy, f fate, id string) error
		fate  fate
		want  error
		agent string // in the row afterwards
	}{
		{"Exec, request lost", exec, lose, db.ErrUncertain, "a"},
		{"Exec, answer lost", exec, loseAnswer, db.ErrUncertain, "b"},
		{"commit, request lost", commit, lose, db.ErrUncertain, "a"},
		{"commit, answer lost", commit, loseAnswer, db.ErrUncertain, "b"},
		{"first statement of a Tx, answer lost", begin, loseAnswer, db.ErrUnavailable, "a"},
		{"later statement of a Tx, request lost", statement, lose, db.ErrUnavailable, "a"},
		{"later statement of a Tx, answer lost", statement, loseAnswer, db.ErrUnavailable, "a"},
		{"Read, request lost", read, lose, nil, "a"}, // it is sent again
		{"Read, answer lost", read, loseAnswer, nil, "a"},
		{"first Read, answer lost", firstRead, loseAnswer, db.ErrUnavailable, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, dbtest.OnPostgres, 1)
			p := newProxy(t, w.URL)
			id := w.add(t, "a")
			through := w
			through.DB = open(t, postgres.Config{URL: p.url, MaxConns: 1})
			if err := c.use(through, p, c.fate, id); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			} else if c.want != nil && errors.Is(err, db.ErrUncertain) == errors.Is(err, db.ErrUnavailable) {
				t.Errorf("%v is both", err)
			}
			w.is(t, id, c.agent)
			if err := through.DB.Check(context.Background()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func exec(w world, p *proxy, f fate, id string) error {
	if err := w.DB.Check(context.Background()); err != nil {
		return err
	}
	p.then(f)
	_, err := w.DB.Exec(context.Background(), w.Workspace, w.q.Rename, id, "b")
	return err
}

func commit(w world, p *proxy, f fate, id string) error {
	return w.DB.Tx(context.Background(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		if _, err := tx.Exec(ctx, w.q.Rename, id, "b"); err != nil {
			return err
		}
		p.then(f)
		return nil
	})
}

func begin(w world, p *proxy, f fate, id string) error {
	p.then(f)
	return w.DB.Tx(context.Background(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, w.q.Rename, id, "b")
		return err
	})
}

func statement(w world, p *proxy, f fate, id string) error {
	return w.DB.Tx(context.Background(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.One(ctx, []any{new(int)}, w.q.Pid); err != nil {
			return err
		}
		p.then(f)
		_, err := tx.Exec(ctx, w.q.Rename, id, "b")
		return err
	})
}

func read(w world, p *proxy, f fate, id string) error {
	if err := w.DB.Check(context.Background()); err != nil {
		return err
	}
	return firstRead(w, p, f, id)
}

func firstRead(w world, p *proxy, f fate, id string) error {
	p.then(f)
	return w.DB.One(context.Background(), w.Workspace, []any{new(string)}, w.q.Agent, id)
}

// TestRoundTripsOnTheWire: the round trips that Stats counts are those on the wire.
func TestRoundTripsOnTheWire(t *testing.T) {
	w := newWorld(t, dbtest.OnPostgres, 1)
	p := newProxy(t, w.URL)
	d := open(t, postgres.Config{URL: p.url, MaxConns: 1})
	id := w.add(t, "a")
	if err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		use  func() error
		want int
	}{
		{"Do", func() error {
			var b db.Batch
			b.Exec(w.q.Rename, id, "b")
			b.Exec(w.q.Add, uuid.NewString(), "c")
			b.One([]any{new(string)}, w.q.Agent, id)
			return d.Do(t.Context(), w.Workspace, &b)
		}, 1},
		{"Read", func() error { return d.One(t.Context(), w.Workspace, []any{new(string)}, w.q.Agent, id) }, 1},
		{"Tx with an answer", func() error {
			return d.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				tx.Later().Exec(w.q.Rename, id, "c")
				return tx.One(ctx, []any{new(string)}, w.q.Agent, id)
			})
		}, 2},
		{"Tx without", func() error {
			return d.Tx(t.Context(), w.Workspace, func(_ context.Context, tx *db.Tx) error {
				tx.Later().Exec(w.q.Rename, id, "d")
				return nil
			})
		}, 1},
		{"Tx that is undone", func() error {
			err := d.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				tx.Later().Exec(w.q.Rename, id, "e")
				return errors.Join(tx.Flush(ctx), errUndo)
			})
			if errors.Is(err, errUndo) {
				return nil
			}
			return err
		}, 2},
		{"Tx of nothing", func() error {
			return d.Tx(t.Context(), w.Workspace, func(context.Context, *db.Tx) error { return nil })
		}, 0},
	} {
		stats, wire := d.Stats(), p.count()
		if err := c.use(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := p.count() - wire; got != c.want {
			t.Errorf("%s took %d round trips, want %d", c.name, got, c.want)
		}
		if got := d.Stats().Sub(stats).RoundTrips; got != int64(c.want) && c.name != "Tx that is undone" {
			t.Errorf("%s: Stats counts %d round trips, want %d", c.name, got, c.want)
		}
	}
	w.is(t, id, "d")
}
