package budget

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Pace says how fast work may go on: as the severest of the budgets recommends.
type Pace = Recommendation

// Admits reports whether work of a priority may begin. Low priorities wait while work is throttled, and
// only critical work goes on once it is stopped.
func (r Recommendation) Admits(priority int) bool {
	switch r {
	case Stop:
		return priority >= critical
	case Throttle:
		return priority >= throttled
	}
	return true
}

// Allows reports whether work goes on at this pace that goes on up to the given one.
func (r Recommendation) Allows(slowest Recommendation) bool {
	return slices.Index(recommendations[:], r) <= slices.Index(recommendations[:], slowest)
}

// throttled is the least priority of work that begins while work is throttled.
const throttled = 5

// Slots returns how many of n pieces of work may begin at once: half of them while work is throttled,
// and all that is critical once it is stopped.
func (r Recommendation) Slots(n int) int {
	if r == Throttle {
		return (n + 1) / 2
	}
	return n
}

// Paces returns the budgets of people, except those of single tasks and of skills, whose projection
// recommends another pace than they have. It sums up the usage of a day.
func (s *Store) Paces(ctx context.Context, ws db.Workspace) ([]Advice, error) {
	var found []Advice
	if err := s.db.Each(ctx, ws, projected(&found), s.q.Paces, burnWindow.Milliseconds()); err != nil {
		return nil, fmt.Errorf("project budgets: %w", err)
	}
	return slices.DeleteFunc(found, func(a Advice) bool { return a.Pace == a.Recommendation }), nil
}

// SetPaces adds to a batch that budgets get the pace that their projection recommends.
func (s *Store) SetPaces(b *db.Batch, list []Advice) {
	rows := make([][2]string, len(list))
	for i, a := range list {
		rows[i] = [2]string{a.ID, string(a.Recommendation)}
	}
	b.Exec(s.q.SetPaces, db.Encode(rows))
}

// Pace reads the pace of a workspace: that of its global budget.
func (s *Store) Pace(ctx context.Context, ws db.Workspace) (Pace, error) {
	var b db.Batch
	pace := s.PaceIn(&b, "", "")
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return "", fmt.Errorf("read the pace: %w", err)
	}
	return pace(), nil
}

// PaceIn is Pace in a batch, which must be sent before pace is called. It also counts the budgets of
// two scope ids of agents, such as flowpilot and flowpilot:hb. Budgets that are made for each day are not
// counted: they end before they could be projected.
func (s *Store) PaceIn(b *db.Batch, agent, here string) (pace func() Pace) {
	worst := Continue
	b.Each(func(scan db.Scan) error {
		var of Budget
		var money *int64
		var now time.Time
		var burn, microUSD int64
		if err := scan(&of.Tokens.Allocated, &of.Tokens.Consumed, &money, &of.MicroUSD.Consumed, &of.End, &now, &burn, &microUSD); err != nil {
			return err
		}
		if money != nil {
			of.Capped, of.MicroUSD.Allocated = true, *money
		}
		if is := of.project(burn, microUSD, now).Recommendation; !is.Allows(worst) {
			worst = is
		}
		return nil
	}, s.q.Rates, agent, here, burnWindow.Milliseconds())
	return func() Pace { return worst }
}
