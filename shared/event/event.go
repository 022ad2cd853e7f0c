// Package event is the event log of a workspace. Followers read it in the order of a cursor while
// events happen.
//
// Database triggers write an event in the transaction of the change that it reports. A transaction
// may commit after another one that began later, so a reader that continues by id alone loses the
// events of slow transactions. This reader orders by the id of the transaction first, and sees only
// settled events: those below the oldest transaction that is still open. No event is lost or read
// twice, and every reader sees the same order. The price: an open transaction of any workspace
// holds back the events of all transactions that began after it. The application's own transactions
// end within seconds.
package event

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// ErrReset means that a cursor is ahead of everything in this database, as after the restore of a
// backup. The follower must start again.
var ErrReset = errors.New("the cursor is ahead of this database")

// An Event is one thing that happened.
type Event struct {
	Cursor    Cursor          // the position after the event
	Kind      string          // such as approval.requested
	Subject   string          // the id of the object that it happened to
	Trace     string          // the trace in which it happened, if known
	Data      json.RawMessage // an object, its keys in snake_case
	CreatedAt time.Time
}

//go:embed event*.sql
var eventFiles embed.FS

// Store reads and adds events. It is safe for concurrent use.
type Store struct {
	db *db.DB
	q  struct{ Read, ReadKinds, Tell db.Query }
}

// New returns a store.
func New(d *db.DB) (*Store, error) {
	e := &Store{db: d}
	return e, db.Load(eventFiles, &e.q)
}

// Read returns the events after a cursor, oldest first, at most limit. Empty kinds mean all kinds.
// The returned cursor continues after these events, also when there are none. For a cursor of
// another database it returns [ErrReset], with the current position to continue from. It runs one
// statement.
func (e *Store) Read(ctx context.Context, ws db.Workspace, after Cursor, kinds []string, limit int) ([]Event, Cursor, error) {
	q, args := e.q.Read, []any{after.xid, after.id, limit}
	if len(kinds) > 0 {
		text, err := db.JSON(kinds)
		if err != nil {
			return nil, after, err
		}
		q, args = e.q.ReadKinds, append(args, text)
	}
	var found []Event
	var present Cursor
	reset := false
	err := e.db.Each(ctx, ws, func(scan db.Scan) error {
		var row Event // without one, all its columns are null
		err := scan(&present.xid, &present.id, &reset, db.Optional(&row.Cursor.xid), db.Optional(&row.Cursor.id), db.Optional(&row.Kind),
			db.Optional(&row.Subject), db.Optional(&row.Trace), db.Optional(&row.Data), db.Optional(&row.CreatedAt))
		if err != nil || row.Kind == "" {
			return err
		}
		found = append(found, row)
		return nil
	}, q, args...)
	switch {
	case err != nil:
		return nil, after, fmt.Errorf("read events: %w", err)
	case reset:
		return nil, present, ErrReset
	case len(found) > 0 && len(found) == limit:
		return found, found[limit-1].Cursor, nil
	case present.Compare(after) < 0:
		return found, after, nil
	}
	return found, present, nil
}

// Tell adds an event that no trigger writes.
func (e *Store) Tell(ctx context.Context, ws db.Workspace, happened Event) error {
	_, err := e.db.Exec(ctx, ws, e.q.Tell, happened.Kind, db.Null(happened.Subject), db.Null(happened.Trace), string(happened.Data))
	if err != nil {
		return fmt.Errorf("tell event %s: %w", happened.Kind, err)
	}
	return nil
}

// Now returns the current position, after all settled events.
func (e *Store) Now(ctx context.Context, ws db.Workspace) (Cursor, error) {
	_, present, err := e.Read(ctx, ws, Cursor{}, nil, 0)
	return present, err
}
