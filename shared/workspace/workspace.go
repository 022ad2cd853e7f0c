// Package workspace stores the workspaces (tenants). Each row of every other table belongs to one,
// and its settings limit what agents may do there.
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

// Default is the workspace that always exists.
const (
	Default     db.Workspace = "00000000-0000-7000-8000-000000000001"
	DefaultSlug string       = "default"
)

// Demo is the workspace of the Engine Room's demo, which the local runner makes in a new database.
const (
	Demo     db.Workspace = "00000000-0000-7000-8000-0000000d0000"
	DemoSlug string       = "demo"
)

type queries struct {
	Ensure, All, Settings     db.Query
	Unserved, Due             db.Query
	Create, Get, Named, Patch db.Query
	CountMade, Delete         db.Query
	LockLanes, LockHead       db.Query
	AtWork, Close, CloseLanes db.Query
	CloseMembers, CloseKeys   db.Query
	Erase                     db.Query
}

// Store is the workspaces.
type Store struct {
	db *db.DB
	q  queries
}

// New returns a store.
func New(d *db.DB) (*Store, error) {
	s := &Store{db: d}
	return s, db.Load(files, &s.q)
}

// EnsureDefault makes the default workspace unless it exists.
func (s *Store) EnsureDefault(ctx context.Context) error {
	if _, err := s.db.Exec(ctx, "", s.q.Ensure, Default, DefaultSlug, "Default"); err != nil {
		return fmt.Errorf("make the default workspace: %w", err)
	}
	return nil
}

// maxAll is the largest number of workspaces that one tick serves.
const maxAll = 10_000

// All lists the workspaces that are not being deleted.
func (s *Store) All(ctx context.Context) ([]db.Workspace, error) { return s.list(ctx, s.q.All) }

// Schedule identifies the executions of a schedule: their surface, the lane they run under, and
// their slots, which are prefix, workspace, ":" and time.
type Schedule struct {
	Surface trace.Surface
	Prefix  string
	Lane    string
}

// Unserved lists the workspaces that have not run a slot of a schedule. slot is the time in the
// slot's key; empty lists all workspaces. A workspace is left out when it has run the slot or a
// later one, or runs it now. The longest time without a run comes first; workspaces whose beats a
// kill switch stops come last.
func (s *Store) Unserved(ctx context.Context, of Schedule, slot string) ([]db.Workspace, error) {
	return s.list(ctx, s.q.Unserved, of.Surface, of.Prefix, of.Lane, db.Null(slot))
}

// Due lists the workspaces that may have maintenance work: messages to send, held threads,
// approvals that nobody answered, executions without a sign of life. It also lists those that are
// closed, for [Store.Erase].
func (s *Store) Due(ctx context.Context) (due, closed []db.Workspace, err error) {
	err = s.db.Each(ctx, "", func(scan db.Scan) error {
		var ws db.Workspace
		var open bool
		err := scan(&ws, &open)
		if open {
			due = append(due, ws)
		} else {
			closed = append(closed, ws)
		}
		return err
	}, s.q.Due, maxAll)
	if err != nil {
		return nil, nil, fmt.Errorf("list due workspaces: %w", err)
	}
	return due, closed, nil
}

func (s *Store) list(ctx context.Context, q db.Query, args ...any) (out []db.Workspace, err error) {
	if err = s.db.Each(ctx, "", db.Column(&out), q, append(args, maxAll)...); err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	return out, nil
}

// Settings adds a read of the workspace's settings to a batch. Call the returned function after the
// batch was sent. Settings that are not set have their defaults, and so does a workspace that does
// not exist. Settings that can't be read are an error of that call and not of the batch, which may
// have changed something by then.
func (s *Store) Settings(b *db.Batch) func() (Settings, error) {
	var raw json.RawMessage
	b.Each(func(scan db.Scan) error { return scan(&raw) }, s.q.Settings)
	return func() (Settings, error) { return decoded(raw) }
}

// Decode returns the settings in a column that was read with others. Settings that can't be read have their defaults.
func Decode(raw json.RawMessage) Settings {
	settings, err := decoded(raw)
	if err != nil {
		return Defaults()
	}
	return settings
}

// decoded returns the settings in a column. An empty column means the defaults.
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
