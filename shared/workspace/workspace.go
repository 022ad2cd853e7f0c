// Package workspace keeps the tenants: each row of every other table belongs to
// one, and its settings bound what agents may do there.
package workspace

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.sql
var files embed.FS

// Default is the workspace there always is.
const (
	Default     db.Workspace = "00000000-0000-7000-8000-000000000001"
	DefaultSlug string       = "default"
)

type queries struct {
	Ensure, All, Settings     db.Query
	Unserved, Due             db.Query
	Create, Get, Named, Patch db.Query
	CountMade, Delete         db.Query
	LockLanes, LockHead       db.Query
	AtWork                    db.Query
}

// Store keeps the workspaces.
type Store struct {
	db *db.DB
	q  queries
}

// New makes a store.
func New(d *db.DB) (*Store, error) {
	s := &Store{db: d}
	if err := db.Load(files, &s.q); err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	return s, nil
}

// EnsureDefault makes the default workspace unless it is there.
func (s *Store) EnsureDefault(ctx context.Context) error {
	if _, err := s.db.Exec(ctx, "", s.q.Ensure, Default, DefaultSlug, "Default"); err != nil {
		return fmt.Errorf("make the default workspace: %w", err)
	}
	return nil
}

// maxAll is the most workspaces one tick serves.
const maxAll = 10_000

// All lists the workspaces.
func (s *Store) All(ctx context.Context) ([]db.Workspace, error) { return s.list(ctx, s.q.All) }

// Schedule is what a slot is of: its executions are of a surface, their slots are
// prefix, workspace, ":" and time, and they run under a lane.
type Schedule struct {
	Surface trace.Surface
	Prefix  string
	Lane    string
}

// Unserved lists the workspaces in which a schedule's slot, the time as it stands in
// its key, was not run, nor a later one, and is not being run; for an empty slot all.
// Those whose last run is the longest ago come first, and last those whose beats a kill
// switch stops.
func (s *Store) Unserved(ctx context.Context, of Schedule, slot string) ([]db.Workspace, error) {
	return s.list(ctx, s.q.Unserved, of.Surface, of.Prefix, of.Lane, db.Null(slot))
}

// Due lists the workspaces in which something may wait to be tended: what is to be
// sent, threads that are held, approvals that nobody answered, executions that nothing
// was heard of.
func (s *Store) Due(ctx context.Context) ([]db.Workspace, error) { return s.list(ctx, s.q.Due) }

func (s *Store) list(ctx context.Context, q db.Query, args ...any) (out []db.Workspace, err error) {
	err = s.db.Each(ctx, "", func(scan db.Scan) error {
		var id db.Workspace
		err := scan(&id)
		out = append(out, id)
		return err
	}, q, append(args, maxAll)...)
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	return out, nil
}

// Settings adds the reading of the workspace's settings to a batch; call what it
// answers once the batch has been sent. They are the defaults where the workspace
// sets nothing, or is not there. Settings that can't be read are an error of that
// call and not of the batch, which may have changed something by then.
func (s *Store) Settings(b *db.Batch) func() (Settings, error) {
	var raw json.RawMessage
	b.Each(func(scan db.Scan) error { return scan(&raw) }, s.q.Settings)
	return func() (Settings, error) { return decoded(raw) }
}

// decoded are the settings that a column holds; none are the defaults.
func decoded(raw json.RawMessage) (Settings, error) {
	settings := Defaults()
	if len(raw) == 0 {
		return settings, nil
	}
	if err := json.Unmarshal(raw, &settings); err != nil {
		return Settings{}, fmt.Errorf("read workspace settings: %w", err)
	}
	settings.sane()
	return settings, nil
}
