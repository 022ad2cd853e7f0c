package coordinate

import (
	"context"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// claimable is how many tasks of each queue a claim looks at, where budgets may refuse some, and how many
// that are paid for it tries to lock.
const claimable = 32

// triesToClaim is how often a claim looks again when others are faster.
const triesToClaim = 6

// Claim gives an agent that asks for work its oldest assignment that it has not begun, else a due task,
// and makes that RUNNING. It returns false if there is none. The caller has checked who asks.
func (c *Coordinator) Claim(ctx context.Context, ws db.Workspace, id string) (t task.Task, ok bool, err error) {
	for try := 1; ; try++ {
		err = c.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
			t, ok = task.Task{}, false
			found, err := c.claim(ctx, tx, id)
			if err != nil || found == "" {
				return err
			}
			t, err = c.Tasks.GetIn(ctx, tx, found)
			ok = err == nil
			return err
		})
		switch {
		case err == nil:
			return t, ok, nil
		case !moved(err):
			return task.Task{}, false, fmt.Errorf("claim a task: %w", err)
		case try == triesToClaim:
			return task.Task{}, false, nil // others get all that is due
		}
	}
}

// claim returns the id of the task that the agent now runs, or none.
func (c *Coordinator) claim(ctx context.Context, tx Tx, id string) (string, error) {
	v, err := c.view(ctx, tx, id)
	if err != nil || v.halted {
		return "", err
	}
	var assigned []candidate
	if err := tx.Each(ctx, func(scan db.Scan) error {
		var t candidate
		err := scan(&t.ID, &t.Attempt)
		assigned = append(assigned, t)
		return err
	}, c.q.Oldest, id); err != nil {
		return "", err
	}
	if len(assigned) > 0 {
		return assigned[0].ID, c.begin(ctx, tx, assigned[0].ID, assigned[0].Attempt, id, "")
	}
	p := newPool(v.all, v.locked, v.queues, v.circuits, true)
	if served := p.served(); p.free() > 0 && len(served) > 0 {
		return c.claimDue(ctx, tx, p, served)
	}
	return "", nil
}

// claimDue assigns the first due task that the agent can do and that is paid for, and begins it.
func (c *Coordinator) claimDue(ctx context.Context, tx Tx, p *pool, served []string) (string, error) {
	var due []candidate
	if err := tx.Each(ctx, candidates(&due), c.q.Candidates, encode(served), claimable); err != nil || len(due) == 0 {
		return "", err
	}
	money, err := c.lock(ctx, tx, p.of, due)
	if err != nil {
		return "", err
	}
	due = money.pace(due)
	type place struct {
		ID      string `json:"id"`
		Attempt int    `json:"attempt"`
		Version int    `json:"version"`
		Place   int    `json:"place"`
	}
	places := []place{}
	for i, t := range due {
		if len(places) == claimable {
			break
		}
		if money.fits(assignment{t, p.of[0]}) == nil {
			places = append(places, place{t.ID, t.Attempt, t.Version, i})
		}
	}
	var picked []string
	if len(places) == 0 {
		return "", nil
	}
	if err := tx.Each(ctx, ids(&picked), c.q.Pick, encode(places), 1); err != nil {
		return "", err
	}
	if len(picked) == 0 {
		return "", errMoved // other claims have locked all of them
	}
	for _, t := range due {
		if t.ID != picked[0] {
			continue
		}
		list, _ := p.match([]candidate{t}, 1, money.hold)
		if len(list) == 0 {
			return "", nil
		}
		if err := c.give(ctx, tx, list, money, false); err != nil {
			return "", err
		}
		return t.ID, c.begin(ctx, tx, t.ID, list[0].attempt(), list[0].to.ID, "")
	}
	return "", nil
}

// Begin makes an assignment RUNNING, unless it is not ASSIGNED in this attempt any more. The built-in
// worker calls it, which may be faster than the answer of its start.
func (c *Coordinator) Begin(ctx context.Context, tx Tx, id string, attempt int, agent, session string) error {
	if err := c.begin(ctx, tx, id, attempt, agent, session); !errors.Is(err, errMoved) {
		return err
	}
	return nil
}

// begin makes an assignment RUNNING. Zero rows mean that it is another attempt's by now.
func (c *Coordinator) begin(ctx context.Context, tx Tx, id string, attempt int, agent, session string) error {
	n, err := tx.Exec(ctx, c.q.Start, id, attempt, db.Null(session))
	if err != nil {
		return fmt.Errorf("begin task %s: %w", id, err)
	}
	if n != 1 {
		return fmt.Errorf("begin task %s: %w", id, errMoved)
	}
	if session != "" {
		tx.Later().Exec(c.q.Session, id, attempt, session)
	}
	l := line{
		Log: c.IDs(), ID: id, Level: task.Info, Event: task.Transition, Message: fmt.Sprintf("attempt %d began", attempt),
		Was: opt(string(task.Assigned)), Becomes: opt(string(task.Running)), Attempt: opt(attempt), Agent: opt(agent), Session: opt(session),
	}
	tx.Later().Exec(c.q.Logs, encode([]line{l}), "agent:"+agent, traced(ctx))
	return nil
}
