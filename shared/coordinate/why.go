package coordinate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// maxObstacles bounds the agents that an explanation names.
const maxObstacles = 10

// errRead ends a transaction that only looks.
var errRead = errors.New("nothing to write")

// Why is [task.Store.Why], which also says why no agent has a task that could begin, by the rules that
// the cycle follows. It returns [db.ErrNoRows] if there is no such task.
func (c *Coordinator) Why(ctx context.Context, ws db.Workspace, id string) (string, []task.Reason, error) {
	summary, reasons, err := c.Tasks.Why(ctx, ws, id)
	if err != nil || len(reasons) == 0 || reasons[0].Code != task.WaitsForAgent {
		return summary, reasons, err
	}
	t, err := c.Tasks.Get(ctx, ws, id)
	if err != nil {
		return "", nil, err
	}
	var found []task.Reason
	err = c.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		found, err = c.explain(ctx, tx, t)
		if err != nil {
			return err
		}
		return errRead
	})
	if err != nil && !errors.Is(err, errRead) {
		return "", nil, fmt.Errorf("explain a task: %w", err)
	}
	return found[0].Message, found, nil
}

// Main returns the main reason of each task, by id, as [Coordinator.Why] has it. The number of its
// statements does not depend on that of the tasks.
func (c *Coordinator) Main(ctx context.Context, ws db.Workspace, tasks []task.Task) (map[string]task.Reason, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	out, err := c.Tasks.Main(ctx, ws, tasks)
	if err != nil {
		return nil, err
	}
	var due []task.Task
	for _, t := range tasks {
		switch {
		case out[t.ID].Code == task.WaitsForAgent:
			due = append(due, t)
		case t.Status == task.Paused && t.StatusReason == budget.PauseReason:
			out[t.ID] = task.Reason{Code: task.WaitsForBudget, Message: "it is paused: " + budget.PauseReason + "; it goes on by itself when more is allocated"}
		}
	}
	if due == nil {
		return out, nil
	}
	err = c.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		v, err := c.look(ctx, tx)
		if err != nil {
			return err
		}
		money, err := c.prices(ctx, tx, v.all, due...)
		if err != nil {
			return err
		}
		for _, t := range due {
			out[t.ID] = v.explain(money, t)[0]
		}
		return errRead
	})
	if !errors.Is(err, errRead) {
		return nil, fmt.Errorf("explain tasks: %w", err)
	}
	return out, nil
}

// explain says why no agent has a task that could begin, the main reason first.
func (c *Coordinator) explain(ctx context.Context, tx Tx, t task.Task) ([]task.Reason, error) {
	v, err := c.look(ctx, tx)
	if err != nil {
		return nil, err
	}
	money, err := c.prices(ctx, tx, v.all, t)
	if err != nil {
		return nil, err
	}
	return v.explain(money, t), nil
}

// explain says why no agent has a task that could begin, the main reason first.
func (v view) explain(money *money, t task.Task) (out []task.Reason) {
	add := func(r task.Reason, format string, args ...any) {
		r.Message = fmt.Sprintf(format, args...)
		out = append(out, r)
	}
	if v.halted {
		add(task.Reason{Code: task.IsPaused}, "it could begin, and the workspace is stopped by a kill switch")
		return out
	}
	needs := requirements(t)
	var able []*worker
	var obstacles []Obstacle
	full := 0
	for i := range v.all {
		w := &v.all[i]
		if !w.can(needs) {
			continue
		}
		o := w.obstacle(v.circuits, false)
		if o == nil {
			able = append(able, w)
			continue
		}
		obstacles = append(obstacles, *o)
		if o.Code == task.WaitsForCapacity {
			full++
		}
	}
	switch {
	case len(able) > 0:
		if out = money.afford(t, able); out[0].Code != task.WaitsForBudget {
			return out
		}
	case len(obstacles) == 0 && len(needs) > 0:
		add(task.Reason{Code: task.WaitsForAgent}, "no agent has the capability %s", strings.Join(needs, " and "))
	case len(obstacles) == 0:
		add(task.Reason{Code: task.WaitsForAgent}, "it could begin, and there is no agent: register one with PUT /api/v1/agents/{id}, "+
			"or the built-in worker, whose spawner is builtin")
	case full == len(obstacles):
		add(task.Reason{Code: task.WaitsForCapacity}, "all %d agents that can do it work on as many tasks as they take", full)
	default:
		add(task.Reason{Code: task.WaitsForAgent}, "none of the %d agents that can do it gets tasks now", len(obstacles))
	}
	for _, o := range obstacles[:min(len(obstacles), maxObstacles)] {
		add(task.Reason{Code: o.Code, Until: o.Until}, "%s", o.Why)
	}
	return out
}

// look reads what the assignment of tasks is decided on, without locks.
func (c *Coordinator) look(ctx context.Context, tx Tx) (v view, err error) {
	c.reads(tx.Later(), &v)
	if err = tx.Each(ctx, workers(&v.all), c.q.Agents, firstAgent, lastAgent); err != nil {
		return v, fmt.Errorf("read agents: %w", err)
	}
	return v, nil
}

// prices reads the budgets of tasks and agents without locks.
func (c *Coordinator) prices(ctx context.Context, tx Tx, all []worker, tasks ...task.Task) (*money, error) {
	of, due := make([]*worker, len(all)), make([]candidate, len(tasks))
	for i := range all {
		of[i] = &all[i]
	}
	for i, t := range tasks {
		due[i] = candidate{Task: t}
	}
	return c.budgets(ctx, tx, c.Budgets.Look, of, due)
}

// afford says whether budgets hold up a task that agents could do. Each budget that does is a reason.
func (m *money) afford(t task.Task, able []*worker) (out []task.Reason) {
	told := map[string]bool{}
	for _, w := range able {
		refused, is := errors.AsType[*budget.RefusedError](m.fits(assignment{candidate{Task: t}, w}))
		if !is {
			return []task.Reason{{Code: task.WaitsForAgent, Message: "it could begin, and the next cycle gives it to an agent"}}
		}
		if level := refused.Level(); !told[level] && len(out) < maxObstacles {
			told[level] = true
			advice := ": wait until then, reallocate budget to it, or pause other work"
			switch {
			case refused.TooSmall:
				advice = ": allocate more to it"
			case refused.Pace != "":
				advice = ": wait, raise the task's priority, or allocate more to the budget"
			}
			out = append(out, task.Reason{Code: task.WaitsForBudget, Until: refused.Until(), Message: refused.Error() + advice})
		}
	}
	return out
}

// requirements returns the capabilities that a task needs, as the queues have them.
func requirements(t task.Task) []string {
	var metadata struct {
		Needs rawText `json:"requiredCapabilities"`
	}
	if decode(t.Metadata, &metadata) != nil || metadata.Needs == "" {
		return nil
	}
	needs := capabilities(string(metadata.Needs))
	slices.Sort(needs)
	return slices.Compact(needs)
}
