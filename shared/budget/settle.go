package budget

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Used is what a call used.
type Used struct {
	llm.Usage
	Model     string // the model that answered; empty: the one that was asked
	Operation string // the purpose; empty: model_call
	// Skills are the skills that the answer asks for, each once. Its usage is divided among them
	// equally; the last one gets the remainder. The share is counted in the budget of the skill.
	Skills []string
}

const modelCall = "model_call"

// Settle counts what a call used as consumed, logs it, and returns the rest of its reservation, in
// one transaction of one round trip. Settling again changes nothing, so a caller may retry it after
// [db.ErrUncertain]. It also counts when the reservation has already ended; usage beyond the budget
// is recorded as overdraft. It returns what the call cost, if the price is known, also together
// with an error.
func (s *Store) Settle(ctx context.Context, ws db.Workspace, r Reservation, u Used) (microUSD int64, err error) {
	if err := s.freshPrices(ctx); err != nil {
		return 0, fmt.Errorf("settle: %w", err)
	}
	var b db.Batch
	microUSD = s.SettleIn(&b, r, u)
	if err := s.db.Do(ctx, ws, &b); err != nil {
		return microUSD, fmt.Errorf("settle: %w", err)
	}
	return microUSD, nil
}

// SettleIn is Settle in a batch, such as the one that records the answer. It uses the prices that
// this process has read last. It locks budgets.
func (s *Store) SettleIn(b *db.Batch, r Reservation, u Used) (microUSD int64) {
	model := cmp.Or(u.Model, r.Model, "unknown")
	used := bounded(u.Usage)
	p, known := s.prices.of(model)
	if !known {
		p, known = s.prices.of(r.Model) // by the name under which it was requested
	}
	microUSD = p.cost(used)
	var cost any
	if known {
		cost = microUSD
	}
	b.Exec(s.q.LockReserved, r.ID, db.Encode(append([]string{}, u.Skills...)))
	b.Exec(s.q.Charge, r.ID, used.TotalTokens(), microUSD)
	b.Exec(s.q.End, r.ID)
	s.chargeSkills(b, r.ID, used, microUSD, u.Skills, r.Skill)
	b.Exec(s.q.Log, r.ID, db.Null(r.Execution), r.Trace, db.Null(r.Session), db.Null(r.Task), r.Agent, db.Null(r.Skill), r.Surface,
		cmp.Or(u.Operation, modelCall), model, used.PromptTokens, used.CompletionTokens, used.CacheReadTokens, used.CacheWriteTokens, cost, asked(u.Skills), nil, nil, nil)
	return microUSD
}

// chargeSkills counts a call in the budgets of the skills that its answer asks for, but not in that of the
// skill for which it was made. It comes before the log of the call, so that it has an effect once.
func (s *Store) chargeSkills(b *db.Batch, id string, u llm.Usage, microUSD int64, skills []string, made string) {
	rows, n := [][]any{}, int64(len(skills))
	for i, skill := range skills {
		if skill == made {
			continue
		}
		share := func(of int64) int64 {
			if i == len(skills)-1 {
				return of/n + of%n
			}
			return of / n
		}
		tokens := share(int64(u.PromptTokens)) + share(int64(u.CompletionTokens)) + share(int64(u.CacheReadTokens)) + share(int64(u.CacheWriteTokens))
		rows = append(rows, []any{skill, tokens, share(microUSD)})
	}
	if len(rows) > 0 {
		b.Exec(s.q.ChargeSkills, id, db.Encode(rows))
	}
}

// AnyIn adds to a batch a read of whether somebody has made a budget in the workspace.
func (s *Store) AnyIn(b *db.Batch) *bool {
	found := new(bool)
	b.One([]any{found}, s.q.Any)
	return found
}

// SpentSkills adds to a batch a read of the skills whose budget is spent, and of when its next period
// begins.
func (s *Store) SpentSkills(b *db.Batch) map[string]time.Time {
	spent := map[string]time.Time{}
	b.Each(db.Put(spent, func(scan db.Scan, skill *string, until *time.Time) error { return scan(skill, until) }), s.q.SpentSkills)
	return spent
}

// Release returns an unused reservation. It does not change a settled one.
func (s *Store) Release(ctx context.Context, ws db.Workspace, r Reservation) error {
	if !r.held {
		return nil
	}
	var b db.Batch
	b.Exec(s.q.LockReserved, r.ID, "[]")
	b.Exec(s.q.Charge, r.ID, 0, 0)
	b.Exec(s.q.End, r.ID)
	if err := s.db.Do(ctx, ws, &b); err != nil {
		return fmt.Errorf("release a reservation: %w", err)
	}
	return nil
}

const (
	keepReservations = 7 * 24 * time.Hour
	sweepBatch       = 2000
	maxSweeps        = 10 // batches in one sweep
)

// Sweep deletes reservations whose lease ended a week ago, in at most ten batches. It returns how
// many rows it deleted.
func (s *Store) Sweep(ctx context.Context, ws db.Workspace) (swept int64, err error) {
	for range maxSweeps {
		n, err := s.db.Exec(ctx, ws, s.q.Sweep, keepReservations.Milliseconds(), sweepBatch)
		if err != nil {
			return swept, fmt.Errorf("sweep reservations: %w", err)
		}
		if swept += n; n < sweepBatch {
			break
		}
	}
	return swept, nil
}
