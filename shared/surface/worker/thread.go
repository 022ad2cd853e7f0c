package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// maxHeard is how many messages of its thread an agent reads.
const maxHeard = 50

// saidBrief is a message of the task's thread.
type saidBrief struct {
	Role thread.Role `json:"role"`
	Text string      `json:"text"`
}

// holdThread locks the task's thread for its execution, or refreshes the lock. It proves the lane of the
// task in the same transaction. false: another execution speaks there.
func (a *attempt) holdThread(ctx context.Context) (bool, error) {
	if a.thread == "" {
		return true, nil
	}
	var outcome func(context.Context) (thread.Outcome, error)
	err := a.Lanes.InHold(ctx, a.hold, func(_ context.Context, tx lane.Tx) error {
		outcome = a.Threads.LockIn(tx.Later(), a.thread, a.exec.ID)
		return nil
	})
	if err == nil {
		_, err = outcome(ctx)
	}
	if _, held := errors.AsType[*thread.HeldError](err); held {
		return false, nil
	}
	if errors.Is(err, db.ErrNoRows) {
		return false, errNoThread
	}
	a.mu.Lock()
	a.refreshed = time.Now()
	a.mu.Unlock()
	return err == nil, err
}

// errNoThread says that nobody would read the task's answer where it is to be told.
var errNoThread = errors.New("the thread of the task is gone")

// refresh keeps the lock of the thread while the agent works.
func (a *attempt) refresh(ctx context.Context) {
	a.mu.Lock()
	due := a.thread != "" && time.Since(a.refreshed) > thread.Idle/4
	a.mu.Unlock()
	if !due {
		return
	}
	if _, err := a.holdThread(ctx); err != nil && ctx.Err() == nil {
		a.Log.WarnContext(ctx, "the lock of a thread could not be refreshed", "thread", a.thread, "error", err)
	}
}

// heard returns the newest messages of the task's thread.
func (a *attempt) heard(ctx context.Context) (out []saidBrief, err error) {
	if a.thread == "" {
		return nil, nil
	}
	spoken, err := a.Threads.Lately(ctx, a.tick.Workspace, a.thread, maxHeard)
	for _, m := range spoken {
		out = append(out, saidBrief{m.Role, m.Body})
	}
	return out, err
}

// maxBody is the longest message of a thread, in bytes.
const maxBody = 60 << 10

// answer tells the result of the task in its thread. Where it leaves by the channel of its thread it is a
// row of the outbox, and stands in the thread once it was sent.
func (a *attempt) answer(ctx context.Context, tx lane.Tx, out reason.Outcome) error {
	if a.thread == "" || out.Answer == "" {
		return nil
	}
	t, err := a.Threads.GetLocked(ctx, tx, a.thread)
	if errors.Is(err, db.ErrNoRows) {
		return nil // the result stands with the task
	}
	if err != nil {
		return fmt.Errorf("answer in thread %s: %w", a.thread, err)
	}
	body, key := activity.Clip(redact.From(ctx).Text(out.Answer), maxBody), fmt.Sprintf("%s:%d", a.exec.ID, out.Steps)
	if a.Deliverable == nil || a.Deliverable(t.Channel, t.Address, body) != nil {
		_, _, err = a.Threads.Append(ctx, tx, t.ID, thread.Spoken{
			Role: thread.Assistant, Body: body, Execution: a.exec.ID, Key: key, Data: thread.TrustData(out.Trust),
		})
		return err
	}
	err = a.Threads.Answer(ctx, tx, t, thread.Outgoing{Thread: t.ID, Execution: a.exec.ID, Body: body, Key: key})
	if errors.Is(err, thread.ErrFull) {
		return nil // nobody reads the thread: the result stands with the task
	}
	return err
}

// leaveThread lets others speak in the thread while the task waits.
func (a *attempt) leaveThread(ctx context.Context, tx lane.Tx, status execution.Status) error {
	if a.thread == "" || status.Ended() {
		return nil
	}
	_, err := a.Threads.Release(ctx, tx, a.exec.ID)
	return err
}
