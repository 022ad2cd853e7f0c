package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// attempt meters a model call of an attempt at a task. The assignment has reserved the estimated usage of
// the attempt. A call reserves only what it may use beyond that, and is refused when a budget that covers
// the task is spent. The tokens that it used are taken from the reservation. An attempt that is over
// reserves nothing, because nothing would release it, but its last call is counted.
func (m meter) attempt(ctx context.Context, c reason.Cost) (int, reason.Settle, error) {
	t, err := m.tasks.Get(ctx, c.Workspace, c.Task)
	if err != nil {
		return 0, nil, fmt.Errorf("read whose call it is: %w", err)
	}
	cover := budget.Cover{Task: t.ID, Milestone: t.Milestone, Project: t.Project, Agent: t.Agent}
	output := int64(c.Output)
	err = m.budgets.Tx(ctx, c.Workspace, func(ctx context.Context, tx *db.Tx) error {
		ledger, err := m.budgets.Lock(ctx, tx, []budget.Cover{cover})
		if err != nil {
			return err
		}
		if spent := ledger.Spent(cover); spent != nil {
			return &reason.SpentError{Why: budgetOf(spent.Scope, spent.ScopeID) + " is used up"}
		}
		_, over := m.tasks.Present(ctx, tx, task.Report{Task: c.Task, Attempt: c.Attempt})
		if _, stale := errors.AsType[*task.StaleError](over); stale {
			return nil
		}
		if over != nil {
			return over
		}
		output, err = m.budgets.HoldCall(ctx, tx, ledger, cover, c.Attempt, budget.Request{
			Model: c.Model, Others: m.others, Input: int64(c.Input), Output: int64(c.Output), Min: min(reason.LeastAnswer, int64(c.Output)),
		})
		if refused, ok := errors.AsType[*budget.RefusedError](err); ok {
			return &reason.SpentError{Short: true, Why: budgetOf(refused.Scope, refused.ScopeID) + " has too little left for a call of the model"}
		}
		if unpriced, ok := errors.AsType[*budget.UnpricedError](err); ok {
			return &reason.SpentError{Short: true, Why: unpriced.Error()} // another attempt may get another model
		}
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	id := m.budgets.NewID()
	return int(output), func(ctx context.Context, used *llm.Response, skills []string) (int64, error) {
		if used == nil {
			return 0, nil
		}
		cost, err := m.settle(ctx, c, cover, budget.Report{
			ID: id, Usage: used.Usage, Cover: cover, Attempt: c.Attempt, Session: t.Session, Model: used.Model, Operation: "reason",
			Execution: c.Execution, Surface: c.Surface, Skills: skills,
		})
		m.count.Spent(used.Model, cost)
		return cost, err
	}, nil
}

// settle counts what a call has used, and pauses the task if a budget is spent.
func (m meter) settle(ctx context.Context, c reason.Cost, cover budget.Cover, r budget.Report) (cost int64, err error) {
	covers := []budget.Cover{cover}
	for _, name := range r.Skills {
		covers = append(covers, budget.Cover{Skill: name})
	}
	err = m.budgets.Tx(ctx, c.Workspace, func(ctx context.Context, tx *db.Tx) error {
		ledger, err := m.budgets.Lock(ctx, tx, covers)
		if err != nil {
			return err
		}
		_, over := m.tasks.Present(ctx, tx, task.Report{Task: c.Task, Attempt: c.Attempt})
		_, stale := errors.AsType[*task.StaleError](over)
		if over != nil && !stale {
			return over
		}
		out, err := m.budgets.Report(ctx, tx, ledger, r)
		cost = out.MicroUSD
		if err != nil || out.Exhausted == nil || stale {
			return err
		}
		spent := budget.Overspent{Scope: out.Exhausted.Scope, ScopeID: out.Exhausted.ScopeID, FreesAt: out.Exhausted.End}
		_, err = m.tasks.Pause(ctx, tx, c.Task, budget.Automatic, budget.PauseReason, spent.Why())
		return err
	})
	if err != nil {
		return cost, fmt.Errorf("count what an attempt used: %w", err)
	}
	return cost, nil
}
