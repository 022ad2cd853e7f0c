package wire

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// tellLimit is the time limit for reporting a wait. It is short because the job's turn may come
// meanwhile.
const tellLimit = time.Second

// waits publishes an event to the job's workspace when a job has waited in its queue for long. The
// event does not name the blocking jobs, which may belong to other workspaces; the queue logs them.
func (s *Surfaces) waits(ctx context.Context, w queue.Waiting) {
	s.tellWait(ctx, db.Workspace(trace.Workspace(ctx)), "queue.waiting", w.Queue, map[string]any{
		"class": w.Class.String(), "waited_ms": w.Waited.Milliseconds(), "ahead": w.Ahead, "behind": w.Behind, "active": w.Active,
	})
}

// waitsForLane publishes an event to the workspace when a request has waited for a lane for long.
func (s *Surfaces) waitsForLane(ctx context.Context, r lane.Request, held lane.Info, waited time.Duration) {
	s.tellWait(ctx, r.Workspace, endpoint.LaneWaitWarning, string(r.Lane), map[string]any{
		"waited_ms": waited.Milliseconds(), "holder": held.Holder, "waiter": r.Holder,
	})
}

func (s *Surfaces) tellWait(ctx context.Context, ws db.Workspace, kind, of string, about map[string]any) {
	data, _ := json.Marshal(about) // numbers and strings always encode
	id, _ := trace.From(ctx)
	limited, cancel := context.WithTimeout(ctx, tellLimit)
	defer cancel()
	err := s.Events.Tell(limited, ws, event.Event{Kind: kind, Subject: of, Trace: string(id), Data: data})
	if err != nil && ctx.Err() == nil {
		s.Core.Log.WarnContext(ctx, "a long wait could not be told", "lane", of, "error", err)
	}
}

// Close closes the queues of the process. Their jobs run to their ends, or are cancelled when ctx
// ends; none continues after Close has returned. It is called by the local runner after its
// surfaces have stopped.
func (s *Surfaces) Close(ctx context.Context) error { return s.Reason.Queues.Close(ctx) }
