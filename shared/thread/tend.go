package thread

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Tender does what was decided and what is due, between beats and behind answers: it clears
// stale locks of threads and sends the due rows of the outbox. It logs failures, and the next call
// tries again. It is safe for concurrent use and must not be copied.
type Tender struct {
	Threads    *Store
	Sender     *outbox.Sender
	Workspaces *workspace.Store
	// Settle releases the lanes that this process could not release before.
	Settle func(context.Context) error
	// Overdue ends what nobody has answered in time, and what nothing was heard of.
	Overdue func(context.Context, db.Workspace) error
	Log     *slog.Logger

	tended rounds
}

const (
	tendedAtOnce = 4  // workspaces
	sweepRounds  = 20 // of one workspace, before others have their turn
	sweepLimit   = 50 // threads in a round
)

// Tend clears the stale locks of a workspace's threads and sends what is due in it. It is
// called behind answers.
func (t *Tender) Tend(ctx context.Context, ws db.Workspace) {
	ctx, cancel := lane.WithLastWrites(trace.WithWorkspace(ctx, string(ws)))
	defer cancel()
	t.sweep(ctx, ws)
	t.send(ctx, ws)
}

// Send sends what is due in a workspace. It is called behind answers that made a row ready.
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

// All tends all workspaces in which something may be due: one look tells which. It
// expires what nobody has answered, ends what nothing was heard of, and sends in the
// background, in each at its own pace: where a receiver hangs, the others need not
// wait, nor does the next call. Several are tended at once, until the time of ctx is up;
// the next call begins behind the last that was reached. What it answers is closed when
// all that it has begun has ended. It is called on a schedule.
func (t *Tender) All(ctx context.Context, background func(func(context.Context))) <-chan struct{} {
	ctx, end := lane.WithLastWrites(ctx)
	defer end()
	var begun, working sync.WaitGroup
	t.later(ctx, t.Settle(ctx))
	all, err := t.Workspaces.Due(ctx)
	if err != nil && ctx.Err() == nil {
		t.Log.ErrorContext(ctx, "the workspaces could not be listed", "error", err)
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

// tendOne tends a workspace, but for what it sends. A panic is told in the log, and the
// other workspaces are tended all the same.
func (t *Tender) tendOne(ctx context.Context, ws db.Workspace) {
	defer func() {
		if p := recover(); p != nil {
			t.Log.ErrorContext(ctx, "what was decided could not be done yet", "error", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	t.later(ctx, t.Overdue(ctx, ws))
	t.sweep(ctx, ws)
}
