// Package agent stores agents: the programs that work on tasks. A person registers an agent, which
// then sends heartbeats and asks for tasks with a token of its own.
//
// How many tasks an agent works on is never stored: it is the number of its open attempts. A change
// of an agent locks its row first and then decides in a new statement. The code that gives an agent a
// task locks the agent's row, too. So an agent that drains or is terminated gets no further task.
package agent

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

//go:embed *.sql
var files embed.FS

// Status is the status of an agent.
type Status string

// The statuses of an agent.
const (
	Idle       Status = "IDLE"
	Working    Status = "WORKING"
	Degraded   Status = "DEGRADED"   // keeps its tasks and gets no new ones
	Error      Status = "ERROR"      // its heartbeats stopped, and its tasks were recovered
	Draining   Status = "DRAINING"   // is terminated when its last attempt ends
	Terminated Status = "TERMINATED" // for good
)

// Health says how the heartbeats of an agent are.
type Health string

// The kinds of health. An agent that never sent a heartbeat or is terminated has none.
const (
	IsHealthy  Health = "healthy"
	IsDegraded Health = "degraded"
	IsStale    Health = "stale"
)

// Spawner says how an agent is started for a task.
type Spawner string

// The spawners.
const (
	SpawnHTTP    Spawner = "http"
	SpawnLambda  Spawner = "lambda"
	SpawnBuiltin Spawner = "builtin"
	SpawnPull    Spawner = "pull" // it runs already, and asks for its tasks
)

// Defaults of a new agent.
const (
	DefaultTasks    = 1
	DefaultInterval = 30  // seconds
	DefaultStale    = 180 // seconds; more for an agent with a long interval
)

// Agent is one row, with the number of its open attempts.
type Agent struct {
	ID                 string
	Name               string
	Model              string
	Status             Status
	Capabilities       []string // sorted
	CoordinatorEnabled bool     // the coordinator may give it tasks
	MaxConcurrentTasks int
	IntervalSeconds    int // between two heartbeats
	StaleSeconds       int // without a heartbeat, after which its tasks are recovered
	Spawner            Spawner
	SpawnerTarget      string
	Generation         int // of its valid token
	Tasks              int // its open attempts

	Health Health // empty: it never sent a heartbeat
	Latest Vitals // what the latest heartbeat said

	LastSeenAt        *time.Time // nil: it never sent a heartbeat
	NextExpectedAt    *time.Time
	IdleSince         *time.Time // nil while it works
	Version           int        // counts changes by people
	CreatedBy         string
	CreatedAt         time.Time
	UpdatedAt         time.Time
	TerminatedAt      *time.Time
	TerminationReason string

	Newest *time.Time // when the newest of its tasks that run began; nil: none runs
	// Until is, of an agent of the built-in worker, when the first hold on one of its tasks ends, or has ended.
	Until *time.Time

	now time.Time // of the database, when the row was read
}

// Vitals is what an agent says of itself in a heartbeat.
type Vitals struct {
	Task     string // that it works on
	Progress *int   // percent
	Step     string
	MemoryMB *float64
	CPU      *float64 // percent of one core
}

// StatusError says that the status of an agent does not allow a change.
type StatusError struct {
	Status Status
	What   string // was asked for, such as "a new token"
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the agent is %s: %s is not possible", e.Status, e.What)
}

type queries struct {
	Get, List, Lock, Insert, Update, StatusOf                               db.Query
	Beat, AddHeartbeat, Heartbeats, Attempts                                db.Query
	Generation, Rotate, Drain, Terminate, EndDrained, OpenAttempts, ModelOf db.Query
}

// Store stores the agents of all workspaces. Methods that write take a transaction, in which the
// caller also records who asked for the change.
type Store struct {
	db  *db.DB
	q   queries
	ids func() string
}

// New returns a store. ids returns time-ordered ids.
func New(d *db.DB, ids func() string) (*Store, error) {
	s := &Store{db: d, ids: ids}
	return s, db.Load(files, &s.q)
}

// Tx is an open transaction: a [db.Tx] or a lane's.
type Tx = db.Writer

// Get reads an agent. It returns [db.ErrNoRows] if there is none.
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Agent, error) {
	var found []Agent
	err := s.db.Each(ctx, ws, collect(&found), s.q.Get, id)
	return first(found, err)
}

// read reads an agent in a transaction, after what is queued there.
func (s *Store) read(ctx context.Context, tx Tx, id string) (Agent, error) {
	var found []Agent
	err := tx.Each(ctx, collect(&found), s.q.Get, id)
	return first(found, err)
}

// head locks an agent's row and then reads it in a new statement: until the transaction ends, nobody
// else changes the agent or gives it a task.
func (s *Store) head(ctx context.Context, tx Tx, id string) (Agent, error) {
	tx.Later().Exec(s.q.Lock, id)
	return s.read(ctx, tx, id)
}

func first(found []Agent, err error) (Agent, error) {
	return db.Found(found, err, "read an agent", fmt.Errorf("read an agent: %w", db.ErrNoRows))
}

func collect(into *[]Agent) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, a *Agent) error {
		var capabilities string
		l := &a.Latest
		if err := scan(&a.ID, &a.Name, db.Optional(&a.Model), &a.Status, &capabilities, &a.CoordinatorEnabled, &a.MaxConcurrentTasks,
			&a.IntervalSeconds, &a.StaleSeconds, &a.Spawner, db.Optional(&a.SpawnerTarget), &a.Generation, &a.Tasks, db.Optional(&a.Health),
			db.Optional(&l.Task), &l.Progress, db.Optional(&l.Step), &l.MemoryMB, &l.CPU, &a.LastSeenAt, &a.NextExpectedAt, &a.IdleSince,
			&a.Version, &a.CreatedBy, &a.CreatedAt, &a.UpdatedAt, &a.TerminatedAt, db.Optional(&a.TerminationReason),
			&a.Newest, &a.Until, &a.now); err != nil {
			return err
		}
		if a.Tasks == 0 { // its latest heartbeat was about a task that has ended
			l.Task, l.Progress, l.Step = "", nil, ""
		}
		if err := json.Unmarshal([]byte(capabilities), &a.Capabilities); err != nil {
			return fmt.Errorf("the capabilities of agent %s: %w", a.ID, err)
		}
		return nil
	})
}
