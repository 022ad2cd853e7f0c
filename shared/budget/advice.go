package budget

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Advice is a budget whose period is now, with its projection.
type Advice struct {
	Budget
	Projection
}

// AdviceIn adds to a batch a read of the budgets that people have made, except those of single tasks,
// and whose period is now: at most limit, the global ones first, then the latest made.
func (s *Store) AdviceIn(b *db.Batch, limit int) *[]Advice {
	found := new([]Advice)
	b.Each(projected(found), s.q.Advice, burnWindow.Milliseconds(), limit)
	return found
}

func projected(into *[]Advice) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, a *Advice) error {
		var money *int64
		var burn, microUSD int64
		of := &a.Budget
		if err := scan(&of.ID, &of.Scope, &of.ScopeID, &of.Tokens.Allocated, &of.Tokens.Consumed, &money, &of.MicroUSD.Consumed,
			&of.Start, &of.End, &of.Pace, &of.now, &burn, &microUSD); err != nil {
			return err
		}
		if money != nil {
			of.Capped, of.MicroUSD.Allocated = true, *money
		}
		a.Projection = of.project(burn, microUSD, of.now)
		return nil
	})
}

// Series tells how a budget was used, by days of UTC.
type Series struct {
	Budget
	Projection
	Days []Day // the oldest first, today the last
	// Yesterday and Week are the tokens used on the last whole day, and a day on average of the last
	// seven whole days.
	Yesterday, Week int64
}

// Day is what the scope of a budget used on one day, and how many tokens were left at its end.
type Day struct {
	Date                        string // 2026-11-22
	Tokens, MicroUSD, Remaining int64
}

// Series reads how a budget was used on the last days, today included. It returns [ErrNotFound] when
// there is no such budget. What the scope used before the budget's period or before the budget was
// made did not lower what remained.
func (s *Store) Series(ctx context.Context, ws db.Workspace, id string, days int) (Series, error) {
	var b db.Batch
	var found []Budget
	var burn, money int64
	b.Each(collect(&found), s.q.Get, id, nil)
	b.One([]any{&burn, &money}, s.q.Burn, id, burnWindow.Milliseconds())
	used := map[string]Day{}
	b.Each(func(scan db.Scan) error {
		var d Day
		err := scan(&d.Date, &d.Tokens, &d.MicroUSD)
		used[d.Date] = d
		return err
	}, s.q.Series, id, int64(max(days, weekDays+1))*(24*time.Hour).Milliseconds())
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return Series{}, fmt.Errorf("read how a budget was used: %w", err)
	}
	if len(found) == 0 {
		return Series{}, ErrNotFound
	}
	today, _ := day(found[0].now)
	out := Series{Budget: found[0], Projection: found[0].project(burn, money, found[0].now)}
	out.Yesterday = used[dateOf(today, -1)].Tokens
	for back := 1; back <= weekDays; back++ {
		out.Week += used[dateOf(today, -back)].Tokens
	}
	out.Week /= weekDays
	out.Days = make([]Day, days)
	left := out.Tokens.Allocated - out.Tokens.Consumed
	for i := range days {
		date := dateOf(today, -i)
		d := used[date]
		d.Date, d.Remaining = date, max(0, min(left, out.Tokens.Allocated))
		left += d.Tokens
		out.Days[days-1-i] = d
	}
	return out, nil
}

const weekDays = 7

func dateOf(today time.Time, days int) string { return today.AddDate(0, 0, days).Format(time.DateOnly) }
