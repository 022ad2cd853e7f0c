// Package execution stores executions. An execution is one surface or agent that works on one thing
// until it stops. It has an append-only journal, from which a successor resumes the work of a
// killed process.
package execution

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.sql
var files embed.FS

// Status is the lifecycle status of an execution.
type Status string

// The statuses of an execution.
const (
	Running   Status = "running"
	Waiting   Status = "waiting"
	Parked    Status = "parked"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
	Stalled   Status = "stalled"
)

// transitions are the legal changes of status; all others are refused. Running to Running means
// that an execution was cut off and is resumed.
var transitions = map[Status][]Status{
	Running: {Running, Waiting, Parked, Completed, Failed, Cancelled, Stalled},
	Waiting: {Running, Parked, Completed, Failed, Cancelled, Stalled},
	Parked:  {Running, Waiting, Completed, Failed, Cancelled, Stalled},
}

// Can reports whether an execution may go from s to next.
func (s Status) Can(next Status) bool { return slices.Contains(transitions[s], next) }

// Ended reports whether the status is final.
func (s Status) Ended() bool { return len(transitions[s]) == 0 }

// Execution is one row.
type Execution struct {
	ID      string
	Agent   string
	Surface trace.Surface
	Trace   trace.ID
	Parent  string
	// Subject is what the execution works on, and also the lane that protects it. A subject has at
	// most one unfinished execution.
	Subject lane.Name
	// Slot is the schedule slot that the execution runs for. A slot has one execution.
	Slot string
	// Timeout is set when an execution without a subject begins. The execution ends when it sends
	// no sign of life for that long. Whole seconds; zero means a week.
	Timeout time.Duration
	Status  Status
	Attempt int
	// Cuts is how often the execution was cut off and resumed since it last stopped by itself after
	// progress, which is a new entry of the journal. It is -1 for one that begins and that nobody works
	// on before it is resumed.
	Cuts int
	// Parks is how often in a row the execution was parked without progress.
	Parks  int
	Input  json.RawMessage
	Sealed []byte // the encrypted original input, when Input leaves out secrets; only SealedInput reads it
	Result json.RawMessage
	Error  string
	// Persona is by whose words the agent works; empty for work without a model. [Store.Start]
	// stores the present version where PersonaVersion is nil.
	Persona          string
	PersonaVersion   *int
	PromptTokens     int64
	CompletionTokens int64
	CostUSD          float64
	CreatedAt        time.Time
	UpdatedAt        time.Time
	EndedAt          *time.Time
	// Counted reports, after [Store.Resume], whether that counted an attempt.
	Counted bool
}

type queries struct {
	Start, Record                     db.Query
	Resume, Spend, Leave              db.Query
	Uncount                           db.Query
	Append, Journal                   db.Query
	Get, Unfinished, Open             db.Query
	OfTrace, TotalOfTrace             db.Query
	Slot, LastStep                    db.Query
	List                              db.Query
	Cancel, CancelAgain               db.Query
	Ahead, InLine, Wake, StepsOfTrace db.Query
	Joinable, Join, Line              db.Query
	SpentIn, SpentAt                  db.Query
	Begin, Seize, Await               db.Query
	SealedInput                       db.Query
	SealedInputs, ResealInput         db.Query
	End, Standing, SeizeParent        db.Query
	Rejoin, Park, History             db.Query
	Roots                             db.Query
}

// Store is the executions of all workspaces.
type Store struct {
	db *db.DB
	q  queries
}

// New returns a store.
func New(d *db.DB) (*Store, error) {
	s := &Store{db: d}
	return s, db.Load(files, &s.q)
}

// Start queues the row of a new running execution. The transaction must prove the lane of its
// subject.
func (s *Store) Start(tx lane.Tx, e Execution) error {
	if err := tx.Proves(e.Subject); err != nil {
		return fmt.Errorf("start execution: %w", err)
	}
	if len(e.Input) == 0 {
		e.Input = json.RawMessage("{}")
	}
	tx.Later().Exec(s.q.Start, e.ID, e.Agent, e.Surface, e.Trace, db.Null(e.Parent), e.Subject, db.Null(e.Slot), e.Cuts, e.Input,
		db.Null(e.Persona), e.PersonaVersion)
	return nil
}

