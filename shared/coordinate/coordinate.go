// Package coordinate gives tasks to agents and watches both. One cycle at a time runs in a workspace,
// under the lane coordinator. It decides which agents have died, recovers their tasks, ends what can't
// begin any more, and assigns what is due.
//
// # Two transactions
//
// A cycle tends first and assigns then. Each transaction proves the lane, locks the rows that it
// decides on (agents by id, budgets by id, tasks by id), reads them in a new statement, decides in Go,
// and writes each table with one statement from a JSON list. So the number of statements does not
// depend on the number of tasks and agents.
//
// # What is derived
//
// How many tasks an agent works on is the number of its open attempts, counted after its row was
// locked. There are no timers: rows carry times of the database's clock. An attempt number is the
// fence of a task. A late answer of a spawner or a report of an agent that lost its task changes
// nothing.
//
// # What a gap in the cycles means
//
// Heartbeats that could not be stored look like dead agents. After more than 90 s without a cycle, as
// after an outage of the database, every agent gets its whole threshold again ([watch]).
package coordinate

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.sql
var files embed.FS

// Times of the cycle.
const (
	claimWithin   = 5 * time.Minute  // an assignment that its agent has not begun goes back
	lateAfter     = 30 * time.Minute // after the estimated completion
	warnedFor     = 10 * time.Minute // from the warning to the end of the attempt
	silentFor     = time.Hour        // a running task whose agent never sent a heartbeat and does not claim its tasks, without a report
	longestGap    = 90 * time.Second // between two cycles that follow each other
	notesKept     = 30 * 24 * time.Hour
	maxStrikes    = 3 // attempts that time out or die before a task is quarantined
	massOf        = 4 // agents, of which more than half disappear at once
	roundsAtMost  = 3 // of one cycle, while somebody asks for another
	triesToAssign = 3 // while other transactions change the same tasks
)

// Actor is the actor of the log rows that the coordinator writes.
const Actor = "coordinator"

type queries struct {
	State, Agents, Halted, Circuits, Commands, Command, Waiting            db.Query
	Counts, Record, Status, Note, Tell, Notes                              db.Query
	Purge, PurgeNotes, PurgeCommands                                       db.Query
	LockDoubtful, LockAgents, UpdateAgents, LockTasks, LockThese, Doubtful db.Query
	WaitingOf, Move, EndAttempts, Warn, Logs, Done                         db.Query
	Queues, Candidates, Pick, Assign, Attempts, Oldest, Start, Session     db.Query
	Strike, Closed, Circuit, Model, HaltedAgent                            db.Query
}

// Coordinator runs the cycles of all workspaces. All fields are set before [Coordinator.Open].
type Coordinator struct {
	DB       *db.DB
	Lanes    *lane.Store
	Tasks    *task.Store
	Agents   *agent.Store
	Budgets  *budget.Store // nil: nothing is bounded
	Outbox   *outbox.Store
	Traces   *trace.Source
	IDs      func() string  // time-ordered
	Random   func() float64 // 0 to 1, for jitter
	Log      *slog.Logger
	Instance string // names this process

	q queries
}

// Open loads the statements. It returns the coordinator.
func (c *Coordinator) Open() (*Coordinator, error) {
	if err := db.Load(files, &c.q); err != nil {
		return nil, fmt.Errorf("coordinate: %w", err)
	}
	return c, nil
}

// Report counts what a cycle found and did.
type Report struct {
	Pending, Running int // tasks, at the end
	Healthy, Stale   int // agents
	Assigned         int
	Spawned          map[string]int // the assigned tasks, by how their agents are started
	Recovered        int            // tasks whose attempt was lost
	Requeued         int            // tasks whose backoff was over
	Unclaimed        int            // assignments that nobody began
	TimedOut         int
	Failed           int // tasks: retries spent, poison, dependencies
	Warned           int // attempts that are late
	Paused           int // tasks without budget
	Gone             int // agents that became ERROR
	Refused          int // due tasks that a budget refused
	Commands         int // that were carried out
	MassStale        bool
	Rounds           int
	Took             time.Duration
}

// Tx is an open transaction: a [db.Tx] or a lane's.
type Tx = db.Writer

// traced returns the id of the context's trace for a column that may be null.
func traced(ctx context.Context) any {
	id, _ := trace.From(ctx)
	return db.Null(id)
}
