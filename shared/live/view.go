package live

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Bounds of a view: the most rows of each kind.
const (
	MaxPending    = 1000
	MaxActive     = 5000
	MaxAgents     = 5000
	MaxRecovering = 1000
	MaxTaskUsage  = 1000
	MaxAlerts     = 100
	maxCommands   = 100
)

// A View is a workspace as it was at one moment.
type View struct {
	Now        time.Time // of the database's clock
	Pending    []Waiting // the most urgent first, then the oldest
	Active     []Working
	Agents     []Watched  // also those that were terminated within the last hour
	Recovering []string   // aborted tasks that will be tried again, the next one first
	Usage      *Usage     // nil: there is no budget of the whole workspace, and nothing was used today
	TaskUsage  []TaskUsed // of tasks with a budget of their own
	Alerts     []Alert    // the newest first
	ResultTTL  time.Duration
}

// Waiting is a task that waits for an agent.
type Waiting struct {
	Task      string
	Priority  int
	CreatedAt time.Time
}

// Score orders waiting tasks by priority, then age, as a real number.
func (w Waiting) Score() float64 {
	return float64(10-w.Priority)*(1<<43) + float64(w.CreatedAt.UnixMilli())
}

// Working is a task that an agent has.
type Working struct {
	Task, Agent string
	Session     string // empty: none yet
	AssignedAt  time.Time
}

// Watched is an agent.
type Watched struct {
	ID         string
	Status     agent.Status
	Health     agent.Health
	Task       string // that its latest heartbeat named, else the one that it has had longest
	LastSeenAt *time.Time
	Interval   time.Duration // between two heartbeats
}

// Stale reports whether the agent's heartbeats stopped.
func (w Watched) Stale() bool { return w.Status == agent.Error || w.Health == agent.IsStale }

// HeartbeatTTL is how long a heartbeat is shown: two intervals, at least a minute.
func (w Watched) HeartbeatTTL() time.Duration { return max(time.Minute, 2*w.Interval) }

// Usage is what the workspace has used in the present period of its budget, or today (UTC) without one.
type Usage struct {
	Tokens, MicroUSD int64
	UpdatedAt        time.Time
}

// TaskUsed is what a task has used of its own budget.
type TaskUsed struct {
	Task                           string
	Allocated, Consumed, Remaining int64
	Agents                         []string // that have worked on it
}

// Alert says that a budget is nearly or wholly spent.
type Alert struct {
	Task    string // empty: the budget is of no task
	Level   string // warning or exhausted
	Percent int
	Message string
}

// CommandDone is a command to the coordinator that was carried out.
type CommandDone struct {
	ID        string    `json:"id"`
	Command   string    `json:"command"`
	AgentID   string    `json:"agent_id,omitempty"`
	TaskID    string    `json:"task_id,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	CreatedBy string    `json:"created_by"`
	CreatedAt time.Time `json:"created_at"`
	DoneAt    time.Time `json:"done_at"`
	Outcome   string    `json:"outcome"`
}

// View reads the present view, in one round trip and a fixed number of statements. It also returns the
// commands that were carried out after since, the oldest first.
func (s *Database) View(ctx context.Context, ws db.Workspace, since time.Time) (v View, done []CommandDone, err error) {
	var b db.Batch
	var settings json.RawMessage
	b.One([]any{&v.Now, &settings}, s.q.Now)
	b.Each(db.Append(&v.Pending, func(scan db.Scan, w *Waiting) error { return scan(&w.Task, &w.Priority, &w.CreatedAt) }), s.q.Pending, MaxPending)
	b.Each(db.Append(&v.Active, func(scan db.Scan, w *Working) error {
		return scan(&w.Task, &w.Agent, db.Optional(&w.Session), &w.AssignedAt)
	}), s.q.Active, MaxActive)
	b.Each(db.Append(&v.Agents, func(scan db.Scan, w *Watched) error {
		var seconds int64
		err := scan(&w.ID, &w.Status, db.Optional(&w.Health), db.Optional(&w.Task), &w.LastSeenAt, &seconds)
		w.Interval = time.Duration(seconds) * time.Second
		return err
	}), s.q.Agents, MaxAgents)
	b.Each(db.Column(&v.Recovering), s.q.Recovering, MaxRecovering)
	b.Each(func(scan db.Scan) error {
		v.Usage = &Usage{}
		return scan(&v.Usage.Tokens, &v.Usage.MicroUSD, &v.Usage.UpdatedAt)
	}, s.q.Usage, time.Now().UTC().Truncate(24*time.Hour))
	b.Each(db.Append(&v.TaskUsage, func(scan db.Scan, u *TaskUsed) error {
		var agents string
		if err := scan(&u.Task, &u.Allocated, &u.Consumed, &u.Remaining, &agents); err != nil {
			return err
		}
		return json.Unmarshal([]byte(agents), &u.Agents)
	}), s.q.TaskUsage, MaxTaskUsage)
	b.Each(db.Append(&v.Alerts, readAlert), s.q.Alerts, MaxAlerts)
	b.Each(db.Append(&done, func(scan db.Scan, c *CommandDone) error {
		return scan(&c.ID, &c.Command, db.Optional(&c.AgentID), db.Optional(&c.TaskID), db.Optional(&c.Reason), &c.CreatedBy, &c.CreatedAt, &c.DoneAt, &c.Outcome)
	}), s.q.Done, since, maxCommands)
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return View{}, nil, fmt.Errorf("read the live view: %w", err)
	}
	v.ResultTTL = time.Duration(workspace.Decode(settings).ResultHours) * time.Hour
	return v, done, nil
}

// completed reads the outputs of those of the tasks that are completed.
func (s *Database) completed(ctx context.Context, ws db.Workspace, ids []string) (all []task.Task, err error) {
	err = s.db.Each(ctx, ws, db.Append(&all, func(scan db.Scan, t *task.Task) error {
		var output string
		err := scan(&t.ID, &t.Attempt, db.Optional(&output))
		t.Status, t.Output = task.Completed, json.RawMessage(output)
		return err
	}), s.q.Completed, db.Encode(ids))
	if err != nil {
		return nil, fmt.Errorf("read the results of tasks: %w", err)
	}
	return all, nil
}

func readAlert(scan db.Scan, a *Alert) error {
	var scope, of string
	var threshold int
	if err := scan(&scope, &of, &threshold, &a.Percent); err != nil {
		return err
	}
	a.Level = "warning"
	if threshold >= 100 {
		a.Level = "exhausted"
	}
	name := "of the workspace"
	if of != "" {
		name = "of " + scope + " " + of
	}
	if scope == "task" {
		a.Task = of
	}
	a.Message = fmt.Sprintf("the budget %s is spent by %d %%", name, a.Percent)
	return nil
}