// Record queues the row of an execution that began and completed in the transaction of tx, which must
// prove the lane of its subject. Input and parent are not stored.
func (s *Store) Record(tx lane.Tx, e Execution, result json.RawMessage) error {
	if err := tx.Proves(e.Subject); err != nil {
		return fmt.Errorf("record execution: %w", err)
	}
	tx.Later().Exec(s.q.Record, e.ID, e.Agent, e.Surface, e.Trace, e.Subject, db.Null(e.Slot), result)
	return nil
}

// Resume continues an unfinished execution. It counts the attempt before any work is done. An
// execution that waited for a person continues with the attempt that it had.
func (s *Store) Resume(ctx context.Context, tx lane.Tx, e *Execution) error {
	if err := tx.Proves(e.Subject); err != nil {
		return fmt.Errorf("resume execution: %w", err)
	}
	before := e.Attempt
	if err := tx.One(ctx, []any{&e.Attempt, &e.Cuts}, s.q.Resume, e.ID); err != nil {
		return fmt.Errorf("resume execution %s: %w", e.ID, err)
	}
	e.Status, e.Counted = Running, e.Attempt > before
	return nil
}

// Leave queues the status with which an execution's work stops: a final status, waiting or parked.
// An attempt that appended to the journal resets the counts of cuts and parks. Leave does not change
// an execution that has ended. Bytes of message that no database stores become U+FFFD.
func (s *Store) Leave(tx lane.Tx, e Execution, status Status, result json.RawMessage, message string) error {
	if err := tx.Proves(e.Subject); err != nil {
		return fmt.Errorf("leave execution: %w", err)
	}
	if status == Running || !Running.Can(status) {
		return fmt.Errorf("leave execution %s: nobody leaves it %s", e.ID, status)
	}
	tx.Later().Exec(s.q.Leave, e.ID, status, result, db.Null(activity.Text(message)))
	return nil
}

// Uncount queues, after [Store.Leave], that the current attempt does not count, because the execution
// was left waiting or parked and could not have made progress. It takes back what Leave counted, and
// what Resume counted.
func (s *Store) Uncount(tx lane.Tx, e Execution) error {
	if err := tx.Proves(e.Subject); err != nil {
		return fmt.Errorf("uncount an attempt: %w", err)
	}
	attempts := 0
	if e.Counted {
		attempts = 1
	}
	tx.Later().Exec(s.q.Uncount, e.ID, attempts)
	return nil
}

// Spend queues tokens and costs to be added to an execution's totals.
func (s *Store) Spend(tx lane.Tx, e Execution, prompt, completion int64, costUSD float64) error {
	if err := tx.Proves(e.Subject); err != nil {
		return fmt.Errorf("account for execution: %w", err)
	}
	tx.Later().Exec(s.q.Spend, e.ID, prompt, completion, costUSD)
	return nil
}

// SpendLate adds tokens and costs to an execution's totals, whoever works on it: what was used counts
// also when the hold of the one who used it is over.
func (s *Store) SpendLate(ctx context.Context, ws db.Workspace, id string, prompt, completion int64, costUSD float64) error {
	if _, err := s.db.Exec(ctx, ws, s.q.Spend, id, prompt, completion, costUSD); err != nil {
		return fmt.Errorf("account for execution %s: %w", id, err)
	}
	return nil
}

// Get reads an execution. It returns [db.ErrNoRows] when there is none.
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Execution, error) {
	var found []Execution
	err := s.db.Each(ctx, ws, collect(&found), s.q.Get, id)
	return db.Found(found, err, "read execution", fmt.Errorf("read execution: %w", db.ErrNoRows))
}

// GetIn adds the read of an execution to a batch. The result is empty when there is none.
func (s *Store) GetIn(b *db.Batch, id string) *[]Execution {
	found := new([]Execution)
	b.Each(collect(found), s.q.Get, id)
	return found
}

