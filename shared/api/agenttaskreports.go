package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

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
	return s.changeTask(ctx, "task.progress", in.id(), func(ctx context.Context, tx *db.Tx, _ string) (task.Task, error) {
		is, changed, err := s.Tasks.Advance(ctx, tx, reportOf(ctx, in.id(), b.Attempt),
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
	t, err := s.changeTask(ctx, "task.complete", in.id(), func(ctx context.Context, tx *db.Tx, _ string) (is task.Task, err error) {
		done, err = s.Tasks.Complete(ctx, tx, reportOf(ctx, in.id(), b.Attempt), b.OutputResult, b.Summary)
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
	t, err := s.changeTask(ctx, "task.fail", in.id(), func(ctx context.Context, tx *db.Tx, _ string) (task.Task, error) {
		f := task.Failure{Error: b.Error, StackTrace: b.StackTrace, Final: b.Retryable != nil && !*b.Retryable}
		return s.Tasks.Fail(ctx, tx, reportOf(ctx, in.id(), b.Attempt), f)
	}, "attempt", b.Attempt)
	return s.ended(ctx, t, err)
}

// taskLogItem is one row of a task's log.
type taskLogItem struct {
	ID             string          `json:"id" format:"uuid"`
	Level          task.Level      `json:"level" enum:"DEBUG,INFO,WARN,ERROR,CRITICAL"`
	Event          task.Event      `json:"event" enum:"created,state_transition,task_assigned,progress_update,checkpoint,task_recovery,timeout,conflict,dependency_cycle,budget,error"`
	Message        string          `json:"message"`
	Details        json.RawMessage `json:"details,omitempty"`
	PreviousStatus task.Status     `json:"previousStatus,omitempty"`
	NewStatus      task.Status     `json:"newStatus,omitempty"`
	Attempt        int             `json:"attempt,omitempty"`
	AgentID        string          `json:"agentId,omitempty" format:"uuid"`
	SessionKey     string          `json:"sessionKey,omitempty"`
	StackTrace     string          `json:"stackTrace,omitempty"`
	Actor          string          `json:"actor" doc:"Who did it"`
	TraceID        trace.ID        `json:"traceId,omitempty"`
	CreatedAt      time.Time       `json:"createdAt"`
}

// listTaskLogs is called by the Engine Room and lanekeeper tasks.
func (s *server) listTaskLogs(ctx context.Context, in *struct {
	IDPath
	Level  task.Level `query:"level" enum:"DEBUG,INFO,WARN,ERROR,CRITICAL"`
	Event  task.Event `query:"event" enum:"created,state_transition,task_assigned,progress_update,checkpoint,task_recovery,timeout,conflict,dependency_cycle,budget,error"`
	Cursor string     `query:"cursor" maxLength:"200"`
	Limit  int        `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*answer[page[taskLogItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Tasks.Logs(ctx, workspace(ctx), in.id(), task.LogFilter{Level: in.Level, Event: in.Event,
		Before: before, Limit: in.Limit + 1})
	if err != nil {
		return nil, err
	}
	found, more := db.Page(found, in.Limit)
	items := make([]taskLogItem, len(found))
	for i, e := range found {
		items[i] = taskLogItem{
			ID: e.ID, Level: e.Level, Event: e.Event, Message: e.Message, Details: e.Details, PreviousStatus: e.From, NewStatus: e.To,
			Attempt: e.Attempt, AgentID: e.Agent, SessionKey: e.Session, StackTrace: e.StackTrace, Actor: e.Actor,
			TraceID: e.Trace, CreatedAt: e.CreatedAt.UTC(),
		}
	}
	return listing(items, after(found, more, func(x task.Entry) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} })), nil
}
