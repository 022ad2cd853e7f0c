package budget

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// A Report is what an attempt at a task has used, as its agent says.
type Report struct {
	llm.Usage
	ID        string // a report with an id is counted once; empty: each time
	Cover     Cover  // its Task and Agent are the task and the agent that used it
	Attempt   int
	Session   string
	Model     string
	Operation string // the purpose; empty: model_call
	// Execution, Surface and Skills say of a call of the built-in worker which one it was, and which skills
	// its answer asks for.
	Execution string
	Surface   trace.Surface // empty: the coordinator, to which agents report
	Skills    []string
}

// Reported is what came of a report.
type Reported struct {
	Tokens, MicroUSD int64
	Priced           bool // whether MicroUSD is known
	Budgets          []Budget
	// Exhausted is the budget that is spent, of which the widest scope counts; nil: none is. The task
	// must be paused.
	Exhausted *Budget
}

// Report counts what an attempt has used as consumed in all budgets that cover it, takes it from the
// attempt's reservation, and logs it, without the secrets that ctx knows. It has been used, so it is
// never refused: what no budget has left is recorded as overdraft. The ledger must have the budgets of the cover locked, and the caller
// must have locked the task after them and seen that the attempt is the present one, or have seen that it is over.
func (s *Store) Report(ctx context.Context, tx Tx, l *Ledger, r Report) (Reported, error) {
	if err := s.freshPricesIn(ctx, tx); err != nil {
		return Reported{}, err
	}
	used := bounded(r.Usage)
	p, known := s.prices.of(r.Model)
	out := Reported{Tokens: int64(used.TotalTokens()), MicroUSD: p.cost(used), Priced: known}
	var cost any
	if known {
		cost = out.MicroUSD
	}
	ids := []string{}
	for _, k := range r.Cover.scopes() {
		if b := l.budgets[k]; b != nil {
			ids = append(ids, b.ID)
		}
	}
	id, _ := trace.From(ctx)
	b := tx.Later()
	again := false
	if r.ID != "" {
		if err := tx.Each(ctx, func(scan db.Scan) error { return scan(&again) }, s.q.Logged, r.ID); err != nil {
			return Reported{}, fmt.Errorf("look whether usage was counted: %w", err)
		}
	}
	if len(ids) > 0 && !again {
		b.Exec(s.q.UseReservation, r.Cover.Task, r.Attempt, out.Tokens, out.MicroUSD)
		b.Exec(s.q.Spend, db.Encode(ids), out.Tokens, out.MicroUSD)
	}
	if !again {
		known := redact.From(ctx).Values()
		entry := cmp.Or(r.ID, s.ids())
		s.chargeSkills(b, entry, used, out.MicroUSD, r.Skills, "")
		b.Exec(s.q.Log, entry, db.Null(r.Execution), id, db.Null(r.Session), r.Cover.Task, cmp.Or(r.Cover.Agent, "unknown"), nil,
			cmp.Or(r.Surface, trace.Coordinator), known.Text(cmp.Or(r.Operation, modelCall)), known.Text(cmp.Or(r.Model, "unknown")), used.PromptTokens,
			used.CompletionTokens, used.CacheReadTokens, used.CacheWriteTokens, cost, asked(r.Skills), r.Attempt, db.Null(r.Cover.Milestone),
			db.Null(r.Cover.Project))
	}
	if err := tx.Each(ctx, collect(&out.Budgets), s.q.LookCovers, encodeScopes(r.Cover.scopes())); err != nil {
		return Reported{}, fmt.Errorf("count what an attempt used: %w", err)
	}
	after := map[scopeKey]*Budget{}
	for i := range out.Budgets {
		after[scopeKey{out.Budgets[i].Scope, out.Budgets[i].ScopeID}] = &out.Budgets[i]
	}
	for _, k := range r.Cover.scopes() {
		if b := after[k]; b != nil && b.active() && b.Spent() && out.Exhausted == nil {
			out.Exhausted = b
		}
	}
	return out, nil
}

// asked encodes the skills that an answer asks for.
func asked(skills []string) any {
	if len(skills) == 0 {
		return nil
	}
	return db.Encode(skills)
}

// Tx runs a transaction in which budgets are locked.
func (s *Store) Tx(ctx context.Context, ws db.Workspace, fn func(context.Context, *db.Tx) error) error {
	return s.db.Tx(ctx, ws, fn)
}

// NewID returns an id for a [Report].
func (s *Store) NewID() string { return s.ids() }

// Spent returns the budget with the widest scope that covers an attempt and is spent; nil: none is.
func (l *Ledger) Spent(c Cover) *Budget {
	for _, k := range c.scopes() {
		if b := l.budgets[k]; b != nil && b.Spent() {
			return b
		}
	}
	return nil
}

// Spent reports whether all that is allocated is consumed, in tokens or in capped money.
func (b Budget) Spent() bool {
	return b.Tokens.Consumed >= b.Tokens.Allocated || b.Capped && b.MicroUSD.Consumed >= b.MicroUSD.Allocated
}
