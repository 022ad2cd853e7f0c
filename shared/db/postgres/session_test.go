package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
)

// limits returns what lk_enter sets for each transaction.
func limits(ws db.Workspace) map[string]string {
	return map[string]string{
		"jit":                                 "off",
		"statement_timeout":                   "20s",
		"lock_timeout":                        "8s",
		"idle_in_transaction_session_timeout": "5s",
		"role":                                "lanekeeper_app",
		"app.workspace_id":                    string(ws),
	}
}

func TestEveryTransactionHasItsLimits(t *testing.T) {
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnPgBouncer} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, engine, 2)
			for name, want := range limits(w.Workspace) {
				var inDo, inTx, user string
				if err := w.DB.One(t.Context(), w.Workspace, []any{&inDo}, w.q.Setting, name); err != nil {
					t.Fatal(err)
				}
				err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
					return errors.Join(tx.One(ctx, []any{&inTx}, w.q.Setting, name), tx.One(ctx, []any{&user}, w.q.User))
				})
				if err != nil {
					t.Fatal(err)
				}
				if inDo != want || inTx != want || user != "lanekeeper_app" {
					t.Errorf("%s is %s in Do and %s in Tx, want %s; the user is %s", name, inDo, inTx, want, user)
				}
			}
		})
	}
}

// TestValuesAreReadWhateverTheirFormIs: a URL, a role or a database may say in which form a server writes
// values.
func TestValuesAreReadWhateverTheirFormIs(t *testing.T) {
	w := newWorld(t, dbtest.OnPostgres, 1)
	d := open(t, postgres.Config{MaxConns: 1, URL: with(t, w.URL, func(u *url.URL) {
		q := u.Query()
		for name, value := range map[string]string{"datestyle": "SQL", "bytea_output": "escape", "extra_float_digits": "-5", "timezone": "Asia/Kolkata"} {
			q.Set(name, value)
		}
		u.RawQuery = q.Encode()
	})})
	var at time.Time
	var bytes []byte
	var tenth float64
	if err := d.One(t.Context(), w.Workspace, []any{&at, &bytes, &tenth}, w.q.Values, 1.0/3); err != nil {
		t.Fatal(err)
	}
	if !at.Equal(time.Date(2026, 11, 20, 12, 0, 0, 5e8, time.UTC)) || string(bytes) != "\x00\xff" || tenth != 1.0/3 {
		t.Errorf("got %s, %x and %v", at, bytes, tenth)
	}
}

// TestLimitsEndTransactions: the limits end transactions. Here they are set lower inside the
// transaction.
func TestLimitsEndTransactions(t *testing.T) {
	w := newWorld(t, dbtest.OnPostgres, 2)
	other := newWorld(t, dbtest.OnPostgres, 1)
	id := w.add(t, "a")
	for _, c := range []struct {
		limit string
		want  error
	}{
		{"statement_timeout", context.DeadlineExceeded},
		{"lock_timeout", db.ErrUnavailable},
	} {
		t.Run(c.limit, func(t *testing.T) {
			err := other.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				if _, err := tx.Exec(ctx, w.q.Rename, id, "held"); err != nil {
					return err
				}
				err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
					if _, err := tx.Exec(ctx, w.q.Set, c.limit, "20ms"); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, w.q.Rename, id, "b")
					return err
				})
				if !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				return errUndo
			})
			if !errors.Is(err, errUndo) {
				t.Fatal(err)
			}
			w.is(t, id, "a")
		})
	}
	t.Run("idle_in_transaction_session_timeout", func(t *testing.T) {
		frozen := newWorld(t, dbtest.OnPostgres, 1)
		err := frozen.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, w.q.Rename, id, "b"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, w.q.Set, "idle_in_transaction_session_timeout", "20ms"); err != nil {
				return err
			}
			frozen.until(t, `SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = $1`)
			return nil // it wakes up and commits
		})
		if !errors.Is(err, db.ErrUnavailable) && !errors.Is(err, db.ErrUncertain) {
			t.Errorf("got %v", err)
		}
		w.is(t, id, "a")
	})
}

