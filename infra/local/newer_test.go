package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

// upgradeFile records a schema version in a SQLite file, like the migration of a newer build. An
// oldest of zero means that no oldest build is recorded.
func upgradeFile(t testing.TB, path string, version, oldest int64) {
	t.Helper()
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	_, err = write.ExecContext(t.Context(),
		"INSERT INTO lk_schema_version (version_id, is_applied, oldest) VALUES ($1, 1, nullif($2, 0))", version, oldest)
	if err := errors.Join(err, read.Close(), write.Close()); err != nil {
		t.Fatal(err)
	}
}

// upgradeServer is upgradeFile for Postgres.
func upgradeServer(t testing.TB, url string, version, oldest int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(),
		"INSERT INTO lk_schema_version (version_id, is_applied, oldest) VALUES ($1, true, nullif($2::bigint, 0))", version, oldest)
	if err := errors.Join(err, conn.Close(context.Background())); err != nil {
		t.Fatal(err)
	}
}

// A newer schema is used if this build is compatible with it. Otherwise everything that opens the
// database refuses it and names both versions.
func TestASchemaFromTheFuture(t *testing.T) {
	build := migrations.Latest()
	file, server := newHome(t, "ADMIN_TOKEN=a-token-of-the-users-own"), dbtest.NewDatabase(t)
	for name, c := range map[string]struct {
		home    home
		upgrade func(version, oldest int64)
	}{
		dbtest.OnSQLite: {file, func(version, oldest int64) { upgradeFile(t, file.file(), version, oldest) }},
		dbtest.OnPostgres: {newHome(t, "ADMIN_TOKEN=a-token-of-the-users-own", "DATABASE_URL="+server),
			func(version, oldest int64) { upgradeServer(t, server, version, oldest) }},
	} {
		t.Run(name, func(t *testing.T) {
			h := c.home
			h.t = t
			h.must(exitDone, "migrate")
			c.upgrade(build+1, build)
			open := fmt.Sprintf("at version %d, newer than this build's %d, which can still use it", build+1, build)
			says(t, h.must(exitDone, "migrate").out, open, "nothing to do")
			h.must(exitDone, "objectives")
			says(t, h.must(exitDone, "doctor").out, "warn database", open)

			c.upgrade(build+7, 0)
			both := fmt.Sprintf("the database schema is at version %d, which needs a build of version %d or later, and this build has %d",
				build+7, build+7, build)
			says(t, h.must(exitFailed, "doctor").out, "fail database", both)
			needless := []string{"doctor", "config", "token", "completion", "version", "help"}
			lines := map[string][]string{
				"trigger": {"heartbeat"}, "ask": {"Hello"}, "trace": {"op_0mwpsn9ll_vbajku4yo5"}, "demo": {"remove"},
				"outbox": {"bulk", `{"filter":{"status":"failed"},"action":"resend","expectedCount":0}`},
			}
			for _, v := range verbs() {
				if !slices.Contains(needless, v.name) {
					says(t, h.must(exitDatabase, append([]string{v.name}, lines[v.name]...)...).err, both)
				}
			}
			says(t, h.must(exitDatabase, "token", "--user", "ada@example.com").err, both)
		})
	}
}
