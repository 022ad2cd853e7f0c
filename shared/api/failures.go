package api

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/failure"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/overview"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// openFailure is something that failed and that nobody has dismissed.
type openFailure struct {
	Kind    failure.Kind `json:"kind" enum:"task,execution,message,delivery"`
	ID      string       `json:"id" format:"uuid"`
	Title   string       `json:"title"`
	Why     string       `json:"why"`
	At      time.Time    `json:"at"`
	TraceID trace.ID     `json:"traceId,omitempty"`

	ThreadID string `json:"threadId,omitempty" format:"uuid" doc:"Of a message: its conversation, in which it can be sent again"`
}

func openFailureOf(f failure.Failure) openFailure {
	item := openFailure{Kind: f.Kind, ID: f.ID, Title: f.Title, Why: f.Why, At: f.At.UTC(), TraceID: f.Trace}
	if id, is := strings.CutPrefix(f.Order, threadKey); is {
		item.ThreadID = id
	}
	if f.Kind == failure.Execution {
		item.Title = surfaceName(f.Surface) + ": " + cmp.Or(overview.Title(f.Input), overview.LabelOf(lane.Name(f.Title)), f.Title)
	}
	return item
}

// listFailures lists what has failed and needs a person, the newest first. It is called by the Engine
// Room.
func (s *server) listFailures(ctx context.Context, in *struct {
	Paging
}) (*answer[page[openFailure]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.failed.List(ctx, workspace(ctx), before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	found, more := db.Page(found, in.Limit)
	return newest(found, more, func(x failure.Failure) db.Position { return db.Position{At: x.At, ID: x.ID} }, openFailureOf), nil
}

// dismissFailure takes a failure off the list, for all members of the workspace. It is called by the
// Engine Room.
func (s *server) dismissFailure(ctx context.Context, in *struct {
	IDPath
	Kind failure.Kind `path:"kind" enum:"task,execution,message,delivery"`
	Body struct {
		At time.Time `json:"at" doc:"When it failed, as the list says: what has failed again since stays"`
	}
}) (*struct{}, error) {
	by, _ := auth.From(ctx)
	return nil, s.change(ctx, "failure.dismiss", func(ctx context.Context, tx *db.Tx) error {
		return s.failed.Dismiss(ctx, tx, in.Kind, in.ID, in.Body.At, principal(by))
	}, "kind", in.Kind, "id", in.ID)
}
