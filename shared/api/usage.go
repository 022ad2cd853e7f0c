package api

import (
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Projection says how long a budget lasts at the rate of the last 24 hours.
type Projection struct {
	RemainingTokens         int64                 `json:"remainingTokens" doc:"What is allocated and not consumed"`
	DailyBurnRate           int64                 `json:"dailyBurnRate" doc:"Tokens of the last 24 hours"`
	DaysUntilExhaustion     *float64              `json:"daysUntilExhaustion" doc:"Null: no end is in sight"`
	ProjectedExhaustionDate *time.Time            `json:"projectedExhaustionDate"`
	Recommendation          budget.Recommendation `json:"recommendation" enum:"CONTINUE,THROTTLE,STOP" doc:"STOP: only what is critical"`
}

// projectBudget says how long a budget lasts. It is called by the Engine Room and by scripts.
func (s *server) projectBudget(ctx context.Context, in *IDPath) (*answer[Projection], error) {
	p, err := s.Budgets.Projection(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return answered(projectionOf(p)), nil
}

// budgetSeries tells how a budget was used day by day, and how long it lasts.
type budgetSeries struct {
	BudgetID   string           `json:"budgetId" format:"uuid"`
	Allocated  int64            `json:"allocated"`
	Items      []budgetDay      `json:"items" nullable:"false" doc:"One a day (UTC), today the last"`
	Projection seriesProjection `json:"projection"`
}

// budgetDay is what the scope of a budget used on one day.
type budgetDay struct {
	Day       string `json:"day" format:"date"`
	Tokens    int64  `json:"tokens"`
	MicroUSD  int64  `json:"microUsd" doc:"Of the calls whose cost is known"`
	Remaining int64  `json:"remaining" doc:"What was left of the budget at the end of the day, or is left now"`
}

// seriesProjection is a projection with the rates between which it may lie.
type seriesProjection struct {
	Projection
	RateYesterday int64 `json:"rateYesterday" doc:"Tokens of the last whole day (UTC)"`
	RateWeek      int64 `json:"rateWeek" doc:"Tokens a day, of the last seven whole days"`
}

func projectionOf(p budget.Projection) Projection {
	return Projection{p.RemainingTokens, p.DailyBurnRate, p.DaysUntilExhaustion, utc(p.ExhaustionDate), p.Recommendation}
}

// getBudgetSeries is called by the Engine Room and by scripts.
func (s *server) getBudgetSeries(ctx context.Context, in *struct {
	IDPath
	Days int `query:"days" minimum:"1" maximum:"90" default:"30"`
}) (*answer[budgetSeries], error) {
	found, err := s.Budgets.Series(ctx, workspace(ctx), in.ID, in.Days)
	if err != nil {
		return nil, err
	}
	out := budgetSeries{
		BudgetID: found.ID, Allocated: found.Tokens.Allocated, Items: make([]budgetDay, len(found.Days)),
		Projection: seriesProjection{projectionOf(found.Projection), found.Yesterday, found.Week},
	}
	for i, d := range found.Days {
		out.Items[i] = budgetDay{d.Date, d.Tokens, d.MicroUSD, d.Remaining}
	}
	return answered(out), nil
}

// usageItem sums up the model calls of one key.
type usageItem struct {
	Keys             []string `json:"keys" nullable:"false" doc:"In the order of by"`
	Key              string   `json:"key" doc:"The first of the keys: the agent, skill, model, surface, operation or task, or the day in UTC; empty for calls without a task. A call counts for each skill that its answer asks for, with an equal share of its tokens, and for (answer) where it asks for none"`
	Calls            int64    `json:"calls"`
	InputTokens      int64    `json:"inputTokens"`
	OutputTokens     int64    `json:"outputTokens"`
	CacheReadTokens  int64    `json:"cacheReadTokens"`
	CacheWriteTokens int64    `json:"cacheWriteTokens"`
	TotalTokens      int64    `json:"totalTokens"`
	CostMicroUSD     int64    `json:"costMicroUsd" doc:"Of the calls whose cost is known"`
	UnpricedCalls    int64    `json:"unpricedCalls" doc:"Those whose cost is not"`
}

type usageInput struct {
	By    []budget.By `query:"by" enum:"skill,agent,model,surface,operation,task,day" minItems:"1" maxItems:"2" uniqueItems:"true" default:"day" doc:"One key or two, such as day,model"`
	Since time.Time   `query:"since" doc:"Not before this time (RFC 3339)"`
	Until time.Time   `query:"until" doc:"Before this time (RFC 3339)"`

	Paging
}

// listUsage sums up the use of model calls. It is called by the Engine Room and by scripts.
func (s *server) listUsage(ctx context.Context, in *usageInput) (*answer[page[usageItem]], error) {
	found, err := s.Budgets.Usage(ctx, workspace(ctx), in.Since, in.Until, in.By[0], in.By[1:]...)
	if err != nil {
		return nil, err
	}
	items := make([]usageItem, len(found))
	for i, u := range found {
		keys := []string{u.Key, u.Other}[:len(in.By)]
		for j, by := range in.By {
			if by == budget.BySurface {
				keys[j] = surfaceName(surfaceOf(keys[j]))
			}
		}
		items[i] = usageItem{keys, keys[0], u.Calls, u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Total(), u.MicroUSD, u.Unpriced}
	}
	return slicePage(items, in.Cursor, in.Limit)
}

// currentUsage is what is used today.
type currentUsage struct {
	Since        time.Time             `json:"since" doc:"The beginning of the day in UTC"`
	TotalTokens  int64                 `json:"totalTokens"`
	CostMicroUSD int64                 `json:"costMicroUsd" doc:"Of the calls whose cost is known"`
	LastUpdated  *time.Time            `json:"lastUpdated" doc:"When the latest usage was; null: there was none"`
	Pace         budget.Recommendation `json:"pace" enum:"CONTINUE,THROTTLE,STOP" doc:"How fast work goes on, by the global budget"`
}

// currentUsage is called by the Engine Room and by scripts.
func (s *server) currentUsage(ctx context.Context, _ *struct{}) (*answer[currentUsage], error) {
	l, err := s.Budgets.Lately(ctx, workspace(ctx), s.Clock())
	if err != nil {
		return nil, err
	}
	return answered(currentUsage{l.Since, l.Tokens, l.MicroUSD, utc(l.Latest), l.Pace}), nil
}

// estimateItem is a completed task with what it was expected to use and what it used.
type estimateItem struct {
	TaskID          string    `json:"taskId" format:"uuid"`
	TaskType        string    `json:"taskType,omitempty"`
	Complexity      int       `json:"complexity"`
	EstimatedTokens int64     `json:"estimatedTokens"`
	UsedTokens      int64     `json:"usedTokens" doc:"By all attempts"`
	Ratio           float64   `json:"ratio" doc:"usedTokens / estimatedTokens"`
	FinishedAt      time.Time `json:"finishedAt"`
}

// listEstimates is called by the Engine Room and by scripts.
func (s *server) listEstimates(ctx context.Context, in *struct {
	TaskType string `query:"taskType" maxLength:"100"`
	Paging
}) (*answer[page[estimateItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Budgets.History(ctx, workspace(ctx), in.TaskType, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	found, more := db.Page(found, in.Limit)
	return newest(found, more, func(x budget.Past) db.Position { return db.Position{At: x.FinishedAt, ID: x.Task} },
		func(p budget.Past) estimateItem {
			return estimateItem{p.Task, p.Type, p.Complexity, p.Estimated, p.Used,
				float64(p.Used) / float64(max(1, p.Estimated)), p.FinishedAt.UTC()}
		}), nil
}

// correctionItem is what was learned of a type of tasks.
type correctionItem struct {
	TaskType string  `json:"taskType" doc:"Empty: of tasks without a type"`
	Samples  int     `json:"samples" doc:"Completed tasks, 200 at most; from 20 on estimates are corrected"`
	Factor   float64 `json:"factor" doc:"By which estimates are multiplied: the median of what was used over what was estimated"`
}

// listCorrections is called by the Engine Room and by scripts.
func (s *server) listCorrections(ctx context.Context, in *struct {
	Paging
}) (*answer[page[correctionItem]], error) {
	found, err := s.Budgets.Learned(ctx, workspace(ctx))
	if err != nil {
		return nil, err
	}
	items := make([]correctionItem, len(found))
	for i, l := range found {
		items[i] = correctionItem{l.Type, l.Samples, float64(l.Factor) / 1000}
	}
	return slicePage(items, in.Cursor, in.Limit)
}

// savings compare what tasks cost with the top tier alone.
type savings struct {
	CostMicroUSD    int64   `json:"costMicroUsd" doc:"At present prices"`
	TopTierMicroUSD int64   `json:"topTierMicroUsd" doc:"What the same tokens cost in the top tier"`
	SavedMicroUSD   int64   `json:"savedMicroUsd"`
	SavedPercent    float64 `json:"savedPercent"`
	Calls           int64   `json:"calls"`
	UnpricedCalls   int64   `json:"unpricedCalls" doc:"Those whose model has no price; they are left out"`
}

// usageSavings is called by the Engine Room and by scripts.
func (s *server) usageSavings(ctx context.Context, in *struct {
	Since time.Time `query:"since" doc:"Not before this time (RFC 3339)"`
	Until time.Time `query:"until" doc:"Before this time (RFC 3339)"`
}) (*answer[savings], error) {
	v, err := s.Budgets.Savings(ctx, workspace(ctx), in.Since, in.Until)
	if err != nil {
		return nil, err
	}
	return answered(savings{v.Cost, v.TopTier, v.TopTier - v.Cost, v.Percent(), v.Calls, v.Unpriced}), nil
}
