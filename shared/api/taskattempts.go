package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// claimInput is the request of a claim.
type claimInput struct {
	IDPath
	Body *struct {
		Attempts *[]attemptName `json:"attempts,omitempty" maxItems:"1000" doc:"Those that you work on; [] after a restart. If you have another one that runs, the answer to its claim was lost: it is answered again. So send one claim at a time per agent"`
	}
}

type attemptName struct {
	TaskID  string `json:"taskId" format:"uuid"`
	Attempt int    `json:"attempt" minimum:"1"`
}

// claimed is the answer to a claim.
type claimed struct {
	Status int
	Body   *taskItem
}

// unreadFor is how long a task waits at least whose input could not be completed for now.
const unreadFor = 15 * time.Second

// maxBroken is the number of tasks whose input can't be completed after which a claim gives up.
const maxBroken = 10

var noCoordinator = problem.New(http.StatusServiceUnavailable, "no_coordinator",
	"no coordinator runs here: nobody gives tasks to agents").Later(retryOutage)

// claimTask gives an agent its next task, which runs from then on. Its input has the values of the
// secrets that it names. It is called by agents that pull.
func (s *server) claimTask(ctx context.Context, in *claimInput) (*claimed, error) {
	if err := itself(ctx, in.ID); err != nil {
		return nil, err
	}
	if s.Claim == nil {
		return nil, noCoordinator
	}
	if by, _ := auth.From(ctx); by.Kind != auth.Agent { // of an agent, its token says that it is there
		if a, err := s.Agents.Get(ctx, by.Workspace, in.ID); err != nil {
			return nil, err
		} else if a.Status == agent.Terminated {
			return nil, &agent.StatusError{Status: a.Status, What: "a claim"}
		}
	}
	for range maxBroken {
		t, found, err := s.nextTask(ctx, in)
		if err != nil {
			return nil, err
		}
		if !found {
			break
		}
		given, err := s.Tasks.GivenInput(ctx, workspace(ctx), t, s.Secrets)
		if task.Unreadable(err) && !errors.Is(err, secret.ErrNoKey) { // without the key, no task is at fault
			if err := s.broken(ctx, in.ID, t, err); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, s.unanswered(ctx, t, err)
		}
		item := taskOf(t)
		item.InputContext = given
		if item.Model, err = s.Agents.ModelOf(ctx, workspace(ctx), agent.Attempt{Task: t.ID, Number: t.Attempt}); err != nil {
			return nil, s.unanswered(ctx, t, err)
		}
		return &claimed{Status: http.StatusOK, Body: &item}, nil
	}
	return &claimed{Status: http.StatusNoContent}, nil
}

// nextTask returns a task that runs and that the agent does not know of, or its next one. A task that an earlier
// execution of the same request, with its Idempotency-Key, has taken is of the first kind.
func (s *server) nextTask(ctx context.Context, in *claimInput) (task.Task, bool, error) {
	ws, entry := workspace(ctx), claimedID(ctx)
	if entry != "" {
		at, number, err := s.Tasks.OfEntry(ctx, ws, entry)
		if err != nil {
			return task.Task{}, false, err
		}
		if at != "" {
			if t, runs, err := s.runsFor(ctx, in.ID, at, number); err != nil || runs {
				return t, runs, err
			}
			entry = "" // it has ended: the next one is another task's
		}
		if repeats, _ := ctx.Value(repeatedKey{}).(bool); repeats {
			return task.Task{}, false, notKept
		}
	}
	if in.Body != nil && in.Body.Attempts != nil {
		runs, err := s.Agents.Running(ctx, ws, in.ID)
		if err != nil {
			return task.Task{}, false, err
		}
		for _, at := range runs {
			if slices.ContainsFunc(*in.Body.Attempts, func(n attemptName) bool { return n.TaskID == at.Task && n.Attempt == at.Number }) {
				continue
			}
			if t, runs, err := s.runsFor(ctx, in.ID, at.Task, at.Number); err != nil || runs { // it may have ended since it was read
				return t, runs, err
			}
		}
	}
	return s.Claim(ctx, ws, in.ID, entry)
}

// runsFor returns a task, and whether it runs in an attempt of an agent.
func (s *server) runsFor(ctx context.Context, agent, id string, attempt int) (task.Task, bool, error) {
	t, err := s.Tasks.Get(ctx, workspace(ctx), id)
	return t, err == nil && t.Agent == agent && t.Attempt == attempt && t.Status == task.Running, err
}

// broken ends an agent's attempt whose input names a secret that is not there: no retry helps. It
// changes nothing if the agent has lost the attempt by then.
func (s *server) broken(ctx context.Context, of string, t task.Task, why error) error {
	_, err := s.changeTask(ctx, "task.fail", t.ID, func(ctx context.Context, tx *db.Tx, by string) (task.Task, error) {
		return s.Tasks.Fail(ctx, tx, task.Report{Task: t.ID, Attempt: t.Attempt, Actor: by, Agent: of},
			task.Failure{Error: "inputContext: " + why.Error(), Final: true})
	}, "attempt", t.Attempt)
	if _, lost := errors.AsType[*task.StaleError](err); lost {
		return nil
	}
	return err
}

