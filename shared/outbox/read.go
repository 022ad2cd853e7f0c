package outbox

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Get reads a row. It returns [db.ErrNoRows] if there is none.
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Entry, error) {
	var found []Entry
	err := s.db.Each(ctx, ws, collect(&found), s.q.Get, id)
	return db.Found(found, err, "read outbox row", fmt.Errorf("read outbox row: %w", db.ErrNoRows))
}

// Resend queues a row of an order key again that has failed or is uncertain. The row gets a new seq
// and all its attempts. Resend returns [db.ErrNoRows] if the order key has no such row, and a
// [StatusError] for a row in another status. The status is [Expired] if the row's TTL has passed.
// The caller records who did it in the same transaction.
func (s *Store) Resend(ctx context.Context, tx *db.Tx, orderKey, id string, seq int64) error {
	n, err := tx.Exec(ctx, s.q.Resend, id, orderKey, seq)
	if err == nil && n == 0 {
		err = s.unsendable(ctx, tx, orderKey, id)
	}
	if err != nil {
		return fmt.Errorf("send outbox row %s again: %w", id, err)
	}
	return nil
}

// unsendable returns the error for a row that cannot be resent.
func (s *Store) unsendable(ctx context.Context, tx *db.Tx, orderKey, id string) error {
	var found []Entry
	if err := tx.Each(ctx, collect(&found), s.q.Get, id); err != nil {
		return err
	}
	switch {
	case len(found) == 0 || found[0].OrderKey != orderKey:
		return db.ErrNoRows
	case found[0].Status == Failed || found[0].Status == Uncertain:
		return &StatusError{Expired}
	}
	return &StatusError{found[0].Status}
}

// Filter narrows a listing. Empty fields match all rows.
type Filter struct {
	Status   Status
	Topic    string
	OrderKey string
	Before   db.Position
	Limit    int // at most 200; 50 when zero
}

// List reads rows, newest first. more reports whether further rows follow.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) (items []Entry, more bool, err error) {
	f.Limit = db.PageSize(f.Limit)
	err = s.db.Each(ctx, ws, collect(&items), s.q.List,
		append(f.Before.Args(db.Null(f.Status), db.Null(f.Topic), db.Null(f.OrderKey)), f.Limit+1)...)
	if err != nil {
		return nil, false, fmt.Errorf("list outbox rows: %w", err)
	}
	items, more = db.Page(items, f.Limit)
	return items, more, nil
}
