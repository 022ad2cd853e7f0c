package execution

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Filter narrows a listing; empty fields don't.
type Filter struct {
	Agent   string
	Surface trace.Surface
	Status  Status
	Trace   trace.ID
	Subject lane.Name
	Since   time.Time // inclusive
	Until   time.Time // exclusive
	Roots   bool      // only those that began their trace
	Before  Position
	Limit   int // at most 200; 50 when zero
}

// Position is a place in a listing, that of an execution; zero is the beginning.
type Position struct {
	At time.Time // it was created
	ID string
}

const (
	defaultLimit = 50
	maxLimit     = 200
	lastUUID     = "ffffffff-ffff-ffff-ffff-ffffffffffff"
)

var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// List reads executions, newest first; more says that there are more.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) (items []Execution, more bool, err error) {
	if f.Before.ID == "" {
		f.Before = Position{endOfTime, lastUUID}
	}
	if f.Since.IsZero() {
		f.Since = time.Unix(0, 0)
	}
	if f.Until.IsZero() {
		f.Until = endOfTime
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	f.Limit = min(f.Limit, maxLimit)
	err = s.db.Each(ctx, ws, collect(&items), s.q.List, db.Null(f.Agent), db.Null(f.Surface), db.Null(f.Status), db.Null(f.Trace),
		db.Null(f.Subject), f.Since, f.Until, f.Before.At, f.Before.ID, f.Limit+1, f.Roots)
	if err != nil {
		return nil, false, fmt.Errorf("list executions: %w", err)
	}
	if len(items) > f.Limit {
		return items[:f.Limit], true, nil
	}
	return items, false, nil
}

// maxChildren is the most children that are listed.
const maxChildren = 500

// Children lists what an execution has begun, oldest first.
func (s *Store) Children(ctx context.Context, ws db.Workspace, id string) ([]Execution, error) {
	var out []Execution
	if err := s.db.Each(ctx, ws, collect(&out), s.q.Children, id, maxChildren); err != nil {
		return nil, fmt.Errorf("list the children of execution %s: %w", id, err)
	}
	return out, nil
}

// Cancel queues the end of the unfinished execution on a subject, if there is one. It
// belongs into the transaction that ends the hold under which that works, so that it
// writes no more.
func (s *Store) Cancel(b *db.Batch, subject lane.Name, why string) {
	b.Exec(s.q.Cancel, subject, why)
}

// A Line is executions that go one after the other, as they began.
type Line struct {
	Surface trace.Surface
	Task    string // as their input names it
	Topic   string // of the rows of the outbox by which they go on
}

// Ahead adds a count of the executions of a line that began before one and are being
// worked on, or are about to go on: their row in the outbox is due within [Place] of now.
// One that has not begun yet is behind them all.
func (s *Store) Ahead(b *db.Batch, l Line, id string) *int {
	n := new(int)
	b.One([]any{n}, s.q.Ahead, id, l.Surface, l.Task, -Place.Milliseconds(), Place.Milliseconds(), l.Topic)
	return n
}

// Wake queues that the first of a line but id goes on at once, if it waits for its row in
// the outbox. It belongs into the transaction in which id ends.
func (s *Store) Wake(b *db.Batch, l Line, id string) {
	b.Exec(s.q.Wake, l.Surface, l.Task, -Place.Milliseconds(), Place.Milliseconds(), l.Topic, id)
}

// Place is for how long an execution that was cut off keeps its place in line, should
// nobody go on with it.
const Place = 20 * time.Second
