package budget

import (
	"cmp"
	"context"
	"encoding/json"
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
	// equally; the last one gets the remainder.
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
	var skills any
	if len(u.Skills) > 0 {
		raw, _ := json.Marshal(u.Skills) // never fails for strings
		skills = string(raw)
	}
	b.Exec(s.q.LockReserved, r.ID)
	b.Exec(s.q.Charge, r.ID, used.TotalTokens(), microUSD)
	b.Exec(s.q.End, r.ID)
	b.Exec(s.q.Log, r.ID, db.Null(r.Execution), r.Trace, db.Null(r.Session), db.Null(r.Task), r.Agent, db.Null(r.Skill), r.Surface,
		cmp.Or(u.Operation, modelCall), model, used.PromptTokens, used.CompletionTokens, used.CacheReadTokens, used.CacheWriteTokens, cost, skills, nil, nil, nil)
	return microUSD
}

// Release returns an unused reservation. It does not change a settled one.
func (s *Store) Release(ctx context.Context, ws db.Workspace, r Reservation) error {
	var b db.Batch
	b.Exec(s.q.LockReserved, r.ID)
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
