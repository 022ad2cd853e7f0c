package coordinate

import (
	"context"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

// money is the budgets that cover some tasks, locked and read. Without budgets everything fits.
type money struct {
	store       *budget.Store
	ledger      *budget.Ledger
	corrections budget.Corrections
	tiers       budget.Tiers
	routes      map[string]budget.Routed // of the tasks that were held
}

// lock locks the budgets that cover the tasks and the agents, and reads what estimates need. The number
// of statements does not depend on theirs.
func (c *Coordinator) lock(ctx context.Context, tx Tx, of []*worker, due []candidate) (*money, error) {
	return c.budgets(ctx, tx, c.Budgets.Lock, of, due)
}

// budgets reads the budgets of agents and tasks in the given way.
func (c *Coordinator) budgets(ctx context.Context, tx Tx, read func(context.Context, budget.Tx, []budget.Cover) (*budget.Ledger, error),
	of []*worker, due []candidate) (*money, error) {
	m := &money{store: c.Budgets, routes: map[string]budget.Routed{}}
	if c.Budgets == nil {
		return m, nil
	}
	var covers []budget.Cover
	for _, t := range due {
		covers = append(covers, t.cover())
	}
	for _, w := range of {
		covers = append(covers, budget.Cover{Agent: w.ID})
	}
	var err error
	if m.tiers, err = c.Budgets.TiersLater(ctx, tx); err != nil {
		return nil, err
	}
	m.corrections = c.Budgets.Corrections(tx.Later())
	if m.ledger, err = read(ctx, tx, covers); err != nil {
		return nil, err
	}
	return m, nil
}

func (t candidate) cover() budget.Cover {
	return budget.Cover{Task: t.ID, Milestone: t.Milestone, Project: t.Project}
}

// pace returns the tasks that may begin at the present pace of spending, whichever agent gets them.
func (m *money) pace(due []candidate) []candidate {
	if m.ledger == nil {
		return due
	}
	return slices.DeleteFunc(due, func(t candidate) bool { return m.ledger.Paced(t.cover(), t.Priority) != nil })
}

// limit returns how many of n tasks may begin at the present pace of spending.
func (m *money) limit(n int) int {
	if m.ledger == nil {
		return n
	}
	return m.ledger.Slots(n)
}

// price returns the cover of an assignment, what it is expected to use, and the model that should serve
// it.
func (m *money) price(a assignment) (budget.Cover, int64, budget.Routed) {
	cover := a.cover()
	cover.Agent = a.to.ID
	shape := budget.Shape(a.Type, a.Priority, a.Metadata)
	tokens := budget.Estimate(shape, m.corrections)
	_, left := m.ledger.Remaining(cover)
	return cover, tokens, budget.Route(m.tiers, shape, tokens, left)
}

// hold reserves the estimate of an attempt, or says which budget has too little.
func (m *money) hold(a assignment) error {
	if m.ledger == nil {
		return nil
	}
	cover, tokens, routed := m.price(a)
	if refused := m.ledger.Paced(cover, a.Priority); refused != nil {
		return refused
	}
	if refused := m.ledger.Hold(cover, a.ID, a.attempt(), tokens, routed.MicroUSD); refused != nil {
		return refused
	}
	m.routes[a.ID] = routed
	return nil
}

// fits reports whether all budgets have enough for an attempt: nil, or which has too little.
func (m *money) fits(a assignment) error {
	if m.ledger == nil {
		return nil
	}
	cover, tokens, routed := m.price(a)
	if refused := m.ledger.Paced(cover, a.Priority); refused != nil {
		return refused
	}
	if refused := m.ledger.Fits(cover, tokens, routed.MicroUSD); refused != nil {
		return refused
	}
	return nil
}

// route says which model should serve an assignment that was held, and why; nil: none was chosen.
func (m *money) route(id string) *string {
	r := m.routes[id]
	if r.Model == "" {
		return nil
	}
	return opt(db.Encode(map[string]any{"model": r.Model, "tier": r.Tier, "why": r.Why}))
}

// write adds to a batch that the reservations are stored. The returned function says after it was sent
// whether they are.
func (m *money) write(b *db.Batch) func() error {
	if m.ledger == nil {
		return func() error { return nil }
	}
	return m.store.Write(b, m.ledger)
}
