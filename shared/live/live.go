// Package live has the contract that work from a webhook to its result is stored by, and the live view
// of a workspace for those who watch it.
//
// # The contract
//
// [State] has thirteen methods in five groups. [Database] implements all of them, on Postgres and on
// SQLite alike. Package live/valkey implements the ephemeral groups, [Locks] and [Results], on Redis and
// refuses the durable ones with [ErrEphemeral]. [Both] puts a Redis in front of a database. Its callers
// never see an error of the Redis: what it can't do, the database does.
//
// # The live view
//
// A [View] is what people and programs watch of a workspace: what waits, who works on what, whose
// heartbeats came, what was used. It is never the truth. It is read from the database in one round trip,
// and a [Rebuilder] publishes it to a Redis after each cycle of the coordinator, with the events since
// the cycle before. So every key of the Redis may be lost at any moment.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// ErrEphemeral means that a backend keeps nothing durable: tasks, threads and messages are in the
// database.
var ErrEphemeral = errors.New("this backend keeps nothing durable: ask the database")

// State is the whole contract.
type State interface {
	Durable
	Ephemeral
}

// Durable is the part of the contract whose data is never lost.
type Durable interface {
	Tasks
	Threads
	Messages
}

// Ephemeral is the part whose data may be lost at any moment, without harm.
type Ephemeral interface {
	Locks
	Results
}

// Tasks are the tasks of a workspace. See package task for the errors.
type Tasks interface {
	// CreateTask adds a PENDING task.
	CreateTask(ctx context.Context, ws db.Workspace, t task.Task) (task.Task, error)
	// GetTask reads a task. It returns [db.ErrNoRows] if there is none.
	GetTask(ctx context.Context, ws db.Workspace, id string) (task.Task, error)
	// UpdateTask makes one change. of names the task, who asks, and for reports the attempt.
	UpdateTask(ctx context.Context, ws db.Workspace, of task.Report, change Change) (task.Task, error)
	// ListTasks reads tasks without their input, output and checkpoint: at most f.Limit, 50 when zero,
	// 200 at most.
	ListTasks(ctx context.Context, ws db.Workspace, f task.Filter) ([]task.Task, error)
}

// Threads are the threads of a workspace. See package thread for the errors.
type Threads interface {
	// GetOrCreateThread returns the thread of a channel and an address, and adds it if there is none.
	GetOrCreateThread(ctx context.Context, ws db.Workspace, t thread.Thread) (thread.Thread, error)
	// GetThread reads a thread. It returns [db.ErrNoRows] if there is none.
	GetThread(ctx context.Context, ws db.Workspace, id string) (thread.Thread, error)
	// UpdateThread changes the policy or the metadata of a thread. It returns [db.ErrNoRows] if there is
	// none.
	UpdateThread(ctx context.Context, ws db.Workspace, id string, c thread.Change) (thread.Thread, error)
}

// Messages are what was said in a thread.
type Messages interface {
	// AppendMessage adds a message and returns its id; one with a known key is not added again.
	AppendMessage(ctx context.Context, ws db.Workspace, thread string, m thread.Spoken) (id string, err error)
	// GetMessages returns the newest messages, at most limit (50 when zero, 200 at most), oldest first. A
	// thread that isn't there has none.
	GetMessages(ctx context.Context, ws db.Workspace, thread string, limit int) ([]thread.Spoken, error)
}

// A Lock names a lock and the proof of who holds it.
type Lock struct {
	Name  string // as the name of a lane
	Token string // a UUID; the same one takes the lock again, and gives it back
}

// AssignLock names the lock of who is about to give a task to an agent. It saves work, and decides
// nothing: the task's row does.
func AssignLock(task string) string { return assignLock + task }

const assignLock = "task:assign_lock:"

// Locks are locks that nobody waits for.
type Locks interface {
	// TryLock takes a lock for a time, 1 ms to 1 h, and reports whether it did. Its holder may take it
	// again, which counts from then on. Errors: [problem.InvalidError].
	TryLock(ctx context.Context, ws db.Workspace, l Lock, ttl time.Duration) (bool, error)
	// ReleaseLock gives a lock back, and reports whether it was held by that token. Errors:
	// [problem.InvalidError].
	ReleaseLock(ctx context.Context, ws db.Workspace, l Lock) (bool, error)
}

// Attempt is an attempt at a task.
type Attempt struct {
	Task   string // its id
	Number int
}

// ResultTTL is how long a result is kept unless somebody says otherwise, and MaxResultTTL the longest.
const (
	ResultTTL    = time.Hour
	MaxResultTTL = 366 * 24 * time.Hour
)

// MaxResult is the most bytes of a result.
const MaxResult = task.MaxInput

// Results tell who waits for an attempt how it ended, sooner than the task's row does. They are written
// after it.
type Results interface {
	// SetResult stores the result of an attempt for a time; zero: [ResultTTL]. A later call replaces it.
	// Errors: [problem.InvalidError], and of a database [db.ErrReference] if there is no such attempt.
	SetResult(ctx context.Context, ws db.Workspace, of Attempt, result json.RawMessage, ttl time.Duration) error
	// GetResult returns the result of an attempt. Without one, or once its time is over, it reports false:
	// not yet. Errors: [problem.InvalidError].
	GetResult(ctx context.Context, ws db.Workspace, of Attempt) (json.RawMessage, bool, error)
}

// Check returns a [problem.InvalidError] if no backend takes the lock.
func (l Lock) Check() error {
	bad := &problem.InvalidError{}
	l.check(bad)
	return bad.OrNil()
}

func (l Lock) check(bad *problem.InvalidError) {
	_, err := lane.ParseName(l.lane())
	bad.If(l.Name == "" || err != nil, "name", "must have 1 to 195 letters, digits and . _ : @ / + -")
	bad.If(uuid.Validate(l.Token) != nil || len(l.Token) != 36, "token", "must be a UUID")
}

// lane is the lane of a lock. No other lane begins like that.
func (l Lock) lane() string { return "lock:" + l.Name }

// CheckFor returns a [problem.InvalidError] if no backend takes the lock for that time.
func (l Lock) CheckFor(ttl time.Duration) error {
	bad := &problem.InvalidError{}
	l.check(bad)
	bad.If(ttl < time.Millisecond || ttl > lane.MaxTTL, "ttl", "must be 1 ms to 1 h")
	return bad.OrNil()
}

// Check returns a [problem.InvalidError] if that can't be an attempt.
func (a Attempt) Check() error {
	bad := &problem.InvalidError{}
	a.check(bad)
	return bad.OrNil()
}

func (a Attempt) check(bad *problem.InvalidError) {
	bad.If(uuid.Validate(a.Task) != nil || len(a.Task) != 36, "task", "must be a UUID")
	bad.If(a.Number < 1 || a.Number > maxAttempt, "attempt", "must be positive")
}

const maxAttempt = 1<<31 - 1

// CheckResult returns how long a result is kept, or a [problem.InvalidError] if no backend takes it.
func CheckResult(of Attempt, result json.RawMessage, ttl time.Duration) (time.Duration, error) {
	if ttl == 0 {
		ttl = ResultTTL
	}
	bad := &problem.InvalidError{}
	of.check(bad)
	bad.If(len(result) > MaxResult || !storable(result), "result", "must be JSON of 256 KiB at most")
	bad.If(ttl < time.Millisecond || ttl > MaxResultTTL, "ttl", "must be 1 ms to 366 days")
	return ttl, bad.OrNil()
}
