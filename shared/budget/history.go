package budget

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Past is a task that was completed: what it was thought to use, and what it used, in tokens.
type Past struct {
	Task, Type string
	Complexity int
	Estimated  int64 // by what its latest attempt reserved; where it reserved nothing, by the formula
	Used       int64
	FinishedAt time.Time
}

// History reads completed tasks, the latest first, beginning after a position of which the zero value is
// the beginning. An empty type matches every type.
func (s *Store) History(ctx context.Context, ws db.Workspace, taskType string, before db.Position, limit int) ([]Past, error) {
	var out []Past
	err := s.db.Each(ctx, ws, db.Append(&out, func(scan db.Scan, p *Past) error {
		err := scan(&p.Task, &p.Type, &p.Complexity, db.Optional(&p.Estimated), &p.Used, &p.FinishedAt)
		if p.Estimated == 0 {
			p.Estimated = Estimate(TaskShape{Complexity: p.Complexity}, nil)
		}
		return err
	}), s.q.Past, append(before.Args(db.Null(taskType)), limit)...)
	if err != nil {
		return nil, fmt.Errorf("read what tasks used: %w", err)
	}
	return out, nil
}

// Learned is what was learned of one type of tasks.
type Learned struct {
	Type    string
	Samples int   // finished tasks, of the last 200
	Factor  int64 // in thousandths: by how much estimates are multiplied
}

// Learned reads what was learned of all types, sorted by type.
func (s *Store) Learned(ctx context.Context, ws db.Workspace) ([]Learned, error) {
	var out []Learned
	err := s.db.Each(ctx, ws, db.Append(&out, func(scan db.Scan, l *Learned) error {
		return scan(&l.Type, &l.Samples, &l.Factor)
	}), s.q.Corrections, minSamples)
	if err != nil {
		return nil, fmt.Errorf("read what was learned of estimates: %w", err)
	}
	slices.SortFunc(out, func(a, b Learned) int { return strings.Compare(a.Type, b.Type) })
	return out, nil
}

// Savings compare what tasks cost with what the same tokens would have cost in the top tier, in
// micro-dollars.
type Savings struct {
	Calls, Unpriced int64 // Unpriced calls are left out of the sums
	Cost, TopTier   int64
}

// Percent returns how much was saved.
func (s Savings) Percent() float64 {
	if s.TopTier <= 0 {
		return 0
	}
	return 100 * float64(s.TopTier-s.Cost) / float64(s.TopTier)
}

// Savings adds up what routing has saved from since until before until; a zero time is no bound. Prices
// are the present ones.
func (s *Store) Savings(ctx context.Context, ws db.Workspace, since, until time.Time) (out Savings, err error) {
	since, until = db.Between(since, until)
	err = s.db.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		out = Savings{}
		models, err := s.Tiers(ctx, tx)
		if err != nil {
			return err
		}
		top, has := s.prices.of(models[Top].Name)
		return tx.Each(ctx, func(scan db.Scan) error {
			var model string
			var calls int64
			var u llm.Usage
			if err := scan(&model, &calls, &u.PromptTokens, &u.CompletionTokens, &u.CacheReadTokens, &u.CacheWriteTokens); err != nil {
				return err
			}
			out.Calls += calls
			p, known := s.prices.of(model)
			if !known || !has {
				out.Unpriced += calls
				return nil
			}
			out.Cost = sum(out.Cost, p.cost(u))
			out.TopTier = sum(out.TopTier, top.cost(u))
			return nil
		}, s.q.TaskModels, since, until)
	})
	if err != nil {
		return Savings{}, fmt.Errorf("add up what routing saved: %w", err)
	}
	return out, nil
}

// Lately is what was used since the beginning of the present day (UTC).
type Lately struct {
	Since            time.Time
	Tokens, MicroUSD int64
	Latest           *time.Time // of the latest usage; nil: nothing was used
	Pace             Pace
}

// Lately reads what was used today, and the pace of the workspace. now is the caller's time.
func (s *Store) Lately(ctx context.Context, ws db.Workspace, now time.Time) (Lately, error) {
	var b db.Batch
	var l Lately
	l.Since, _ = day(now)
	b.One([]any{&l.Tokens, &l.MicroUSD, &l.Latest}, s.q.Lately, l.Since)
	pace := s.PaceIn(&b, "", "")
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return Lately{}, fmt.Errorf("read what was used today: %w", err)
	}
	l.Pace = pace()
	return l, nil
}
