package dbtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

// The roles of the test database. One owns the schema and may not bypass row-level security;
// functions log in as the other.
const (
	ownerRole = "lanekeeper_owner"
	loginRole = "lanekeeper_login"
)

// pooledRole is the role that this process logs in as through PgBouncer, which has a pool for each
// role. In a shared pool of two, tests of two packages that each hold a connection and wait for
// another one would wait for each other.
var pooledRole = fmt.Sprintf("%s_%d", loginRole, os.Getpid()%100)

type urls struct{ direct, pooled string }

// Made once per process: the servers, the migrated Postgres database, the one to be copied, the migrated
// SQLite file.
// They end with the process.
var (
	running = sync.OnceValues(func() (*servers.Set, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		return servers.Start(ctx, servers.Options{Postgres: servers.PostgresOptions{Fast: true}})
	})
	prepared = sync.OnceValues(func() (urls, error) {
		set, err := running()
		if err != nil {
			return urls{}, err
		}
		name, err := ensureDatabase(set.PostgresURL)
		if err != nil {
			return urls{}, err
		}
		return urls{as(set.PostgresURL, loginRole, name), as(set.PgBouncerURL, pooledRole, name)}, nil
	})
	model = sync.OnceValues(func() (string, error) {
		set, err := running()
		if err != nil {
			return "", err
		}
		return ensureModel(set.PostgresURL)
	})
	template = sync.OnceValues(makeFile)
)

// Servers returns the running servers. Without them a test fails. On a laptop, where programs may
// be missing, the test is skipped with a loud message.
func Servers(t testing.TB) *servers.Set {
	t.Helper()
	set, err := running()
	if err != nil {
		absent(t, err)
	}
	return set
}

func migrated(t testing.TB) urls {
	t.Helper()
	u, err := prepared()
	if err != nil {
		absent(t, err)
	}
	return u
}

// absent fails the test, or skips it when a program is missing outside of CI.
func absent(t testing.TB, err error) {
	t.Helper()
	var missing *servers.MissingError
	if errors.As(err, &missing) && !InCI() {
		t.Skipf("NOT RUN: %v", err)
	}
	t.Fatalf("the test servers: %v", err)
}

// NewDatabase makes a new empty database on the test cluster, for tests of global state. It returns
// the URL of the database's owner.
func NewDatabase(t testing.TB) string {
	t.Helper()
	return newDatabase(t, "")
}

func newDatabase(t testing.TB, like string) string {
	t.Helper()
	set := Servers(t)
	name := fmt.Sprintf("lk_%d_%d", os.Getpid(), time.Now().UnixNano())
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, set.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(ctx)
	if err := ensureRoles(ctx, admin); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s OWNER %s%s", name, ownerRole, like)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		admin, err := pgx.Connect(ctx, set.PostgresURL)
		if err != nil {
			t.Error(err)
			return
		}
		defer admin.Close(ctx)
		if _, err := admin.Exec(ctx, fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", name)); err != nil {
			t.Error(err)
		}
	})
	return as(set.PostgresURL, ownerRole, name)
}

// Migrated makes a new database with the current schema on the test cluster. It returns the URL of the
// database's owner.
func Migrated(t testing.TB) string {
	t.Helper()
	from, err := model()
	if err != nil {
		absent(t, err)
	}
	return newDatabase(t, " TEMPLATE "+from)
}

// AsLogin returns a database's URL for the role that functions log in as.
func AsLogin(owner string) string {
	u, err := url.Parse(owner)
	if err != nil {
		return owner
	}
	u.User = url.User(loginRole)
	return u.String()
}

// ensureDatabase makes and migrates the database of this schema, once for all packages that are
// tested concurrently.
func ensureDatabase(admin string) (string, error) {
	name := "lanekeeper_test_" + checksum(migrations.Postgres())
	return name, alone(admin, func(ctx context.Context, c *pgx.Conn) error {
		var there bool
		if err := c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there); err != nil {
			return err
		}
		if !there {
			if _, err := c.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s OWNER %s", name, ownerRole)); err != nil {
				return err
			}
		}
		_, err := migrate.Postgres(ctx, as(admin, ownerRole, name), slog.New(slog.DiscardHandler))
		return err
	})
}

