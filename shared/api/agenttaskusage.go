package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// coverOf lists the budgets that cover a task.
func coverOf(t task.Task) budget.Cover {
	return budget.Cover{Task: t.ID, Milestone: t.Milestone, Project: t.Project, Agent: t.Agent}
}

// levelItem is a budget that covers a task.
type levelItem struct {
	BudgetID  string       `json:"budgetId" format:"uuid"`
	Scope     budget.Scope `json:"scope" enum:"global,project,milestone,task,agent,skill"`
	ScopeID   string       `json:"scopeId,omitempty"`
	Allocated int64        `json:"allocated"`
	Consumed  int64        `json:"consumed"`
	Reserved  int64        `json:"reserved"`
	Remaining int64        `json:"remaining"`
	Overdraft int64        `json:"overdraft"`
	PeriodEnd time.Time    `json:"periodEnd"`
}

// usageReported answers a report of usage.
type usageReported struct {
	TaskID       string      `json:"taskId" format:"uuid"`
	Attempt      int         `json:"attempt"`
	TotalTokens  int64       `json:"totalTokens" doc:"That were reported"`
	CostMicroUSD *int64      `json:"costMicroUsd" doc:"Null: the model has no price"`
	Budgets      []levelItem `json:"budgets" nullable:"false" doc:"Those that cover the task, after the report"`
	Order        string      `json:"order" enum:"continue,pause" doc:"pause: a budget is spent and the task is paused: stop working on it, and report nothing more on the attempt"`
	Reason       string      `json:"reason,omitempty"`
}

type usageReportInput struct {
	IDPath
	Body struct {
		TaskReport
		InputTokens      int64  `json:"inputTokens" minimum:"0" maximum:"1000000000" doc:"Those neither read from nor written to a cache"`
		OutputTokens     int64  `json:"outputTokens" minimum:"0" maximum:"1000000000"`
		CacheReadTokens  int64  `json:"cacheReadTokens,omitempty" minimum:"0" maximum:"1000000000"`
		CacheWriteTokens int64  `json:"cacheWriteTokens,omitempty" minimum:"0" maximum:"1000000000"`
		Model            string `json:"model" minLength:"1" maxLength:"512"`
		Operation        string `json:"operation,omitempty" maxLength:"100" doc:"What it was for; model_call unless given"`
	}
}

// reportUsage counts what an attempt has used, and pauses the task if a budget is spent. It is called
// by agents, and by scripts that act for one.
func (s *server) reportUsage(ctx context.Context, in *usageReportInput) (*answer[usageReported], error) {
	b := in.Body
	read, err := s.readTask(ctx, in.id())
	if err != nil {
		return nil, err
	}
	var out budget.Reported
	var t task.Task
	err = s.change(ctx, "task.usage", func(ctx context.Context, tx *db.Tx) error {
		cover := coverOf(read)
		ledger, err := s.Budgets.Lock(ctx, tx, []budget.Cover{cover})
		if err != nil {
			return err
		}
		report := reportOf(ctx, in.id(), b.Attempt)
		if t, err = s.Tasks.Present(ctx, tx, report); err != nil {
			return err
		}
		if t.Agent != read.Agent { // it was given to another agent before it was locked
			return &task.StaleError{Task: t.ID, Attempt: read.Attempt, Present: t.Attempt, Actor: report.Actor}
		}
		out, err = s.Budgets.Report(ctx, tx, ledger, budget.Report{
			Usage: llm.Usage{
				PromptTokens: int(b.InputTokens), CompletionTokens: int(b.OutputTokens),
				CacheReadTokens: int(b.CacheReadTokens), CacheWriteTokens: int(b.CacheWriteTokens),
			},
			Cover: cover, Attempt: t.Attempt, Session: t.Session, Model: b.Model, Operation: b.Operation,
		})
		if err != nil || out.Exhausted == nil {
			return err
		}
		t, err = s.Tasks.Pause(ctx, tx, t.ID, budget.Automatic, budget.PauseReason, spentBy(*out.Exhausted).Why())
		return err
	}, "task", in.id(), "attempt", b.Attempt, "model", b.Model)
	s.noteStale(ctx, in.id(), err)
	if err != nil {
		return nil, err
	}
	answer := usageReported{TaskID: t.ID, Attempt: t.Attempt, TotalTokens: out.Tokens,
		Budgets: make([]levelItem, len(out.Budgets)), Order: "continue"}
	if out.Priced {
		answer.CostMicroUSD = &out.MicroUSD
	}
	for i, b := range out.Budgets {
		answer.Budgets[i] = levelItem{
			BudgetID: b.ID, Scope: b.Scope, ScopeID: b.ScopeID, Allocated: b.Tokens.Allocated, Consumed: b.Tokens.Consumed,
			Reserved: b.Tokens.Reserved, Remaining: max(0, b.Tokens.Remaining()), Overdraft: b.Tokens.Overdraft(), PeriodEnd: b.End.UTC(),
		}
	}
	if out.Exhausted != nil {
		_, _ = s.ended(ctx, nil, nil) // it may have been the last attempt of an agent that drains
		answer.Order, answer.Reason = "pause", spentBy(*out.Exhausted).Why()
	}
	return answered(answer), nil
}

