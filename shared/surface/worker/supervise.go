package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// Topic is the topic of the outbox rows that have tasks worked on. There is one for each task.
const Topic = "worker"

// kicked is the payload of such a row.
type kicked struct {
	Task string `json:"task"`
}

// KeyOf returns the key of a task's row.
func KeyOf(id string) string { return Topic + ":" + id }

const (
	// maxInvocations is how many invocations in a row may be refused or lost: none of them begins to work.
	// With the pauses between them, that takes about three quarters of an hour.
	maxInvocations = 20
	// lastLooks is how many looks after that may fail, for a reason that lasts.
	lastLooks = 5
	// lookAgain is how long after an invocation the task is looked at again.
	lookAgain = 20 * time.Second
	// personAgain is how long after the look at a task that waits for a person.
	personAgain = 5 * time.Minute
	// restsAgain is how long after the look at a task of which something is open, and which nobody works on here.
	restsAgain = time.Hour
	// haltedAgain and threadAgain are the longest pauses between two invocations of a task that was halted,
	// and of one in whose thread another execution speaks.
	haltedAgain = 5 * time.Minute
	threadAgain = time.Minute
)

// kickFor returns the row of a task. It is due at once.
func kickFor(id string) outbox.Row {
	raw, _ := json.Marshal(kicked{id}) //nolint:errchkjson // a text always is JSON
	return outbox.Row{Kind: outbox.Kick, Topic: Topic, Key: KeyOf(id), Payload: raw, MaxAttempts: maxInvocations + lastLooks}
}

// Spawner is the spawner builtin: it stores the row that has the task worked on.
type Spawner struct {
	DB     *db.DB
	Outbox *outbox.Store
}

// Spawn implements [coordinate.Spawner]. The session is the key.
func (s Spawner) Spawn(ctx context.Context, start coordinate.Start) (string, error) {
	var b db.Batch
	s.Outbox.ReviveNow(ctx, &b, kickFor(start.Task)) // it may still look after the attempt before
	if err := s.DB.Do(ctx, start.Workspace, &b); err != nil {
		return "", fmt.Errorf("store the start of the built-in worker: %w", err)
	}
	return sessionOf(start.Task, start.Attempt), nil
}

// Supervisor is the handler of the rows of [Topic]. It has a task worked on, and looks at it again until
// its attempt is over: an invocation may be lost, or its process may die. Attempts of the row are
// invocations that have not begun to work; one that begins clears them. After too many, the task's attempt
// has failed.
type Supervisor struct {
	*Worker
	// Invoke starts an invocation that works on a task. It does not wait for it.
	Invoke func(context.Context, Tick) error
}

// Limit implements [outbox.Limited].
func (s *Supervisor) Limit() time.Duration { return 25 * time.Second }

// Endless implements [outbox.Endless]: a look that was cut off is made again, also the last one.
func (s *Supervisor) Endless() bool { return true }

// Handle implements [outbox.Handler]. A row ends only with the attempt of its task: after an error it looks
// again. A last look that fails for a reason which lasts ends the attempt, so that a person sees it.
func (s *Supervisor) Handle(ctx context.Context, c outbox.Claimed) error {
	err := s.look(ctx, c)
	_, later := errors.AsType[*outbox.LaterError](err)
	_, ended := errors.AsType[*outbox.PermanentError](err)
	switch {
	case err == nil || later || ended || !c.Last():
		return err
	case passes(ctx, err):
		return outbox.LaterIn(lookAgain, err)
	}
	return s.giveUp(ctx, c, err)
}

// passes reports whether an error is one of the database's state, or of the time that is left.
func passes(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, db.ErrUnavailable) || errors.Is(err, db.ErrUncertain)
}

