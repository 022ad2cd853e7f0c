package thread

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Tender does work that becomes due between heartbeats and after responses. It clears stale locks
// of threads and sends due rows of the outbox. It logs failures, and the next call retries. It is
// safe for concurrent use and must not be copied.
type Tender struct {
	Threads    *Store
	Sender     *outbox.Sender
	Workspaces *workspace.Store
	// Settle releases the lanes that this process could not release before.
	Settle func(context.Context) error
	// Overdue ends approvals that nobody has decided in time, and executions that are silent for
	// too long.
	Overdue func(context.Context, db.Workspace) error
	Log     *slog.Logger

	tended rounds
}

const (
	tendedAtOnce = 4  // workspaces at the same time
	sweepRounds  = 20 // of one workspace, before the next workspace
	sweepLimit   = 50 // threads in one round

	erasedFor = 30 * time.Second // how long one call deletes rows of a workspace that is being deleted
)

// Tend clears the stale locks of a workspace's threads and sends its due rows. It is called after
// responses.
func (t *Tender) Tend(ctx context.Context, ws db.Workspace) {
	ctx, cancel := lane.WithLastWrites(trace.WithWorkspace(ctx, string(ws)))
	defer cancel()
	t.sweep(ctx, ws)
	t.send(ctx, ws)
}

// Send sends the due rows of a workspace. It is called after responses to requests that made a row
// ready.
func (t *Tender) Send(ctx context.Context, ws db.Workspace) {
	ctx, cancel := lane.WithLastWrites(trace.WithWorkspace(ctx, string(ws)))
	defer cancel()
	t.send(ctx, ws)
}

func (t *Tender) send(ctx context.Context, ws db.Workspace) {
	t.later(ctx, t.Sender.DrainAll(ctx, ws, func(ctx context.Context) { t.sweep(ctx, ws) }))
}

func (t *Tender) sweep(ctx context.Context, ws db.Workspace) {
	var err error
	for round, swept := 0, (Swept{More: true}); swept.More && round < sweepRounds; round++ {
		swept, err = t.Threads.Sweep(ctx, ws, sweepLimit)
	}
	t.later(ctx, err)
}

func (t *Tender) later(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		t.Log.ErrorContext(ctx, "what was decided could not be done yet", "error", err)
	}
}

// All tends all workspaces that may have due work; one query finds them. It ends overdue approvals
// and silent executions, clears stale locks, and sends in the background. Each workspace is sent
// separately, so that a receiver that hangs delays neither other workspaces nor the next call.
// Workspaces that are being deleted lose further rows in the background. All
// tends several workspaces at the same time until ctx's inner deadline. The next call begins after
// the last workspace that this call reached. The returned channel is closed when all work has
// ended. All is called on a schedule.
func (t *Tender) All(ctx context.Context, background func(func(context.Context))) <-chan struct{} {
	ctx, end := lane.WithLastWrites(ctx)
	defer end()
	var begun, working sync.WaitGroup
	t.later(ctx, t.Settle(ctx))
	all, closed, err := t.Workspaces.Due(ctx)
	if err != nil && ctx.Err() == nil {
		t.Log.ErrorContext(ctx, "the workspaces could not be listed", "error", err)
	}
	for _, ws := range closed {
		begun.Add(1)
		background(func(ctx context.Context) {
			defer begun.Done()
			ctx, cancel := context.WithTimeout(trace.WithWorkspace(ctx, string(ws)), erasedFor)
			defer cancel()
			t.later(ctx, t.Workspaces.Erase(ctx, ws))
		})
	}
	inner, cancel := lane.WithInnerDeadline(ctx)
	defer cancel()
	next := t.tended.from(inner, all)
	for range min(tendedAtOnce, len(all)) {
		working.Go(func() {
			for ws, ok := next(); ok; ws, ok = next() {
				t.tendOne(trace.WithWorkspace(inner, string(ws)), ws)
				begun.Add(1)
				background(func(ctx context.Context) {
					defer begun.Done()
					t.Send(ctx, ws)
				})
			}
		})
	}
	working.Wait()
	ended := make(chan struct{})
	background(func(context.Context) { begun.Wait(); close(ended) })
	return ended
}

// tendOne tends one workspace, except for sending. It logs a panic, and the other workspaces are
// tended nevertheless.
func (t *Tender) tendOne(ctx context.Context, ws db.Workspace) {
	defer func() {
		if p := recover(); p != nil {
			t.Log.ErrorContext(ctx, "what was decided could not be done yet", "error", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	t.later(ctx, t.Overdue(ctx, ws))
	t.sweep(ctx, ws)
}
