package thread

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

//go:embed *.sql
var files embed.FS

// Policy is what other executions may do with a thread while its owner waits for the person's
// answer.
type Policy string

// The policies.
const (
	Queue     Policy = "queue"     // they wait: their messages are queued
	Supersede Policy = "supersede" // they take the thread
	HandOver  Policy = "hand_over" // they hold it until they end, then the owner holds it again
)

// Thread is a conversation with one person over one channel.
type Thread struct {
	ID       string
	Channel  string
	Address  string // of the person, on the channel
	Policy   Policy
	Metadata map[string]string
	Lock     Lock
	// Queued is how many messages wait for the lock.
	Queued    int
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Lock says who holds a thread.
type Lock struct {
	State LockState
	// Holder is an execution, or a queued message that holds the thread for its own send. Empty:
	// nobody.
	Holder string
	// Author is the execution that wrote the holder, when the holder is a message.
	Author      string
	Stack       []string // the holder last
	Since       time.Time
	Age         time.Duration // since it was taken or refreshed
	ParkedBy    string
	ParkedUntil *time.Time
}

// Execution returns the execution that holds the thread, or whose message holds it.
func (l Lock) Execution() string {
	if l.Author != "" {
		return l.Author
	}
	return l.Holder
}

// LockState says whether a lock is still valid.
type LockState string

// The states of a lock.
const (
	Free   LockState = ""
	Active LockState = "active"
	Stale  LockState = "stale" // the holder has ended, or was idle for too long: the next to ask takes the thread
)

// Idle is how long a holder may do nothing before its lock is stale.
const Idle = 10 * time.Minute

type queries struct {
	Open, Edit                           db.Query
	Get, List, Messages                  db.Query
	Asker, Head, Take, TakeFree, FreeOf  db.Query
	Settle, Wake                         db.Query
	Held, Left, Forgotten, Lapse         db.Query
	Park, Unpark, Rouse, Refresh         db.Query
	Bump, Keyed, Say, Unsend             db.Query
	Known, Numbers, Place                db.Query
	Lately, Unsent, Address, Forget, Due db.Query
	Waiting, Blocking, Glances           db.Query
}

// Store is the threads of all workspaces. It is safe for concurrent use.
type Store struct {
	db     *db.DB
	runs   *execution.Store
	outbox *outbox.Store
	q      queries
	ids    func() string
	log    *slog.Logger
}

// New returns a store. ids makes time-ordered ids (UUIDv7).
func New(d *db.DB, runs *execution.Store, out *outbox.Store, ids func() string, log *slog.Logger) (*Store, error) {
	s := &Store{db: d, runs: runs, outbox: out, ids: ids, log: log}
	return s, db.Load(files, &s.q)
}

const (
	maxChannel  = 56
	maxAddress  = 512
	maxMetadata = 4 << 10
)

// Open returns the thread of a channel and an address, and adds it when there is none. A new thread
// gets t's id (empty: a new one), policy (empty: [Queue]) and metadata.
func (s *Store) Open(ctx context.Context, ws db.Workspace, t Thread) (Thread, error) {
	if t.Policy == "" {
		t.Policy = Queue
	}
	if t.Metadata == nil {
		t.Metadata = map[string]string{}
	}
	metadata, err := json.Marshal(t.Metadata)
	if err != nil {
		return Thread{}, fmt.Errorf("open thread: %w", err)
	}
	var wrong problem.InvalidError
	wrong.If(t.Channel == "" || len(t.Channel) > maxChannel, "channel", "has 1 to 56 characters")
	wrong.If(t.Address == "" || len(t.Address) > maxAddress, "address", "has 1 to 512 characters")
	checkMetadata(&wrong, metadata)
	checkPolicy(&wrong, t.Policy)
	if err := wrong.OrNil(); err != nil {
		return Thread{}, err
	}
	var found []Thread
	var b db.Batch
	b.Exec(s.q.Open, cmp.Or(t.ID, s.ids()), t.Channel, t.Address, t.Policy, json.RawMessage(metadata))
	b.Each(collect(&found), s.q.List, -Idle.Milliseconds(), t.Channel, t.Address, nil, db.EndOfTime, db.LastID, 1)
	err = s.db.Do(ctx, ws, &b)
	return db.Found(found, err, "open thread", fmt.Errorf("open thread: %w", db.ErrNoRows))
}

// Change changes a thread. Fields that are nil stay as they are.
type Change struct {
	Policy   *Policy
	Metadata map[string]string // replaces all
}

// Update changes a thread, and returns it as it is then. It returns [db.ErrNoRows] when there is none,
// and a [problem.InvalidError].
func (s *Store) Update(ctx context.Context, ws db.Workspace, id string, c Change) (Thread, error) {
	var metadata json.RawMessage
	var wrong problem.InvalidError
	if c.Metadata != nil {
		var err error
		if metadata, err = json.Marshal(c.Metadata); err != nil {
			return Thread{}, fmt.Errorf("update thread: %w", err)
		}
	}
	checkMetadata(&wrong, metadata)
	if c.Policy != nil {
		checkPolicy(&wrong, *c.Policy)
	}
	if err := wrong.OrNil(); err != nil {
		return Thread{}, err
	}
	var b db.Batch
	b.Exec(s.q.Edit, id, c.Policy, metadata)
	found := s.GetIn(&b, id)
	err := s.db.Do(ctx, ws, &b)
	return db.Found(*found, err, "update thread", fmt.Errorf("update thread %s: %w", id, db.ErrNoRows))
}

func checkMetadata(wrong *problem.InvalidError, metadata json.RawMessage) {
	wrong.If(len(metadata) > maxMetadata, "metadata", "has at most 4096 bytes")
}

func checkPolicy(wrong *problem.InvalidError, p Policy) {
	wrong.If(p != Queue && p != Supersede && p != HandOver, "policy", "is queue, supersede or hand_over")
}

// Get reads a thread. It returns [db.ErrNoRows] when there is none.
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Thread, error) {
	var found []Thread
	err := s.db.Each(ctx, ws, collect(&found), s.q.Get, id, -Idle.Milliseconds())
	return db.Found(found, err, "read thread", fmt.Errorf("read thread %s: %w", id, db.ErrNoRows))
}

