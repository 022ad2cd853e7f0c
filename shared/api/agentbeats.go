package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// agentBeat is a heartbeat of an agent.
type agentBeat struct {
	Status          agent.Status `json:"status,omitempty" enum:"IDLE,WORKING,DEGRADED,ERROR,DRAINING" doc:"How it is: DEGRADED, ERROR and DRAINING keep new tasks away from it"`
	CurrentTaskID   string       `json:"currentTaskId,omitempty" format:"uuid" doc:"With several tasks, each may have its heartbeat"`
	Attempt         int          `json:"attempt,omitempty" minimum:"1" doc:"Of that task"`
	ProgressPercent *int         `json:"progressPercent,omitempty" minimum:"0" maximum:"100"`
	CurrentStep     string       `json:"currentStep,omitempty" maxLength:"1000"`
	MemoryMB        *float64     `json:"memoryMb,omitempty" minimum:"0"`
	CPUPercent      *float64     `json:"cpuPercent,omitempty" minimum:"0" doc:"Of one core"`
}

// agentOrder tells an agent what to do.
type agentOrder struct {
	Order   string `json:"order" enum:"continue,pause,cancel,warn,drain" doc:"pause and cancel: stop working on the attempt, and report nothing more on it. drain: finish, and ask for no more"`
	TaskID  string `json:"taskId,omitempty" format:"uuid" doc:"Left out: the agent itself"`
	Attempt int    `json:"attempt,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// agentOrders answers a heartbeat.
type agentOrders struct {
	Orders []agentOrder `json:"orders" nullable:"false" doc:"For the attempt that it names, and for each other that runs"`
}

// beatAgent stores a heartbeat. It is called by agents.
func (s *server) beatAgent(ctx context.Context, in *struct {
	IDPath
	Body agentBeat
}) (*answer[agentOrders], error) {
	if err := itself(ctx, in.id()); err != nil {
		return nil, err
	}
	b := in.Body
	beat := agent.Beat{Agent: in.id(), Says: b.Status, Attempt: b.Attempt, Vitals: agent.Vitals{
		Task: strings.ToLower(b.CurrentTaskID), Progress: b.ProgressPercent, Step: b.CurrentStep, MemoryMB: b.MemoryMB, CPU: b.CPUPercent,
	}}
	orders, err := s.Agents.Beat(ctx, workspace(ctx), beat)
	if err != nil {
		return nil, err
	}
	s.Live.Heard(ctx, beat)
	out := agentOrders{Orders: make([]agentOrder, len(orders))}
	for i, o := range orders {
		out.Orders[i] = agentOrder{Order: o.Order, TaskID: o.Task, Attempt: o.Attempt, Reason: o.Reason}
	}
	return answered(out), nil
}

// claimInput is the request of a claim.
type claimInput struct {
	IDPath
	Body *struct {
		Attempts *[]attemptName `json:"attempts,omitempty" maxItems:"1000" doc:"Those that you work on. If you have another one that runs, the answer to its claim was lost: it is answered again. So send one claim at a time per agent"`
	}
}

type attemptName struct {
	TaskID  string `json:"taskId" format:"uuid"`
	Attempt int    `json:"attempt" minimum:"1"`
}

// claimed is the answer to a claim.
type claimed struct {
	Status int
	Body   *taskItem
}

// maxBroken is the number of tasks whose input can't be completed after which a claim gives up.
const maxBroken = 10

var noCoordinator = problem.New(http.StatusServiceUnavailable, "no_coordinator",
	"no coordinator runs here: nobody gives tasks to agents").Later(retryOutage)

// claimTask gives an agent its next task, which runs from then on. Its input has the values of the
// secrets that it names. It is called by agents that pull.
func (s *server) claimTask(ctx context.Context, in *claimInput) (*claimed, error) {
	if err := itself(ctx, in.id()); err != nil {
		return nil, err
	}
	if s.Claim == nil {
		return nil, noCoordinator
	}
	if by, _ := auth.From(ctx); by.Kind != auth.Agent { // of an agent, its token says that it is there
		if a, err := s.Agents.Get(ctx, by.Workspace, in.id()); err != nil {
			return nil, err
		} else if a.Status == agent.Terminated {
			return nil, &agent.StatusError{Status: a.Status, What: "a claim"}
		}
	}
	for range maxBroken {
		t, found, err := s.nextTask(ctx, in)
		if err != nil {
			return nil, err
		}
		if !found {
			break
		}
		given, err := s.Tasks.GivenInput(ctx, workspace(ctx), t, s.Secrets)
		if task.Unreadable(err) && !errors.Is(err, secret.ErrNoKey) { // without the key, no task is at fault
			if err := s.broken(ctx, in.id(), t, err); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, s.unanswered(ctx, t, err)
		}
		item := taskOf(t)
		item.InputContext = given
		if item.Model, err = s.Agents.ModelOf(ctx, workspace(ctx), agent.Attempt{Task: t.ID, Number: t.Attempt}); err != nil {
			return nil, s.unanswered(ctx, t, err)
		}
		return &claimed{Status: http.StatusOK, Body: &item}, nil
	}
	return &claimed{Status: http.StatusNoContent}, nil
}

// nextTask returns a task that runs and that the agent does not know of, or its next one.
func (s *server) nextTask(ctx context.Context, in *claimInput) (task.Task, bool, error) {
	ws := workspace(ctx)
	if in.Body != nil && in.Body.Attempts != nil {
		runs, err := s.Agents.Running(ctx, ws, in.id())
		if err != nil {
			return task.Task{}, false, err
		}
		for _, at := range runs {
			if slices.ContainsFunc(*in.Body.Attempts, func(n attemptName) bool { return strings.ToLower(n.TaskID) == at.Task && n.Attempt == at.Number }) {
				continue
			}
			t, err := s.Tasks.Get(ctx, ws, at.Task)
			if err != nil {
				return task.Task{}, false, err
			}
			if t.Agent == in.id() && t.Attempt == at.Number && t.Status == task.Running { // it may have changed between the reads
				return t, true, nil
			}
		}
	}
	return s.Claim(ctx, ws, in.id())
}

// broken ends an agent's attempt whose input names a secret that is not there: no retry helps. It
// changes nothing if the agent has lost the attempt by then.
func (s *server) broken(ctx context.Context, of string, t task.Task, why error) error {
	_, err := s.changeTask(ctx, "task.fail", t.ID, func(ctx context.Context, tx *db.Tx, by string) (task.Task, error) {
		return s.Tasks.Fail(ctx, tx, task.Report{Task: t.ID, Attempt: t.Attempt, Actor: by, Agent: of},
			task.Failure{Error: "inputContext: " + why.Error(), Final: true})
	}, "attempt", t.Attempt)
	if _, lost := errors.AsType[*task.StaleError](err); lost {
		return nil
	}
	return err
}

// unanswered gives back the attempt of a claim that could not be answered, so that the coordinator
// assigns the task again after its backoff. It returns why.
func (s *server) unanswered(ctx context.Context, t task.Task, why error) error {
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	_, err := s.changeTask(last, "task.give_back", t.ID, func(ctx context.Context, tx *db.Tx, by string) (task.Task, error) {
		lost := []task.Report{{Task: t.ID, Attempt: t.Attempt, Actor: by}}
		if _, err := s.Tasks.RecoverAll(ctx, tx, lost, "the claim could not be answered: "+why.Error()); err != nil {
			return task.Task{}, err
		}
		return s.Tasks.GetIn(ctx, tx, t.ID)
	}, "attempt", t.Attempt)
	if err != nil {
		s.Log.WarnContext(ctx, "a claim was not answered, and its attempt could not be given back", "task", t.ID, "attempt",
			t.Attempt, "error", err)
	}
	return why
}

// reportOf is a report of the caller. An agent reports for itself, and an ADMIN for any agent.
func reportOf(ctx context.Context, id string, attempt int) task.Report {
	by, _ := auth.From(ctx)
	r := task.Report{Task: id, Attempt: attempt, Actor: principal(by)}
	if by.Kind == auth.Agent {
		r.Agent = by.ID
	}
	return r
}

// ended terminates the caller if it is an agent that drains, and that has just ended its last attempt.
// The report is stored by then. After a failure here, the agent's next heartbeat or the coordinator's
// next cycle terminates the agent.
func (s *server) ended(ctx context.Context, t *versioned[taskItem], err error) (*versioned[taskItem], error) {
	if by, _ := auth.From(ctx); err == nil && by.Kind == auth.Agent {
		if err := s.Agents.EndIfDrained(ctx, by.Workspace, by.ID); err != nil {
			s.Log.WarnContext(ctx, "an agent may have drained, which could not be checked", "agent", by.ID, "error", err)
		}
	}
	return t, err
}
