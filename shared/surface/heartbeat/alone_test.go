package heartbeat_test

import (
	"log/slog"
	"testing"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
)

// alone returns an environment whose workspace is the only one of its database. Tests use it for
// ticks that serve all workspaces.
func alone(t *testing.T, engine string) dbtest.Env {
	t.Helper()
	if engine == dbtest.OnSQLite {
		return dbtest.New(t, engine) // each test has its own file
	}
	owner := dbtest.NewDatabase(t)
	must(migrate.Postgres(t.Context(), owner, slog.New(slog.DiscardHandler)))(t)
	e := dbtest.Env{Engine: engine, Skew: new(db.Skew), URL: dbtest.AsLogin(owner)}
	e.DB = must(postgres.Open(postgres.Config{URL: e.URL, MaxConns: 4, Schema: migrations.Latest(), Skew: e.Skew}))(t)
	t.Cleanup(func() { _ = e.DB.Close() })
	e.Workspace = dbtest.NewWorkspace(t, e.DB)
	return e
}
