package outbox

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Get reads a row; [db.ErrNoRows] when there is none.
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Entry, error) {
	var found []Entry
	if err := s.db.Each(ctx, ws, collect(&found), s.q.Get, id); err != nil {
		return Entry{}, fmt.Errorf("read outbox row: %w", err)
	}
	if len(found) == 0 {
		return Entry{}, fmt.Errorf("read outbox row: %w", db.ErrNoRows)
	}
	return found[0], nil
}

// Resend queues a row of an order key again that has failed, or is uncertain, under a
// new seq and with all its tries before it. [db.ErrNoRows] when the order key has no
// such row; a [StatusError] when it is neither, and with [Expired] when its time is
// over. Who does it writes it down in the same transaction.
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

// unsendable is why a row is not sent again.
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

// Filter narrows a listing; empty fields don't.
type Filter struct {
	Status   Status
	Topic    string
	OrderKey string
	Cursor   string
	Limit    int // at most 200; 50 when zero
}

const (
	defaultLimit = 50
	maxLimit     = 200
)

// Page is part of a listing, newest first.
type Page struct {
	Items []Entry
	Next  string // continues the listing; empty at its end
}

// ErrCursor says that a cursor is not one of ours.
var ErrCursor = errors.New("not a cursor of this listing")

// List reads rows, newest first.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) (Page, error) {
	before, id, err := parseCursor(f.Cursor)
	if err != nil {
		return Page{}, err
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	f.Limit = min(f.Limit, maxLimit)
	var p Page
	err = s.db.Each(ctx, ws, collect(&p.Items), s.q.List, db.Null(f.Status), db.Null(f.Topic), db.Null(f.OrderKey), before, id, f.Limit+1)
	if err != nil {
		return Page{}, fmt.Errorf("list outbox rows: %w", err)
	}
	if len(p.Items) > f.Limit {
		p.Items = p.Items[:f.Limit]
		last := p.Items[f.Limit-1]
		p.Next = base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(last.CreatedAt.UnixMicro(), 10) + "." + last.ID))
	}
	return p, nil
}

var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

const lastUUID = "ffffffff-ffff-ffff-ffff-ffffffffffff"

// parseCursor reads the position after which a listing goes on; an empty cursor
// is its beginning.
func parseCursor(s string) (time.Time, string, error) {
	if s == "" {
		return endOfTime, lastUUID, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return time.Time{}, "", ErrCursor
	}
	micros, id, ok := strings.Cut(string(raw), ".")
	n, err := strconv.ParseInt(micros, 10, 64)
	last, err2 := uuid.Parse(id)
	if !ok || err != nil || err2 != nil || n < 0 || n > endOfTime.UnixMicro() {
		return time.Time{}, "", ErrCursor
	}
	return time.UnixMicro(n).UTC(), last.String(), nil
}
