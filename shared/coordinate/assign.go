package coordinate

import (
	"context"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// Bounds of one transaction that assigns.
const (
	mostAssigned = 2000
	spare        = 64 // candidates of a queue that a budget may refuse before the others wait for the next round
	widerSpare   = 4096
)

// errMoved means that a task has changed between the decision and the lock of its row.
var errMoved = errors.New("a task has changed meanwhile")

// moved reports whether an error means that the decision was made on rows that have changed since.
func moved(err error) bool { return errors.Is(err, errMoved) || errors.Is(err, db.ErrUnique) }

// assign gives due tasks to agents and records the round, in one transaction.
func (r *round) assign(ctx context.Context) error {
	c := r.c
	report := r.report
	for try := 1; ; try++ {
		r.report = report
		err := c.Lanes.InHold(ctx, r.hold, func(ctx context.Context, tx lane.Tx) error {
			if err := r.assignDue(ctx, tx); err != nil {
				return err
			}
			if err := fault.Point(ctx, "coordinate.assigned", string(r.ws)); err != nil {
				return err
			}
			return r.record(ctx, tx)
		})
		if err == nil || !moved(err) || try == triesToAssign {
			if err != nil {
				return fmt.Errorf("assign tasks: %w", err)
			}
			return nil
		}
	}
}

// assignDue locks the agents, counts what they work on in a new statement, and gives them what is due.
func (r *round) assignDue(ctx context.Context, tx Tx) error {
	c := r.c
	v := c.view(tx.Later(), firstAgent, lastAgent)
	if err := tx.Flush(ctx); err != nil {
		return fmt.Errorf("read agents: %w", err)
	}
	if v.halted {
		return nil
	}
	r.report.Healthy = v.healthy()
	p := newPool(v.all, v.locked, v.queues, v.circuits, false)
	most := min(p.free(), mostAssigned)
	served := p.served()
	if most == 0 || len(served) == 0 {
		return nil
	}
	var due []candidate
	deep := min(p.widest(), most) + r.spare
	if err := tx.Each(ctx, candidates(&due), c.q.Candidates, db.Encode(served), deep); err != nil {
		return err
	}
	if len(due) == 0 {
		return nil
	}
	money, err := c.lock(ctx, tx, p.of, due)
	if err != nil {
		return err
	}
	due = money.pace(due)
	hidden := longest(due) == deep
	given, refused, crowded := p.match(due, money.limit(most), money.hold)
	r.report.Refused = refused
	r.report.Assigned, r.report.Spawned = len(given), map[string]int{}
	for _, a := range given {
		r.report.Spawned[string(a.to.Spawner)]++
	}
	r.hides = hidden && refused > 0 && len(given) < money.limit(most) && r.spare < widerSpare
	behind := hidden && crowded > 0 && len(given) < money.limit(most) // the next round leaves out what waits for its thread
	r.again = r.again || r.hides || behind || len(given) == mostAssigned
	if len(given) == 0 {
		return nil
	}
	done := c.give(ctx, tx.Later(), given, money, true)
	if err := tx.Flush(ctx); err != nil {
		return fmt.Errorf("assign %d tasks: %w", len(given), err)
	}
	return done()
}

// longest returns how many tasks the queue has that has most.
func longest(due []candidate) (most int) {
	of := map[string]int{}
	for _, t := range due {
		of[t.queue]++
		most = max(most, of[t.queue])
	}
	return most
}

// view is what the assignment of tasks is decided on: the agents, locked, with the number of their open
// attempts as of after that lock.
type view struct {
	locked   []string
	all      []worker
	queues   []queue
	circuits map[string]circuit
	halted   bool
}

func (v view) healthy() (n int) {
	for _, w := range v.all {
		if w.Status == agent.Idle || w.Status == agent.Working {
			n++
		}
	}
	return n
}

// The ids of all agents are between these two.
const (
	firstAgent = "00000000-0000-0000-0000-000000000000"
	lastAgent  = "ffffffff-ffff-ffff-ffff-ffffffffffff"
)

// view adds to what is read next the view of the agents whose ids are in a range, which it locks.
func (c *Coordinator) view(b *db.Batch, from, to string) *view {
	v := &view{}
	b.Each(db.Column(&v.locked), c.q.LockAgents, from, to)
	c.reads(b, v)
	b.Each(queues(&v.queues), c.q.Queues)
	b.Each(workers(&v.all), c.q.Agents, from, to)
	return v
}

// reads adds to a batch what else holds up assignments: a kill switch, and circuits.
func (c *Coordinator) reads(b *db.Batch, v *view) {
	v.circuits = map[string]circuit{}
	b.Each(func(scan db.Scan) error { return scan(&v.halted) }, c.q.Halted)
	b.Each(db.Put(v.circuits, func(scan db.Scan, target *string, of *circuit) error {
		return scan(target, &of.failures, &of.until, &of.open, db.Optional(&of.err))
	}), c.q.Circuits)
}

// given is an assignment as it is written.
type given struct {
	ID      string `json:"id"`
	Agent   string `json:"agent"`
	Attempt int    `json:"attempt"`
	Version int    `json:"version"`
	Model   string `json:"model"`
}

// give adds assignments to what is written next: tasks, attempts, log, reservations, the agents' status
// and, where an agent is started for its task, the start. Each takes one statement. The returned function
// says after that whether all tasks were as they had been read.
func (c *Coordinator) give(ctx context.Context, b *db.Batch, list []assignment, money *money, unasked bool) func() error {
	rows, lines := make([]given, len(list)), make([]line, len(list))
	var starts []outbox.Row
	var woken []agentChange
	busy := map[string]bool{}
	for i, a := range list {
		rows[i] = given{a.ID, a.to.ID, a.attempt(), a.Version, money.routes[a.ID].Model}
		message := fmt.Sprintf("attempt %d was assigned to agent \"%s\"", a.attempt(), a.to.Name)
		lines[i] = line{
			Log: c.IDs(), ID: a.ID, Level: task.Info, Event: task.TaskAssigned, Message: clip(message, 1000),
			Was: opt(string(task.Pending)), Becomes: opt(string(task.Assigned)), Attempt: opt(a.attempt()), Agent: opt(a.to.ID),
			Details: money.route(a.ID),
		}
		if a.to.perTask() && unasked {
			starts = append(starts, start(a))
		}
		if a.to.Status == agent.Idle && !busy[a.to.ID] {
			woken = append(woken, agentChange{ID: a.to.ID, Was: agent.Idle, Becomes: agent.Working})
		}
		busy[a.to.ID] = true
	}
	if len(woken) > 0 {
		b.Exec(c.q.UpdateAgents, db.Encode(woken))
	}
	assigned := b.Exec(c.q.Assign, db.Encode(rows))
	b.Exec(c.q.Attempts, db.Encode(rows))
	b.Exec(c.q.Logs, db.Encode(lines), Actor, traced(ctx))
	c.Outbox.EnqueueAll(ctx, b, starts)
	reserved := money.write(b)
	return func() error {
		if assigned.Affected() != int64(len(rows)) {
			return fmt.Errorf("assign %d tasks: %w", len(rows), errMoved)
		}
		return reserved()
	}
}
