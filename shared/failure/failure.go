// Package failure lists what has failed and needs a person: tasks, executions that are the latest of
// their subject to have ended, messages that were not sent, and deliveries whose tries are spent. A person
// dismisses a failure; it comes back when the same thing fails again.
package failure

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.sql
var files embed.FS

// Kind is the kind of thing that failed.
type Kind string

// The kinds.
const (
	Task      Kind = "task"
	Execution Kind = "execution"
	Message   Kind = "message"  // to a person
	Delivery  Kind = "delivery" // of a webhook, in or out
)

// A Failure is one thing that failed.
type Failure struct {
	Kind    Kind
	ID      string
	Title   string
	Why     string
	At      time.Time
	Trace   trace.ID
	Order   string          // the order key of a message or a webhook to an endpoint
	Surface trace.Surface   // of an execution
	Input   json.RawMessage // of an execution
}

// A Look has the newest failures, and how many there are: [MaxCount] means that there may be more.
type Look struct {
	Count int
	Items []Failure
}

// Store lists the failures of all workspaces. It is safe for concurrent use.
type Store struct {
	db *db.DB
	q  struct{ Open, Dismiss, Stands db.Query }
}

// New returns a store.
func New(d *db.DB) (*Store, error) {
	s := &Store{db: d}
	return s, db.Load(files, &s.q)
}

// MaxCount is how far failures are counted.
const MaxCount = 1001

const (
	maxLimit = 201
	// lately is how old a failed execution may be.
	lately = 30 * 24 * time.Hour
)

// Look adds the newest failures to a batch, at most limit.
func (s *Store) Look(b *db.Batch, limit int) *Look {
	look := new(Look)
	s.look(b, look, db.Position{}, limit)
	return look
}

func (s *Store) look(b *db.Batch, into *Look, after db.Position, limit int) {
	b.Each(db.Append(&into.Items, func(scan db.Scan, f *Failure) error {
		return scan(&f.Kind, &f.ID, db.Optional(&f.Title), db.Optional(&f.Why), &f.At, db.Optional(&f.Trace),
			db.Optional(&f.Order), db.Optional(&f.Surface), &f.Input, &into.Count)
	}), s.q.Open, append(after.Args(), -lately.Milliseconds(), min(limit, maxLimit), MaxCount)...)
}

// List reads the failures after a position, the newest first, at most limit.
func (s *Store) List(ctx context.Context, ws db.Workspace, after db.Position, limit int) ([]Failure, error) {
	var b db.Batch
	var look Look
	s.look(&b, &look, after, limit)
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return nil, fmt.Errorf("list failures: %w", err)
	}
	return look.Items, nil
}

// Tx is the part of a transaction that the store uses.
type Tx interface {
	Exec(ctx context.Context, q db.Query, args ...any) (int64, error)
	Each(ctx context.Context, row func(db.Scan) error, q db.Query, args ...any) error
}

// ErrAgain says that something has failed again since the failure that a person saw.
var ErrAgain = errors.New("it has failed again since: look again")

// Dismiss takes a failure off the list that a person saw, who names its time. It returns
// [db.ErrNoRows] if nothing failed, and [ErrAgain] if it failed at another time.
func (s *Store) Dismiss(ctx context.Context, tx Tx, kind Kind, id string, at time.Time, by string) error {
	n, err := tx.Exec(ctx, s.q.Dismiss, kind, id, -lately.Milliseconds(), by, at)
	if err == nil && n == 0 {
		err = s.stands(ctx, tx, kind, id)
	}
	if err != nil {
		return fmt.Errorf("dismiss the failure of %s %s: %w", kind, id, err)
	}
	return nil
}

// stands returns ErrAgain if a thing stands as failed, and else [db.ErrNoRows].
func (s *Store) stands(ctx context.Context, tx Tx, kind Kind, id string) error {
	found := false
	err := tx.Each(ctx, func(scan db.Scan) error {
		found = true
		return scan(new(int))
	}, s.q.Stands, kind, id, -lately.Milliseconds())
	switch {
	case err != nil:
		return err
	case found:
		return ErrAgain
	}
	return db.ErrNoRows
}