// unanswered gives back the attempt of a claim that could not be answered, so that the coordinator
// assigns the task again after its backoff: no retry is spent. It returns why.
func (s *server) unanswered(ctx context.Context, t task.Task, why error) error {
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	_, err := s.changeTask(last, "task.give_back", t.ID, func(ctx context.Context, tx *db.Tx, by string) (task.Task, error) {
		r := task.Report{Task: t.ID, Attempt: t.Attempt, Actor: by}
		return s.Tasks.GiveBack(ctx, tx, r, "the claim could not be answered: "+why.Error(), unreadFor)
	}, "attempt", t.Attempt)
	if err != nil {
		s.Log.WarnContext(ctx, "a claim was not answered, and its attempt could not be given back", "task", t.ID, "attempt",
			t.Attempt, "error", err)
	}
	return why
}

// reportOf is a report of the caller. An agent reports for itself, and an ADMIN for any agent.
func reportOf(ctx context.Context, id string, attempt int) task.Report {
	by, _ := auth.From(ctx)
	r := task.Report{Task: id, Attempt: attempt, Actor: principal(by)}
	if by.Kind == auth.Agent {
		r.Agent = by.ID
	}
	return r
}

// ended terminates the caller if it is an agent that drains, and that has just ended its last attempt.
// The report is stored by then. After a failure here, the agent's next heartbeat or the coordinator's
// next cycle terminates the agent.
func (s *server) ended(ctx context.Context, t *versioned[taskItem], err error) (*versioned[taskItem], error) {
	if by, _ := auth.From(ctx); err == nil && by.Kind == auth.Agent {
		if err := s.Agents.EndIfDrained(ctx, by.Workspace, by.ID); err != nil {
			s.Log.WarnContext(ctx, "an agent may have drained, which could not be checked", "agent", by.ID, "error", err)
		}
	}
	return t, err
}

// TaskReport is the attempt that a report is about.
type TaskReport struct {
	Attempt int `json:"attempt,omitempty" minimum:"1" doc:"The attempt that it is about; left out: the present one"`
}

// advanceTask is called by agents, and by scripts that act for one.
func (s *server) advanceTask(ctx context.Context, in *struct {
	IDPath
	Body struct {
		TaskReport
		ProgressPercent *int            `json:"progressPercent,omitempty" minimum:"0" maximum:"100"`
		CurrentStep     *string         `json:"currentStep,omitempty" maxLength:"1000"`
		CheckpointData  json.RawMessage `json:"checkpointData,omitempty" doc:"Any JSON of 256 KiB at most; the next attempt gets it"`
	}
}) (*versioned[taskItem], error) {
	b := in.Body
	return s.changeTask(ctx, "task.progress", in.ID, func(ctx context.Context, tx *db.Tx, _ string) (task.Task, error) {
		is, changed, err := s.Tasks.Advance(ctx, tx, reportOf(ctx, in.ID, b.Attempt),
			task.Progress{Percent: b.ProgressPercent, Step: b.CurrentStep, Checkpoint: b.CheckpointData})
		if err == nil && !changed {
			err = errNoChange
		}
		return is, err
	}, "attempt", b.Attempt)
}

// completeTask is called by agents, and by scripts that act for one.
func (s *server) completeTask(ctx context.Context, in *struct {
	IDPath
	Body struct {
		TaskReport
		OutputResult json.RawMessage `json:"outputResult,omitempty" doc:"Any JSON of 256 KiB at most"`
		Summary      string          `json:"summary,omitempty" maxLength:"16000"`
	}
}) (*versioned[taskItem], error) {
	b := in.Body
	var done task.Task
	t, err := s.changeTask(ctx, "task.complete", in.ID, func(ctx context.Context, tx *db.Tx, _ string) (is task.Task, err error) {
		done, err = s.Tasks.Complete(ctx, tx, reportOf(ctx, in.ID, b.Attempt), b.OutputResult, b.Summary)
		return done, err
	}, "attempt", b.Attempt)
	if err == nil {
		s.Live.Ended(ctx, workspace(ctx), done)
	}
	return s.ended(ctx, t, err)
}

// failTask is called by agents, and by scripts that act for one.
func (s *server) failTask(ctx context.Context, in *struct {
	IDPath
	Body struct {
		TaskReport
		Error      string `json:"error" minLength:"1" maxLength:"16000"`
		StackTrace string `json:"stackTrace,omitempty" maxLength:"32000"`
		Retryable  *bool  `json:"retryable,omitempty" doc:"False: no retry would help; true unless given"`
	}
}) (*versioned[taskItem], error) {
	b := in.Body
	t, err := s.changeTask(ctx, "task.fail", in.ID, func(ctx context.Context, tx *db.Tx, _ string) (task.Task, error) {
		f := task.Failure{Error: b.Error, StackTrace: b.StackTrace, Final: b.Retryable != nil && !*b.Retryable}
		return s.Tasks.Fail(ctx, tx, reportOf(ctx, in.ID, b.Attempt), f)
	}, "attempt", b.Attempt)
	return s.ended(ctx, t, err)
}

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
	Order        string      `json:"order" enum:"continue,pause" doc:"pause: a budget is spent and the task is paused: stop working on it"`
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