// giveUp fails the task of a row that can't be looked at. It closes the task's open execution where that is
// possible.
func (s *Supervisor) giveUp(ctx context.Context, c outbox.Claimed, why error) error {
	var k kicked
	_ = json.Unmarshal(c.Payload, &k) // look has read it
	t, err := s.Tasks.Get(ctx, c.Workspace, k.Task)
	if err == nil {
		why = fmt.Errorf("the built-in worker can't look after the task: %w", why)
		err = s.lose(ctx, c.Workspace, t, why, true)
		if _, ended := errors.AsType[*outbox.PermanentError](err); ended {
			return err
		}
	}
	if _, busy := errors.AsType[*outbox.LaterError](err); busy {
		return err
	}
	if err != nil && !passes(ctx, err) && t.ID != "" {
		err = s.DB.Tx(ctx, c.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := s.Tasks.Fail(ctx, tx, reportOn(t), task.Failure{Error: activity.Clip(why.Error(), maxSummary), Final: true})
			return err
		})
	}
	if err != nil && passes(ctx, err) {
		return outbox.LaterIn(lookAgain, errors.Join(why, err))
	}
	return outbox.Permanently(errors.Join(why, err))
}

// reportOn is a report of the supervisor's on the attempt of a task.
func reportOn(t task.Task) task.Report {
	return task.Report{Task: t.ID, Attempt: t.Attempt, Actor: coordinate.Actor}
}

// look looks at the task of a row, and has it worked on if nobody does so.
func (s *Supervisor) look(ctx context.Context, c outbox.Claimed) error {
	var k kicked
	if err := json.Unmarshal(c.Payload, &k); err != nil || k.Task == "" {
		return outbox.Permanently(errors.New("the row names no task"))
	}
	t, err := s.Tasks.Get(ctx, c.Workspace, k.Task)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	var b db.Batch
	held, open, halts := s.Lanes.PeekIn(&b, lane.Task(t.ID)), s.Runs.Unfinished(&b, lane.Task(t.ID)), s.Switches.On(&b)
	if err := s.DB.Read(ctx, c.Workspace, &b); err != nil {
		return fmt.Errorf("look at task %s: %w", t.ID, err)
	}
	if !t.Status.Active() && !ended(t) {
		return s.rests(ctx, c, t, *open)
	}
	if !t.Status.Active() && len(*open) == 0 {
		return nil
	}
	if t.Status.Active() {
		by, err := s.Agents.Get(ctx, c.Workspace, t.Agent)
		if err != nil {
			return err
		}
		if !builtin(by) {
			return s.rests(ctx, c, t, *open)
		}
		if why := cmp.Or(halts.Run(by.Name), halts.Run(by.ID)); why != "" && !held.Held() {
			return outbox.LaterIn(lookAgain, errors.New(why)) // an invocation would end at once
		}
	}
	if held.Held() {
		return outbox.LaterIn(min(held.Remaining, lookAgain), fmt.Errorf("task %s is worked on", t.ID))
	}
	waits, err := s.waits(ctx, c.Workspace, *open)
	if err != nil {
		return err
	}
	if waits && !ended(t) {
		return outbox.LaterIn(personAgain, fmt.Errorf("task %s waits for a person", t.ID))
	}
	if c.Attempt > maxInvocations {
		why := fmt.Errorf("%d invocations of the built-in worker in a row have not begun to work", maxInvocations)
		return s.lose(ctx, c.Workspace, t, why, false)
	}
	if pause := paused(t, *held, *open, *halts); pause > 0 {
		return outbox.LaterIn(pause, fmt.Errorf("task %s was halted", t.ID))
	}
	if err := s.Invoke(ctx, Tick{c.Workspace, t.ID}); err != nil {
		if err = fmt.Errorf("invoke the built-in worker: %w", err); c.Attempt >= maxInvocations {
			return s.lose(ctx, c.Workspace, t, err, false)
		}
		return err
	}
	return outbox.LookIn(lookAgain, fmt.Errorf("task %s is worked on", t.ID))
}

// rests is the outcome of a look at a task that has no attempt, or one of another kind of agent. What is open of
// it continues with the next attempt of the built-in worker, which has all invocations again, and is closed once
// the task has ended.
func (s *Supervisor) rests(ctx context.Context, c outbox.Claimed, t task.Task, open []execution.Execution) error {
	if len(open) == 0 {
		return nil
	}
	var b db.Batch
	s.Outbox.Began(&b, c.Key)
	if err := s.DB.Do(ctx, c.Workspace, &b); err != nil {
		return fmt.Errorf("look at task %s: %w", t.ID, err)
	}
	return outbox.LaterIn(restsAgain, fmt.Errorf("task %s is %s, and a run of it is open", t.ID, t.Status))
}

