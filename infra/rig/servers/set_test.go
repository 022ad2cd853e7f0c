package servers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
)

// connect opens a connection in the mode that the product uses everywhere.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the server may be gone
	return conn
}

func one[T any](t *testing.T, conn *pgx.Conn, query string, args ...any) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func TestSetServesAllThree(t *testing.T) {
	unset(t)
	set, err := Start(t.Context(), Options{Postgres: PostgresOptions{Fast: true}})
	need(t, err)
	closing(t, set)

	direct, pooled := connect(t, set.PostgresURL), connect(t, set.PgBouncerURL)
	if _, err := direct.Exec(t.Context(), "create table note (text text); create role visitor login; grant insert on note to visitor"); err != nil {
		t.Fatal(err)
	}
	// A role and a database that the pooler does not know yet.
	if _, err := direct.Exec(t.Context(), "create database other"); err != nil {
		t.Fatal(err)
	}
	visitor := strings.Replace(set.PgBouncerURL, "postgres@", "visitor@", 1)
	if _, err := connect(t, visitor).Exec(t.Context(), "insert into note values ($1)", "hello"); err != nil {
		t.Fatal(err)
	}
	other := connect(t, strings.Replace(visitor, "/postgres?", "/other?", 1))
	if got := one[string](t, other, "select current_user || ' in ' || current_database()"); got != "visitor in other" {
		t.Errorf("through the pooler: %s", got)
	}
	if got := one[string](t, pooled, "select text from note where text = $1", "hello"); got != "hello" {
		t.Errorf("note = %q", got)
	}

	for name, want := range map[string]string{
		"fsync": "off", "synchronous_commit": "on", "max_connections": "100", "listen_addresses": "127.0.0.1",
	} {
		if got := one[string](t, direct, "select current_setting($1)", name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	if !one[bool](t, direct, "select 'a' < 'B'") {
		t.Error("text is ordered by bytes, unlike production")
	}

	options, err := goredis.ParseURL(set.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(options)
	defer func() { _ = client.Close() }()
	if got, err := client.Ping(t.Context()).Result(); err != nil || got != "PONG" {
		t.Errorf("PING = %q, %v", got, err)
	}
}

func TestPoolerHasTwoServerConnections(t *testing.T) {
	unset(t)
	set, err := Start(t.Context(), Options{Postgres: PostgresOptions{Fast: true}})
	need(t, err)
	closing(t, set)

	const pid = "select pg_backend_pid()"
	first, second, third := connect(t, set.PgBouncerURL), connect(t, set.PgBouncerURL), connect(t, set.PgBouncerURL)
	for _, conn := range []*pgx.Conn{first, second} {
		if _, err := conn.Exec(t.Context(), "begin"); err != nil {
			t.Fatal(err)
		}
	}
	freed := one[int32](t, first, pid)
	if freed == one[int32](t, second, pid) {
		t.Error("two transactions on one server connection")
	}

	got := make(chan int32, 1)
	go func() {
		var v int32
		_ = third.QueryRow(t.Context(), pid).Scan(&v) // 0 fails below
		got <- v
	}()
	waitForWaiting(t, set.PgBouncerURL)
	if _, err := first.Exec(t.Context(), "commit"); err != nil {
		t.Fatal(err)
	}
	if v := <-got; v != freed {
		t.Errorf("the third client runs on %d, want the freed connection %d", v, freed)
	}
}

// waitForWaiting returns when one client of the pooler waits for a server connection.
func waitForWaiting(t *testing.T, url string) {
	t.Helper()
	config, err := pgx.ParseConfig(strings.Replace(url, "/postgres?", "/pgbouncer?", 1))
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	admin, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.Background()) }()
	deadline := time.After(stopLimit)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		rows, err := admin.Query(t.Context(), "show pools")
		if err != nil {
			t.Fatal(err)
		}
		pools, err := pgx.CollectRows(rows, pgx.RowToMap)
		if err != nil {
			t.Fatal(err)
		}
		for _, pool := range pools {
			if pool["database"] == "postgres" && fmt.Sprint(pool["cl_waiting"]) == "1" {
				return
			}
		}
		select {
		case <-deadline:
			t.Fatal("no client waits")
		case <-tick.C:
		}
	}
}

func TestSetUsesWhatIsThere(t *testing.T) {
	t.Setenv(EnvPostgres, "postgres://there/db")
	t.Setenv(EnvPgBouncer, "postgres://pooled/db")
	t.Setenv(EnvRedis, "redis://there/0")
	t.Setenv(EnvFiles, "/there")
	set, err := Start(t.Context(), Options{})
	need(t, err)
	closing(t, set)
	want := []string{
		EnvPostgres + "=postgres://there/db",
		EnvPgBouncer + "=postgres://pooled/db",
		EnvRedis + "=redis://there/0",
		EnvFiles + "=/there",
	}
	if got := set.Env(); !slices.Equal(got, want) {
		t.Errorf("Env = %q, want %q", got, want)
	}
	if set.Postgres != nil || set.PgBouncer != nil || set.Redis != nil {
		t.Error("a server was started although its variable was set")
	}
}

func TestMissingSaysWhatToDo(t *testing.T) {
	err := error(pgbouncer.missing(fs.ErrNotExist))
	for _, part := range []string{"apt-get install pgbouncer", "brew install pgbouncer", EnvPgBouncer} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("the reason is lost")
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	unset(t)
	set, err := Start(t.Context(), Options{Postgres: PostgresOptions{Fast: true}})
	need(t, err)
	connect(t, set.PostgresURL)
	connect(t, set.PgBouncerURL)
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	for _, srv := range []*Server{set.Postgres, set.PgBouncer, set.Redis} {
		if _, err := os.Stat(srv.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", srv.Dir, err)
		}
		if left := processesIn(t, srv.Dir); len(left) > 0 {
			t.Errorf("processes left in %s: %v", srv.Dir, left)
		}
	}
	if _, err := os.Stat(set.Files); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", set.Files, err)
	}
	if err := set.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}
