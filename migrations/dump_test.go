package migrations_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestADumpIsRestored: the role that owns the schema dumps the rows of all workspaces with the commands of the guide, and
// restores them into an empty database, with all that the schema has.
func TestADumpIsRestored(t *testing.T) {
	dsn, owner := newPostgres(t)
	b := newBuilder(t, owner)
	for range 2 {
		b.fill(t, uuid.New())
	}
	const ahead = int64(1) << 60 // as of a server that has run for longer than the one that restores
	for _, text := range []string{"UPDATE events SET xid = $1", "UPDATE agent_automations SET event_xid = $1 WHERE event IS NOT NULL"} {
		if _, err := owner.Exec(t.Context(), text, ahead); err != nil {
			t.Fatal(err)
		}
	}
	into := dbtest.NewDatabase(t)
	guide, err := os.ReadFile("../infra/docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("`((?:pg_dump|pg_restore|psql) [^`]+)`").FindAllSubmatch(guide, -1)
	if len(commands) != 3 {
		t.Fatalf("the guide has the commands %q", commands)
	}
	folder := t.TempDir()
	programs := one[string](t, dbtest.Connect(t, dbtest.Servers(t).PostgresURL), "SELECT setting FROM pg_config WHERE name = 'BINDIR'")
	run := func(n int, database string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", string(commands[n][1]))
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "DATABASE_URL="+database, "PATH="+programs+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", commands[n][1], err, out)
		}
	}
	run(0, dsn)
	run(1, into)

	type content struct {
		schema, functions any
		rows              map[string]string
	}
	of := func(conn *pgx.Conn) content {
		c := content{postgresSchema(t, conn), postgresFunctions(t, conn), map[string]string{}}
		for _, name := range b.order {
			c.rows[name] = one[string](t, conn, fmt.Sprintf("SELECT coalesce(string_agg(x::text, E'\n' ORDER BY x::text), '') FROM %s x", name))
			if c.rows[name] == "" {
				t.Errorf("%s has no rows", name)
			}
		}
		return c
	}
	restored := dbtest.Connect(t, into)
	if diff := cmp.Diff(of(owner), of(restored), cmp.AllowUnexported(content{}, table{}, column{})); diff != "" {
		t.Errorf("what was restored is not the same (- before, + after):\n%s", diff)
	}
	const hidden = `SELECT (SELECT count(*) FROM events WHERE xid >= lk_settled())
	  + (SELECT count(*) FROM agent_automations WHERE event_xid > 0)`
	if n := one[int](t, restored, hidden); n == 0 {
		t.Error("no number is ahead of the server: the last command has nothing to do")
	}
	run(2, into)
	if n := one[int](t, restored, hidden); n > 0 {
		t.Errorf("%d events and automations have numbers of the other server", n)
	}
}
