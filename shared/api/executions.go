package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

type executionsInput struct {
	Agent   string           `query:"agent" maxLength:"255"`
	Surface string           `query:"surface" enum:"heartbeat,operate,chat,webhook,coordinator,worker,hb,op,ch,wh,co,wk"`
	Status  execution.Status `query:"status" enum:"running,waiting,parked,completed,failed,cancelled,stalled"`
	TraceID string           `query:"traceId" pattern:"^(hb|op|ch|wh|co|wk)_[0-9a-z]{9}_[0-9a-z]{10}$" patternDescription:"a trace id"`
	Since   time.Time        `query:"since" doc:"Not before this time (RFC 3339)"`
	Until   time.Time        `query:"until" doc:"Before this time (RFC 3339)"`
	Cursor  string           `query:"cursor" maxLength:"200"`
	Limit   int              `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// listExecutions lists executions, newest first, without their inputs and results,
// which can be large. It is called by the Engine Room and by scripts.
func (s *server) listExecutions(ctx context.Context, in *executionsInput) (*answer[page[executionItem]], error) {
	found, next, err := s.executions(ctx, execution.Filter{
		Agent: in.Agent, Surface: surfaceOf(in.Surface), Status: in.Status, Trace: trace.ID(in.TraceID),
		Since: in.Since, Until: in.Until, Limit: in.Limit,
	}, in.Cursor)
	if err != nil {
		return nil, err
	}
	items := executionItems(found)
	for i := range items {
		items[i].Input, items[i].Result = nil, nil
	}
	return listing(items, next), nil
}

// executions reads one page, and where the next one begins.
func (s *server) executions(ctx context.Context, f execution.Filter, after string) (found []execution.Execution, next string, err error) {
	if f.Before.At, f.Before.ID, err = position(after); err != nil {
		return nil, "", err
	}
	found, more, err := s.Runs.List(ctx, workspace(ctx), f)
	if err != nil || !more {
		return found, "", err
	}
	last := found[len(found)-1]
	return found, cursor{last.CreatedAt, last.ID}.String(), nil
}

// givenInput is an execution's input as it was given, for the agent whose execution it is.
func (s *server) givenInput(ctx context.Context, e execution.Execution) (json.RawMessage, error) {
	ws := workspace(ctx)
	sealed, err := s.Runs.SealedInput(ctx, ws, e.ID)
	if err != nil || sealed == nil {
		return e.Input, err
	}
	given, err := s.Secrets.OpenAt(ctx, execution.InputPlace(ws, e.ID), sealed)
	return json.RawMessage(given.Reveal()), err
}

// getExecution tells of one. It is called by the Engine Room, by scripts, and by agents
// of their own.
func (s *server) getExecution(ctx context.Context, in *IDPath) (*answer[executionItem], error) {
	e, err := s.ownExecution(ctx, in.id())
	if err != nil {
		return nil, err
	}
	item := executionItems([]execution.Execution{e})[0]
	if by, _ := auth.From(ctx); by.Kind == auth.Agent {
		if item.Input, err = s.givenInput(ctx, e); err != nil {
			return nil, err
		}
		item.Result = resultOf(e)
	}
	return answered(item), nil
}