// paused returns how long a task is not worked on because its last run was halted, by a model that fails,
// for example, or by a budget. The pauses grow as long as the runs are halted without a step. The pause is
// over when a new attempt has begun, or when the kill switch is off that halted the run.
func paused(t task.Task, last lane.Info, open []execution.Execution, switches halt.Switches) time.Duration {
	if !t.Status.Active() || len(open) == 0 || open[0].Status != execution.Parked || last.Lane == "" {
		return 0
	}
	var left struct {
		Reason string `json:"reason"`
		reason.Halt
	}
	if json.Unmarshal(open[0].Result, &left) != nil || left.Halts == 0 {
		return 0
	}
	if begun := t.AssignedAt; begun != nil && begun.After(open[0].UpdatedAt) || left.Switched && !switches.Give(left.Reason) {
		return 0
	}
	longest := haltedAgain
	if left.Reason == threadBusy {
		longest = threadAgain
	}
	pause := min(lookAgain<<min(left.Halts-1, 10), longest) - last.Age // the lane was taken when the run began
	if left.Switched {
		pause = min(pause, lookAgain) // it is looked at the switch
	}
	return max(0, pause)
}

// waits reports whether the execution of a task waits for people who have not decided yet.
func (s *Supervisor) waits(ctx context.Context, ws db.Workspace, open []execution.Execution) (bool, error) {
	if len(open) == 0 {
		return false, nil
	}
	all := waitsOf(open[0])
	for _, id := range all {
		a, err := s.Approvals.Get(ctx, ws, id)
		switch {
		case errors.Is(err, db.ErrNoRows):
			return false, nil
		case err != nil:
			return false, err
		case a.Status != approval.Pending && a.Status != approval.Approved:
			return false, nil
		}
	}
	return len(all) > 0, nil
}

// waitsOf returns the approvals that an execution waits for.
func waitsOf(e execution.Execution) []string {
	var result struct {
		Waits []string `json:"waits"`
	}
	if e.Status == execution.Waiting {
		_ = json.Unmarshal(e.Result, &result) // without a list it waits for nobody
	}
	return result.Waits
}

// lose ends an attempt on which no invocation works, and with it the row. final says that no retry helps.
// Nobody looks at the task again if it is over by then, so what is open of it is closed.
func (s *Supervisor) lose(ctx context.Context, ws db.Workspace, t task.Task, why error, final bool) error {
	a := &attempt{Worker: s.Worker, tick: Tick{ws, t.ID}}
	a.trace, _ = trace.From(ctx)
	_, err := s.Worker.Worker.Do(ctx, work.Unit{Name: "worker", Lane: a.unit().Lane, Begin: func(ctx context.Context, start *work.Start) error {
		why := activity.Clip("spawn_failed: "+why.Error(), maxSummary)
		_, err := s.Tasks.Fail(ctx, start.Tx, reportOn(t), task.Failure{Error: why, Final: final})
		if err != nil && !isOver(err) {
			return err
		}
		return a.close(ctx, start)
	}})
	if _, busy := errors.AsType[*lane.BusyError](err); busy {
		return outbox.LaterIn(lookAgain, err) // one has begun to work after all
	}
	if isOver(err) || err == nil {
		return outbox.Permanently(why)
	}
	return errors.Join(why, err)
}

// Stopped makes the rows of tasks due, as far as they have one: their attempts are not wanted any more. What is
// open of a task that has ended is closed, also if it waited for a person.
func (w *Worker) Stopped(b *db.Batch, tasks ...string) {
	keys := make([]string, len(tasks))
	for i, id := range tasks {
		keys[i] = KeyOf(id)
	}
	w.Outbox.Rouse(b, keys...)
}

// GoOn makes the row of the task due that a lane belongs to: what it waited for has happened, or its
// process has died. The row of a task that waits for a person is due only minutes later.
func (w *Worker) GoOn(ctx context.Context, b *db.Batch, subject lane.Name) {
	if id, ok := lane.TaskOf(subject); ok {
		w.Outbox.ReviveNow(ctx, b, kickFor(id))
	}
}
