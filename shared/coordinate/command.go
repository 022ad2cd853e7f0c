package coordinate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// Name names a command to the coordinator.
type Name string

// The commands.
const (
	ReassignTask Name = "reassign_task" // takes a task from its agent; another one gets it, where there is one
	PauseAgent   Name = "pause_agent"   // it gets no further tasks
	DrainAgent   Name = "drain_agent"   // it gets no further tasks, and is terminated when it has none
	Recover      Name = "recover"       // runs a cycle
)

// Command is an order to the coordinator. The next cycle carries it out.
type Command struct {
	ID     string // empty: [Coordinator.Command] makes one
	Name   Name
	Agent  string // of pause_agent and drain_agent
	Task   string // of reassign_task
	Reason string
	Actor  string
}

// maxReason bounds the reason of a command, in characters.
const maxReason = 500

// Command stores a command in the caller's transaction, together with the kick that wakes the cycle,
// and returns its id. Errors: [problem.InvalidError].
func (c *Coordinator) Command(ctx context.Context, tx Tx, order Command) (string, error) {
	bad := &problem.InvalidError{}
	bad.If(!slices.Contains([]Name{ReassignTask, PauseAgent, DrainAgent, Recover}, order.Name), "command",
		"must be reassign_task, pause_agent, drain_agent or recover")
	bad.If((order.Name == ReassignTask) != (order.Task != ""), "taskId", "goes with reassign_task, and only with that")
	bad.If((order.Name == PauseAgent || order.Name == DrainAgent) != (order.Agent != ""), "agentId", "goes with pause_agent and drain_agent")
	bad.If(len([]rune(order.Reason)) > maxReason, "reason", "may have 500 characters at most")
	if err := bad.OrNil(); err != nil {
		return "", err
	}
	order.ID = cmp.Or(order.ID, c.IDs())
	tx.Later().Exec(c.q.Command, order.ID, order.Name, db.Null(order.Agent), db.Null(order.Task), db.Null(order.Reason), order.Actor)
	Kick(ctx, c.Outbox, tx.Later())
	return order.ID, nil
}

// command is a stored command with its outcome.
type command struct {
	Command
	outcome string
}

func commands(into *[]command) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, o *command) error {
		return scan(&o.ID, &o.Name, db.Optional(&o.Agent), db.Optional(&o.Task), db.Optional(&o.Reason), &o.Actor)
	})
}

// obey carries out the commands about agents, which are locked. It returns the tasks that the others
// are about.
func (r *round) obey(orders []command, all []worker, locked []string, v *verdict) (tasks []string) {
	for i := range orders {
		o := &orders[i]
		switch o.Name {
		case Recover:
			o.outcome = "a cycle ran"
		case ReassignTask:
			tasks = append(tasks, o.Task)
			o.outcome = "the task is with no agent"
		default:
			at := slices.IndexFunc(all, func(w worker) bool { return w.ID == o.Agent })
			if at < 0 || all[at].Status == agent.Terminated || !slices.Contains(locked, o.Agent) {
				o.outcome = "there is no such agent at work"
				continue
			}
			v.obey(all[at], *o)
			o.outcome = "done"
		}
	}
	return tasks
}

// obey adds a command to what was decided about an agent.
func (v *verdict) obey(w worker, o command) {
	at := slices.IndexFunc(v.changes, func(c agentChange) bool { return c.ID == w.ID })
	if at < 0 {
		v.changes = append(v.changes, agentChange{ID: w.ID, Was: w.Status, Becomes: w.Status})
		at = len(v.changes) - 1
	}
	c := &v.changes[at]
	if o.Name == PauseAgent {
		c.Pause = true
		return
	}
	c.Reason = opt(o.Reason)
	switch {
	case w.Tasks == 0 || c.Becomes == agent.Error || c.Becomes == agent.Terminated:
		c.Becomes = agent.Terminated // nobody waits for an agent that is silent
	default:
		c.Becomes = agent.Draining
	}
}

// reassigned returns the command to reassign a task, or nil.
func reassigned(orders []command, id string) *command {
	at := slices.IndexFunc(orders, func(o command) bool { return o.Name == ReassignTask && o.Task == id })
	if at < 0 {
		return nil
	}
	return &orders[at]
}

// reassign takes a task from its agent, without spending a retry.
func (o *command) reassign(d doubt) (decision, bool) {
	if !d.Status.Active() {
		o.outcome = fmt.Sprintf("the task is %s: it is with no agent", d.Status)
		return decision{}, false
	}
	o.outcome = fmt.Sprintf("the task was taken from agent %s", d.Agent)
	message := "the task was taken from its agent, as " + o.Actor + " ordered"
	if d.Status == task.Assigned {
		return d.begin(task.Pending, unclaimed, task.Warn, task.Recovery, message), true
	}
	out := d.begin(task.Aborted, recovered, task.Warn, task.Recovery, message) // the next round makes it PENDING
	out.move.Error = opt("reassigned")
	return out, true
}

type done struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
}

func outcomes(orders []command) (out []done) {
	for _, o := range orders {
		out = append(out, done{o.ID, clip(o.outcome, maxReason)})
	}
	return out
}
