package servers

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

func TestRestartKeepsWhatWasCommitted(t *testing.T) {
	pg, err := StartPostgres(t.Context(), "", PostgresOptions{})
	need(t, err)
	closing(t, pg)
	conn := connect(t, pg.URL)
	if got := one[string](t, conn, "show fsync"); got != "on" {
		t.Errorf("fsync = %s, want on by default", got)
	}
	if _, err := conn.Exec(t.Context(), "create table kept (n int); insert into kept values (1)"); err != nil {
		t.Fatal(err)
	}

	url := pg.URL
	for mode, recovered := range map[Mode]bool{Clean: false, Immediate: true} {
		before, err := os.ReadFile(pg.LogPath())
		if err != nil {
			t.Fatal(err)
		}
		if err := pg.Restart(t.Context(), mode); err != nil {
			t.Fatal(err)
		}
		if pg.URL != url {
			t.Errorf("address changed from %s to %s", url, pg.URL)
		}
		if got := one[int](t, connect(t, pg.URL), "select n from kept"); got != 1 {
			t.Errorf("n = %d", got)
		}
		log, err := os.ReadFile(pg.LogPath())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(log[len(before):]), "was not properly shut down"); got != recovered {
			t.Errorf("mode %d: recovery in the log: %v, want %v", mode, got, recovered)
		}
	}

	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a connection outlived the server")
	}
	if err := pg.Stop(Clean); err != nil {
		t.Fatal(err)
	}
	if err := pg.Stop(Clean); err != nil {
		t.Errorf("stopped again: %v", err)
	}
	if err := ask(t.Context(), pg.URL, "select 'up'", new(string)); err == nil {
		t.Error("a stopped server answers")
	}
}

// A count of log flushes is meaningful only when nothing else flushes.
func TestQuietPostgresFlushesOncePerCommit(t *testing.T) {
	pg, err := StartPostgres(t.Context(), "", PostgresOptions{Quiet: true, MaxConnections: 20,
		Settings: map[string]string{"application_name": "it's quiet"}})
	need(t, err)
	closing(t, pg)
	conn := connect(t, pg.URL)
	if got := one[string](t, conn, "show max_connections"); got != "20" {
		t.Errorf("max_connections = %s", got)
	}
	if got := one[string](t, conn, "show autovacuum"); got != "off" {
		t.Errorf("autovacuum = %s", got)
	}
	if _, err := conn.Exec(t.Context(), "create table written (n int)"); err != nil {
		t.Fatal(err)
	}
	if method := one[string](t, conn, "show wal_sync_method"); strings.HasPrefix(method, "open") {
		t.Skipf("flushes by %s are not counted", method)
	}
	flushes := "select wal_sync from pg_stat_wal"
	if one[bool](t, conn, "select current_setting('server_version_num')::int >= 180000") {
		flushes = "select sum(fsyncs)::bigint from pg_stat_io where object = 'wal'"
	}
	flush := func() int64 {
		if _, err := conn.Exec(t.Context(), "select pg_stat_force_next_flush()"); err != nil {
			t.Fatal(err)
		}
		return one[int64](t, conn, flushes)
	}
	before := flush()
	for n := range 10 {
		if _, err := conn.Exec(t.Context(), "insert into written values ($1)", n); err != nil {
			t.Fatal(err)
		}
	}
	if got := flush() - before; got != 10 {
		t.Errorf("%d flushes for 10 commits", got)
	}
}

func TestStartSaysWhyNot(t *testing.T) {
	_, err := StartPostgres(t.Context(), "", PostgresOptions{Settings: map[string]string{"max_connections": "lots"}})
	need(t, ignore(err, errEnded))
	if !errors.Is(err, errEnded) || !strings.Contains(err.Error(), `invalid value for parameter "max_connections"`) {
		t.Errorf("error = %v, want the server's own words", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if srv, err := StartRedis(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("start under a cancelled context: %v, %v", srv, err)
	}
}

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

func TestRedisComesBackEmpty(t *testing.T) {
	srv, err := StartRedis(t.Context(), "")
	need(t, err)
	closing(t, srv)
	for _, mode := range []Mode{Immediate, Clean} {
		if err := srv.Restart(t.Context(), mode); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(srv.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("files beside the log: %v", entries)
	}
}
