package budget

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Recommendation says how to continue with what is left.
type Recommendation string

// The recommendations.
const (
	Continue Recommendation = "CONTINUE"
	Throttle Recommendation = "THROTTLE" // the budget will not last
	Stop     Recommendation = "STOP"     // only critical work
)

// A Projection estimates how long a budget lasts at the rate of the last 24 hours. It counts what
// is consumed; reservations only limit new work.
type Projection struct {
	RemainingTokens, DailyBurnRate int64
	// DaysUntilExhaustion and ExhaustionDate are nil when no end is in sight.
	DaysUntilExhaustion *float64
	ExhaustionDate      *time.Time
	Recommendation      Recommendation
}

const (
	throttleBelow = 7 * 24 * time.Hour
	stopBelow     = 24 * time.Hour
	burnWindow    = 24 * time.Hour
	inSight       = 36_500 // days
)

// Projection projects a budget. It returns [ErrNotFound] when there is none.
func (s *Store) Projection(ctx context.Context, ws db.Workspace, id string) (Projection, error) {
	var b db.Batch
	var found []Budget
	var burn int64
	b.Each(collect(&found), s.q.Get, id, nil)
	b.One([]any{&burn}, s.q.Burn, id, burnWindow.Milliseconds())
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return Projection{}, fmt.Errorf("project a budget: %w", err)
	}
	if len(found) == 0 {
		return Projection{}, ErrNotFound
	}
	return found[0].project(burn, found[0].now), nil
}

// project computes the projection of a budget that uses burn tokens a day.
func (b Budget) project(burn int64, now time.Time) Projection {
	left := max(0, b.Tokens.Allocated-b.Tokens.Consumed)
	p := Projection{RemainingTokens: left, DailyBurnRate: burn, Recommendation: Continue}
	lasts := b.End.Sub(now) // at least to the end of the period, as far as known
	if left == 0 || burn > 0 && float64(left)/float64(burn) < inSight {
		days := float64(left) / float64(max(1, burn))
		lasts = time.Duration(days * float64(24*time.Hour))
		end := now.Add(lasts)
		p.DaysUntilExhaustion, p.ExhaustionDate = &days, &end
	}
	runsOut := lasts < b.End.Sub(now)
	switch {
	case left*20 < b.Tokens.Allocated || left == 0 || runsOut && lasts < stopBelow:
		p.Recommendation = Stop
	case runsOut && lasts < throttleBelow:
		p.Recommendation = Throttle
	}
	return p
}
