package wire

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// tellLimit is the time limit for reporting a wait. It is short because the job's turn may come
// meanwhile.
const tellLimit = time.Second

// waits publishes an event to the job's workspace when a job has waited in its queue for long. The
// event does not name the blocking jobs, which may belong to other workspaces; the queue logs them.
func (s *Surfaces) waits(ctx context.Context, w queue.Waiting) {
	data, _ := json.Marshal(map[string]any{ // numbers and strings always encode
		"class": w.Class.String(), "waited_ms": w.Waited.Milliseconds(), "ahead": w.Ahead, "behind": w.Behind, "active": w.Active,
	})
	id, _ := trace.From(ctx)
	limited, cancel := context.WithTimeout(ctx, tellLimit)
	defer cancel()
	err := s.Events.Tell(limited, db.Workspace(trace.Workspace(ctx)), event.Event{Kind: "queue.waiting", Subject: w.Queue, Trace: string(id), Data: data})
	if err != nil && ctx.Err() == nil {
		s.Core.Log.WarnContext(ctx, "a long wait could not be told", "lane", w.Queue, "error", err)
	}
}

// Close closes the queues of the process. Their jobs run to their ends, or are cancelled when ctx
// ends; none continues after Close has returned. It is called by the local runner after its
// surfaces have stopped.
func (s *Surfaces) Close(ctx context.Context) error { return s.Reason.Queues.Close(ctx) }
