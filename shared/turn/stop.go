package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// StopTopic is the outbox's for turns that are to be stopped.
const StopTopic = "stop"

// stopRequest says which turn is to be stopped, in which way, and by whom.
type stopRequest struct {
	Execution string    `json:"execution"`
	Mode      Multitask `json:"mode"`
	By        string    `json:"by"`
	Next      string    `json:"next,omitempty"` // the turn that takes its place
}

// stopKey is the key of the row by which a turn is stopped.
func stopKey(execution string) string { return "stop:" + execution }

// requestStop adds a row to the outbox by which a turn is stopped. It needs no lock of
// the turn's lane, which whoever works under it may have for long.
func (r *Runner) requestStop(ctx context.Context, b *db.Batch, e execution.Execution, q stopRequest) {
	r.Outbox.Enqueue(ctx, b, outbox.Row{
		Kind: outbox.Kick, Topic: StopTopic, Key: stopKey(e.ID), Payload: encode(q), MaxAttempts: maxAttempts,
		Trace: e.Trace, Execution: e.ID,
	})
}

// stop ends a turn's holds and its execution, in one transaction: whoever worked on it
// writes nothing any more. A transaction that works under a hold is waited for, for a
// moment where impatient; then the error is [db.ErrUnavailable]. [ErrNoTurn]: it has ended.
func (r *Runner) stop(ctx context.Context, ws db.Workspace, q stopRequest, impatient bool) error {
	e, err := r.Runs.Get(ctx, ws, q.Execution)
	if err != nil {
		return err
	}
	was, ok := r.askedOf(e)
	if !ok || e.Status.Ended() {
		return ErrNoTurn
	}
	skills, err := r.Skills(ctx, ws, e.Surface)
	if err != nil {
		return err
	}
	kind, _ := r.kind(e.Surface)
	s := &turn{Runner: r, kind: kind, ws: ws, multitask: q.Mode, asked: asked{By: q.By}, exec: execution.Execution{ID: q.Next}}
	defer r.ends.signal(ws)
	return r.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		if impatient {
			r.Lanes.Hurry(tx.Later())
		}
		if _, err := r.Lanes.ForceRelease(ctx, tx, e.Subject); err != nil {
			return err
		}
		present, open := r.Lanes.PeekIn(tx.Later(), was.Lane), r.Runs.Unfinished(tx.Later(), e.Subject)
		if err := tx.Flush(ctx); err != nil {
			return err
		}
		if len(*open) == 0 { // it has ended since it was read
			return ErrNoTurn
		}
		if present.Held() && present.Execution == e.ID {
			if _, err := r.Lanes.ForceRelease(ctx, tx, was.Lane); err != nil {
				return err
			}
		}
		if err := s.cancel(ctx, tx, skills, e, was); err != nil {
			return err
		}
		r.Runs.Wake(tx.Later(), was.line(), e.ID)
		return nil
	})
}

// Stopper stops the turns that rows of the outbox name.
type Stopper struct{ Runner *Runner }

// Handle stops a turn as soon as no transaction works under its hold.
func (s Stopper) Handle(ctx context.Context, c outbox.Claimed) error {
	var r stopRequest
	if err := json.Unmarshal(c.Payload, &r); err != nil || r.Execution == "" {
		return outbox.Permanently(errors.New("the row names no turn"))
	}
	for {
		err := s.Runner.stop(ctx, c.Workspace, r, false)
		switch {
		case errors.Is(err, ErrNoTurn), errors.Is(err, db.ErrNoRows):
			return nil
		case !errors.Is(err, db.ErrUnavailable):
			return err
		case !pause(ctx, poll):
			return outbox.LaterIn(time.Second, fmt.Errorf("stop turn %s: %w", r.Execution, err))
		}
	}
}
