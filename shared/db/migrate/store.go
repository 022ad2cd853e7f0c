package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// store records the applied versions. Each is recorded in the transaction that applied it.
type store struct {
	database.Store
	files fs.FS
}

// Insert records a version, and the oldest build that may run on it. It fails when the version is
// already recorded. On SQLite, where the transaction has exclusive access to the file, the run that
// lost the race then rolls its changes back, even when none of them failed the second time.
func (s store) Insert(ctx context.Context, conn database.DBTxConn, req database.InsertRequest) error {
	_, err := s.GetMigration(ctx, conn, req.Version)
	switch {
	case err == nil:
		return fmt.Errorf("version %d was applied by another run", req.Version)
	case !errors.Is(err, database.ErrVersionNotFound):
		return fmt.Errorf("look for version %d: %w", req.Version, err)
	}
	if err := s.Store.Insert(ctx, conn, req); err != nil {
		return err
	}
	build, err := s.oldest(req.Version)
	if err != nil || build == 0 {
		return err
	}
	if _, err := conn.ExecContext(ctx, "UPDATE "+VersionTable+" SET oldest = $1 WHERE version_id = $2", build, req.Version); err != nil {
		return fmt.Errorf("note the oldest build for version %d: %w", req.Version, err)
	}
	return nil
}

var oldestLine = pattern.New(`(?m)^-- oldest: (\d+)$`)

// oldest returns the oldest build that may run on a version, as the migration's file states it. It
// returns zero when the file states none.
func (s store) oldest(version int64) (int64, error) {
	names, err := fs.Glob(s.files, fmt.Sprintf("%04d_*.sql", version))
	if err != nil || len(names) == 0 {
		return 0, err
	}
	text, err := fs.ReadFile(s.files, names[0])
	if err != nil {
		return 0, fmt.Errorf("read migration: %w", err)
	}
	line := oldestLine().FindSubmatch(text)
	if line == nil {
		return 0, nil
	}
	build, err := strconv.ParseInt(string(line[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: oldest build: %w", names[0], err)
	}
	return build, nil
}

// open returns a [db.NewerSchemaError] when the schema has a version that is newer than the
// migrations and does not allow their build.
func open(ctx context.Context, pool *sql.DB, p *goose.Provider, version int64) error {
	sources := p.ListSources()
	build := sources[len(sources)-1].Version
	if version <= build {
		return nil
	}
	var oldest int64
	err := pool.QueryRowContext(ctx,
		"SELECT max(coalesce(oldest, version_id)) FROM "+VersionTable+" WHERE version_id > $1", build).Scan(&oldest)
	if err != nil {
		return fmt.Errorf("read for which builds the schema is: %w", err)
	}
	return db.CheckSchema(build, version, oldest)
}
