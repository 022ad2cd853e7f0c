package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

type executionsInput struct {
	Agent   string           `query:"agent" maxLength:"255"`
	Surface string           `query:"surface" enum:"heartbeat,operate,chat,webhook,coordinator,worker,hb,op,ch,wh,co,wk"`
	Status  execution.Status `query:"status" enum:"running,waiting,parked,completed,failed,cancelled,stalled"`
	TraceID string           `query:"traceId" pattern:"^(hb|op|ch|wh|co|wk)_[0-9a-z]{9}_[0-9a-z]{10}$" patternDescription:"a trace id"`
	Since   time.Time        `query:"since" doc:"Not before this time (RFC 3339)"`
	Until   time.Time        `query:"until" doc:"Before this time (RFC 3339)"`
	Paging
}

// listExecutions lists executions, newest first. It omits their inputs and results, which can be
// large. It is called by the Engine Room and by scripts.
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

// executions reads one page of executions and the cursor of the next one.
func (s *server) executions(ctx context.Context, f execution.Filter, cursor string) (found []execution.Execution, next string, err error) {
	if f.Before, err = position(cursor); err != nil {
		return nil, "", err
	}
	found, more, err := s.Runs.List(ctx, workspace(ctx), f)
	return found, after(found, more, func(x execution.Execution) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} }), err
}

// givenInput returns an execution's input with its secrets, for the agent that owns the execution.
func (s *server) givenInput(ctx context.Context, e execution.Execution) (json.RawMessage, error) {
	ws := workspace(ctx)
	sealed, err := s.Runs.SealedInput(ctx, ws, e.ID)
	if err != nil || sealed == nil {
		return e.Input, err
	}
	given, err := s.Secrets.OpenAt(ctx, execution.InputPlace(ws, e.ID), sealed)
	return json.RawMessage(given.Reveal()), err
}

