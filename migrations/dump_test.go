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
	into := dbtest.NewDatabase(t)
	guide, err := os.ReadFile("../infra/docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("`(pg_(?:dump|restore) [^`]+)`").FindAllSubmatch(guide, -1)
	if len(commands) != 2 {
		t.Fatalf("the guide has the commands %q", commands)
	}
	folder := t.TempDir()
	programs := one[string](t, dbtest.Connect(t, dbtest.Servers(t).PostgresURL), "SELECT setting FROM pg_config WHERE name = 'BINDIR'")
	for n, database := range []string{dsn, into} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", string(commands[n][1]))
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "DATABASE_URL="+database, "PATH="+programs+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", commands[n][1], err, out)
		}
	}

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
	if diff := cmp.Diff(of(owner), of(dbtest.Connect(t, into)), cmp.AllowUnexported(content{}, table{}, column{})); diff != "" {
		t.Errorf("what was restored is not the same (- before, + after):\n%s", diff)
	}
}