func spentBy(b budget.Budget) budget.Overspent {
	return budget.Overspent{Scope: b.Scope, ScopeID: b.ScopeID, FreesAt: b.End}
}

// noteStale logs that a report on another attempt than the present one was refused.
func (s *server) noteStale(ctx context.Context, id string, err error) {
	stale, ok := errors.AsType[*task.StaleError](err)
	if !ok {
		return
	}
	if err := s.Tasks.NoteConflict(ctx, workspace(ctx), stale); err != nil {
		s.Log.WarnContext(ctx, "a report on an old attempt was refused, which could not be logged", "task", id, "error", err)
	}
}

// usageVerdict says whether what a task has used is in proportion to what it has changed.
type usageVerdict struct {
	Result         budget.Verdict `json:"result" enum:"valid,invalid,not_applicable"`
	ExpectedTokens int64          `json:"expectedTokens" doc:"150 for each changed line"`
	UsedTokens     int64          `json:"usedTokens" doc:"By all attempts"`
	Efficiency     *float64       `json:"efficiency" doc:"expectedTokens / usedTokens; under 0.5 is invalid; null: not applicable"`
	Reason         string         `json:"reason"`
	Recommendation string         `json:"recommendation"`
}

// validateUsage is called by agents before they commit, and by scripts that act for one.
func (s *server) validateUsage(ctx context.Context, in *struct {
	IDPath
	Body struct {
		LinesChanged int64 `json:"linesChanged" minimum:"0" maximum:"100000000"`
		TestsAdded   int64 `json:"testsAdded,omitempty" minimum:"0" maximum:"100000000" doc:"Their lines count as changed; the number itself changes nothing"`
	}
}) (*answer[usageVerdict], error) {
	if _, err := s.readTask(ctx, in.id()); err != nil {
		return nil, err
	}
	v, err := s.Budgets.Validate(ctx, workspace(ctx), in.id(), in.Body.LinesChanged)
	if err != nil {
		return nil, err
	}
	return answered(usageVerdict{v.Verdict, v.Expected, v.Used, v.Efficiency, v.Reason, v.Recommendation}), nil
}

// whyUnpaid says which budget holds a task up, or nil.
func (s *server) whyUnpaid(ctx context.Context, t task.Task) (*taskReason, error) {
	if t.Status != task.Pending && (t.Status != task.Paused || t.StatusReason != budget.PauseReason) {
		return nil, nil
	}
	shape := budget.Shape(t.Type, t.Priority, t.Metadata)
	h, err := s.Budgets.Headroom(ctx, workspace(ctx), coverOf(t), shape)
	if err != nil || h.Refused == nil {
		return nil, err
	}
	r := taskReason{Code: task.WaitsForBudget, Until: utc(&h.Refused.FreesAt)}
	if t.Status == task.Paused {
		r.Message = fmt.Sprintf("it is paused: %s; it goes on by itself when more is allocated to %s, or at %s", budget.PauseReason,
			h.Refused.Level(), h.Refused.FreesAt.UTC().Format(time.RFC3339))
		return &r, nil
	}
	r.Message = fmt.Sprintf("%s, and the task is expected to use %d tokens: reallocate some to it, or pause the task", h.Refused, h.Tokens)
	return &r, nil
}
