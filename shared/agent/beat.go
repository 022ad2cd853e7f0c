package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// Beat is one heartbeat of an agent.
type Beat struct {
	Agent string
	// Says is how the agent itself judges its state; empty: it says nothing. DEGRADED, ERROR and DRAINING keep
	// new tasks away from it. The other statuses follow from its open attempts.
	Says    Status
	Attempt int // of Vitals.Task; 0: the agent's latest one
	Vitals
}

// Orders that an agent gets.
const (
	OrderContinue = "continue"
	OrderPause    = "pause"
	OrderCancel   = "cancel"
	OrderWarn     = "warn"
	OrderDrain    = "drain"
)

// Order says what an agent is to do about one of its attempts, or about itself.
type Order struct {
	Order   string
	Task    string // empty: the agent itself
	Attempt int
	Reason  string
}

// Beat stores a heartbeat and returns the orders for the agent: for each attempt that is running, and
// for the attempt that the heartbeat names. The agent returns to IDLE or WORKING from DEGRADED and
// ERROR. One that drains and has no attempt left is terminated. Beat takes one round trip and a fixed
// number of statements. Errors: [db.ErrNoRows], [problem.InvalidError], and [StatusError] of an agent
// that is terminated.
func (s *Store) Beat(ctx context.Context, ws db.Workspace, beat Beat) ([]Order, error) {
	if err := beat.check(ctx); err != nil {
		return nil, err
	}
	v := beat.Vitals
	var b db.Batch
	b.Exec(s.q.Lock, beat.Agent)
	away := beat.Says == Degraded || beat.Says == Error || beat.Says == Draining
	heard := b.Exec(s.q.Beat, beat.Agent, away, db.Null(v.Task), v.Progress, db.Null(v.Step), v.MemoryMB, v.CPU)
	b.Exec(s.q.AddHeartbeat, beat.Agent, s.ids())
	var a Agent
	b.Each(func(scan db.Scan) error { return scan(&a.Status, db.Optional(&a.TerminationReason)) }, s.q.StatusOf, beat.Agent)
	var found []attempt
	b.Each(db.Append(&found, readAttempt), s.q.Attempts, beat.Agent, db.Null(v.Task), db.Null(beat.Attempt))
	if err := s.db.Do(ctx, ws, &b); err != nil {
		return nil, fmt.Errorf("store a heartbeat: %w", err)
	}
	switch {
	case a.Status == "":
		return nil, fmt.Errorf("store a heartbeat: %w", db.ErrNoRows)
	case heard.Affected() == 0:
		return nil, &StatusError{Status: a.Status, What: "a heartbeat"}
	}
	return beat.orders(a, found), nil
}

func (beat *Beat) check(ctx context.Context) error {
	bad := &problem.InvalidError{}
	bad.If(!slices.Contains([]Status{"", Idle, Working, Degraded, Error, Draining}, beat.Says), "status",
		"must be IDLE, WORKING, DEGRADED, ERROR or DRAINING")
	bad.If(beat.Attempt < 0, "attempt", "must be positive")
	bad.If(beat.Attempt > 0 && beat.Task == "", "attempt", "goes with currentTaskId")
	bad.If(beat.Progress != nil && (*beat.Progress < 0 || *beat.Progress > 100), "progressPercent", "must be 0 to 100")
	text(ctx, bad, "currentStep", &beat.Step, 0, MaxStep)
	bad.If(beat.MemoryMB != nil && !(*beat.MemoryMB >= 0), "memoryMb", "must not be negative")
	bad.If(beat.CPU != nil && !(*beat.CPU >= 0), "cpuPercent", "must not be negative")
	return bad.OrNil()
}

// attempt is an attempt of an agent, and how its task is.
type attempt struct {
	task      string
	number    int
	outcome   string // empty: it is open
	status    string // of the task, as are the next three
	cancelled bool
	reason    string
	latest    int // attempt
	late      bool
}

func readAttempt(scan db.Scan, a *attempt) error {
	return scan(&a.task, &a.number, db.Optional(&a.outcome), &a.status, &a.cancelled, db.Optional(&a.reason), &a.latest, &a.late)
}

// Running returns the attempts of an agent that run.
func (s *Store) Running(ctx context.Context, ws db.Workspace, id string) ([]Attempt, error) {
	var found []attempt
	if err := s.db.Each(ctx, ws, db.Append(&found, readAttempt), s.q.Attempts, id, nil, nil); err != nil {
		return nil, fmt.Errorf("read what an agent runs: %w", err)
	}
	var runs []Attempt
	for _, at := range found {
		if at.status == "RUNNING" {
			runs = append(runs, Attempt{at.task, at.number})
		}
	}
	return runs, nil
}

// ModelOf returns the model that an attempt is to be done with: the agent's own, or else the one that
// was chosen for the task. It may be empty. It returns [db.ErrNoRows] if there is no such attempt.
func (s *Store) ModelOf(ctx context.Context, ws db.Workspace, at Attempt) (model string, err error) {
	if err := s.db.One(ctx, ws, []any{&model}, s.q.ModelOf, at.Task, at.Number); err != nil {
		return "", fmt.Errorf("read the model of an attempt: %w", err)
	}
	return model, nil
}

// orders derives the orders from the rows as they are. Nobody stores an order.
func (beat Beat) orders(a Agent, found []attempt) []Order {
	orders := []Order{}
	if a.Status == Draining || a.Status == Terminated {
		orders = append(orders, Order{Order: OrderDrain, Reason: a.TerminationReason})
	}
	slices.SortFunc(found, func(a, b attempt) int { // those that are open first, then the latest
		return cmp.Or(cmp.Compare(min(len(a.outcome), 1), min(len(b.outcome), 1)), cmp.Compare(b.number, a.number), cmp.Compare(a.task, b.task))
	})
	named := beat.Task == ""
	for _, at := range found {
		isNamed := at.task == beat.Task && (beat.Attempt == 0 || beat.Attempt == at.number)
		if isNamed && named || !isNamed && (at.outcome != "" || at.status != "RUNNING") {
			continue
		}
		named = named || isNamed
		orders = append(orders, at.order())
	}
	if !named {
		orders = append(orders, Order{OrderCancel, beat.Task, beat.Attempt, "this agent has no such attempt"})
	}
	return orders
}

// order is what the agent is to do about an attempt.
func (at attempt) order() Order {
	o := Order{Order: OrderCancel, Task: at.task, Attempt: at.number}
	switch {
	case at.outcome == "" && at.late:
		o.Order, o.Reason = OrderWarn, "the task is more than 30 minutes past its estimated completion"
	case at.outcome == "":
		o.Order = OrderContinue
	case at.outcome == "paused" && at.status == "PAUSED" && at.number == at.latest:
		o.Order, o.Reason = OrderPause, "the task was paused"
	case at.cancelled:
		o.Reason = "the task was cancelled"
	case at.number != at.latest:
		o.Reason = fmt.Sprintf("attempt %d of the task has begun", at.latest)
	default:
		o.Reason = "the attempt is over: it ended as " + at.outcome
	}
	if at.reason != "" && (o.Order == OrderPause || at.cancelled) {
		o.Reason += ": " + at.reason
	}
	return o
}
