package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPgBouncerBeforeAPostgresWithPasswords: a pooler in front of another PostgreSQL logs in with
// the password of the URL.
func TestPgBouncerBeforeAPostgresWithPasswords(t *testing.T) {
	pg, err := StartPostgres(t.Context(), "", PostgresOptions{Fast: true})
	need(t, err)
	closing(t, pg)
	conn := connect(t, pg.URL)
	if _, err := conn.Exec(t.Context(), `alter role postgres password 'it"s secret'`); err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(pg.Dir, "data", "pg_hba.conf")
	if err := os.WriteFile(rules, []byte("host all all 127.0.0.1/32 scram-sha-256\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "select pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(stopLimit)
	for ask(t.Context(), pg.URL, "select 'up'", new(string)) == nil { // until the server has read the rules
		select {
		case <-deadline:
			t.Fatal("PostgreSQL still wants no password")
		default:
		}
	}

	target := strings.Replace(pg.URL, "postgres@", "postgres:it%22s%20secret@", 1)
	pooler, err := StartPgBouncer(t.Context(), "", target, PgBouncerOptions{PoolSize: 1})
	need(t, err)
	closing(t, pooler)
	if got := one[string](t, connect(t, pooler.URL), "select current_user"); got != "postgres" {
		t.Errorf("logged in as %s", got)
	}
}
