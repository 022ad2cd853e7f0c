package api

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/overview"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// executionItem is an execution: one agent or surface that works on one subject until it stops.
type executionItem struct {
	ID                string           `json:"id" format:"uuid"`
	ParentExecutionID string           `json:"parentExecutionId,omitempty" format:"uuid"`
	Agent             string           `json:"agent"`
	Persona           *personaRef      `json:"persona,omitempty" doc:"By whose words the agent works"`
	Surface           string           `json:"surface" enum:"heartbeat,operate,chat,webhook,coordinator,worker"`
	Subject           lane.Name        `json:"subject,omitempty" doc:"What it works on, and the lane that protects it"`
	Title             string           `json:"title,omitempty" doc:"The title or the first words of what it works on"`
	Slot              string           `json:"slot,omitempty"`
	Status            execution.Status `json:"status" enum:"running,waiting,parked,completed,failed,cancelled,stalled"`
	Attempt           int              `json:"attempt"`
	Input             json.RawMessage  `json:"input,omitempty"`
	Result            json.RawMessage  `json:"result,omitempty"`
	ErrorMessage      string           `json:"errorMessage,omitempty"`
	TokenUsage        tokenUsage       `json:"tokenUsage"`
	CostUSD           float64          `json:"costUsd"`
	TraceID           trace.ID         `json:"traceId"`
	CreatedAt         time.Time        `json:"createdAt"`
	EndedAt           *time.Time       `json:"endedAt,omitempty"`
}

// personaRef names a version of a persona.
type personaRef struct {
	Name    string `json:"name"`
	Version int    `json:"version" doc:"0: a built-in one that nobody had changed"`
}

// traceAnswer holds everything that is stored about one trace.
type traceAnswer struct {
	TraceID    trace.ID        `json:"traceId"`
	Surface    string          `json:"surface" enum:"heartbeat,operate,chat,webhook,coordinator,worker" doc:"What started it"`
	Status     string          `json:"status" enum:"running,waiting,parked,completed,failed,cancelled,stalled,skipped"`
	StartedAt  time.Time       `json:"startedAt"`
	EndedAt    *time.Time      `json:"endedAt,omitempty" doc:"Left out while something in it goes on or waits"`
	DurationMS int64           `json:"durationMs" doc:"Until its end, or until now"`
	Executions []executionItem `json:"executions" nullable:"false" doc:"Oldest first"`
	Activities []activityItem  `json:"activities" nullable:"false" doc:"In order"`
	Holds      []laneItem      `json:"holds" nullable:"false" doc:"By something in it: those that are held now, and before them those that are over"`
	Usage      tokenUsage      `json:"usage" doc:"Of all executions together"`
	CostUSD    float64         `json:"costUsd" doc:"Of all executions together"`
	Steps      *[]traceStep    `json:"steps,omitempty" doc:"With include=steps: the system prompts and messages of the executions, in order"`
	Truncated  bool            `json:"truncated,omitempty" doc:"There are more than the first 500 executions, the first 1,000 activities or steps, or the first 4 MB of steps, or a step that can't be read: GET /executions and /activity list them all. Status, usage and cost are of all"`
}

type tracesInput struct {
	Agent   string           `query:"agent" maxLength:"255"`
	Surface string           `query:"surface" enum:"heartbeat,operate,chat,webhook,coordinator,worker,hb,op,ch,wh,co,wk"`
	Status  execution.Status `query:"status" enum:"running,waiting,parked,completed,failed,cancelled,stalled"`
	Since   time.Time        `query:"since" doc:"Not before this time (RFC 3339)"`
	Until   time.Time        `query:"until" doc:"Before this time (RFC 3339)"`
	Paging
}

