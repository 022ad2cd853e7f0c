package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

//go:embed spending.sql
var files embed.FS

type queries struct{ Workspace, Task, Usage, Finish db.Query }

// world is a workspace in a database of its own.
type world struct {
	*db.DB
	budgets *budget.Store
	ws      db.Workspace
	q       queries
	dir     string
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// open makes a migrated SQLite database with one workspace.
func open(ctx context.Context) (*world, error) {
	dir, err := os.MkdirTemp("", "lanekeeper-spending-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	w := &world{dir: dir, ws: db.Workspace(newID())}
	path := filepath.Join(dir, "spending.db")
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: path})
	if err == nil {
		_, err = migrate.SQLite(ctx, write, slog.New(slog.DiscardHandler))
		err = errors.Join(err, read.Close(), write.Close())
	}
	if err == nil {
		w.DB, err = sqlite.Open(ctx, sqlite.Config{Path: path, Schema: migrations.Latest()})
	}
	if err == nil {
		w.budgets, err = budget.New(w.DB, newID, time.Now)
	}
	if err == nil {
		err = db.Load(files, &w.q)
	}
	if err == nil {
		_, err = w.Exec(ctx, "", w.q.Workspace, string(w.ws))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a database: %w", err), w.close())
	}
	return w, nil
}

func (w *world) close() error {
	var err error
	if w.DB != nil {
		err = w.Close()
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}
