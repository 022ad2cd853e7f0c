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
	burnWindow = 24 * time.Hour

	// In days.
	throttleBelow float64 = 7
	stopBelow     float64 = 1
	inSight       float64 = 36_500
)

// Projection projects a budget. It returns [ErrNotFound] when there is none.
func (s *Store) Projection(ctx context.Context, ws db.Workspace, id string) (Projection, error) {
	var b db.Batch
	var found []Budget
	var burn, money int64
	b.Each(collect(&found), s.q.Get, id, nil)
	b.One([]any{&burn, &money}, s.q.Burn, id, burnWindow.Milliseconds())
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return Projection{}, fmt.Errorf("project a budget: %w", err)
	}
	if len(found) == 0 {
		return Projection{}, ErrNotFound
	}
	return found[0].project(burn, money, found[0].now), nil
}

// project computes the projection of a budget whose scope uses burn tokens and microUSD of money a day.
// What runs out first, tokens or capped money, decides.
func (b Budget) project(burn, microUSD int64, now time.Time) Projection {
	p := Projection{RemainingTokens: max(0, b.Tokens.Allocated-b.Tokens.Consumed), DailyBurnRate: burn}
	toEnd := b.End.Sub(now)
	days, advice := b.Tokens.lasts(burn, toEnd)
	if b.Capped {
		other, worse := b.MicroUSD.lasts(microUSD, toEnd)
		days, advice = min(days, other), max(advice, worse)
	}
	if days < inSight {
		end := now.Add(time.Duration(days * float64(24*time.Hour)))
		p.DaysUntilExhaustion, p.ExhaustionDate = &days, &end
	}
	p.Recommendation = recommendations[advice]
	return p
}

// recommendations are ordered from the mildest to the severest.
var recommendations = [...]Recommendation{Continue, Throttle, Stop}

// lasts returns for how many days an account lasts when burn is used a day, at most [inSight], and
// the place of its recommendation for a period that goes on for toEnd.
func (a Account) lasts(burn int64, toEnd time.Duration) (days float64, advice int) {
	left := max(0, a.Allocated-a.Consumed)
	days = inSight
	if left == 0 || burn > 0 {
		days = min(inSight, float64(left)/float64(max(1, burn)))
	}
	runsOut := days < inSight && time.Duration(days*float64(24*time.Hour)) < toEnd
	switch {
	case left*20 < a.Allocated || left == 0 || runsOut && days < stopBelow:
		return days, 2
	case runsOut && days < throttleBelow:
		return days, 1
	}
	return days, 0
}
