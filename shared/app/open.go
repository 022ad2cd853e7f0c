package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
)

// OpenPostgres returns a core over the Postgres database at cfg.DatabaseURL. It connects on first
// use, so a database that is down or outdated is an error of the first query. It is called by
// package edge. The local runner opens SQLite itself, so that functions do not link it.
func OpenPostgres(cfg Config, log *slog.Logger, aws func(context.Context) (aws.Config, error)) (*Core, error) {
	d, err := postgres.Open(postgres.Config{URL: cfg.DatabaseURL, Schema: migrations.Latest()})
	if err != nil {
		return nil, err
	}
	return NewCore(d, cfg, log, aws), nil
}

// CredentialsRefused reports whether the database refused the user or the password. After a
// rotation of the credentials the caller must read them again.
func CredentialsRefused(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pe.Code == "28P01" || pe.Code == "28000")
}
