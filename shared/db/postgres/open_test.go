package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
)

func migrated(t testing.TB, owner string) {
	t.Helper()
	if _, err := migrate.Postgres(t.Context(), owner, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
}

// every uses a handle in every possible way.
func every(d *db.DB, q queries) map[string]error {
	ctx := context.Background()
	_, exec := d.Exec(ctx, "", q.Pid)
	return map[string]error{
		"Check":   d.Check(ctx),
		"Exec":    exec,
		"One":     d.One(ctx, "", []any{new(int)}, q.Pid),
		"Prepare": d.Prepare(ctx, q.Pid),
		"Tx": d.Tx(ctx, "", func(ctx context.Context, tx *db.Tx) error {
			return tx.One(ctx, []any{new(int)}, q.Pid)
		}),
	}
}

// TestUnreachable: a process can start while the database is away, and reports that quickly.
func TestUnreachable(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	d := open(t, postgres.Config{URL: "postgres://u:" + password + "@" + address + "/db", Schema: 1})
	for name, err := range every(d, load(t)) {
		if !errors.Is(err, db.ErrUnavailable) || errors.Is(err, db.ErrUncertain) {
			t.Errorf("%s: %v, want %v", name, err, db.ErrUnavailable)
		}
		if strings.Contains(fmt.Sprintf("%+v", err), password) {
			t.Errorf("%s tells the password: %v", name, err)
		}
	}
	if took := time.Since(begun); took > 4*time.Second { // no use has waited for a timeout
		t.Errorf("it took %s", took)
	}
}

// TestRefusedLogin: a wrong password is not in the error either.
func TestRefusedLogin(t *testing.T) {
	at := with(t, dbtest.Servers(t).PostgresURL, func(u *url.URL) { u.User = url.UserPassword("nobody-we-know", password) })
	err := open(t, postgres.Config{URL: at}).Check(t.Context())
	if !errors.Is(err, db.ErrUnavailable) || strings.Contains(err.Error(), password) {
		t.Errorf("got %v", err)
	}
}

func TestSchema(t *testing.T) {
	owner := dbtest.NewDatabase(t)
	login, q, latest := dbtest.AsLogin(owner), load(t), migrations.Latest()
	early := open(t, postgres.Config{URL: login, Schema: latest})
	ahead := open(t, postgres.Config{URL: login, Schema: latest + 1})

	wants := func(d *db.DB, want db.SchemaError, advice string) {
		t.Helper()
		for name, err := range every(d, q) {
			got, ok := errors.AsType[*db.SchemaError](err)
			if !ok || *got != want || errors.Is(err, db.ErrUnavailable) || !strings.Contains(err.Error(), advice) {
				t.Errorf("%s: %v, want %+v with %q", name, err, want, advice)
			}
		}
	}
	wants(early, db.SchemaError{Need: latest},
		fmt.Sprintf("the database has no Lanekeeper schema (this build needs version %d): run 'bin/lanekeeper migrate'", latest))
	migrated(t, owner)
	wants(ahead, db.SchemaError{Have: latest, Need: latest + 1},
		fmt.Sprintf("the database schema is at version %d, this build needs %d: run 'bin/lanekeeper migrate'", latest, latest+1))

	for name, d := range map[string]*db.DB{
		"the handle opened before the migration": early,
		"a build older than the schema":          open(t, postgres.Config{URL: login, Schema: latest - 1}),
		"a handle that asks for no schema":       open(t, postgres.Config{URL: login}),
	} {
		for use, err := range every(d, q) {
			if err != nil {
				t.Errorf("%s: %s: %v", name, use, err)
			}
		}
	}
}

// private starts a separate cluster for this test: roles belong to a cluster, and a crash affects
// all its users.
func private(t *testing.T) *servers.Server {
	t.Helper()
	dbtest.Servers(t) // skips where there are no servers
	srv, err := servers.StartPostgres(t.Context(), "", servers.PostgresOptions{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

func TestOnAClusterOfItsOwn(t *testing.T) {
	srv, q := private(t), load(t)
	admin := dbtest.Connect(t, srv.URL)
	must := func(statement string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	as := func(role, database string) string {
		return with(t, srv.URL, func(u *url.URL) { u.User, u.Path = url.User(role), "/"+database })
	}
	works := func(t *testing.T, d *db.DB) {
		t.Helper()
		var user string
		if err := d.One(t.Context(), "", []any{&user}, q.User); err != nil || user != "lanekeeper_app" {
			t.Errorf("the statements run as %q, %v", user, err)
		}
	}

	t.Run("an owner makes the application role and may take it", func(t *testing.T) {
		must("CREATE ROLE maker LOGIN CREATEROLE")
		must("CREATE DATABASE made OWNER maker")
		migrated(t, as("maker", "made"))
		works(t, open(t, postgres.Config{URL: as("maker", "made"), Schema: migrations.Latest()}))
		safe := one[bool](t, admin, `SELECT NOT (rolcanlogin OR rolsuper OR rolbypassrls OR rolcreatedb OR rolcreaterole OR rolreplication)
			FROM pg_roles WHERE rolname = 'lanekeeper_app'`)
		if !safe {
			t.Error("the application role may do more than its tables")
		}
	})
	t.Run("an owner that may make no roles gets it from somebody else", func(t *testing.T) {
		must("CREATE ROLE taker LOGIN IN ROLE lanekeeper_app")
		must("CREATE DATABASE taken OWNER taker")
		migrated(t, as("taker", "taken"))
		works(t, open(t, postgres.Config{URL: as("taker", "taken"), Schema: migrations.Latest()}))
	})
	t.Run("in a schema of another name", func(t *testing.T) {
		must("CREATE DATABASE shared OWNER maker")
		elsewhere := with(t, as("maker", "shared"), func(u *url.URL) {
			v := u.Query()
			v.Set("search_path", "lanes")
			u.RawQuery = v.Encode()
		})
		if _, err := dbtest.Connect(t, as("maker", "shared")).Exec(t.Context(), "CREATE SCHEMA lanes"); err != nil {
			t.Fatal(err)
		}
		migrated(t, elsewhere)
		works(t, open(t, postgres.Config{URL: elsewhere, Schema: migrations.Latest()}))
	})

	safe := as("maker", "made")
	for _, power := range []string{"BYPASSRLS", "SUPERUSER"} {
		t.Run("a role with "+power+" is unsafe", func(t *testing.T) {
			d := open(t, postgres.Config{URL: safe, Schema: migrations.Latest()})
			must("ALTER ROLE lanekeeper_app " + power)
			for name, err := range every(d, q) {
				if !errors.Is(err, db.ErrUnsafeRole) || errors.Is(err, db.ErrUnavailable) {
					t.Errorf("%s: %v, want %v", name, err, db.ErrUnsafeRole)
				}
			}
			must("ALTER ROLE lanekeeper_app NO" + power)
			works(t, d)
		})
	}

	t.Run("a crash", func(t *testing.T) {
		d := open(t, postgres.Config{URL: safe, Schema: migrations.Latest()})
		ws := dbtest.NewWorkspace(t, d)
		id := uuid.NewString()
		err := d.Tx(t.Context(), ws, func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, q.Add, id, "a"); err != nil {
				return err
			}
			if err := srv.Stop(servers.Immediate); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, q.Rename, id, "b")
			return err
		})
		if !errors.Is(err, db.ErrUnavailable) {
			t.Errorf("in a transaction: %v", err)
		}
		if err := d.Check(t.Context()); !errors.Is(err, db.ErrUnavailable) {
			t.Errorf("while it is down: %v", err)
		}
		if err := srv.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		works(t, d)
		if err := d.One(t.Context(), ws, []any{new(string)}, q.Agent, id); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("what was not committed: %v", err)
		}
	})
}