// lateFor is how long after the end of an attempt it is counted what that has used: as long as an Idempotency-Key is
// remembered, with which a report is counted once.
const lateFor = keyLife

// reportUsage counts what an attempt has used, and pauses the task if a budget is spent. The report on an attempt that
// is over is an order to stop, and is counted, too: the money is spent. It is called by agents, and by scripts that act
// for one.
func (s *server) reportUsage(ctx context.Context, in *usageReportInput) (*answer[usageReported], error) {
	b := in.Body
	read, err := s.readTask(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	used := budget.Report{
		ID: claimedID(ctx), Usage: llm.Usage{
			PromptTokens: int(b.InputTokens), CompletionTokens: int(b.OutputTokens),
			CacheReadTokens: int(b.CacheReadTokens), CacheWriteTokens: int(b.CacheWriteTokens),
		},
		Model: b.Model, Operation: b.Operation,
	}
	var out budget.Reported
	var t task.Task
	err = s.change(ctx, "task.usage", func(ctx context.Context, tx *db.Tx) error {
		cover := coverOf(read)
		ledger, err := s.Budgets.Lock(ctx, tx, []budget.Cover{cover})
		if err != nil {
			return err
		}
		report := reportOf(ctx, in.ID, b.Attempt)
		if t, err = s.Tasks.Present(ctx, tx, report); err != nil {
			return err
		}
		if t.Agent != read.Agent { // it was given to another agent before it was locked
			return &task.StaleError{Task: t.ID, Attempt: read.Attempt, Present: t.Attempt, Actor: report.Actor}
		}
		used.Cover, used.Attempt, used.Session = cover, t.Attempt, t.Session
		out, err = s.Budgets.Report(ctx, tx, ledger, used)
		if err != nil || out.Exhausted == nil {
			return err
		}
		t, err = s.Tasks.Pause(ctx, tx, t.ID, budget.Automatic, budget.PauseReason, spentBy(*out.Exhausted).Why())
		return err
	}, "task", in.ID, "attempt", b.Attempt, "model", b.Model)
	s.noteStale(ctx, in.ID, err)
	if stale, ok := errors.AsType[*task.StaleError](err); ok {
		if err := s.countLate(ctx, read, stale.Attempt, used); err != nil {
			return nil, err
		}
	}
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

// countLate counts what an attempt has used that ended lately, in the budgets that cover its agent's work on the task. It
// counts nothing of any other attempt, nor of one that the caller, an agent, never had.
func (s *server) countLate(ctx context.Context, of task.Task, attempt int, used budget.Report) error {
	err := s.change(ctx, "task.usage", func(ctx context.Context, tx *db.Tx) error {
		agent, session, err := s.Tasks.EndedLately(ctx, tx, of.ID, attempt, lateFor)
		if err != nil {
			return err
		}
		if itself(ctx, agent) != nil {
			return db.ErrNoRows
		}
		of.Agent = agent
		used.Cover, used.Attempt, used.Session = coverOf(of), attempt, session
		ledger, err := s.Budgets.Lock(ctx, tx, []budget.Cover{used.Cover})
		if err == nil {
			_, err = s.Budgets.Report(ctx, tx, ledger, used)
		}
		return err
	}, "task", of.ID, "attempt", attempt, "model", used.Model, "late", true)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	return err
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
		Attempt      int   `json:"attempt,omitempty" minimum:"1" doc:"Which asks; another one than the latest is refused"`
		LinesChanged int64 `json:"linesChanged" minimum:"0" maximum:"100000000"`
		TestsAdded   int64 `json:"testsAdded,omitempty" minimum:"0" maximum:"100000000" doc:"Their lines count as changed; the number itself changes nothing"`
	}
}) (*answer[usageVerdict], error) {
	t, err := s.readTask(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if n := in.Body.Attempt; n > 0 && n != t.Attempt {
		err := &task.StaleError{Task: t.ID, Attempt: n, Present: t.Attempt, Actor: reportOf(ctx, t.ID, n).Actor}
		s.noteStale(ctx, t.ID, err)
		return nil, err
	}
	v, err := s.Budgets.Validate(ctx, workspace(ctx), in.ID, in.Body.LinesChanged)
	if err != nil {
		return nil, err
	}
	return answered(usageVerdict{v.Verdict, v.Expected, v.Used, v.Efficiency, v.Reason, v.Recommendation}), nil
}
