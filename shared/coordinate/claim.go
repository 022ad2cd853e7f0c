package coordinate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// claimable is how many tasks of each queue a claim looks at, where budgets may refuse some, and how many
// that are paid for it tries to lock.
const claimable = 32

// triesToClaim is how often a claim looks again when others are faster.
const triesToClaim = 6

// Claim gives an agent that asks for work its oldest assignment that it has not begun, else a due task,
// and makes that RUNNING. It returns false if there is none. The caller has checked who asks. entry is the id of the
// entry in the task's log that says that the attempt began, new to the workspace; empty: a new one.
func (c *Coordinator) Claim(ctx context.Context, ws db.Workspace, id, entry string) (t task.Task, ok bool, err error) {
	for try := 1; ; try++ {
		err = c.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
			t, ok = task.Task{}, false
			t, ok, err = c.claim(ctx, tx, id, cmp.Or(entry, c.IDs()))
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

// claim returns the task that the agent now runs. It returns false if there is none.
func (c *Coordinator) claim(ctx context.Context, tx Tx, id, entry string) (task.Task, bool, error) {
	v := c.view(tx.Later(), id, id)
	var assigned []candidate
	if err := tx.Each(ctx, db.Append(&assigned, func(scan db.Scan, t *candidate) error {
		return scan(&t.ID, &t.Attempt)
	}), c.q.Oldest, id); err != nil || v.halted || slices.ContainsFunc(v.all, func(w worker) bool { return w.halted }) {
		return task.Task{}, false, err
	}
	if len(assigned) > 0 {
		return c.started(ctx, tx, assigned[0].ID, assigned[0].Attempt, id, entry, func() error { return nil })
	}
	p := newPool(v.all, v.locked, v.queues, v.circuits, true)
	if served := p.served(); p.free() > 0 && len(served) > 0 {
		return c.claimDue(ctx, tx, p, served, entry)
	}
	return task.Task{}, false, nil
}

// started makes an assignment RUNNING and returns its task. given says whether what was queued before has
// done all that it should.
func (c *Coordinator) started(
	ctx context.Context, tx Tx, id string, attempt int, agent, entry string, given func() error,
) (task.Task, bool, error) {
	begun := tx.Later().Exec(c.q.Start, id, attempt, nil)
	c.began(ctx, tx.Later(), entry, id, attempt, agent, "")
	t, err := c.Tasks.GetIn(ctx, tx, id)
	if err == nil {
		err = given()
	}
	if err == nil && begun.Affected() != 1 {
		err = fmt.Errorf("begin task %s: %w", id, errMoved) // it is another attempt's by now
	}
	return t, err == nil, err
}

// claimDue assigns the first due task that the agent can do and that is paid for, and begins it.
func (c *Coordinator) claimDue(ctx context.Context, tx Tx, p *pool, served []string, entry string) (none task.Task, ok bool, err error) {
	var due []candidate
	if err := tx.Each(ctx, candidates(&due), c.q.Candidates, db.Encode(served), claimable); err != nil || len(due) == 0 {
		return none, false, err
	}
	money, err := c.lock(ctx, tx, p.of, due)
	if err != nil {
		return none, false, err
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
		return none, false, nil
	}
	if err := tx.Each(ctx, db.Column(&picked), c.q.Pick, db.Encode(places), 1); err != nil {
		return none, false, err
	}
	if len(picked) == 0 {
		return none, false, errMoved // other claims have locked all of them
	}
	at := slices.IndexFunc(due, func(t candidate) bool { return t.ID == picked[0] })
	list, _, _ := p.match(due[at:at+1], 1, money.hold)
	if len(list) == 0 {
		return none, false, nil
	}
	given := c.give(ctx, tx.Later(), list, money, false)
	return c.started(ctx, tx, list[0].ID, list[0].attempt(), list[0].to.ID, entry, given)
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
	c.began(ctx, tx.Later(), c.IDs(), id, attempt, agent, session)
	return nil
}

// began adds to a batch the row of the log that says that an attempt began.
func (c *Coordinator) began(ctx context.Context, b *db.Batch, entry, id string, attempt int, agent, session string) {
	l := line{
		Log: entry, ID: id, Level: task.Info, Event: task.Transition, Message: fmt.Sprintf("attempt %d began", attempt),
		Was: opt(string(task.Assigned)), Becomes: opt(string(task.Running)), Attempt: opt(attempt), Agent: opt(agent), Session: opt(session),
	}
	b.Exec(c.q.Logs, db.Encode([]line{l}), "agent:"+agent, traced(ctx))
}