// TestNothingIsLeftOnServerConnections: whatever is done through the pooler, its server connections
// are as before. Another client finds no role, workspace, limits, clock or prepared statements.
func TestNothingIsLeftOnServerConnections(t *testing.T) {
	w := newWorld(t, dbtest.OnPgBouncer, 4).behindAPoolerOfItsOwn(t)
	w.Skew.Advance(time.Hour)
	used := w.everything(t)

	clean := map[string]string{"role": "none", "app.workspace_id": "", "app.skew_us": ""}
	admin := dbtest.Connect(t, dbtest.Servers(t).PostgresURL)
	for name := range limits("") {
		if _, set := clean[name]; !set {
			clean[name] = one[string](t, admin, "SELECT reset_val || coalesce(unit, '') FROM pg_settings WHERE name = $1", name)
		}
	}
	for _, conn := range w.serverConnections(t, used) {
		for name, want := range clean {
			if name == "role" || name == "app.workspace_id" || name == "app.skew_us" {
				if got := one[string](t, conn, "SELECT coalesce(current_setting($1, true), '')", name); got != want {
					t.Errorf("%s is left at %q", name, got)
				}
				continue
			}
			if got := one[string](t, conn, "SELECT setting || coalesce(unit, '') FROM pg_settings WHERE name = $1", name); got != want {
				t.Errorf("%s is left at %s, want %s", name, got, want)
			}
		}
		if login, got := conn.Config().User, one[string](t, conn, "SELECT current_user"); got != login {
			t.Errorf("the role is left at %s, want %s", got, login)
		}
		for _, left := range []string{
			"pg_prepared_statements", "pg_cursors WHERE name <> ''", "pg_listening_channels()",
			"pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
			"pg_class WHERE relpersistence = 't'",
		} {
			if n := one[int](t, conn, "SELECT count(*) FROM "+left); n != 0 {
				t.Errorf("%d left in %s", n, left)
			}
		}
		if n := one[int](t, conn, "SELECT count(*) FROM executions"); n != 0 {
			t.Errorf("a client without a workspace sees %d rows", n)
		}
	}
}

// behindAPoolerOfItsOwn returns the world through a pooler whose server connections no other test
// uses.
func (w world) behindAPoolerOfItsOwn(t *testing.T) world {
	t.Helper()
	own, err := servers.StartPgBouncer(t.Context(), "", dbtest.Servers(t).PostgresURL, servers.PgBouncerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	at, err := url.Parse(own.URL)
	if err != nil {
		t.Fatal(err)
	}
	w.URL = with(t, w.URL, func(u *url.URL) { u.Host = at.Host })
	w.DB, w.Skew = w.Open(t, 4)
	return w
}

// everything uses the handle in every possible way, including failures, from several goroutines. It
// returns the server processes that it used.
func (w world) everything(t *testing.T) map[int]bool {
	t.Helper()
	var mu sync.Mutex
	met := map[int]bool{}
	meet := func(scan db.Scan) error {
		var pid int
		err := scan(&pid)
		mu.Lock()
		defer mu.Unlock()
		met[pid] = true
		return err
	}
	var wg, both sync.WaitGroup
	both.Add(2)
	for range 2 {
		wg.Go(func() { // two concurrent transactions, so that both server connections are used
			err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				err := tx.Each(ctx, meet, w.q.Pid)
				both.Done()
				both.Wait()
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for range 8 {
		wg.Go(func() {
			id := w.add(t, "a")
			expect := func(name string, err, want error) {
				t.Helper()
				if !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
			}
			_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Add, id, "again")
			expect("Do that fails", err, db.ErrUnique)
			expect("Read", w.DB.Each(t.Context(), w.Workspace, meet, w.q.Pid), nil)
			expect("Read that fails", w.DB.One(t.Context(), w.Workspace, nil, w.q.Agent, uuid.NewString()), db.ErrNoRows)
			expect("Prepare", w.DB.Prepare(t.Context(), w.q.Agent), nil)
			expect("Check", w.DB.Check(t.Context()), nil)
			expect("Tx", w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				tx.Later().Exec(w.q.Rename, id, "b")
				return tx.Each(ctx, meet, w.q.Pid)
			}), nil)
			expect("Tx that is undone", w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				return errors.Join(tx.Each(ctx, meet, w.q.Pid), errUndo)
			}), errUndo)
			expect("Tx that fails", w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, w.q.Add, id, "again")
				return err
			}), db.ErrUnique)
		})
	}
	wg.Wait()
	return met
}

// serverConnections returns bare clients of the pooler. Each is in its own transaction, and therefore
// on its own server connection: all those that were used.
func (w world) serverConnections(t *testing.T, used map[int]bool) (conns []*pgx.Conn) {
	t.Helper()
	pooled := with(t, w.URL, func(u *url.URL) {
		q := u.Query()
		q.Del("application_name")
		u.RawQuery = q.Encode()
	})
	for range len(used) {
		conn := dbtest.Connect(t, pooled)
		if _, err := conn.Exec(t.Context(), "BEGIN"); err != nil {
			t.Fatal(err)
		}
		if pid := one[int](t, conn, "SELECT pg_backend_pid()"); !used[pid] {
			t.Errorf("the pooler has opened another server connection, %d: those used were %v", pid, used)
		}
		conns = append(conns, conn)
	}
	if len(conns) != 2 {
		t.Errorf("%d server connections were used, want both", len(conns))
	}
	return conns
}
