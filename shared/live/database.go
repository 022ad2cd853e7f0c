package live

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

//go:embed *.sql
var files embed.FS

type queries struct {
	SetResult, GetResult, PurgeResults       db.Query
	Now, Pending, Active, Agents, Recovering db.Query
	Usage, TaskUsage, Alerts, Done           db.Query
	Completed                                db.Query
}

// Database is the contract on a database: tasks and threads in their stores, locks as lanes, results in
// a table. It is safe for concurrent use.
type Database struct {
	db      *db.DB
	tasks   *task.Store
	threads *thread.Store
	lanes   *lane.Store
	q       queries
}

var _ State = (*Database)(nil)

// NewDatabase returns the contract on a database with its stores.
func NewDatabase(d *db.DB, tasks *task.Store, threads *thread.Store, lanes *lane.Store) (*Database, error) {
	s := &Database{db: d, tasks: tasks, threads: threads, lanes: lanes}
	return s, db.Load(files, &s.q)
}

// CreateTask implements [Tasks].
func (s *Database) CreateTask(ctx context.Context, ws db.Workspace, t task.Task) (task.Task, error) {
	return s.change(ctx, ws, func(ctx context.Context, tx *db.Tx) (task.Task, error) { return s.tasks.Create(ctx, tx, t) })
}

// GetTask implements [Tasks].
func (s *Database) GetTask(ctx context.Context, ws db.Workspace, id string) (task.Task, error) {
	return s.tasks.Get(ctx, ws, id)
}

// UpdateTask implements [Tasks].
func (s *Database) UpdateTask(ctx context.Context, ws db.Workspace, of task.Report, change Change) (task.Task, error) {
	return s.change(ctx, ws, func(ctx context.Context, tx *db.Tx) (task.Task, error) { return change.apply(ctx, s.tasks, tx, of) })
}

func (s *Database) change(ctx context.Context, ws db.Workspace, fn func(context.Context, *db.Tx) (task.Task, error)) (t task.Task, err error) {
	err = s.db.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		t, err = fn(ctx, tx)
		return err
	})
	if err != nil {
		return task.Task{}, err
	}
	return t, nil
}

// ListTasks implements [Tasks].
func (s *Database) ListTasks(ctx context.Context, ws db.Workspace, f task.Filter) ([]task.Task, error) {
	f.Limit = db.PageSize(f.Limit)
	return s.tasks.List(ctx, ws, f)
}

// GetOrCreateThread implements [Threads].
func (s *Database) GetOrCreateThread(ctx context.Context, ws db.Workspace, t thread.Thread) (thread.Thread, error) {
	return s.threads.Open(ctx, ws, t)
}

// GetThread implements [Threads].
func (s *Database) GetThread(ctx context.Context, ws db.Workspace, id string) (thread.Thread, error) {
	return s.threads.Get(ctx, ws, id)
}

// UpdateThread implements [Threads].
func (s *Database) UpdateThread(ctx context.Context, ws db.Workspace, id string, c thread.Change) (thread.Thread, error) {
	return s.threads.Update(ctx, ws, id, c)
}

// AppendMessage implements [Messages].
func (s *Database) AppendMessage(ctx context.Context, ws db.Workspace, to string, m thread.Spoken) (id string, err error) {
	err = s.db.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		id, _, err = s.threads.Append(ctx, tx, to, m)
		return err
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// GetMessages implements [Messages].
func (s *Database) GetMessages(ctx context.Context, ws db.Workspace, of string, limit int) ([]thread.Spoken, error) {
	return s.threads.Lately(ctx, ws, of, db.PageSize(limit))
}

// TryLock implements [Locks].
func (s *Database) TryLock(ctx context.Context, ws db.Workspace, l Lock, ttl time.Duration) (bool, error) {
	if err := l.CheckFor(ttl); err != nil {
		return false, err
	}
	_, err := s.lanes.Acquire(ctx, lane.Request{Workspace: ws, Lane: lane.Name(l.lane()), Holder: lane.Holder("lock " + l.Token), TTL: ttl, Token: l.Token})
	if _, busy := errors.AsType[*lane.BusyError](err); busy {
		return false, nil
	}
	return err == nil, err
}

// ReleaseLock implements [Locks].
func (s *Database) ReleaseLock(ctx context.Context, ws db.Workspace, l Lock) (bool, error) {
	if err := l.Check(); err != nil {
		return false, err
	}
	err := s.lanes.Release(ctx, &lane.Hold{Workspace: ws, Lane: lane.Name(l.lane()), Token: l.Token})
	if errors.Is(err, lane.ErrLost) {
		return false, nil
	}
	return err == nil, err
}

// SetResult implements [Results]. It also deletes results whose time is over, a hundred at most.
func (s *Database) SetResult(ctx context.Context, ws db.Workspace, of Attempt, result json.RawMessage, ttl time.Duration) error {
	ttl, err := CheckResult(of, result, ttl)
	if err != nil {
		return err
	}
	var b db.Batch
	b.Exec(s.q.SetResult, of.Task, of.Number, string(result), ttl.Milliseconds())
	b.Exec(s.q.PurgeResults)
	if err := s.db.Do(ctx, ws, &b); err != nil {
		return fmt.Errorf("store the result of attempt %d at task %s: %w", of.Number, of.Task, err)
	}
	return nil
}

// GetResult implements [Results].
func (s *Database) GetResult(ctx context.Context, ws db.Workspace, of Attempt) (result json.RawMessage, there bool, err error) {
	if err := of.Check(); err != nil {
		return nil, false, err
	}
	err = s.db.Each(ctx, ws, func(scan db.Scan) error {
		var text string
		err := scan(&text)
		result, there = json.RawMessage(text), true
		return err
	}, s.q.GetResult, of.Task, of.Number)
	if err != nil {
		return nil, false, fmt.Errorf("read the result of attempt %d at task %s: %w", of.Number, of.Task, err)
	}
	return result, there, nil
}

// storable reports whether a result is JSON that each backend stores as it is.
func storable(result json.RawMessage) bool {
	return json.Valid(result) && utf8.Valid(result) && bytes.IndexByte(result, 0) < 0
}
