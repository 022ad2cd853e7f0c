package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
)

// lookForTasks is the interval at which the runner looks for tasks that another process of this host, such
// as a verb, has left.
const lookForTasks = time.Second

// sendingAtOnce is how many looks may be under way. A sender handles eight rows of a workspace at once, of
// which a hanging receiver has four.
const sendingAtOnce = 4

// tasks starts cycles, agents, and work on tasks that are due, and waits for none of them. Several calls may
// run at once, so that a slow receiver of one row does not delay the other rows.
func (b *beats) tasks(ctx context.Context, agent *wire.Surfaces) {
	all, err := agent.Workspaces.All(ctx)
	if err != nil {
		return // the next cycle tries again, and logs the error
	}
	if b.sending.Add(1) > sendingAtOnce {
		b.sending.Add(-1)
		return
	}
	var sending sync.WaitGroup
	defer b.background(func(context.Context) { sending.Wait(); b.sending.Add(-1) })
	for _, ws := range all {
		var batch db.Batch
		due := agent.Outbox.Due(&batch, coordinate.KickTopic, coordinate.SpawnTopic, worker.Topic)
		if agent.DB.Read(ctx, ws, &batch) == nil && *due > 0 {
			sending.Go(func() { agent.Tender.Send(ctx, ws) })
		}
	}
}

// task works on a task, as an invocation of the function worker does. When the process is to end, the
// task is parked and goes on after the next start.
func (b *beats) task(ctx context.Context, w *worker.Worker, t worker.Tick) {
	defer func() {
		if p := recover(); p != nil {
			b.log.ErrorContext(ctx, "the worker panicked", "task", t.Task, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	if _, err := w.Run(ctx, t); err != nil && ctx.Err() == nil {
		b.log.WarnContext(ctx, "the worker tries again", "task", t.Task, "error", err)
	}
}