// getExecution returns one execution. It is called by the Engine Room, by scripts, and by external
// agents for their own executions.
func (s *server) getExecution(ctx context.Context, in *IDPath) (*answer[executionItem], error) {
	e, err := s.ownExecution(ctx, in.ID)
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

// executionBegun names the new execution.
type executionBegun struct {
	ID      string   `json:"id" format:"uuid"`
	TraceID trace.ID `json:"traceId"`
}

// beginExecution begins the execution of an external agent. It is called by agents.
func (s *server) beginExecution(ctx context.Context, in *struct {
	Body struct {
		Agent             string          `json:"agent" minLength:"1" maxLength:"255" doc:"Who works; with an agent's token and without a parent, that agent"`
		ParentExecutionID string          `json:"parentExecutionId,omitempty" format:"uuid" doc:"With an agent's token, one of its own"`
		WaitForCompletion bool            `json:"waitForCompletion,omitempty" doc:"The parent waits until it has ended, and it may speak in the parent's place"`
		Input             json.RawMessage `json:"input,omitempty"`
		TimeoutSeconds    int             `json:"timeoutSeconds,omitempty" minimum:"1" maximum:"604800" doc:"It is ended when nothing was heard of it, nor of what it waits for, for so long, and who waits for it goes on; left out: a week"`
	}
}) (*creation[executionBegun], error) {
	by, _ := auth.From(ctx)
	parent := in.Body.ParentExecutionID
	if by.Kind == auth.Agent && parent == "" {
		in.Body.Agent = by.ID
	}
	if in.Body.WaitForCompletion && parent == "" {
		return nil, invalid(problem.At("body.parentExecutionId", "is needed where it is to wait"))
	}
	if parent != "" {
		if _, err := s.namedExecution(ctx, parent, noParent); err != nil {
			return nil, err
		}
	}
	id, _ := trace.From(ctx)
	e := execution.Execution{ID: s.newID(ctx), Agent: in.Body.Agent, Surface: trace.Worker, Trace: id, Parent: parent, Input: in.Body.Input,
		Timeout: time.Duration(in.Body.TimeoutSeconds) * time.Second}
	if err := s.sealInput(ctx, &e); err != nil {
		return nil, err
	}
	err := s.DB.Tx(ctx, workspace(ctx), func(ctx context.Context, tx *db.Tx) (err error) {
		if e, err = s.Runs.Begin(ctx, tx, e, in.Body.WaitForCompletion); err == nil {
			s.record(ctx, tx, e, activity.Entry{Skill: "execution.begin"})
		}
		return err
	})
	if e, err = before(ctx, e, err, s.Runs.Get); err != nil {
		return nil, err
	}
	return &creation[executionBegun]{Location: "/api/v1/executions/" + e.ID, Body: executionBegun{e.ID, e.Trace}}, nil
}

// sealInput redacts the secrets in an execution's input. If there are any, it also stores the
// original input encrypted.
func (s *server) sealInput(ctx context.Context, e *execution.Execution) (err error) {
	shown := redact.From(ctx).JSON(e.Input)
	if bytes.Equal(shown, e.Input) {
		return nil
	}
	e.Sealed, err = s.Secrets.SealAt(ctx, execution.InputPlace(workspace(ctx), e.ID), secret.NewValue(string(e.Input)))
	e.Input = shown
	return err
}

// ending ends an execution that was begun over HTTP, and releases its threads. Their queues
// continue.
func (s *server) ending(ctx context.Context, id string, as execution.Status, result json.RawMessage,
	message string) (*answer[executionItem], error) {
	e, err := s.ownExecution(ctx, id)
	if err != nil {
		return nil, err
	}
	known := redact.From(ctx).Values()
	result, message = known.JSON(result), known.Text(message)
	entry := activity.Entry{Skill: "execution.end", Error: message}
	if as == execution.Failed {
		entry.Status = activity.Error
	}
	ws := workspace(ctx)
	err = s.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		s.record(ctx, tx, e, entry, "as", as)
		return s.Threads.End(ctx, tx, id, as, result, message)
	})
	if err != nil {
		return nil, err
	}
	s.Kick(ws)
	return s.getExecution(ctx, &IDPath{id})
}

// completeExecution ends an execution as completed. It is called by agents.
func (s *server) completeExecution(ctx context.Context, in *struct {
	IDPath
	Body *struct {
		Result json.RawMessage `json:"result,omitempty"`
	}
}) (*answer[executionItem], error) {
	var result json.RawMessage
	if in.Body != nil {
		result = in.Body.Result
	}
	return s.ending(ctx, in.ID, execution.Completed, result, "")
}

// Stop holds the reason why an execution ends.
type Stop struct {
	IDPath
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"2000"`
	}
}

func (in Stop) reason() string {
	if in.Body == nil {
		return ""
	}
	return in.Body.Reason
}

// failExecution ends an execution as failed. It is called by agents that cannot continue.
func (s *server) failExecution(ctx context.Context, in *Stop) (*answer[executionItem], error) {
	return s.ending(ctx, in.ID, execution.Failed, nil, cmp.Or(in.reason(), "failed"))
}

// cancelExecution cancels an execution or a turn with the agent. While a transaction works under
// the turn's lane, the turn ends a moment later, and the response may show it as still running. It
// is called by agents and by the Engine Room.
func (s *server) cancelExecution(ctx context.Context, in *Stop) (*answer[executionItem], error) {
	by, _ := auth.From(ctx)
	if by.Kind != auth.Agent {
		switch err := s.Operate.Cancel(ctx, by.Workspace, in.ID, by.String(), false); {
		case err == nil:
			s.Send(by.Workspace) // ends the turn if a transaction was in the way
			return s.getExecution(ctx, &in.IDPath)
		case !errors.Is(err, turn.ErrNoTurn):
			return nil, err
		}
	}
	return s.ending(ctx, in.ID, execution.Cancelled, nil, in.reason())
}
