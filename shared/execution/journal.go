package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Kind is the kind of a journal entry.
type Kind string

// The kinds of entries.
const (
	Input  Kind = "input"  // the messages that a run starts with
	Model  Kind = "model"  // a model's answer, with the calls that it asks for
	Called Kind = "call"   // a call with an effect outside the database begins
	Result Kind = "result" // the result of a call
	Note   Kind = "note"   // a note of the loop
)

// StepStatus says how an entry ended.
type StepStatus string

// The statuses of an entry.
const (
	Started   StepStatus = "started"
	Succeeded StepStatus = "succeeded"
	Errored   StepStatus = "failed"
	Uncertain StepStatus = "uncertain"
)

// Trust says whether a conversation contains untrusted text. It never rises again.
type Trust string

// The levels of trust.
const (
	Trusted   Trust = "operator" // all text is the operator's
	Untrusted Trust = "outside"  // untrusted text has entered the conversation
)

// With returns the trust after text with another level of trust was added.
func (t Trust) With(other Trust) Trust {
	if t == Untrusted || other == Untrusted {
		return Untrusted
	}
	return Trusted
}

// Format is the version of the bodies that this build writes. It reads all versions up to it. In
// format 1 the results of a step are in the order of its calls.
const Format = 2

// ErrUnreadable means that this build can't read the stored data of an execution, because a newer
// build wrote it or it is damaged.
var ErrUnreadable = errors.New("this build can't read the execution")

// Entry is one row of an execution's journal.
type Entry struct {
	Seq    int
	Step   int
	Kind   Kind
	Status StepStatus
	// Call names a call within the execution: "3.1" is the first call of step 3.
	Call      string
	Format    int
	Trust     Trust // after the entry
	Body      json.RawMessage
	CreatedAt time.Time
}

// Append queues an entry after the others. The database refuses a second writer of the same entry,
// and a second result of one call.
func (s *Store) Append(tx lane.Tx, e Execution, entry Entry) error {
	if err := tx.Proves(e.Subject); err != nil {
		return fmt.Errorf("append to a journal: %w", err)
	}
	tx.Later().Exec(s.q.Append, e.ID, entry.Seq, entry.Step, entry.Kind, entry.Status, db.Null(entry.Call), Format,
		cmp.Or(entry.Trust, Trusted), entry.Body)
	return nil
}

// Journal reads an execution's entries after the one numbered after, in order. With after 0 it
// reads all.
func (s *Store) Journal(ctx context.Context, ws db.Workspace, id string, after int) (out []Entry, err error) {
	return out, reading(id, s.db.Each(ctx, ws, into(&out), s.q.Journal, id, after))
}

// Since reads an execution and its entries after the one numbered after, in one round trip. It
// returns [db.ErrNoRows] when there is no such execution. The execution is read first: when it has
// ended, these entries are complete.
func (s *Store) Since(ctx context.Context, ws db.Workspace, id string, after int) (e Execution, entries []Entry, err error) {
	var found []Execution
	var b db.Batch
	b.Each(collect(&found), s.q.Get, id)
	b.Each(into(&entries), s.q.Journal, id, after)
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return Execution{}, nil, reading(id, err)
	}
	if len(found) == 0 {
		return Execution{}, nil, reading(id, db.ErrNoRows)
	}
	return found[0], entries, nil
}

// JournalIn is Journal for all entries, in a transaction.
func (s *Store) JournalIn(ctx context.Context, tx Tx, id string) (out []Entry, err error) {
	return out, reading(id, tx.Each(ctx, into(&out), s.q.Journal, id, 0))
}

// TraceEntry is a journal entry of one execution of a trace. This build may not be able to read it,
// see [Entry.Readable].
type TraceEntry struct {
	Execution string
	Entry
}

// StepsOfTrace queues a read of the first limit entries of all journals of a trace, in order, until
// their bodies exceed size bytes together. The entry that exceeds size is the last one, and comes
// without its body.
func (s *Store) StepsOfTrace(b *db.Batch, id trace.ID, limit, size int) *[]TraceEntry {
	found := new([]TraceEntry)
	b.Each(db.Append(found, func(scan db.Scan, e *TraceEntry) error {
		return scan(append([]any{&e.Execution}, e.columns()...)...)
	}), s.q.StepsOfTrace, id, limit, size)
	return found
}

func reading(id string, err error) error {
	if err != nil {
		return fmt.Errorf("read the journal of execution %s: %w", id, err)
	}
	return nil
}

// into appends an entry to out for each row.
func into(out *[]Entry) func(db.Scan) error {
	return db.Append(out, func(scan db.Scan, e *Entry) error {
		if err := scan(e.columns()...); err != nil {
			return err
		}
		return e.Readable()
	})
}

// columns are where the columns of a row go.
func (e *Entry) columns() []any {
	return []any{&e.Seq, &e.Step, &e.Kind, &e.Status, db.Optional(&e.Call), &e.Format, &e.Trust, &e.Body, &e.CreatedAt}
}

// Readable returns [ErrUnreadable] when a newer build wrote the entry in another format.
func (e Entry) Readable() error {
	if e.Format > Format {
		return fmt.Errorf("%w: entry %d has format %d, this build reads up to %d: deploy the newer build", ErrUnreadable, e.Seq, e.Format, Format)
	}
	return nil
}
