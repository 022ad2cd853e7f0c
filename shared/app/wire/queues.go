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

// tellLimit is how long it may take to tell of a wait, whose turn may come meanwhile.
const tellLimit = time.Second

// waits tells those who follow a workspace of a job that has waited for its lane for
// long. Who is in the way may be of another workspace: the queue tells that in the log.
func (s *Surfaces) waits(ctx context.Context, w queue.Waiting) {
	data, _ := json.Marshal(map[string]any{ // numbers and texts always have one
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

// Close ends the queues of the process: what is in them finishes, or is cut short when
// ctx ends, and nothing of it runs on. It is called by the local runner, once its
// surfaces have stopped.
func (s *Surfaces) Close(ctx context.Context) error { return s.Reason.Queues.Close(ctx) }
