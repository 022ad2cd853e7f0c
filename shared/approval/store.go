package approval

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

//go:embed *.sql
var files embed.FS

type queries struct {
	Open, Asked, Request    db.Query
	Get, List, Pending      db.Query
	History, Readings       db.Query
	Approve, Reject, Expire db.Query
	RejectFor               db.Query
	Start, Execute          db.Query
}

// Deps holds what a store needs. All fields but Switches, Over and Settled are required.
type Deps struct {
	DB         *db.DB
	Workspaces *workspace.Store
	Outbox     *outbox.Store
	Activity   *activity.Log
	// Skills returns the skills that may be used now, without disabled ones.
	Skills func(ctx context.Context, ws db.Workspace, surface trace.Surface) (*skill.Set, error)
	// Switches reads what people have switched off in a workspace. It may be nil: then nothing is
	// off.
	Switches func(context.Context, db.Workspace) (reason.Halts, error)
	// Over returns why a call is not made any more although it was approved: what asked for it has ended.
	// It may be nil.
	Over func(context.Context, db.Workspace, Approval) (why string, err error)
	IDs  func() string // time-ordered (UUIDv7)
	// Settled adds statements to the transaction in which a call was made, was rejected or expired,
	// so that the waiting execution is notified. It may be nil.
	Settled func(context.Context, *db.Batch, Approval)
}

// Store stores the approvals of all workspaces. It is safe for concurrent use.
type Store struct {
	Deps
	q queries
}

// New returns a store.
func New(d Deps) (*Store, error) {
	s := &Store{Deps: d}
	return s, db.Load(files, &s.q)
}

// Request queues a call that waits for approval, and returns its id. It must run in the transaction
// that records that the call waits. That transaction must prove the execution's subject. Skill,
// arguments, execution, call, agent, surface and trace are required. The workspace's settings say
// when the approval expires. If [reason.MaxWaits] calls of the execution already wait, Request
// queues nothing and returns [reason.ErrManyWait]. If an earlier execution of the same objective has
// asked for the same call, and that still waits or is about to be made, Request queues nothing and
// returns its id: one answer is enough.
func (s *Store) Request(ctx context.Context, tx lane.Tx, a Approval) (id string, err error) {
	if a.Subject != "" {
		if err := tx.Proves(a.Subject); err != nil {
			return "", fmt.Errorf("ask for an approval: %w", err)
		}
	}
	settings := s.Workspaces.Settings(tx.Later())
	var asked []Approval
	if _, ok := lane.ObjectiveOf(a.Subject); ok {
		tx.Later().Each(collect(&asked), s.q.Asked, a.Subject, a.Skill, a.Execution)
	}
	open := 0
	if err := tx.One(ctx, []any{&a.RequestedAt, &open}, s.q.Open, a.Execution); err != nil {
		return "", fmt.Errorf("ask for an approval: %w", err)
	}
	for _, earlier := range asked {
		if a.sameCall(earlier) {
			return earlier.ID, nil
		}
	}
	if open >= reason.MaxWaits {
		return "", reason.ErrManyWait
	}
	set, err := settings()
	if err != nil {
		return "", fmt.Errorf("ask for an approval: %w", err)
	}
	a.ID = s.IDs()
	a.ExpiresAt = a.RequestedAt.Add(time.Duration(set.ApprovalHours) * time.Hour)
	a.Arguments = activity.Storable(a.Arguments)
	if a.Digest, err = a.digest(); err != nil {
		return "", fmt.Errorf("ask for an approval: %w", err)
	}
	tx.Later().Exec(s.q.Request, a.ID, a.Skill, db.Null(a.SkillID), a.Arguments, a.Digest, db.Null(activity.Text(a.Why)), a.Execution, a.Call,
		db.Null(a.Subject), a.Agent, a.Surface, a.Trace, a.RequestedAt, a.ExpiresAt, a.Untrusted)
	return a.ID, nil
}

// Open counts the approvals of an execution that can still be decided.
func (s *Store) Open(ctx context.Context, ws db.Workspace, execution string) (n int, err error) {
	var at time.Time
	if err := s.DB.One(ctx, ws, []any{&at, &n}, s.q.Open, execution); err != nil {
		return 0, fmt.Errorf("count the approvals of execution %s: %w", execution, err)
	}
	return n, nil
}

// Get reads an approval. It returns [db.ErrNoRows] if there is none.
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Approval, error) {
	var b db.Batch
	found := s.Look(&b, id)
	err := s.DB.Read(ctx, ws, &b)
	return db.Found(*found, err, "read approval", fmt.Errorf("read approval: %w", db.ErrNoRows))
}

// GetIn is [Store.Get] in a transaction.
func (s *Store) GetIn(ctx context.Context, tx execution.Tx, id string) (Approval, error) {
	var found []Approval
	err := tx.Each(ctx, collect(&found), s.q.Get, id)
	return db.Found(found, err, "read approval", fmt.Errorf("read approval: %w", db.ErrNoRows))
}

// Look adds a look at one to a batch; empty when there is none.
func (s *Store) Look(b *db.Batch, id string) *[]Approval {
	found := new([]Approval)
	b.Each(collect(found), s.q.Get, id)
	return found
}

// Filter narrows a listing. Empty fields match everything.
type Filter struct {
	Status Status
	Skill  string
	Agent  string
	Before db.Position
	Limit  int // at most 200; 50 when zero
}

// List reads approvals, the latest first. more reports whether there are more.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) (items []Approval, more bool, err error) {
	f.Limit = db.PageSize(f.Limit)
	err = s.DB.Each(ctx, ws, collect(&items), s.q.List,
		append(f.Before.Args(db.Null(f.Status), db.Null(f.Skill), db.Null(f.Agent)), f.Limit+1)...)
	if err != nil {
		return nil, false, fmt.Errorf("list approvals: %w", err)
	}
	items, more = db.Page(items, f.Limit)
	return items, more, nil
}

// Unanswered counts the approvals that nobody has decided.
type Unanswered struct {
	Count   int        // that can still be decided
	Overdue int        // that have expired and that [Store.ExpireDue] has not recorded yet
	Oldest  *time.Time // request time of the oldest that can still be decided
}

// Pending adds the count of unanswered approvals to a batch.
func (s *Store) Pending(b *db.Batch) *Unanswered {
	u := new(Unanswered)
	b.Each(func(scan db.Scan) error { return scan(&u.Count, &u.Overdue, &u.Oldest) }, s.q.Pending)
	return u
}

// settled notifies the waiting execution that a call no longer waits.
func (s *Store) settled(ctx context.Context, b *db.Batch, a Approval) {
	if s.Settled != nil {
		s.Settled(ctx, b, a)
	}
}

// kick is the payload of an approval's row in the outbox, in its first format.
type kick struct {
	Approval string `json:"approval"`
}

// Topic is the topic of an approval's rows in the outbox.
const Topic = "approval"

// maxAttempts limits how often a call is tried that could not be made at all, because the database
// was down or a lane was busy. The attempts are spread over more than an hour.
const maxAttempts = 20

func kickFor(a Approval) outbox.Row {
	payload, _ := json.Marshal(kick{a.ID}) // a string always encodes
	return outbox.Row{
		Kind: outbox.Kick, Topic: Topic, Key: Key(a.ID), Payload: payload, MaxAttempts: maxAttempts, Trace: a.Trace, Execution: a.Execution,
	}
}
