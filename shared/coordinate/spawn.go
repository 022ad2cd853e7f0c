package coordinate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// SpawnTopic is the topic of the rows that start agents. Its handler is a [Starter].
const SpawnTopic = "spawn"

// The circuit of a spawner.
const (
	circuitOpens  = 5 // failures in a row
	circuitOpen   = time.Minute
	spawnAttempts = 3
	spawnLimit    = 25 * time.Second
	unreadFor     = 15 * time.Second // before the input is read again, while the key service is away
)

// Start is what a spawner starts an agent with.
type Start struct {
	Workspace   db.Workspace
	Agent       string
	Target      string // where, as the agent's registration says; may be empty
	Model       string // may be empty
	Task        string
	Attempt     int
	Key         string // the idempotency key: one start per key
	Title       string
	Description string
	Input       json.RawMessage // with the clear values of its secrets
	Checkpoint  json.RawMessage // of an attempt before
}

// Label is the label of the agent's session.
func (s Start) Label() string { return "task:" + s.Task + ":" + clip(s.Title, 30) }

// A Spawner starts an agent for a task and returns its session. It starts one per key, however often it
// is called. An [outbox.PermanentError] says that another try can't succeed.
type Spawner interface {
	Spawn(ctx context.Context, s Start) (session string, err error)
}

// startRow is the payload of a row.
type startRow struct {
	Task    string `json:"task"`
	Attempt int    `json:"attempt"`
	Agent   string `json:"agent"`
}

// start is the row that starts the agent of an assignment.
func start(a assignment) outbox.Row {
	return outbox.Row{
		Kind: outbox.Spawn, Topic: SpawnTopic, Key: fmt.Sprintf("task:%s:%d", a.ID, a.attempt()), Receiver: clip(a.to.target(), 200),
		Payload: json.RawMessage(db.Encode(startRow{a.ID, a.attempt(), a.to.ID})), MaxAttempts: spawnAttempts,
	}
}

// Starter is the handler of the rows that start agents.
type Starter struct {
	*Coordinator
	Spawners map[agent.Spawner]Spawner
	// Input returns a task's input with the values of its secrets. After an error the start waits, unless the
	// error is [task.Unreadable].
	Input func(context.Context, db.Workspace, task.Task) (json.RawMessage, error)
}

// Limit implements [outbox.Limited].
func (s *Starter) Limit() time.Duration { return spawnLimit }

// Handle starts an agent, outside of any transaction. Then its task is RUNNING with the session. A
// failure is a failure of the attempt, once the row has no further try. The attempt's number fences
// late answers: they change nothing.
func (s *Starter) Handle(ctx context.Context, row outbox.Claimed) error {
	var r startRow
	if err := json.Unmarshal(row.Payload, &r); err != nil {
		return outbox.Permanently(fmt.Errorf("read what to start: %w", err))
	}
	t, err := s.Tasks.Get(ctx, row.Workspace, r.Task)
	if err != nil {
		return fmt.Errorf("start an agent: %w", err)
	}
	if t.Status != task.Assigned || t.Attempt != r.Attempt {
		return s.settle(ctx, row, nil, nil) // it is another attempt's by now, or over
	}
	a, err := s.Agents.Get(ctx, row.Workspace, r.Agent)
	if err != nil {
		return fmt.Errorf("start an agent: %w", err)
	}
	target := worker{Agent: a}.target()
	if why, err := s.heldUp(ctx, row.Workspace, a, target); err != nil {
		return err
	} else if why != "" {
		return s.settle(ctx, row, &r, func(d doubt) decision { return d.giveBack(why) })
	}
	if refused, err := s.headroom(ctx, row.Workspace, t, a); err != nil {
		return err
	} else if refused != nil {
		return s.settle(ctx, row, &r, func(d doubt) decision { return d.giveBack(refused.Error()) })
	}
	spawner, ok := s.Spawners[a.Spawner]
	if !ok {
		return s.failed(ctx, row, r, target, outbox.Permanently(fmt.Errorf("this deployment has no spawner %s", a.Spawner)))
	}
	input, err := s.Input(ctx, row.Workspace, t)
	switch {
	case task.Unreadable(err):
		return s.failed(ctx, row, r, "", outbox.Permanently(fmt.Errorf("read the input: %w", err)))
	case err != nil:
		return outbox.LaterIn(unreadFor, fmt.Errorf("read the input: %w", err))
	}
	model := ""
	if err := s.DB.One(ctx, row.Workspace, []any{&model}, s.q.Model, t.ID, t.Attempt); err != nil {
		return fmt.Errorf("start an agent: %w", err)
	}
	session, err := spawner.Spawn(ctx, Start{
		Workspace: row.Workspace, Agent: a.ID, Target: a.SpawnerTarget, Model: cmp.Or(a.Model, model), Task: t.ID, Attempt: t.Attempt, Key: row.Key,
		Title: t.Title, Description: t.Description, Input: input, Checkpoint: t.Checkpoint,
	})
	fault.Effect(ctx, "coordinate.spawned", row.Key)
	if err := fault.Point(ctx, "coordinate.spawned", row.Key); err != nil {
		return err
	}
	if err != nil {
		return s.failed(ctx, row, r, target, err)
	}
	return s.began(ctx, row, r, target, cmp.Or(clip(activity.Text(session), 255), row.Key))
}

