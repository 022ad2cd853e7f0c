package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// taskItem is a task. Listings leave inputContext, outputResult and checkpointData out.
type taskItem struct {
	ID               string          `json:"id" format:"uuid"`
	Title            string          `json:"title"`
	Description      string          `json:"description,omitempty"`
	TaskType         string          `json:"taskType,omitempty"`
	Status           task.Status     `json:"status" enum:"PENDING,ASSIGNED,RUNNING,PAUSED,COMPLETED,FAILED,ABORTED,ARCHIVED"`
	StatusReason     string          `json:"statusReason,omitempty"`
	ReasonCode       task.Code       `json:"reasonCode,omitempty" enum:"dependency,dependency_failed,thread,no_agent,agents_full,budget,paused,backoff,cancelled" doc:"Only in listings, of a task that waits: the main reason"`
	WhySummary       string          `json:"whySummary,omitempty" doc:"That reason in one sentence"`
	Cancelled        bool            `json:"cancelled" doc:"ABORTED for good: it is never requeued"`
	Priority         int             `json:"priority" doc:"1 to 10; 10 comes first"`
	Attempt          int             `json:"attempt" doc:"The number of the latest attempt, which reports name; 0: there was none"`
	AgentID          string          `json:"agentId,omitempty" format:"uuid"`
	Model            string          `json:"model,omitempty" doc:"Only of a claimed task: the model that the agent is to use"`
	SessionKey       string          `json:"sessionKey,omitempty"`
	ProgressPercent  int             `json:"progressPercent"`
	CurrentStep      string          `json:"currentStep,omitempty"`
	EstimatedMinutes int             `json:"estimatedDurationMinutes,omitempty"`
	EstimatedAt      *time.Time      `json:"estimatedCompletionAt,omitempty"`
	RetryCount       int             `json:"retryCount"`
	MaxRetries       int             `json:"maxRetries"`
	BackoffSeconds   int             `json:"retryBackoffSeconds" doc:"Of the first retry; each later one waits twice as long"`
	NextAttemptAt    *time.Time      `json:"nextAttemptAt,omitempty" doc:"ABORTED: when its backoff is over"`
	LastError        string          `json:"lastError,omitempty"`
	Summary          string          `json:"summary,omitempty"`
	InputContext     json.RawMessage `json:"inputContext,omitempty" doc:"Only of a single task. The values of sensitive names, such as password, are redacted but for the agent that claims the task"`
	OutputResult     json.RawMessage `json:"outputResult,omitempty" doc:"Only of a single task"`
	CheckpointData   json.RawMessage `json:"checkpointData,omitempty" doc:"Only of a single task: what the next attempt goes on from"`
	Metadata         json.RawMessage `json:"metadata" doc:"An object"`
	Tags             []string        `json:"tags" nullable:"false"`
	ProjectID        string          `json:"projectId,omitempty" format:"uuid"`
	MilestoneID      string          `json:"milestoneId,omitempty" format:"uuid"`
	ThreadID         string          `json:"threadId,omitempty" format:"uuid"`
	DependsOn        []string        `json:"dependsOn" nullable:"false" doc:"Tasks that must be COMPLETED first"`
	Blocks           []string        `json:"blocks" nullable:"false" doc:"Tasks that depend on this one"`
	Outside          bool            `json:"outside" doc:"Text from outside is in it: a run that had read such text created it"`
	CreatedBy        string          `json:"createdBy"`
	CreatedAt        time.Time       `json:"createdAt"`
	UpdatedAt        time.Time       `json:"updatedAt"`
	AssignedAt       *time.Time      `json:"assignedAt,omitempty"`
	StartedAt        *time.Time      `json:"startedAt,omitempty"`
	CompletedAt      *time.Time      `json:"completedAt,omitempty"`
	FailedAt         *time.Time      `json:"failedAt,omitempty"`
}

