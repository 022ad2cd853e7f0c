package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/observe"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// meter reserves and settles the cost of model calls in the budgets.
type meter struct {
	budgets *budget.Store
	tasks   *task.Store
	others  []string // models that may answer instead of the requested one
	count   *observe.Meters
}

// reserved is the lease of a reservation. It is longer than the time limit of a model call. A
// reservation that is not settled by then expires.
const reserved = 6 * time.Minute

// Unpriced returns the model without a price among the model and those that may answer instead, or "" if there is none.
func (m meter) Unpriced(ctx context.Context, model string) (string, error) {
	return m.budgets.Unpriced(ctx, append([]string{model}, m.others...)...)
}

// budgetOf names a budget for people.
func budgetOf(scope budget.Scope, id string) string {
	if scope == budget.Global {
		return "the budget of the workspace"
	}
	return "the budget of " + string(scope) + " " + id
}

// patience is how long a call waits for what others have reserved: they use a part of it, and end soon.
const patience = 15 * time.Second

// reserve is [budget.Store.Reserve] for a call that waits while the budgets have enough, and calls of others have
// reserved it.
func (m meter) reserve(ctx context.Context, ws db.Workspace, req budget.Request) (budget.Reservation, error) {
	deadline, bounded := ctx.Deadline()
	until := time.Now().Add(min(patience, time.Until(deadline)/2))
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		r, err := m.budgets.Reserve(ctx, ws, req)
		refused, ok := errors.AsType[*budget.RefusedError](err)
		if !ok || !refused.Others || !bounded || time.Now().After(until) {
			return r, err
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)): //nolint:gosec // spreads retries, keeps no secret
		case <-ctx.Done():
			return r, err
		}
	}
}

func (m meter) Reserve(ctx context.Context, c reason.Cost) (int, reason.Settle, error) {
	if c.Task != "" {
		return m.attempt(ctx, c)
	}
	req := budget.Request{
		Agent: c.Agent, Surface: c.Surface, Execution: c.Execution, Trace: c.Trace, Model: c.Model, Others: m.others,
		Input: int64(c.Input), Output: int64(c.Output), Min: min(reason.LeastAnswer, int64(c.Output)), Lease: reserved,
		Day: c.Day, DayMicroUSD: c.DayMicroUSD, Priced: c.Priced,
	}
	var r budget.Reservation
	var err error
	if c.Unbudgeted && c.Day == 0 && !c.Priced {
		r, err = m.budgets.Grant(req)
	} else {
		r, err = m.reserve(ctx, c.Workspace, req)
	}
	if refused, ok := errors.AsType[*budget.RefusedError](err); ok {
		why := budgetOf(refused.Scope, refused.ScopeID) + " is used up"
		if refused.Others {
			why = "other calls have reserved what " + budgetOf(refused.Scope, refused.ScopeID) + " has left,"
		}
		if !refused.FreesAt.IsZero() {
			why += " until " + refused.FreesAt.UTC().Format("2006-01-02 15:04 UTC")
		}
		return 0, nil, &reason.SpentError{Why: why}
	}
	if unpriced, ok := errors.AsType[*budget.UnpricedError](err); ok {
		return 0, nil, &reason.SpentError{Why: unpriced.Error()}
	}
	if err != nil {
		return 0, nil, err
	}
	return int(r.Output), func(ctx context.Context, used *llm.Response, skills []string) (int64, error) {
		if used == nil {
			return 0, m.budgets.Release(ctx, c.Workspace, r)
		}
		cost, err := m.budgets.Settle(ctx, c.Workspace, r, budget.Used{Usage: used.Usage, Model: used.Model, Operation: "reason", Skills: skills})
		m.count.Spent(used.Model, cost)
		return cost, err
	}, nil
}
