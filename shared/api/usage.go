package api

import (
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
)

// projection says how long a budget lasts at the rate of the last 24 hours.
type projection struct {
	RemainingTokens         int64                 `json:"remainingTokens" doc:"What is allocated and not consumed"`
	DailyBurnRate           int64                 `json:"dailyBurnRate" doc:"Tokens of the last 24 hours"`
	DaysUntilExhaustion     *float64              `json:"daysUntilExhaustion" doc:"Null: no end is in sight"`
	ProjectedExhaustionDate *time.Time            `json:"projectedExhaustionDate"`
	Recommendation          budget.Recommendation `json:"recommendation" enum:"CONTINUE,THROTTLE,STOP" doc:"STOP: only what is critical"`
}

// projectBudget says how long a budget lasts. It is called by the Engine Room and by scripts.
func (s *server) projectBudget(ctx context.Context, in *IDPath) (*answer[projection], error) {
	p, err := s.Budgets.Projection(ctx, workspace(ctx), in.id())
	if err != nil {
		return nil, err
	}
	return answered(projection{p.RemainingTokens, p.DailyBurnRate, p.DaysUntilExhaustion, utc(p.ExhaustionDate), p.Recommendation}), nil
}

// usageItem sums up the model calls of one key.
type usageItem struct {
	Key              string `json:"key" doc:"The agent, skill, model, surface or task, or the day in UTC; empty for calls without a task. A call counts for each skill that its answer asks for, with an equal share of its tokens, and for (answer) where it asks for none"`
	Calls            int64  `json:"calls"`
	InputTokens      int64  `json:"inputTokens"`
	OutputTokens     int64  `json:"outputTokens"`
	CacheReadTokens  int64  `json:"cacheReadTokens"`
	CacheWriteTokens int64  `json:"cacheWriteTokens"`
	TotalTokens      int64  `json:"totalTokens"`
	CostMicroUSD     int64  `json:"costMicroUsd" doc:"Of the calls whose cost is known"`
	UnpricedCalls    int64  `json:"unpricedCalls" doc:"Those whose cost is not"`
}

type usageInput struct {
	By    budget.By `query:"by" enum:"skill,agent,model,surface,task,day" default:"day"`
	Since time.Time `query:"since" doc:"Not before this time (RFC 3339)"`
	Until time.Time `query:"until" doc:"Before this time (RFC 3339)"`

	Cursor string `query:"cursor" maxLength:"200"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// listUsage sums up the use of model calls. It is called by the Engine Room and by scripts.
func (s *server) listUsage(ctx context.Context, in *usageInput) (*answer[page[usageItem]], error) {
	found, err := s.Budgets.Usage(ctx, workspace(ctx), in.By, in.Since, in.Until)
	if err != nil {
		return nil, err
	}
	items := make([]usageItem, len(found))
	for i, u := range found {
		key := u.Key
		if in.By == budget.BySurface {
			key = surfaceName(surfaceOf(key))
		}
		items[i] = usageItem{key, u.Calls, u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Total(), u.MicroUSD, u.Unpriced}
	}
	return part(items, in.Cursor, in.Limit)
}
