package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// budgetItem is the budget of one scope for one period: what is allocated and what is used, in
// tokens.
type budgetItem struct {
	ID                string       `json:"id" format:"uuid"`
	Scope             budget.Scope `json:"scope" enum:"global,project,milestone,task,agent,skill"`
	ScopeID           string       `json:"scopeId,omitempty" doc:"What it is of; left out for global"`
	ScopeName         string       `json:"scopeName,omitempty" doc:"The name of what scopeId names, if it has one; when budgets are read"`
	Allocated         int64        `json:"allocated"`
	Consumed          int64        `json:"consumed"`
	Reserved          int64        `json:"reserved" doc:"By what runs now"`
	Remaining         int64        `json:"remaining" doc:"What can still be reserved"`
	Overdraft         int64        `json:"overdraft" doc:"By how much more is consumed and reserved than is allocated"`
	AllocatedMicroUSD *int64       `json:"allocatedMicroUsd,omitempty" doc:"Millionths of a dollar; left out where money has no bound"`
	ConsumedMicroUSD  int64        `json:"consumedMicroUsd"`
	ReservedMicroUSD  int64        `json:"reservedMicroUsd"`
	PeriodStart       time.Time    `json:"periodStart"`
	PeriodEnd         time.Time    `json:"periodEnd" doc:"From then on the next period counts, as long and as large"`
	CreatedBy         string       `json:"createdBy"`
	CreatedAt         time.Time    `json:"createdAt"`
	UpdatedAt         time.Time    `json:"updatedAt"`
}

func budgetItemOf(b budget.Budget) budgetItem {
	item := budgetItem{
		ID: b.ID, Scope: b.Scope, ScopeID: b.ScopeID, Allocated: b.Tokens.Allocated, Consumed: b.Tokens.Consumed, Reserved: b.Tokens.Reserved,
		Remaining: max(0, b.Tokens.Remaining()), Overdraft: b.Tokens.Overdraft(),
		ConsumedMicroUSD: b.MicroUSD.Consumed, ReservedMicroUSD: b.MicroUSD.Reserved,
		PeriodStart: b.Start.UTC(), PeriodEnd: b.End.UTC(), CreatedBy: b.CreatedBy, CreatedAt: b.CreatedAt.UTC(), UpdatedAt: b.UpdatedAt.UTC(),
	}
	if b.Capped {
		item.AllocatedMicroUSD = &b.MicroUSD.Allocated
	}
	return item
}

func budgetOutput(b budget.Budget) *versioned[budgetItem] {
	return &versioned[budgetItem]{ETag: tagOf(b.Version), Body: budgetItemOf(b)}
}

type budgetsInput struct {
	Scope   budget.Scope `query:"scope" enum:"global,project,milestone,task,agent,skill"`
	ScopeID string       `query:"scopeId" maxLength:"255"`
	Active  string       `query:"active" enum:"true,false" doc:"Whether the period holds now"`
	Paging
}

