package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/seed"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// connect opens the configured database, which must exist and be up to date. A damaged file stays where it is: only
// the verbs that make a database move it aside.
func connect(ctx context.Context, cfg app.Config) (*db.DB, error) {
	if !cfg.OnPostgres() {
		if _, err := os.Stat(cfg.SQLitePath); errors.Is(err, fs.ErrNotExist) {
			return nil, &hinted{
				fmt.Errorf("%w: there is no file %s", errDatabase, cfg.SQLitePath),
				"`lanekeeper dev` or `lanekeeper migrate` makes it; SQLITE_PATH names another.",
			}
		}
	}
	return open(ctx, cfg, migrations.Latest(), true)
}

// open opens the configured database for a build that needs the given schema version; 0: any
// version. keep leaves a damaged file where it is.
func open(ctx context.Context, cfg app.Config, build int64, keep bool) (*db.DB, error) {
	if !cfg.OnPostgres() {
		d, err := sqlite.Open(ctx, sqlite.Config{Path: cfg.SQLitePath, Schema: build, Keep: keep})
		return d, unopened(err, "Is SQLITE_PATH a file that this user may read and write, in a folder where it may make others?")
	}
	d, err := postgres.Open(postgres.Config{URL: cfg.DatabaseURL, Schema: build})
	if err != nil {
		return nil, unopened(err, "")
	}
	if err := d.Check(ctx); err != nil {
		return nil, errors.Join(unopened(err, unreachable), d.Close())
	}
	return d, nil
}

const unreachable = "Is the server that DATABASE_URL names up, and may this user log in to it?"

// unopened wraps the failure to open a database and adds a hint.
func unopened(err error, hint string) error {
	if foreign, ok := errors.AsType[*sqlite.ForeignError](err); ok {
		return &hinted{fmt.Errorf("%w: %w", errDatabase, foreign),
			"SQLITE_PATH names the file that Lanekeeper keeps its data in: point it to another, which is made when it is missing."}
	}
	if damaged, ok := errors.AsType[*sqlite.CorruptError](err); ok && damaged.MovedTo == "" {
		// Beside a restored file, SQLite would take the log of the damaged one for its own.
		return &hinted{err, "Run `lanekeeper dev` or `lanekeeper migrate`: it moves the file aside, with its log. Then restore a backup " +
			"in its place, or run it again to begin with an empty database."}
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, db.ErrCorrupt):
		return err
	case errors.Is(err, db.ErrFull):
		return err
	case errors.Is(err, db.ErrUnavailable):
		return &hinted{err, hint}
	case codeOf(err) != exitDatabase:
		return fmt.Errorf("%w: %w", errDatabase, err)
	}
	return err
}

// prepare creates the database if it is missing, migrates its schema and creates the default
// workspace. It adds demo content if wantsDemo says so, writes down that the demo of the Engine Room is to be
// made, and creates a first owner if owner is an e-mail address.
func prepare(ctx context.Context, cfg app.Config, log *slog.Logger, owner string) (*app.Core, prepared, error) {
	var did prepared
	d, err := open(ctx, cfg, migrations.Latest(), false)
	if _, outdated := errors.AsType[*db.SchemaError](err); outdated {
		did.migrated = true
		if did.Result, err = bringUp(ctx, cfg, log); err == nil {
			d, err = open(ctx, cfg, migrations.Latest(), false)
		}
	}
	if err != nil {
		return nil, did, err
	}
	core := app.NewCore(d, cfg, log, awsConfig)
	if err := did.seed(ctx, core, owner); err != nil {
		return nil, did, errors.Join(err, d.Close())
	}
	return core, did, nil
}

// seed is the last part of prepare. It first stores what is still to be made, so that after a kill the next
// process makes it.
func (did *prepared) seed(ctx context.Context, core *app.Core, owner string) error {
	workspaces, err := workspace.New(core.DB)
	if err != nil {
		return err
	}
	if did.demo, err = wantsDemo(ctx, core.Config, workspaces); err != nil {
		return err
	}
	if did.demo && mayShop(core.Config) {
		if err := wantShop(ctx, core.DB, workspaces); err != nil {
			return err
		}
	}
	if did.owner, err = seed.Seed(ctx, core, app.Seeds{Demo: did.demo, Owner: owner}); err != nil {
		return err
	}
	if err := renameShop(ctx, core.DB, workspaces, shopWanted, shopDue); err != nil {
		return err
	}
	name, err := shopIs(ctx, workspaces)
	did.shop = unfinished(name) && mayShop(core.Config)
	return err
}

// prepared says what prepare did.
type prepared struct {
	migrate.Result
	migrated, demo bool
	shop           bool // the demo of the Engine Room is still to be made
	owner          bool // a first owner was created
}

// bringUp applies the missing migrations. A SQLite file must have been opened before, because
// opening it detects damage.
func bringUp(ctx context.Context, cfg app.Config, log *slog.Logger) (did migrate.Result, err error) {
	if cfg.OnPostgres() {
		did, err = migrate.Postgres(ctx, cfg.DatabaseURL, log)
		return did, unmigrated(unopened(err, unreachable))
	}
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: cfg.SQLitePath})
	if err != nil {
		return did, unopened(err, "")
	}
	did, err = migrate.SQLite(ctx, write, log)
	return did, errors.Join(err, read.Close(), write.Close())
}

// unmigrated adds a hint to the error of a migration whose role in Postgres may not create roles.
func unmigrated(err error) error {
	if err == nil || !strings.Contains(err.Error(), "permission denied to create role") {
		return err
	}
	return &hinted{err, "The user of DATABASE_URL lacks CREATEROLE. Give it that right, or let an administrator run this first, with its name for YOUR_USER:\n" +
		"  CREATE ROLE lanekeeper_app NOLOGIN;\n  GRANT lanekeeper_app TO YOUR_USER;"}
}

// wantsDemo reports whether to add demo content. DEMO decides. If it is not set, a SQLite file
// without workspaces gets demo content, or one in which a killed process has left it unfinished.
func wantsDemo(ctx context.Context, cfg app.Config, workspaces *workspace.Store) (bool, error) {
	if cfg.Demo != nil || cfg.OnPostgres() {
		return cfg.Demo != nil && *cfg.Demo, nil
	}
	name, err := shopIs(ctx, workspaces)
	if err != nil || name == shopWanted {
		return err == nil, err
	}
	all, err := workspaces.All(ctx)
	return len(all) == 0, err
}
