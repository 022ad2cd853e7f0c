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
	Cursor   string `query:"cursor" maxLength:"200"`
	Limit    int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*answer[page[estimateItem]], error) {
	at, id, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Budgets.History(ctx, workspace(ctx), in.TaskType, at, id, in.Limit+1)
	if err != nil {
		return nil, err
	}
	next := ""
	if len(found) > in.Limit {
		found = found[:in.Limit]
		last := found[in.Limit-1]
		next = cursor{last.FinishedAt, last.Task}.String()
	}
	items := make([]estimateItem, len(found))
	for i, p := range found {
		items[i] = estimateItem{p.Task, p.Type, p.Complexity, p.Estimated, p.Used, float64(p.Used) / float64(max(1, p.Estimated)), p.FinishedAt.UTC()}
	}
	return listing(items, next), nil
}

// correctionItem is what was learned of a type of tasks.
type correctionItem struct {
	TaskType string  `json:"taskType" doc:"Empty: of tasks without a type"`
	Samples  int     `json:"samples" doc:"Completed tasks, 200 at most; from 20 on estimates are corrected"`
	Factor   float64 `json:"factor" doc:"By which estimates are multiplied: the median of what was used over what was estimated"`
}

// listCorrections is called by the Engine Room and by scripts.
func (s *server) listCorrections(ctx context.Context, in *struct {
	Cursor string `query:"cursor" maxLength:"200"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*answer[page[correctionItem]], error) {
	found, err := s.Budgets.Learned(ctx, workspace(ctx))
	if err != nil {
		return nil, err
	}
	items := make([]correctionItem, len(found))
	for i, l := range found {
		items[i] = correctionItem{l.Type, l.Samples, float64(l.Factor) / 1000}
	}
	return part(items, in.Cursor, in.Limit)
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