// traceItem is a trace in a listing, as its first execution describes it.
type traceItem struct {
	TraceID      trace.ID         `json:"traceId"`
	Surface      string           `json:"surface" enum:"heartbeat,operate,chat,webhook,coordinator,worker" doc:"What started it"`
	Agent        string           `json:"agent"`
	Status       execution.Status `json:"status" enum:"running,waiting,parked,completed,failed,cancelled,stalled" doc:"Of its first execution"`
	ExecutionID  string           `json:"executionId" doc:"The first one"`
	Title        string           `json:"title" doc:"What its first execution works on; empty: it is not known"`
	Tokens       int64            `json:"tokens" doc:"Of all its executions"`
	CostMicroUSD int64            `json:"costMicroUsd" doc:"Of all its executions, as far as it is known"`
	Error        *string          `json:"error" doc:"The latest of its executions; null: none failed"`
	StartedAt    time.Time        `json:"startedAt"`
	EndedAt      *time.Time       `json:"endedAt,omitempty"`
}

// listTraces lists the traces that have executions, newest first. It is called by the Engine Room,
// lanekeeper traces and scripts.
func (s *server) listTraces(ctx context.Context, in *tracesInput) (*answer[page[traceItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, more, err := s.Runs.Roots(ctx, workspace(ctx), execution.Filter{
		Agent: in.Agent, Surface: surfaceOf(in.Surface), Status: in.Status, Since: in.Since, Until: in.Until,
		Before: before, Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	return newest(found, more, func(x execution.Root) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} },
		func(r execution.Root) traceItem {
			return traceItem{
				TraceID: r.Trace, Surface: surfaceName(r.Surface), Agent: r.Agent, Status: r.Status, ExecutionID: r.ID, Title: titleOf(r.Execution),
				Tokens: r.Tokens, CostMicroUSD: int64(math.Round(r.TotalUSD * 1e6)), Error: text(r.TraceError),
				StartedAt: r.CreatedAt.UTC(), EndedAt: utc(r.EndedAt),
			}
		}), nil
}

type traceInput struct {
	TraceID string `path:"traceId" pattern:"^(hb|op|ch|wh|co|wk)_[0-9a-z]{9}_[0-9a-z]{10}$" patternDescription:"a trace id"`
	Include string `query:"include" enum:"steps" doc:"steps: with the system prompt and the messages of each step"`
}

// getTrace returns everything that is stored about a trace. It is called by the Engine Room, by
// lanekeeper trace, and by clients that received an X-Trace-Id.
func (s *server) getTrace(ctx context.Context, in *traceInput) (*answer[traceAnswer], error) {
	id, info, err := trace.Parse(in.TraceID)
	if err != nil {
		return nil, err
	}
	var b db.Batch
	executions, total, activities := s.Runs.OfTrace(&b, id), s.Runs.TotalOfTrace(&b, id), s.Activity.OfTrace(&b, id)
	var entries *[]execution.TraceEntry
	if in.Include == "steps" {
		entries = s.Runs.StepsOfTrace(&b, id, maxSteps+1, maxStepBytes)
	}
	if err := s.DB.Read(ctx, workspace(ctx), &b); err != nil {
		return nil, err
	}
	held, err := s.Lanes.List(ctx, workspace(ctx), maxLanes)
	if err != nil {
		return nil, err
	}
	held = slices.DeleteFunc(held, func(l lane.Info) bool { return l.Trace != string(id) })
	if len(*executions)+len(*activities)+len(held) == 0 {
		return nil, notFound
	}
	long := len(*activities) > activity.MaxStory
	if long {
		*activities = (*activities)[:activity.MaxStory]
	}
	t := traceAnswer{
		TraceID: id, Surface: surfaceName(info.Surface), Status: status(*total, *executions, *activities),
		Executions: executionItems(*executions), Activities: activityItems(*activities),
		Holds:   append(endedHolds(*executions), each(held, laneItemOf)...),
		Usage:   tokenUsage{total.PromptTokens, total.CompletionTokens, total.PromptTokens + total.CompletionTokens},
		CostUSD: total.CostUSD, Truncated: long || total.Executions > len(*executions),
	}
	if entries != nil {
		steps, whole := traceSteps(*entries, s.Guard.Redactor(ctx, workspace(ctx)))
		t.Steps, t.Truncated = &steps, t.Truncated || !whole
	}
	t.span(*total, *executions, *activities, held, s.Clock())
	return answered(t), nil
}

// endedHolds tells of the lanes that executions had and that they have given back.
func endedHolds(executions []execution.Execution) []laneItem {
	items := []laneItem{}
	for _, e := range executions {
		ended := e.EndedAt
		if e.Status == execution.Waiting || e.Status == execution.Parked {
			ended = &e.UpdatedAt
		}
		if e.Subject == "" || ended == nil {
			continue
		}
		items = append(items, laneItem{
			Lane: e.Subject, Label: cmp.Or(titleOf(e), overview.LabelOf(e.Subject)),
			Holder:     lane.Holder(surfaceName(e.Surface) + "/" + string(e.Trace)),
			AcquiredAt: e.CreatedAt.UTC(), LockedAt: e.CreatedAt.UTC(), ExpiresAt: ended.UTC(), EndedAt: utc(ended),
			AgeMS: max(0, ended.Sub(e.CreatedAt).Milliseconds()), ExecutionID: e.ID, TraceID: string(e.Trace),
		})
	}
	return items
}

// status returns the state of a trace. Executions that run or wait decide it first, then the end of
// the first execution. Without executions, the last activity decides.
func status(total execution.Total, executions []execution.Execution, activities []activity.Entry) string {
	switch {
	case total.Running > 0:
		return string(execution.Running)
	case total.Waiting > 0:
		return string(execution.Waiting)
	case total.Parked > 0:
		return string(execution.Parked)
	case len(executions) > 0:
		return string(executions[0].Status)
	case len(activities) == 0:
		return string(execution.Running) // the trace holds a lane
	}
	switch activities[len(activities)-1].Status {
	case activity.Skipped:
		return "skipped"
	case activity.Error:
		return string(execution.Failed)
	case activity.PendingApproval:
		return string(execution.Waiting)
	}
	return string(execution.Completed)
}

// span sets when a trace began and ended, and its duration.
func (t *traceAnswer) span(total execution.Total, executions []execution.Execution, activities []activity.Entry,
	held []lane.Info, now time.Time) {
	var begins, ends []time.Time
	over := total.Running+total.Waiting+total.Parked == 0
	for _, e := range executions {
		begins = append(begins, e.CreatedAt)
	}
	if total.EndedAt != nil {
		ends = append(ends, *total.EndedAt)
	}
	for _, a := range activities {
		ends = append(ends, a.CreatedAt)
		// A line may count what came before its execution, such as the wait for the lane.
		if !slices.ContainsFunc(executions, func(e execution.Execution) bool { return e.ID == a.Execution }) {
			begins = append(begins, a.CreatedAt.Add(-a.Duration))
		}
	}
	for _, l := range held {
		begins = append(begins, l.LockedAt)
	}
	t.StartedAt = slices.MinFunc(begins, time.Time.Compare).UTC()
	end := now
	if over && len(ends) > 0 {
		end = slices.MaxFunc(ends, time.Time.Compare).UTC()
		t.EndedAt = &end
	}
	t.DurationMS = max(0, end.Sub(t.StartedAt).Milliseconds())
}

func executionItems(executions []execution.Execution) []executionItem {
	var shown *redact.Redactor // hides values under telling names, such as password; known secrets were never stored
	items := make([]executionItem, 0, len(executions))
	for _, e := range executions {
		item := executionItem{
			ID: e.ID, ParentExecutionID: e.Parent, Agent: e.Agent, Surface: surfaceName(e.Surface), Subject: e.Subject,
			Title: titleOf(e), Slot: e.Slot,
			Status: e.Status, Attempt: e.Attempt, Input: shown.JSON(inputOf(e)), Result: shown.JSON(resultOf(e)),
			ErrorMessage: e.Error, CostUSD: e.CostUSD,
			TokenUsage: tokenUsage{e.PromptTokens, e.CompletionTokens, e.PromptTokens + e.CompletionTokens},
			TraceID:    e.Trace, CreatedAt: e.CreatedAt.UTC(),
		}
		if e.Persona != "" && e.PersonaVersion != nil {
			item.Persona = &personaRef{e.Persona, *e.PersonaVersion}
		}
		if e.EndedAt != nil {
			ended := e.EndedAt.UTC()
			item.EndedAt = &ended
		}
		items = append(items, item)
	}
	return items
}