// shownInput returns a task's input without the values of sensitive names. Only a claim and a start give
// these, and only to the agent of the attempt.
func shownInput(input json.RawMessage) json.RawMessage {
	var r *redact.Redactor // it goes by names and forms
	return r.JSON(input)
}

func taskOf(t task.Task) taskItem {
	return taskItem{
		ID: t.ID, Title: t.Title, Description: t.Description, TaskType: t.Type, Status: t.Status,
		StatusReason: t.StatusReason, Cancelled: t.Cancelled,
		Priority: t.Priority, Attempt: t.Attempt, AgentID: t.Agent, SessionKey: t.Session, ProgressPercent: t.Progress,
		CurrentStep:      t.CurrentStep,
		EstimatedMinutes: t.EstimatedMinutes, EstimatedAt: utc(t.EstimatedAt), RetryCount: t.Retries, MaxRetries: t.MaxRetries,
		BackoffSeconds: t.BackoffSeconds, NextAttemptAt: utc(t.NextAttemptAt), LastError: t.LastError, Summary: t.Summary,
		InputContext: shownInput(t.Input), OutputResult: t.Output, CheckpointData: t.Checkpoint, Metadata: t.Metadata, Tags: orEmpty(t.Tags),
		ProjectID: t.Project, MilestoneID: t.Milestone, ThreadID: t.Thread, DependsOn: orEmpty(t.DependsOn), Blocks: orEmpty(t.Blocks),
		Outside: t.Untrusted, CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt.UTC(), UpdatedAt: t.UpdatedAt.UTC(), AssignedAt: utc(t.AssignedAt),
		StartedAt: utc(t.StartedAt), CompletedAt: utc(t.CompletedAt), FailedAt: utc(t.FailedAt),
	}
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func taskOutput(t task.Task) *versioned[taskItem] {
	return &versioned[taskItem]{ETag: tagOf(t.Version), Body: taskOf(t)}
}

type createTaskInput struct {
	Body struct {
		Title            string     `json:"title" minLength:"1" maxLength:"255"`
		Description      string     `json:"description,omitempty" maxLength:"16000"`
		TaskType         string     `json:"taskType,omitempty" maxLength:"100"`
		Priority         int        `json:"priority,omitempty" minimum:"1" maximum:"10" default:"5" doc:"10 comes first; 9 and 10 count as critical"`
		InputContext     givenJSON  `json:"inputContext,omitempty" doc:"An object for the agent. A secret stands in it as {\"$secret\": name}. Fields under names such as password are encrypted, and shown only to the agent that has the task"`
		DependsOn        []string   `json:"dependsOn,omitempty" maxItems:"100" nullable:"false" format:"uuid" doc:"Tasks that must be COMPLETED first"`
		Blocks           []string   `json:"blocks,omitempty" maxItems:"100" nullable:"false" format:"uuid" doc:"Tasks that are to depend on this one"`
		MaxRetries       *int       `json:"maxRetries,omitempty" minimum:"0" maximum:"100" doc:"3 unless given"`
		BackoffSeconds   int        `json:"retryBackoffSeconds,omitempty" minimum:"1" maximum:"21600" default:"300"`
		EstimatedMinutes int        `json:"estimatedDurationMinutes,omitempty" minimum:"1" maximum:"5256000"`
		EstimatedAt      *time.Time `json:"estimatedCompletionAt,omitempty"`
		Metadata         givenJSON  `json:"metadata,omitempty" doc:"An object"`
		Tags             []string   `json:"tags,omitempty" maxItems:"20" nullable:"false"`
		ProjectID        string     `json:"projectId,omitempty" format:"uuid"`
		MilestoneID      string     `json:"milestoneId,omitempty" format:"uuid"`
		ThreadID         string     `json:"threadId,omitempty" format:"uuid"`
	}
}

// createTask adds a task. It is called by the Engine Room, scripts and lanekeeper tasks.
func (s *server) createTask(ctx context.Context, in *createTaskInput) (*createdAt[taskItem], error) {
	by, _ := auth.From(ctx)
	b := in.Body
	t := task.Task{
		ID:    s.newID(ctx),
		Title: b.Title, Description: b.Description, Type: b.TaskType, Priority: b.Priority, Input: json.RawMessage(b.InputContext),
		DependsOn: b.DependsOn, Blocks: b.Blocks, MaxRetries: task.DefaultRetries, BackoffSeconds: b.BackoffSeconds,
		EstimatedMinutes: b.EstimatedMinutes,
		EstimatedAt:      b.EstimatedAt, Metadata: json.RawMessage(b.Metadata), Tags: b.Tags, Project: b.ProjectID,
		Milestone: b.MilestoneID, Thread: b.ThreadID, CreatedBy: principal(by),
	}
	db.Patch(&t.MaxRetries, b.MaxRetries)
	if err := t.SealInput(ctx, by.Workspace, s.Secrets); err != nil {
		return nil, err
	}
	err := s.change(ctx, "task.create", func(ctx context.Context, tx *db.Tx) (err error) {
		t, err = s.Tasks.Create(ctx, tx, t)
		return err
	}, "task", &t.ID, "title", b.Title)
	if t, err = before(ctx, t, err, s.Tasks.Get); err != nil {
		return nil, err
	}
	s.Send(by.Workspace) // wakes the coordinator
	return &createdAt[taskItem]{"/api/v1/agent-tasks/" + t.ID, tagOf(t.Version), taskOf(t)}, nil
}

// getTask is called by the Engine Room, scripts, lanekeeper tasks, and by agents for their own tasks.
func (s *server) getTask(ctx context.Context, in *IDPath) (*versioned[taskItem], error) {
	t, err := s.readTask(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return taskOutput(t), nil
}

// readTask reads a task that the caller may read: an agent its own ones.
func (s *server) readTask(ctx context.Context, id string) (task.Task, error) {
	by, _ := auth.From(ctx)
	if by.Kind == auth.Agent {
		return s.Tasks.GetOf(ctx, by.Workspace, id, by.ID)
	}
	return s.Tasks.Get(ctx, by.Workspace, id)
}

type patchTaskInput struct {
	IDPath
	IfMatch
	Body struct {
		Title       *string             `json:"title,omitempty" minLength:"1" maxLength:"255"`
		Description *string             `json:"description,omitempty" maxLength:"16000"`
		Priority    *int                `json:"priority,omitempty" minimum:"1" maximum:"10"`
		Tags        *[]string           `json:"tags,omitempty" maxItems:"20" nullable:"false"`
		Status      *task.Status        `json:"status,omitempty" enum:"PAUSED,PENDING" doc:"PAUSED ends an attempt under way; PENDING resumes a paused task"`
		EstimatedAt optional[time.Time] `json:"estimatedCompletionAt,omitempty" doc:"Null: not known"`
		MaxRetries  *int                `json:"maxRetries,omitempty" minimum:"0" maximum:"100"`
	}
}

// patchTask is called by the Engine Room and scripts.
func (s *server) patchTask(ctx context.Context, in *patchTaskInput) (*versioned[taskItem], error) {
	b := in.Body
	p := task.Patch{Title: b.Title, Description: b.Description, Priority: b.Priority, Tags: b.Tags, Status: b.Status,
		EstimatedAt: changedTime(b.EstimatedAt), MaxRetries: b.MaxRetries}
	return s.changeTask(ctx, "task.update", in.ID, func(ctx context.Context, tx *db.Tx, by string) (task.Task, error) {
		return s.Tasks.Patch(ctx, tx, in.ID, by, in.matchesTask, p)
	})
}

func (m IfMatch) matchesTask(t task.Task) error { return m.matches(t.Version) }

// errNoChange ends a transaction that found a task as it should be: nothing is recorded.
var errNoChange = errors.New("nothing changes")

// changeTask changes a task in a transaction that also records who asked for it. A report on another
// attempt than the present one is refused, and logged in a transaction of its own.
func (s *server) changeTask(ctx context.Context, what, id string, fn func(ctx context.Context, tx *db.Tx, by string) (task.Task, error),
	input ...any) (*versioned[taskItem], error) {
	by, _ := auth.From(ctx)
	var t task.Task
	err := s.change(ctx, what, func(ctx context.Context, tx *db.Tx) (err error) {
		t, err = fn(ctx, tx, principal(by))
		return err
	}, append([]any{"task", id}, input...)...)
	s.noteStale(ctx, id, err)
	if err != nil && !errors.Is(err, errNoChange) {
		return nil, err
	}
	if t.Status != task.Running {
		s.Send(by.Workspace) // wakes the coordinator
	}
	return taskOutput(t), nil
}

// setTaskDependencies is called by the Engine Room and scripts.
func (s *server) setTaskDependencies(ctx context.Context, in *struct {
	IDPath
	IfMatch
	Body struct {
		DependsOn []string `json:"dependsOn" maxItems:"100" nullable:"false" format:"uuid"`
	}
}) (*versioned[taskItem], error) {
	return s.changeTask(ctx, "task.set_dependencies", in.ID, func(ctx context.Context, tx *db.Tx, _ string) (task.Task, error) {
		return s.Tasks.SetDependencies(ctx, tx, in.ID, in.matchesTask, in.Body.DependsOn)
	}, "dependencies", len(in.Body.DependsOn))
}

// cancelTask is called by the Engine Room, scripts and lanekeeper tasks.
func (s *server) cancelTask(ctx context.Context, in *struct {
	IDPath
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"500"`
	}
}) (*versioned[taskItem], error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	return s.changeTask(ctx, "task.cancel", in.ID, func(ctx context.Context, tx *db.Tx, by string) (task.Task, error) {
		return s.Tasks.Cancel(ctx, tx, in.ID, by, reason)
	}, "reason", reason)
}

// retryTask is called by the Engine Room, scripts and lanekeeper tasks.
func (s *server) retryTask(ctx context.Context, in *struct {
	IDPath
	Body *struct{}
}) (*versioned[taskItem], error) {
	return s.changeTask(ctx, "task.retry", in.ID, func(ctx context.Context, tx *db.Tx, by string) (task.Task, error) {
		return s.Tasks.Retry(ctx, tx, in.ID, by)
	})
}

// archiveTask is called by the Engine Room and scripts.
func (s *server) archiveTask(ctx context.Context, in *struct {
	IDPath
	Body *struct{}
}) (*versioned[taskItem], error) {
	return s.changeTask(ctx, "task.archive", in.ID, func(ctx context.Context, tx *db.Tx, by string) (task.Task, error) {
		return s.Tasks.Archive(ctx, tx, in.ID, by)
	})
}

// taskProblem is the problem of an error of package task, or nil.
func taskProblem(err error) *problem.Problem {
	if e, ok := errors.AsType[*task.StatusError](err); ok {
		p := problem.New(http.StatusConflict, "illegal_transition", e.Error())
		p.PresentStatus, p.LegalStatuses = string(e.Status), make([]string, 0, len(e.Legal))
		for _, to := range e.Legal {
			p.LegalStatuses = append(p.LegalStatuses, string(to))
		}
		return p
	}
	if e, ok := errors.AsType[*task.StaleError](err); ok {
		p := problem.New(http.StatusConflict, "stale_attempt", e.Error())
		p.PresentStatus, p.Order = string(e.Status), "cancel"
		return p
	}
	if e, ok := errors.AsType[*task.CycleError](err); ok {
		p := problem.New(http.StatusConflict, "dependency_cycle", "the tasks would depend on each other in a circle: path names them")
		p.Path = e.Path
		return p
	}
	if e, ok := errors.AsType[*task.MissingError](err); ok {
		return problem.New(http.StatusNotFound, "not_found", e.Error())
	}
	return nil
}
