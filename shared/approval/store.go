package approval

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
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
	Open, Request, Get, List, Pending db.Query
	Approve, Reject, Expire           db.Query
	Start, Execute                    db.Query
}

// Deps is what a store works with; all of it but Switches and Settled is needed.
type Deps struct {
	DB         *db.DB
	Workspaces *workspace.Store
	Outbox     *outbox.Store
	Activity   *activity.Log
	// Skills are those that may be used now: what is disabled is not among them.
	Skills func(ctx context.Context, ws db.Workspace, surface trace.Surface) (*skill.Set, error)
	// Switches reads what people have switched off in a workspace; nil: nothing is.
	Switches func(context.Context, db.Workspace) (reason.Halts, error)
	IDs      func() string // time-ordered (UUIDv7)
	// Settled adds to the transaction in which a call was made, was rejected or
	// expired: whoever waits for it learns so.
	Settled func(context.Context, *db.Batch, Approval)
}

// Store keeps the approvals of all workspaces. Safe for concurrent use.
type Store struct {
	Deps
	q queries
}

// New makes a store.
func New(d Deps) (*Store, error) {
	s := &Store{Deps: d}
	if err := db.Load(files, &s.q); err != nil {
		return nil, fmt.Errorf("approval: %w", err)
	}
	return s, nil
}

// Request queues a call that waits, and answers its id. It belongs into the
// transaction that records that the call waits, which proves the execution's
// subject. Skill, arguments, execution, call, agent, surface and trace must be
// given; how long it waits is the workspace's to say. Where [reason.MaxWaits] of the
// execution wait already, nothing is queued, and the error is [reason.ErrManyWait].
func (s *Store) Request(ctx context.Context, tx lane.Tx, a Approval) (id string, err error) {
	if a.Subject != "" {
		if err := tx.Proves(a.Subject); err != nil {
			return "", fmt.Errorf("ask for an approval: %w", err)
		}
	}
	settings := s.Workspaces.Settings(tx.Later())
	open := 0
	if err := tx.One(ctx, []any{&a.RequestedAt, &open}, s.q.Open, a.Execution); err != nil {
		return "", fmt.Errorf("ask for an approval: %w", err)
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

// Open counts the approvals of an execution that can still be decided on.
func (s *Store) Open(ctx context.Context, ws db.Workspace, execution string) (n int, err error) {
	var at time.Time
	if err := s.DB.One(ctx, ws, []any{&at, &n}, s.q.Open, execution); err != nil {
		return 0, fmt.Errorf("count the approvals of execution %s: %w", execution, err)
	}
	return n, nil
}

// Get reads one; [db.ErrNoRows] when there is none.
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Approval, error) {
	var b db.Batch
	found := s.getIn(&b, id)
	if err := s.DB.Read(ctx, ws, &b); err != nil {
		return Approval{}, fmt.Errorf("read approval: %w", err)
	}
	if len(*found) == 0 {
		return Approval{}, fmt.Errorf("read approval: %w", db.ErrNoRows)
	}
	return (*found)[0], nil
}

// GetIn reads one in a transaction.
func (s *Store) GetIn(ctx context.Context, tx *db.Tx, id string) (Approval, error) {
	var found []Approval
	if err := tx.Each(ctx, collect(&found), s.q.Get, id); err != nil {
		return Approval{}, fmt.Errorf("read approval: %w", err)
	}
	if len(found) == 0 {
		return Approval{}, fmt.Errorf("read approval: %w", db.ErrNoRows)
	}
	return found[0], nil
}

func (s *Store) getIn(b *db.Batch, id string) *[]Approval {
	found := new([]Approval)
	b.Each(collect(found), s.q.Get, id)
	return found
}

// Filter narrows a listing; empty fields don't.
type Filter struct {
	Status Status
	Before Position
	Limit  int // at most 200; 50 when zero
}

// Position is a place in a listing, that of an approval; zero is the beginning.
type Position struct {
	At time.Time // it was requested
	ID string
}

const (
	defaultLimit = 50
	maxLimit     = 200
	lastUUID     = "ffffffff-ffff-ffff-ffff-ffffffffffff"
)

var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// List reads approvals, the latest first; more says that there are more.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) (items []Approval, more bool, err error) {
	if f.Before.ID == "" {
		f.Before = Position{endOfTime, lastUUID}
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	f.Limit = min(f.Limit, maxLimit)
	err = s.DB.Each(ctx, ws, collect(&items), s.q.List, db.Null(f.Status), f.Before.At, f.Before.ID, f.Limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("list approvals: %w", err)
	}
	if len(items) > f.Limit {
		return items[:f.Limit], true, nil
	}
	return items, false, nil
}

// Unanswered counts the approvals nobody has decided on.
type Unanswered struct {
	Count   int        // that can still be
	Overdue int        // that [Store.ExpireDue] will note as expired
	Oldest  *time.Time // since when the first of both waits
}

// Pending adds the count of unanswered approvals to a batch.
func (s *Store) Pending(b *db.Batch) *Unanswered {
	u := new(Unanswered)
	b.Each(func(scan db.Scan) error { return scan(&u.Count, &u.Overdue, &u.Oldest) }, s.q.Pending)
	return u
}

// settled tells that a call waits no more.
func (s *Store) settled(ctx context.Context, b *db.Batch, a Approval) {
	if s.Settled != nil {
		s.Settled(ctx, b, a)
	}
}

// kick is the payload of an approval's row in the outbox, in its first format.
type kick struct {
	Approval string `json:"approval"`
}

// Topic is what an approval's rows in the outbox are handled by.
const Topic = "approval"

// maxAttempts is how often the call is tried where it could not be made at all:
// the database away, a lane busy. Tries spread over an hour and more.
const maxAttempts = 20

func kickFor(a Approval) outbox.Row {
	payload, _ := json.Marshal(kick{a.ID}) // a string always has one
	return outbox.Row{
		Kind: outbox.Kick, Topic: Topic, Key: Key(a.ID), Payload: payload, MaxAttempts: maxAttempts, Trace: a.Trace, Execution: a.Execution,
	}
}
