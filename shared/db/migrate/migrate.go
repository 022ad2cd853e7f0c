// Package migrate brings a database's schema up to date. It is the only package
// that links goose; of the functions only migrate imports it, so that no cold
// start pays for it.
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

// VersionTable is where goose notes what it has applied.
const VersionTable = "lk_schema_version"

// Result says what a run did: the versions before and after it, and the files.
type Result struct {
	From    int64    `json:"from"`
	To      int64    `json:"to"`
	Applied []string `json:"applied"`
}

// Postgres migrates the database at url, as the role the url names, which will
// own the tables. Runs at the same time wait for each other by a lease row, which
// a transaction pooler does not disturb.
// A schema that is newer than this build's is left as it is, and closed to this build it is
// a [db.NewerSchemaError].
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

// A run waits two minutes for the others: longer than the 30 s for which a killed
// one keeps the lease.
const (
	lockPause = 50 * time.Millisecond
	lockTries = 2400
)

// SQLite migrates a file opened by the SQLite engine's OpenPools. Runs at the
// same time race for each migration, and who loses one looks again. A newer schema is
// treated as by [Postgres].
func SQLite(ctx context.Context, pool *sql.DB, log *slog.Logger) (Result, error) {
	return file(ctx, pool, migrations.SQLite(), log)
}

func file(ctx context.Context, pool *sql.DB, files fs.FS, log *slog.Logger) (Result, error) {
	return up(ctx, goose.DialectSQLite3, pool, files, log)
}

func up(ctx context.Context, dialect goose.Dialect, pool *sql.DB, files fs.FS, log *slog.Logger, opts ...goose.ProviderOption) (Result, error) {
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

// busy reports whether SQLite gave up on a lock at once, as it does, whatever time-out
// is set, where waiting might never end: while another connection switches the file
// to its log, or takes that away.
func busy(err error) bool {
	coded, ok := errors.AsType[interface {
		error
		Code() int
	}](err)
	return ok && coded.Code()&0xff == 5
}

// attempt applies what is missing and adds to res. With an error it answers the
// number of the migration that failed, zero when it was none: one that is there
// all the same was applied by another run meanwhile.
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
