package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// StopTopic is the topic of outbox rows that stop turns.
const StopTopic = "stop"

// stopRequest says which turn to stop, how, and for whom.
type stopRequest struct {
	Execution string    `json:"execution"`
	Mode      Multitask `json:"mode"`
	By        string    `json:"by"`
	Next      string    `json:"next,omitempty"` // the turn that replaces it
}

// stopKey returns the key of the row that stops a turn in one way.
func stopKey(execution string, mode Multitask) string {
	return "stop:" + execution + ":" + string(mode)
}

// stops lists the ways to stop a turn, weakest first. Each includes the effects of those before it.
// All end the turn. A cancel also denies its waiting calls. A rollback also undoes its messages and
// records.
var stops = []Multitask{Interrupt, cancelled, Rollback}

// canStop reports whether a turn can be stopped in a way: it is open, or was stopped in a weaker
// way.
func canStop(e execution.Execution, mode Multitask) bool {
	if !e.Status.Ended() {
		return true
	}
	before, _, _ := strings.Cut(e.Error, stoppedBy)
	at := slices.Index(stops, Multitask(before))
	return e.Status == execution.Cancelled && at >= 0 && at < slices.Index(stops, mode)
}

// requestStop adds a row to the outbox that stops a turn. It does not need the turn's lane, which a
// transaction may hold for long.
func (r *Runner) requestStop(ctx context.Context, b *db.Batch, e execution.Execution, q stopRequest) {
	r.Outbox.Enqueue(ctx, b, outbox.Row{
		Kind: outbox.Kick, Topic: StopTopic, Key: stopKey(e.ID, q.Mode), Payload: encode(q), MaxAttempts: maxAttempts,
		Trace: e.Trace, Execution: e.ID,
	})
}

// stop ends a turn's holds and its execution in one transaction, so that its process can write
// nothing more. If the turn was stopped in a weaker way, stop completes the stronger way. It waits
// at most 2 s for a transaction under a hold, and then returns [db.ErrUnavailable]. It returns
// [ErrNoTurn] if the turn has ended, and else the effects that stay.
func (r *Runner) stop(ctx context.Context, ws db.Workspace, q stopRequest) ([]Effect, error) {
	e, err := r.Runs.Get(ctx, ws, q.Execution)
	if err != nil {
		return nil, err
	}
	was, ok := r.askedOf(e)
	if !ok || !canStop(e, q.Mode) {
		return nil, ErrNoTurn
	}
	skills, err := r.Skills(ctx, ws, e.Surface)
	if err != nil {
		return nil, err
	}
	kind, _ := r.kind(e.Surface)
	s := &turn{Runner: r, kind: kind, ws: ws, multitask: q.Mode, asked: asked{By: q.By}, exec: execution.Execution{ID: q.Next}}
	defer r.ends.signal(ws)
	err = r.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		r.Lanes.Hurry(tx.Later())
		if _, err := r.Lanes.ForceRelease(ctx, tx, e.Subject); err != nil {
			return err
		}
		present, now := r.Lanes.PeekIn(tx.Later(), was.Lane), r.Runs.GetIn(tx.Later(), e.ID)
		if err := tx.Flush(ctx); err != nil {
			return err
		}
		if len(*now) == 0 || !canStop((*now)[0], q.Mode) { // it has ended in the meantime
			return ErrNoTurn
		}
		if present.Held() && present.Execution == e.ID {
			if _, err := r.Lanes.ForceRelease(ctx, tx, was.Lane); err != nil {
				return err
			}
		}
		if err := s.cancel(ctx, tx, skills, (*now)[0], was); err != nil {
			return err
		}
		r.Runs.Wake(tx.Later(), s.kind.line(was.Lane), e.ID)
		return nil
	})
	return s.stays, err
}

// Stopper stops the turns that outbox rows name.
type Stopper struct{ Runner *Runner }

// stopLimit is the time limit for one row.
const stopLimit = 5 * time.Second

var (
	_ outbox.Limited = Stopper{}
	_ outbox.Endless = Stopper{}
)

// Endless implements [outbox.Endless]: what a person wants stopped is not forgotten, and a turn that has ended ends its row.
func (Stopper) Endless() bool { return true }

// Limit returns the time limit of Handle.
func (Stopper) Limit() time.Duration { return stopLimit }

// Handle stops a turn as soon as no transaction holds its lane. It may outlive ctx, within the
// shared limit of the last writes. If the turn could not be stopped by then, the row is retried, after maxAttempts
// seldom.
func (s Stopper) Handle(ctx context.Context, c outbox.Claimed) error {
	var r stopRequest
	if err := json.Unmarshal(c.Payload, &r); err != nil || r.Execution == "" {
		return outbox.Permanently(errors.New("the row names no turn"))
	}
	last, cancel := lane.LastWritesWithin(ctx, stopLimit)
	defer cancel()
	for {
		_, err := s.Runner.stop(last, c.Workspace, r)
		switch {
		case errors.Is(err, ErrNoTurn), errors.Is(err, db.ErrNoRows):
			return nil
		case err == nil:
			return nil
		case last.Err() == nil && !errors.Is(err, db.ErrUnavailable):
			if c.Last() {
				return outbox.LaterIn(seldom, err)
			}
			return err
		case ctx.Err() != nil || !pause(last, poll):
			return outbox.LaterIn(time.Second, fmt.Errorf("stop turn %s: %w", r.Execution, err))
		}
	}
}
