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

// OpenPostgres is a core over the Postgres at cfg.DatabaseURL. It connects on first use:
// a database that is away or outdated is an error of whoever uses it. It is called by
// package edge. SQLite is opened by the local runner, so that functions do not link it.
func OpenPostgres(cfg Config, log *slog.Logger, aws func(context.Context) (aws.Config, error)) (*Core, error) {
	d, err := postgres.Open(postgres.Config{URL: cfg.DatabaseURL, Schema: migrations.Latest()})
	if err != nil {
		return nil, err
	}
	return NewCore(d, cfg, log, aws), nil
}

// CredentialsRefused reports whether the database did not accept user and
// password, which after a rotation means to ask for the new ones.
func CredentialsRefused(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pe.Code == "28P01" || pe.Code == "28000")
}
