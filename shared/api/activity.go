package api

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// tokenUsage counts the tokens of model calls.
type tokenUsage struct {
	PromptTokens     int64 `json:"promptTokens"`
	CompletionTokens int64 `json:"completionTokens"`
	TotalTokens      int64 `json:"totalTokens"`
}

// activityItem is one action of an agent. Fields without a value are omitted.
type activityItem struct {
	ID                string          `json:"id" format:"uuid"`
	Agent             string          `json:"agent"`
	Surface           string          `json:"surface" enum:"heartbeat,operate,chat,webhook,coordinator,worker"`
	SkillName         string          `json:"skillName,omitempty"`
	SkillID           string          `json:"skillId,omitempty" format:"uuid"`
	Status            activity.Status `json:"status" enum:"success,error,pending_approval,skipped"`
	Input             json.RawMessage `json:"input,omitempty"`
	Output            json.RawMessage `json:"output,omitempty"`
	ErrorMessage      string          `json:"errorMessage,omitempty"`
	TokenUsage        *tokenUsage     `json:"tokenUsage,omitempty"`
	Model             string          `json:"model,omitempty"`
	CostUSD           *float64        `json:"costUsd,omitempty"`
	DurationMS        int64           `json:"durationMs"`
	TraceID           trace.ID        `json:"traceId"`
	ConversationID    trace.ID        `json:"conversationId" doc:"The same as traceId"`
	ExecutionID       string          `json:"executionId,omitempty" format:"uuid"`
	ParentExecutionID string          `json:"parentExecutionId,omitempty" format:"uuid"`
	Attempt           int             `json:"attempt,omitempty"`
	ThreadID          string          `json:"threadId,omitempty" format:"uuid"`
	StartedAt         time.Time       `json:"startedAt" doc:"createdAt less the duration"`
	CreatedAt         time.Time       `json:"createdAt" doc:"When it ended"`
	Kind              string          `json:"kind" enum:"skill,model,phase,beat,action" doc:"A call of a skill or a model, a phase of a beat, a beat, or something that a person or a program did by way of the API"`
}

// kindOf returns the kind of an activity.
func kindOf(e activity.Entry) string {
	switch {
	case e.Skill == activity.ModelCall:
		return "model"
	case e.Skill == "heartbeat":
		return "beat"
	case strings.HasPrefix(e.Skill, "heartbeat."):
		return "phase"
	case strings.Contains(e.Skill, "."): // a skill's name has no dot
		return "action"
	}
	return "skill"
}

func activityItems(entries []activity.Entry) []activityItem {
	items := make([]activityItem, 0, len(entries))
	for _, e := range entries {
		item := activityItem{
			ID: e.ID, Agent: e.Agent, Surface: surfaceName(e.Surface), SkillName: e.Skill, SkillID: e.SkillID, Status: e.Status,
			Input: askedOf(e), Output: outputOf(e), ErrorMessage: e.Error, Model: e.Model, CostUSD: e.CostUSD,
			DurationMS: e.Duration.Milliseconds(), TraceID: e.Trace, ConversationID: e.Trace,
			ExecutionID: e.Execution, ParentExecutionID: e.ParentExecution, Attempt: e.Attempt, ThreadID: e.Thread,
			StartedAt: e.CreatedAt.Add(-e.Duration).UTC(), CreatedAt: e.CreatedAt.UTC(), Kind: kindOf(e),
		}
		if e.Usage != nil {
			u := tokenUsage(*e.Usage)
			item.TokenUsage = &u
		}
		items = append(items, item)
	}
	return items
}

type activityInput struct {
	TraceID string    `query:"traceId" pattern:"^(hb|op|ch|wh|co|wk)_[0-9a-z]{9}_[0-9a-z]{10}$" patternDescription:"a trace id"`
	Skill   string    `query:"skill" maxLength:"255"`
	Status  string    `query:"status" enum:"success,error,pending_approval,skipped"`
	Surface string    `query:"surface" enum:"heartbeat,operate,chat,webhook,coordinator,worker,hb,op,ch,wh,co,wk"`
	Agent   string    `query:"agent" maxLength:"255"`
	Since   time.Time `query:"since" doc:"Not before this time (RFC 3339)"`
	Until   time.Time `query:"until" doc:"Before this time (RFC 3339)"`
	Text    string    `query:"q" maxLength:"200" doc:"Somewhere in skill, error, input or output, in any case"`
	Paging
}

// positionOf returns the position of an entry in a listing.
func positionOf(e activity.Entry) db.Position { return db.Position{At: e.CreatedAt, ID: e.ID} }

// listActivity lists the actions of agents, newest first. It is called by the Engine Room's feed
// and by scripts.
func (s *server) listActivity(ctx context.Context, in *activityInput) (*answer[page[activityItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Activity.List(ctx, workspace(ctx), activity.Filter{
		Trace: trace.ID(in.TraceID), Skill: in.Skill, Status: activity.Status(in.Status), Surface: surfaceOf(in.Surface),
		Agent: in.Agent, Since: in.Since, Until: in.Until, Text: in.Text, Before: before, Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	return listing(activityItems(found.Items), after(found.Items, found.More, positionOf)), nil
}