// GetIn adds the read of a thread to a batch. The result is empty when there is none.
func (s *Store) GetIn(b *db.Batch, id string) *[]Thread {
	found := new([]Thread)
	b.Each(collect(found), s.q.Get, id, -Idle.Milliseconds())
	return found
}

// Filter narrows a listing. Empty fields have no effect.
type Filter struct {
	Channel, Address string
	Lock             LockState
	Before           db.Position
	Limit            int // at most 200; 50 when zero
}

// List reads threads, newest first. more says that there are more.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) (items []Thread, more bool, err error) {
	f.Limit = db.PageSize(f.Limit)
	err = s.db.Each(ctx, ws, collect(&items), s.q.List,
		append(f.Before.Args(-Idle.Milliseconds(), db.Null(f.Channel), db.Null(f.Address), db.Null(f.Lock)), f.Limit+1)...)
	if err != nil {
		return nil, false, fmt.Errorf("list threads: %w", err)
	}
	items, more = db.Page(items, f.Limit)
	return items, more, nil
}

// Outbox lists the outbox entries of a thread, newest first.
func (s *Store) Outbox(ctx context.Context, ws db.Workspace, thread string, f outbox.Filter) (items []outbox.Entry, more bool, err error) {
	f.OrderKey = orderKey(thread)
	return s.outbox.List(ctx, ws, f)
}

func orderKey(thread string) string { return "thread:" + thread }

func collect(into *[]Thread) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, t *Thread) error {
		var metadata, stack json.RawMessage
		var since *time.Time
		var now time.Time
		if err := scan(&t.ID, &t.Channel, &t.Address, &t.Policy, &metadata, db.Optional(&t.Lock.Holder), db.Optional(&t.Lock.Author),
			&stack, &since, db.Optional(&t.Lock.ParkedBy), &t.Lock.ParkedUntil, &t.CreatedAt, &t.UpdatedAt, &t.Queued, &t.Lock.State, &now); err != nil {
			return err
		}
		if err := errors.Join(json.Unmarshal(metadata, &t.Metadata), json.Unmarshal(stack, &t.Lock.Stack)); err != nil {
			return fmt.Errorf("thread %s: %w", t.ID, err)
		}
		if since != nil {
			t.Lock.Since, t.Lock.Age = *since, now.Sub(*since)
		}
		return nil
	})
}