// Asked decodes the execution's input. It returns [ErrUnreadable] when the input has another form.
func (e Execution) Asked(into any) error {
	if err := json.Unmarshal(e.Input, into); err != nil {
		return fmt.Errorf("%w: read the input of execution %s: %w", ErrUnreadable, e.ID, err)
	}
	return nil
}

// Unfinished adds to a batch a read of the execution that works on subject, or worked on it when it
// was killed.
func (s *Store) Unfinished(b *db.Batch, subject lane.Name) *[]Execution {
	found := new([]Execution)
	b.Each(collect(found), s.q.Unfinished, subject)
	return found
}

// maxOpen is the largest number of unfinished executions in one list.
const maxOpen = 500

// Open adds to a batch a read of a surface's unfinished executions with a subject, at most 500. The
// execution on first comes first, if there is one, then the others, oldest first.
func (s *Store) Open(b *db.Batch, surface trace.Surface, first lane.Name) *[]Execution {
	found := new([]Execution)
	b.Each(collect(found), s.q.Open, surface, maxOpen, first)
	return found
}

// maxOfTrace is the largest number of a trace's executions that are listed.
const maxOfTrace = 500

// OfTrace adds a read of a trace's executions to a batch, oldest first.
func (s *Store) OfTrace(b *db.Batch, id trace.ID) *[]Execution {
	found := new([]Execution)
	b.Each(collect(found), s.q.OfTrace, id, maxOfTrace)
	return found
}

// Total sums up the executions of a trace.
type Total struct {
	Executions               int
	Running, Waiting, Parked int // number of executions with that status
	PromptTokens             int64
	CompletionTokens         int64
	CostUSD                  float64
	EndedAt                  *time.Time // the end of the execution that ended last
}

// TotalOfTrace adds the total of a trace to a batch. It counts all executions of the trace.
func (s *Store) TotalOfTrace(b *db.Batch, id trace.ID) *Total {
	t := new(Total)
	b.Each(func(scan db.Scan) error {
		return scan(&t.Executions, &t.Running, &t.Waiting, &t.Parked, &t.PromptTokens, &t.CompletionTokens, &t.CostUSD, &t.EndedAt)
	}, s.q.TotalOfTrace, id)
	return t
}

// Slot adds to a batch a read of the execution with the newest schedule slot that is not older than
// slot: the one of slot itself, or one that supersedes it.
func (s *Store) Slot(b *db.Batch, surface trace.Surface, slot string) *[]Execution {
	found := new([]Execution)
	b.Each(collect(found), s.q.Slot, surface, slot)
	return found
}

// Doing describes what an execution is doing. It returns "" when there is no such execution.
func (s *Store) Doing(ctx context.Context, ws db.Workspace, id string) (string, error) {
	var agent, status string
	var step int
	var there bool
	err := s.db.Each(ctx, ws, func(scan db.Scan) error {
		there = true
		return scan(&agent, &status, &step)
	}, s.q.LastStep, id)
	if err != nil {
		return "", fmt.Errorf("read an execution's step: %w", err)
	}
	if !there {
		return "", nil
	}
	return fmt.Sprintf("agent %s, %s at step %d", agent, status, step), nil
}

func collect(into *[]Execution) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, e *Execution) error { return scan(e.columns()...) })
}

// columns are where the columns of a row go.
func (e *Execution) columns() []any {
	return []any{
		&e.ID, &e.Agent, &e.Surface, &e.Trace, db.Optional(&e.Parent), db.Optional(&e.Subject), db.Optional(&e.Slot), &e.Status,
		&e.Attempt, &e.Cuts, &e.Parks, &e.Input, &e.Result, db.Optional(&e.Error), &e.PromptTokens, &e.CompletionTokens, &e.CostUSD,
		db.Optional(&e.Persona), &e.PersonaVersion, &e.CreatedAt, &e.UpdatedAt, &e.EndedAt,
	}
}
