package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Filter narrows a listing. Empty fields have no effect.
type Filter struct {
	Agent   string
	Surface trace.Surface
	Status  Status
	Trace   trace.ID
	Subject lane.Name
	Since   time.Time // inclusive
	Until   time.Time // exclusive
	Roots   bool      // only executions that began their trace
	Before  db.Position
	Limit   int // at most 200; 50 when zero
}

// List reads executions, newest first. more says that there are more.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) (items []Execution, more bool, err error) {
	args := f.arguments()
	err = s.db.Each(ctx, ws, collect(&items), s.q.List, args...)
	if err != nil {
		return nil, false, fmt.Errorf("list executions: %w", err)
	}
	items, more = db.Page(items, db.PageSize(f.Limit))
	return items, more, nil
}

// A Root is an execution that began its trace, with what all executions of the trace used.
type Root struct {
	Execution
	Tokens     int64
	TotalUSD   float64
	TraceError string // the latest; empty: nothing failed
}

// Roots reads the executions that began their trace, newest first, whatever f.Roots says. more says that
// there are more.
func (s *Store) Roots(ctx context.Context, ws db.Workspace, f Filter) (items []Root, more bool, err error) {
	f.Roots = true
	err = s.db.Each(ctx, ws, db.Append(&items, func(scan db.Scan, r *Root) error {
		return scan(append(r.columns(), &r.Tokens, &r.TotalUSD, db.Optional(&r.TraceError))...)
	}), s.q.Roots, f.arguments()...)
	if err != nil {
		return nil, false, fmt.Errorf("list traces: %w", err)
	}
	items, more = db.Page(items, db.PageSize(f.Limit))
	return items, more, nil
}

// arguments returns the arguments of the part Listed, which reads one row more than a page has.
func (f Filter) arguments() []any {
	since, until := db.Between(f.Since, f.Until)
	args := f.Before.Args(db.Null(f.Agent), db.Null(f.Surface), db.Null(f.Status), db.Null(f.Trace), db.Null(f.Subject), since, until)
	return append(args, db.PageSize(f.Limit)+1, f.Roots)
}

// Cancel queues the end of the unfinished execution on a subject, if there is one. Call it in the
// transaction that ends the hold of that execution, so that the execution writes nothing
// afterwards. It returns the id of that execution.
func (s *Store) Cancel(b *db.Batch, subject lane.Name, why string) *[]string {
	ended := new([]string)
	b.Each(db.Column(ended), s.q.Cancel, subject, why)
	return ended
}

// CancelAgain queues another reason for which a cancelled execution was cancelled.
func (s *Store) CancelAgain(b *db.Batch, id, why string) {
	b.Exec(s.q.CancelAgain, id, why)
}

// A Line is a set of executions that run one after the other, in the order in which they began.
type Line struct {
	Lane  lane.Name // that their input names; without one it is operate
	Task  string    // that their input names
	Topic string    // of the outbox rows that continue them
	// Waits says that a parked execution keeps its place until it goes on, whenever that is.
	Waits bool
}

// parked is how far away the next try of a parked execution may be that keeps its place, in milliseconds.
func (l Line) parked() int64 {
	if l.Waits {
		return (1000 * 24 * time.Hour).Milliseconds()
	}
	return Place.Milliseconds()
}

// Ahead adds to a batch a count of the executions of a line that began before id, and that are
// being worked on or will continue soon: their outbox row is due within [Place] of now. When id has
// no row yet, all executions of the line count.
func (s *Store) Ahead(b *db.Batch, l Line, id string) *int {
	n := new(int)
	b.One([]any{n}, s.q.Ahead, id, l.Lane, l.Task, -Place.Milliseconds(), Place.Milliseconds(), l.Topic, l.parked())
	return n
}

// InLine adds to a batch a read of whether executions of a line are open, except id: where none is,
// [Store.Ahead] counts none.
func (s *Store) InLine(b *db.Batch, l Line, id string) *bool {
	open := new(bool)
	b.One([]any{open}, s.q.InLine, id, l.Lane, l.Task)
	return open
}

// OpenIn reads the executions of a line that are open and wait for no person, except one, the first of the line
// first, at most limit.
func (s *Store) OpenIn(ctx context.Context, ws db.Workspace, l Line, except string, limit int) (found []Execution, err error) {
	if err := s.db.Each(ctx, ws, collect(&found), s.q.Line, l.Lane, l.Task, cmp.Or(except, db.LastID), limit); err != nil {
		return nil, fmt.Errorf("read who stands in line: %w", err)
	}
	return found, nil
}

// Joinable adds to a batch a read of the executions of a line, the oldest first, that have taken no
// step yet and whose input names the strategy multitask, except id.
func (s *Store) Joinable(b *db.Batch, l Line, multitask, id string) *[]Execution {
	found := new([]Execution)
	b.Each(collect(found), s.q.Joinable, l.Lane, l.Task, multitask, id, maxOpen)
	return found
}

// Spell is the time whose turns count for what a thread has used.
const Spell = 24 * time.Hour

// Spent is what a thread has used.
type Spent struct {
	Tokens int64
	Left   int64 // the fewest tokens that a budget of the workspace or of the agent has left
	// LeftMicroUSD is the least money that one of those has left which are capped in money, in millionths of a dollar.
	LeftMicroUSD int64
}

// Capped reports whether one of those budgets is capped in money.
func (s Spent) Capped() bool { return s.LeftMicroUSD < math.MaxInt64 }

// SpentIn adds to a batch the sum of the tokens that the turns of a thread, which began within
// [Spell] before now, have used so far, whatever became of them, except those of one execution; empty: of none. The
// budgets of an agent are those of agent and here, such as visitor_chat and visitor_chat:ch.
func (s *Store) SpentIn(b *db.Batch, thread, except, agent, here string) *Spent {
	n := new(Spent)
	b.One([]any{&n.Tokens, &n.Left, &n.LeftMicroUSD}, s.q.SpentIn, thread, cmp.Or(except, nobody), -Spell.Milliseconds(), agent, here)
	return n
}

// SpentAt is SpentIn for the thread of an address, without an exception.
func (s *Store) SpentAt(b *db.Batch, channel, address, agent, here string) *Spent {
	n := new(Spent)
	b.One([]any{&n.Tokens, &n.Left, &n.LeftMicroUSD}, s.q.SpentAt, channel, address, -Spell.Milliseconds(), agent, here)
	return n
}

// nobody is an id that no execution has.
const nobody = "00000000-0000-0000-0000-000000000000"

// Join completes an unfinished execution whose work another has taken over. The caller ends its
// hold before, in the same transaction.
func (s *Store) Join(b *db.Batch, id string, result json.RawMessage) {
	b.Exec(s.q.Join, id, result)
}

// Wake makes the first execution of a line except id continue at once, if it waits for its row in
// the outbox. Call it in the transaction in which id ends, or begins to wait.
func (s *Store) Wake(b *db.Batch, l Line, id string) {
	b.Exec(s.q.Wake, l.Lane, l.Task, -Place.Milliseconds(), Place.Milliseconds(), l.Topic, id, l.parked())
}

// Place is how long an execution that was cut off keeps its place in line when nobody continues it.
const Place = 20 * time.Second