// listBudgets lists budgets, newest first. It is called by the Engine Room and by scripts.
func (s *server) listBudgets(ctx context.Context, in *budgetsInput) (*answer[page[budgetItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	f := budget.Filter{Scope: in.Scope, ScopeID: spelled(in.ScopeID), Before: before.ID, Limit: in.Limit}
	if in.Active != "" {
		f.Active = new(in.Active == "true")
	}
	found, more, err := s.Budgets.List(ctx, workspace(ctx), f)
	if err != nil {
		return nil, err
	}
	names, err := s.Budgets.Names(ctx, workspace(ctx), found...)
	if err != nil {
		return nil, err
	}
	items := each(found, func(b budget.Budget) budgetItem {
		item := budgetItemOf(b)
		item.ScopeName = names[b.ScopeID]
		return item
	})
	next := ""
	if more {
		next = keyCursor(items[len(items)-1].ID)
	}
	return listing(items, next), nil
}

// getBudget returns one budget. It is called by the Engine Room and by scripts.
func (s *server) getBudget(ctx context.Context, in *IDPath) (*versioned[budgetItem], error) {
	b, err := s.Budgets.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	names, err := s.Budgets.Names(ctx, workspace(ctx), b)
	if err != nil {
		return nil, err
	}
	out := budgetOutput(b)
	out.Body.ScopeName = names[b.ScopeID]
	return out, nil
}

type createBudgetInput struct {
	Body struct {
		Scope             budget.Scope `json:"scope" enum:"global,project,milestone,task,agent,skill"`
		ScopeID           string       `json:"scopeId,omitempty" maxLength:"255" doc:"The id of the project, milestone, task or registered agent; the name of the skill or of the built-in agent, of which flowpilot:hb is one surface, there its beats; left out for global"`
		Allocated         int64        `json:"allocated" doc:"Tokens"`
		AllocatedMicroUSD *int64       `json:"allocatedMicroUsd,omitempty" doc:"Millionths of a dollar; left out: money has no bound"`
		PeriodStart       time.Time    `json:"periodStart"`
		PeriodEnd         time.Time    `json:"periodEnd"`
	}
}

// createBudget creates a budget. It is called by the Engine Room and by scripts.
func (s *server) createBudget(ctx context.Context, in *createBudgetInput) (*createdAt[budgetItem], error) {
	by, _ := auth.From(ctx)
	of, err := s.scopeOf(ctx, in.Body.Scope, in.Body.ScopeID)
	if err != nil {
		return nil, err
	}
	n := budget.Budget{
		ID: s.newID(ctx), Scope: in.Body.Scope, ScopeID: of, Tokens: budget.Account{Allocated: in.Body.Allocated},
		Start: in.Body.PeriodStart, End: in.Body.PeriodEnd, CreatedBy: principal(by),
	}
	if in.Body.AllocatedMicroUSD != nil {
		n.Capped, n.MicroUSD.Allocated = true, *in.Body.AllocatedMicroUSD
	}
	var b budget.Budget
	err = s.change(ctx, "budget.create", func(ctx context.Context, tx *db.Tx) (err error) {
		b, err = s.Budgets.Create(ctx, tx, n)
		return err
	}, "id", &b.ID, "scope", n.Scope, "scope_id", n.ScopeID, "allocated", n.Tokens.Allocated)
	if b, err = before(ctx, b, err, s.Budgets.Get); err != nil {
		return nil, err
	}
	return &createdAt[budgetItem]{"/api/v1/budgets/" + b.ID, tagOf(b.Version), budgetItemOf(b)}, nil
}

// scopeOf returns a scope id in the form in which usage names it. What has an id must be in the workspace, or the
// budget would bind nothing; agents and skills may come later. An empty one is refused by the store where it must be.
func (s *server) scopeOf(ctx context.Context, scope budget.Scope, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	lower, isID := strings.ToLower(id), len(id) == 36 && uuid.Validate(id) == nil
	var err error
	switch scope {
	case budget.Agent:
		return spelled(id), nil
	case budget.Project, budget.Milestone, budget.Task:
		if !isID {
			return "", invalid(problem.At("body.scopeId", "expected the id of the "+string(scope)))
		}
		switch scope {
		case budget.Project:
			_, _, err = s.Projects.Get(ctx, workspace(ctx), lower)
		case budget.Milestone:
			_, _, err = s.Milestones.Get(ctx, workspace(ctx), lower)
		default:
			_, err = s.Tasks.Get(ctx, workspace(ctx), lower)
		}
	default:
		return id, nil
	}
	if errors.Is(err, db.ErrNoRows) {
		return "", &task.MissingError{Field: "scopeId", What: string(scope)}
	}
	return lower, err
}

// spelled returns an id in small letters, as it is stored, and a name as it is.
func spelled(nameOrID string) string {
	if len(nameOrID) == 36 && uuid.Validate(nameOrID) == nil {
		return strings.ToLower(nameOrID)
	}
	return nameOrID
}

type patchBudgetInput struct {
	IDPath
	IfMatch
	Body struct {
		Allocated         *int64 `json:"allocated,omitempty" doc:"Tokens, not fewer than are consumed"`
		AllocatedMicroUSD *int64 `json:"allocatedMicroUsd,omitempty" doc:"Millionths of a dollar, not fewer than are consumed"`
	}
}

// patchBudget changes what is allocated. It is called by the Engine Room and by scripts.
func (s *server) patchBudget(ctx context.Context, in *patchBudgetInput) (*versioned[budgetItem], error) {
	to := budget.Allocation{Tokens: in.Body.Allocated, MicroUSD: in.Body.AllocatedMicroUSD}
	if to == (budget.Allocation{}) {
		return nil, invalid(problem.At("body", "expected allocated, allocatedMicroUsd or both"))
	}
	read, err := s.Budgets.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	if err := in.matches(read.Version); err != nil {
		return nil, err
	}
	version := 0 // any version
	if in.IfMatch.IfMatch != "" {
		version = read.Version
	}
	var b budget.Budget
	err = s.change(ctx, "budget.update", func(ctx context.Context, tx *db.Tx) (err error) {
		b, err = s.Budgets.Patch(ctx, tx, read.ID, version, to)
		return err
	}, "id", read.ID, "allocated", &b.Tokens.Allocated, "allocated_micro_usd", to.MicroUSD)
	if err != nil {
		return nil, err
	}
	return budgetOutput(b), nil
}

type reallocateInput struct {
	Body struct {
		From   string `json:"from" format:"uuid" doc:"The id of a budget"`
		To     string `json:"to" format:"uuid" doc:"The id of another"`
		Amount int64  `json:"amount" doc:"Tokens that are neither consumed nor reserved"`
	}
}

// reallocation holds both budgets after tokens were moved.
type reallocation struct {
	From budgetItem `json:"from"`
	To   budgetItem `json:"to"`
}

// reallocate moves tokens from one budget to another. It is called by the Engine Room and by
// scripts.
func (s *server) reallocate(ctx context.Context, in *reallocateInput) (*answer[reallocation], error) {
	from, to := in.Body.From, in.Body.To
	for _, of := range [][2]string{{"from", from}, {"to", to}} {
		_, err := s.Budgets.Get(ctx, workspace(ctx), of[1])
		if errors.Is(err, budget.ErrNotFound) {
			return nil, &task.MissingError{Field: of[0], What: "budget"}
		}
		if err != nil {
			return nil, err
		}
	}
	by, _ := auth.From(ctx)
	var source, target budget.Budget
	err := s.DB.Tx(ctx, by.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		s.Activity.Record(ctx, tx.Later(), activity.Entry{ // first: a repeated request has recorded it already
			ID: s.newID(ctx), Agent: activity.Operator, Surface: trace.Operate, Skill: "budget.reallocate", Status: activity.Success,
			Input: object("by", by.String(), "from", from, "to", to, "amount", in.Body.Amount),
		})
		source, target, err = s.Budgets.Reallocate(ctx, tx, from, to, in.Body.Amount)
		return err
	})
	if errors.Is(err, db.ErrUnique) { // the request was executed before, and its response was lost
		if source, err = s.Budgets.Get(ctx, by.Workspace, from); err == nil {
			target, err = s.Budgets.Get(ctx, by.Workspace, to)
		}
	}
	if err != nil {
		return nil, err
	}
	return answered(reallocation{budgetItemOf(source), budgetItemOf(target)}), nil
}

// unbudgeted converts an error of package budget to a problem. It returns nil for any other error.
func unbudgeted(err error) *problem.Problem {
	if wrong, ok := errors.AsType[*budget.InvalidError](err); ok {
		return invalid(problem.At("body."+wrong.Field, wrong.Problem))
	}
	if other, ok := errors.AsType[*budget.OverlapError](err); ok {
		p := problem.New(http.StatusConflict, "overlap", "the scope has a budget for a part of the period already")
		p.Errors = []problem.FieldError{problem.At("body.periodStart", other.Error())}
		return p
	}
	if short, ok := errors.AsType[*budget.RefusedError](err); ok {
		p := problem.New(http.StatusConflict, "insufficient", "the budget has not enough left")
		p.Errors = []problem.FieldError{problem.At("body.amount", fmt.Sprintf("expected at most %d", short.Remaining))}
		return p
	}
	return nil
}
