package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// checkpoint is how far an attempt is. The journal of the execution has all of it; a further attempt
// with another execution reads only this.
type checkpoint struct {
	Execution string `json:"execution"`
	Step      int    `json:"step"`
	Last      string `json:"last,omitempty"` // what the agent said last
}

// maxLast is how much a checkpoint keeps of what the agent said last, in bytes.
const maxLast = 4 << 10

// save stores the checkpoint of the steps so far, and returns the version of the task's checkpoint.
func (a *attempt) save(ctx context.Context, tx lane.Tx, p reason.Progress, step, last string) (version int, err error) {
	c := checkpoint{a.exec.ID, p.Steps, activity.Clip(last, maxLast)}
	if c.Last == "" {
		c.Last = a.left.Last
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return 0, fmt.Errorf("encode a checkpoint: %w", err)
	}
	is, _, err := a.Tasks.Advance(ctx, tx, a.report(), task.Progress{
		Percent: new(percent(p.Steps)), Step: new(activity.Clip(step, maxStep)), Checkpoint: raw,
	})
	return is.CheckpointVersion, err
}

// maxStep is the longest description of a step, in bytes.
const maxStep = 200

// percent estimates the progress of a task whose number of steps is unknown. It comes ever closer to
// 100, and is below it until the task is done.
func percent(steps int) int { return 100 * steps / (steps + 3) }

// between stores the checkpoint of the step before, sends a heartbeat, and obeys the orders in its
// answer.
func (a *attempt) between(ctx context.Context, p reason.Progress) (reason.Interim, error) {
	a.mu.Lock()
	a.seen = p
	a.mu.Unlock()
	if p.Steps > a.left.Step || p.Steps > 0 && a.left.Execution != a.exec.ID {
		if err := a.checkpoint(ctx, p); err != nil {
			return reason.Interim{}, err
		}
	}
	if a.order() == nil {
		if err := a.beat(ctx); err != nil {
			return reason.Interim{}, err
		}
	}
	if o := a.order(); o != nil {
		return reason.Interim{Stop: &reason.Stopped{Status: o.status, Reason: o.why}}, nil
	}
	return a.warning(), nil
}

// checkpoint stores a finished step. An attempt that is over is an order to stop.
func (a *attempt) checkpoint(ctx context.Context, p reason.Progress) error {
	err := a.Lanes.InHold(ctx, a.hold, func(ctx context.Context, tx lane.Tx) error {
		_, err := a.save(ctx, tx, p, fmt.Sprintf("step %d is done", p.Steps), "")
		return err
	})
	if isOver(err) {
		return a.ordered(ctx, "the attempt is over")
	}
	if err != nil {
		return fmt.Errorf("store the checkpoint of step %d: %w", p.Steps, err)
	}
	a.saved, a.left = true, checkpoint{a.exec.ID, p.Steps, a.left.Last}
	return fault.Point(ctx, "worker.checkpoint", a.exec.ID)
}

// stop is an order that ends the work on the attempt.
type stop struct {
	status execution.Status // of the execution: parked, if the task may continue later
	why    string
}

func (a *attempt) order() *stop {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopped
}

// ordered notes that the attempt is over for the worker. The execution is parked for a further attempt,
// unless there will be none.
func (a *attempt) ordered(ctx context.Context, why string) error {
	t, err := a.Tasks.Get(ctx, a.tick.Workspace, a.tick.Task)
	if err != nil {
		return err
	}
	s := &stop{execution.Parked, why}
	if ended(t) {
		s.status = execution.Cancelled
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped == nil {
		a.stopped = s
	}
	return nil
}

// beat sends a heartbeat of the agent and notes the order for the attempt. A heartbeat that could not be
// stored by the time of the next is no reason to stop.
func (a *attempt) beat(ctx context.Context) error {
	a.refresh(ctx)
	a.mu.Lock()
	p := a.seen
	a.mu.Unlock()
	beat := agent.Beat{
		Agent: a.agent.ID, Attempt: a.number,
		Vitals: agent.Vitals{Task: a.tick.Task, Progress: new(percent(p.Steps)), Step: fmt.Sprintf("step %d", p.Steps+1)},
	}
	limited, cancel := context.WithTimeout(ctx, a.every())
	defer cancel()
	orders, err := a.Agents.Beat(limited, a.tick.Workspace, beat)
	if _, gone := errors.AsType[*agent.StatusError](err); gone {
		return a.ordered(ctx, "its agent was terminated")
	}
	if err != nil {
		a.Log.WarnContext(ctx, "a heartbeat of the built-in worker could not be stored", "agent", a.agent.Name, "error", err)
		return nil
	}
	a.Live.Heard(ctx, beat)
	for _, o := range orders {
		if o.Task != a.tick.Task || o.Attempt != a.number {
			continue
		}
		switch o.Order {
		case agent.OrderCancel, agent.OrderPause:
			return a.ordered(ctx, o.Reason)
		case agent.OrderWarn:
			a.mu.Lock()
			a.late = true
			a.mu.Unlock()
		}
	}
	return nil
}

// lateNote is what the agent is told when its task is late.
const lateNote = "(A note of Lanekeeper's, not of a person.) The task is more than 30 minutes past its estimated completion. Come to an end soon."

// warning returns a note for the model, once, if the task is late.
func (a *attempt) warning() reason.Interim {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.late || a.told {
		return reason.Interim{}
	}
	a.told = true
	return reason.Interim{Messages: []llm.Message{{Role: llm.RoleUser, Text: lateNote}}}
}

const (
	// beatEvery is how often the agent sends a heartbeat during a step.
	beatEvery = 10 * time.Second
	// lookEvery is how often it is looked during a step whether the attempt is still wanted. A look only
	// reads.
	lookEvery = time.Second
)

// every is how often the agent sends a heartbeat.
func (a *attempt) every() time.Duration { return cmp.Or(a.BeatEvery, beatEvery) }

// watch sends heartbeats while a step lasts, and cancels the step when the attempt is over: soon after it
// was paused or cancelled.
func (a *attempt) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	every := a.every()
	beats, looks := time.NewTicker(every), time.NewTicker(min(every, lookEvery))
	defer beats.Stop()
	defer looks.Stop()
	for {
		select {
		case <-beats.C:
		case <-looks.C:
			if wanted, err := a.Tasks.Wanted(ctx, a.tick.Workspace, a.tick.Task, a.number); wanted || err != nil {
				continue
			}
		case <-ctx.Done():
			return
		}
		if err := a.beat(ctx); err != nil && ctx.Err() == nil {
			a.Log.WarnContext(ctx, "the orders for a task could not be read", "task", a.tick.Task, "error", err)
		}
		if o := a.order(); o != nil {
			cancel(errors.New(o.why))
			return
		}
	}
}
