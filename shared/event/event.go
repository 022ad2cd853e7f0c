// Package event is the event log of a workspace: what happened, in the order of a
// cursor, for those who follow it as it happens.
//
// Triggers of the database write an event in the transaction of the change that it
// tells of. A transaction may commit after one that began later, so whoever reads
// on by id alone loses the events of the slow ones. A reader here goes by the id of
// the transaction first, and sees only what is settled: events below the oldest
// transaction that is still open. Nothing is lost, nothing comes twice, and every
// reader sees the same order. The price is that a long transaction, of any
// workspace, holds back the events of all that began after it, for as long as it
// is open; the application's own end within seconds.
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

// ErrReset says that a cursor is not of this database: it is ahead of anything
// that has happened here, as after the restore of a backup. Whoever follows begins
// anew.
var ErrReset = errors.New("the cursor is ahead of this database")

// An Event is one thing that happened.
type Event struct {
	Cursor    Cursor          // behind it
	Kind      string          // such as approval.requested
	Subject   string          // the id of what it happened to
	Trace     string          // in which it happened, when that is known
	Data      json.RawMessage // an object, its keys in snake_case
	CreatedAt time.Time
}

//go:embed event*.sql
var eventFiles embed.FS

// Store reads what happened. It is safe for concurrent use.
type Store struct {
	db *db.DB
	q  struct{ Read, Tell db.Query }
}

// New makes a reader.
func New(d *db.DB) (*Store, error) {
	e := &Store{db: d}
	if err := db.Load(eventFiles, &e.q); err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	return e, nil
}

// Read is what happened behind a cursor, oldest first, at most limit events; no
// kinds are all kinds. The cursor it answers goes on behind them, also where there
// are none. A cursor of another database is [ErrReset], with the present position
// to go on from. It is one statement.
func (e *Store) Read(ctx context.Context, ws db.Workspace, after Cursor, kinds []string, limit int) ([]Event, Cursor, error) {
	var filter any
	if len(kinds) > 0 {
		text, err := db.JSON(kinds)
		if err != nil {
			return nil, after, err
		}
		filter = text
	}
	var found []Event
	var present Cursor
	reset := false
	err := e.db.Each(ctx, ws, func(scan db.Scan) error {
		var xid, id *int64
		var kind, subject, trace, data *string
		var at *time.Time
		if err := scan(&present.xid, &present.id, &reset, &xid, &id, &kind, &subject, &trace, &data, &at); err != nil || id == nil {
			return err
		}
		found = append(found, Event{
			Cursor: Cursor{*xid, *id}, Kind: *kind, Subject: text(subject), Trace: text(trace), Data: json.RawMessage(*data), CreatedAt: *at,
		})
		return nil
	}, e.q.Read, after.xid, after.id, filter, limit)
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

// Tell adds an event that is of no row that a trigger watches.
func (e *Store) Tell(ctx context.Context, ws db.Workspace, happened Event) error {
	_, err := e.db.Exec(ctx, ws, e.q.Tell, happened.Kind, db.Null(happened.Subject), db.Null(happened.Trace), string(happened.Data))
	if err != nil {
		return fmt.Errorf("tell event %s: %w", happened.Kind, err)
	}
	return nil
}

// Now is the present position: behind everything that has settled.
func (e *Store) Now(ctx context.Context, ws db.Workspace) (Cursor, error) {
	_, present, err := e.Read(ctx, ws, Cursor{}, nil, 0)
	return present, err
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