// headroom verifies that no budget which covers a task was spent since its assignment.
func (s *Starter) headroom(ctx context.Context, ws db.Workspace, t task.Task, a agent.Agent) (refused *budget.RefusedError, err error) {
	if s.Budgets == nil {
		return nil, nil
	}
	cover := budget.Cover{Task: t.ID, Milestone: t.Milestone, Project: t.Project, Agent: a.ID}
	err = s.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		ledger, err := s.Budgets.Lock(ctx, tx, []budget.Cover{cover})
		if err == nil {
			refused = ledger.Fits(cover, 0, 0)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("verify the budgets of a task: %w", err)
	}
	return refused, nil
}

// began makes the task RUNNING and closes the circuit, with the mark of the row.
func (s *Starter) began(ctx context.Context, row outbox.Claimed, r startRow, target, session string) error {
	err := s.DB.Tx(ctx, row.Workspace, func(ctx context.Context, tx *db.Tx) error {
		err := s.begin(ctx, tx, r.Task, r.Attempt, r.Agent, session)
		if err != nil && !errors.Is(err, errMoved) {
			return err
		}
		tx.Later().Exec(s.q.Closed, target)
		s.Outbox.SentIn(tx.Later(), row)
		return tx.Flush(ctx)
	})
	if err := s.Outbox.Lost(err); err != nil {
		return fmt.Errorf("note that an agent was started: %w", err)
	}
	return outbox.Settled(outbox.Sent, nil)
}

// failed counts a failure of the spawner. The last try of the row fails the attempt.
func (s *Starter) failed(ctx context.Context, row outbox.Claimed, r startRow, target string, why error) error {
	_, final := errors.AsType[*outbox.PermanentError](why)
	if target != "" {
		if _, err := s.DB.Exec(ctx, row.Workspace, s.q.Strike, target, circuitOpens, circuitOpen.Milliseconds(), clip(why.Error(), 1000)); err != nil {
			return errors.Join(why, err)
		}
	}
	if !final && !row.Last() {
		return why
	}
	return s.settle(ctx, row, &r, func(d doubt) decision {
		return d.lose(recovered, task.Recovery, clip("spawn_failed: "+why.Error(), 500), false, false, s.Random())
	})
}

// heldUp returns why an agent is not started now although it has a task: a kill switch or the circuit of its
// spawner. It is empty if nothing speaks against it.
func (s *Starter) heldUp(ctx context.Context, ws db.Workspace, a agent.Agent, target string) (why string, err error) {
	var b db.Batch
	var halted, open bool
	b.One([]any{&halted}, s.q.HaltedAgent, a.Name, a.ID)
	b.Each(func(scan db.Scan) error {
		var failures int
		var until *time.Time
		var last string
		return scan(&failures, &until, &open, db.Optional(&last))
	}, s.q.Circuit, target)
	if err := s.DB.Read(ctx, ws, &b); err != nil {
		return "", fmt.Errorf("look whether an agent may be started: %w", err)
	}
	switch {
	case halted:
		return killSwitch, nil
	case open:
		return "the circuit of its spawner is open", nil
	}
	return "", nil
}

// settle marks the row as handled, together with what it means for the task, if that is still in the
// attempt.
func (s *Starter) settle(ctx context.Context, row outbox.Claimed, r *startRow, what func(doubt) decision) error {
	err := s.DB.Tx(ctx, row.Workspace, func(ctx context.Context, tx *db.Tx) error {
		if what != nil {
			if err := s.change(ctx, tx, r.Task, r.Attempt, what); err != nil {
				return err
			}
		}
		s.Outbox.SentIn(tx.Later(), row)
		return tx.Flush(ctx)
	})
	if err := s.Outbox.Lost(err); err != nil {
		return fmt.Errorf("note that an agent was not started: %w", err)
	}
	return outbox.Settled(outbox.Sent, nil)
}

// change changes one ASSIGNED task that is still in the attempt.
func (c *Coordinator) change(ctx context.Context, tx Tx, id string, attempt int, what func(doubt) decision) error {
	list := db.Encode([]string{id})
	claim, late, silent, idle := -claimWithin.Milliseconds(), -lateAfter.Milliseconds(), -silentFor.Milliseconds(), -warnedFor.Milliseconds()
	var found []doubt
	tx.Later().Exec(c.q.LockThese, list)
	if err := tx.Each(ctx, doubts(&found), c.q.Doubtful, list, claim, late, silent, 0, idle); err != nil {
		return err
	}
	if len(found) == 0 || found[0].Status != task.Assigned || found[0].Attempt != attempt {
		return nil
	}
	d := what(found[0])
	d.line.Log = c.IDs()
	b := tx.Later()
	b.Exec(c.q.Move, db.Encode([]move{d.move}))
	b.Exec(c.q.EndAttempts, db.Encode(attemptEnds([]move{d.move})))
	b.Exec(c.q.Logs, db.Encode([]line{d.line}), Actor, traced(ctx))
	c.stopped(b, []move{d.move})
	Kick(ctx, c.Outbox, b)
	return nil
}