// ensureModel makes the migrated database that [Migrated] copies, once for all packages. Nobody connects to
// it later: Postgres copies no database that is in use.
func ensureModel(admin string) (string, error) {
	name := "lanekeeper_model_" + checksum(migrations.Postgres())
	return name, alone(admin, func(ctx context.Context, c *pgx.Conn) error {
		var complete bool
		err := c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)", name).Scan(&complete)
		if err != nil || complete {
			return err
		}
		for _, statement := range []string{"DROP DATABASE IF EXISTS %s", "CREATE DATABASE %s OWNER " + ownerRole} {
			if _, err := c.Exec(ctx, fmt.Sprintf(statement, name)); err != nil {
				return err
			}
		}
		if _, err := migrate.Postgres(ctx, as(admin, ownerRole, name), slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
		_, err = c.Exec(ctx, fmt.Sprintf("ALTER DATABASE %s IS_TEMPLATE true", name))
		return err
	})
}

// alone makes databases while no other package does. The roles are there.
func alone(admin string, fn func(context.Context, *pgx.Conn) error) error {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, admin)
	if err != nil {
		return fmt.Errorf("connect to the test Postgres: %w", err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "SELECT pg_advisory_lock(7364)"); err != nil {
		return err
	}
	if err := ensureRoles(ctx, c); err != nil {
		return err
	}
	return fn(ctx, c)
}

func ensureRoles(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, fmt.Sprintf(`DO $$
BEGIN
  PERFORM pg_advisory_xact_lock(7365);
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanekeeper_app') THEN
    CREATE ROLE lanekeeper_app NOLOGIN;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '%[1]s') THEN
    CREATE ROLE %[1]s LOGIN CREATEROLE IN ROLE lanekeeper_app; -- else migrations at once race to make it so
    CREATE ROLE %[2]s LOGIN IN ROLE lanekeeper_app;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '%[3]s') THEN
    CREATE ROLE %[3]s LOGIN IN ROLE lanekeeper_app;
  END IF;
END $$`, ownerRole, loginRole, pooledRole))
	if err != nil {
		return fmt.Errorf("make the test roles: %w", err)
	}
	return nil
}

func as(admin, role, database string) string {
	u, err := url.Parse(admin)
	if err != nil {
		return admin
	}
	u.User = url.User(role)
	u.Path = "/" + database
	return u.String()
}

func checksum(files fs.FS) string {
	h := sha256.New()
	_ = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func migratedFile(t testing.TB) []byte {
	t.Helper()
	content, err := template()
	if err != nil {
		t.Fatalf("migrate a SQLite file: %v", err)
	}
	return content
}

// makeFile returns a migrated SQLite file. The packages of one test run share it: a migration takes
// seconds under the race detector.
func makeFile() ([]byte, error) {
	dir := os.Getenv(servers.EnvFiles)
	if dir == "" {
		return migrateFile()
	}
	shared := filepath.Join(dir, "sqlite-"+checksum(migrations.SQLite()))
	content, err := os.ReadFile(shared)
	if !errors.Is(err, fs.ErrNotExist) {
		return content, err
	}
	if content, err = migrateFile(); err != nil {
		return nil, err
	}
	own := fmt.Sprintf("%s.%d", shared, os.Getpid())
	if err := os.WriteFile(own, content, 0o600); err != nil {
		return nil, err
	}
	return content, os.Rename(own, shared)
}

func migrateFile() ([]byte, error) {
	dir, err := os.MkdirTemp("", "lanekeeper-template-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "template.db")
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: path})
	if err != nil {
		return nil, err
	}
	_, err = migrate.SQLite(context.Background(), write, slog.New(slog.DiscardHandler))
	if err := errors.Join(err, read.Close(), write.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
