// Package migrate brings a database's schema up to date. It is the only package that links goose.
// Of the functions only migrate imports it, so that no other cold start pays for it.
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
)

// VersionTable is the table in which goose records applied migrations.
const VersionTable = "lk_schema_version"

// Result describes a run: the versions before and after it, and the applied files.
type Result struct {
	From    int64    `json:"from"`
	To      int64    `json:"to"`
	Applied []string `json:"applied"`
}

// Postgres migrates the database at url, as the url's role, which will own the tables. Concurrent
// runs wait for each other with a lease row, which works through a transaction pooler. It leaves a
// schema that is newer than this build's unchanged, and returns a [db.NewerSchemaError] when that
// schema does not allow this build.
func Postgres(ctx context.Context, url string, log *slog.Logger) (Result, error) {
	return server(ctx, url, migrations.Postgres(), log)
}

func server(ctx context.Context, url string, files fs.FS, log *slog.Logger) (Result, error) {
	dsn, err := postgres.VerifiedURL(url)
	if err != nil {
		return Result{}, err
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return Result{}, errors.New("DATABASE_URL is not a Postgres URL")
	}
	postgres.Trust(&cfg.Config)
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool := stdlib.OpenDB(*cfg)
	defer pool.Close()
	if err := pool.PingContext(ctx); err != nil {
		return Result{}, postgres.Unreachable(err)
	}
	locker, err := lock.NewPostgresTableLocker(
		lock.WithTableName("lk_schema_lock"),
		lock.WithTableLockTimeout(lockPause, lockTries),
	)
	if err != nil {
		return Result{}, fmt.Errorf("prepare the migration lock: %w", err)
	}
	return up(ctx, goose.DialectPostgres, pool, files, log, goose.WithLocker(locker))
}

// A run waits two minutes for other runs. That is longer than the 30 s for which a killed run keeps
// the lease.
const (
	lockPause = 50 * time.Millisecond
	lockTries = 2400
)

// SQLite migrates a file opened by the SQLite engine's OpenPools. Concurrent runs race for each
// migration; the run that loses one checks the version again. It treats a newer schema as
// [Postgres] does.
func SQLite(ctx context.Context, pool *sql.DB, log *slog.Logger) (Result, error) {
	res, err := file(ctx, pool, migrations.SQLite(), log)
	if err == nil {
		err = expect(ctx, pool)
	}
	return res, err
}

func file(ctx context.Context, pool *sql.DB, files fs.FS, log *slog.Logger) (Result, error) {
	return up(ctx, goose.DialectSQLite3, pool, files, log)
}

func up(ctx context.Context, dialect goose.Dialect, pool *sql.DB, files fs.FS, log *slog.Logger,
	opts ...goose.ProviderOption) (Result, error) {
	versions, err := database.NewStore(dialect, VersionTable)
	if err != nil {
		return Result{}, fmt.Errorf("prepare the schema's versions: %w", err)
	}
	opts = append(opts,
		goose.WithStore(store{versions, files}),
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	)
	p, err := goose.NewProvider(goose.DialectCustom, pool, files, opts...)
	if err != nil {
		return Result{}, fmt.Errorf("read migrations: %w", err)
	}
	res := Result{Applied: []string{}}
	for try := 1; ; try++ {
		failed, err := attempt(ctx, p, log, &res)
		switch {
		case err == nil:
			return res, open(ctx, pool, p, res.To)
		case failed == 0 && busy(err) && try < maxTries && ctx.Err() == nil:
			time.Sleep(pause) // another process sets the file up
		case failed == 0 || res.To < failed:
			return res, fmt.Errorf("migrate: %w", err)
		}
	}
}

const (
	maxTries = 500
	pause    = 20 * time.Millisecond
)

// busy reports whether SQLite gave up on a lock at once. SQLite does so, whatever timeout is set,
// where a wait might never end: while another connection switches the file to its log, or removes
// the log.
func busy(err error) bool {
	coded, ok := errors.AsType[interface {
		error
		Code() int
	}](err)
	return ok && coded.Code()&0xff == 5
}

// attempt applies the missing migrations and adds them to res. With an error it returns the number
// of the migration that failed, or zero when the error is not one of a migration. When the database
// has that migration nevertheless, another run has applied it meanwhile.
func attempt(ctx context.Context, p *goose.Provider, log *slog.Logger, res *Result) (failed int64, err error) {
	applied, err := p.Up(ctx)
	if part, ok := errors.AsType[*goose.PartialError](err); ok {
		applied, failed = part.Applied, part.Failed.Source.Version
		err = fmt.Errorf("%s: %w", part.Failed.Source.Path, part.Err)
	}
	for _, m := range applied {
		log.InfoContext(ctx, "migration applied", "version", m.Source.Version, "file", m.Source.Path, "duration_ms", m.Duration.Milliseconds())
		res.Applied = append(res.Applied, m.Source.Path)
	}
	version, verr := p.GetDBVersion(ctx)
	if verr != nil {
		return 0, errors.Join(err, fmt.Errorf("read schema version: %w", verr))
	}
	res.From, res.To = version-int64(len(res.Applied)), version
	return failed, err
}
