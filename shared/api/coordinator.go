package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	tenant "github.com/lanekeeper/lanekeeper/shared/workspace"
)

// activeWithin is how long ago the last cycle of an active coordinator ended at most.
const activeWithin = 2 * time.Minute

// administered returns the workspaces in which the caller is an admin or an owner, the request's first.
func administered(ctx context.Context) []db.Workspace {
	by, _ := auth.From(ctx)
	all := []db.Workspace{by.Workspace}
	for _, m := range by.Memberships {
		if m.Workspace != by.Workspace && m.Role.AtLeast(auth.Admin) {
			all = append(all, m.Workspace)
		}
	}
	return all
}

// administers returns the workspace of an id, which the caller must administer; empty: the request's.
func administers(ctx context.Context, id string) (db.Workspace, error) {
	if id == "" {
		return workspace(ctx), nil
	}
	for _, ws := range administered(ctx) {
		if string(ws) == id {
			return ws, nil
		}
	}
	return "", noWorkspace
}

// coordinatorStatus is what the last cycles found, in all workspaces that the caller administers.
type coordinatorStatus struct {
	Active          bool             `json:"active" doc:"A cycle ended within the last two minutes"`
	InstanceID      string           `json:"instanceId,omitempty" doc:"The process that ran the last cycle"`
	Workspaces      int              `json:"workspaces" doc:"How many you administer"`
	LastHeartbeat   *time.Time       `json:"lastHeartbeat,omitempty" doc:"When the last cycle ended; left out: there was none"`
	CycleCount      int64            `json:"cycleCount"`
	CycleDurationMS int64            `json:"cycleDurationMs" doc:"Of the last cycle"`
	WokenBy         string           `json:"wokenBy,omitempty" doc:"Why the last cycle ran"`
	Stats           coordinatorStats `json:"stats"`
}

type coordinatorStats struct {
	PendingTasks  int `json:"pendingTasks"`
	RunningTasks  int `json:"runningTasks"`
	HealthyAgents int `json:"healthyAgents"`
	StaleAgents   int `json:"staleAgents"`
}

// getCoordinatorStatus is called by the Engine Room and scripts.
func (s *server) getCoordinatorStatus(ctx context.Context, _ *struct{}) (*answer[coordinatorStatus], error) {
	all := administered(ctx)
	out := coordinatorStatus{Workspaces: len(all)}
	for _, ws := range all {
		is, err := s.Coordinator.Status(ctx, ws)
		if errors.Is(err, db.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out.CycleCount += is.Cycles
		out.Stats.PendingTasks += is.Report.Pending
		out.Stats.RunningTasks += is.Report.Running
		out.Stats.HealthyAgents += is.Report.Healthy
		out.Stats.StaleAgents += is.Report.Stale
		if out.LastHeartbeat == nil || is.LastCycle.After(*out.LastHeartbeat) {
			at := is.LastCycle.UTC()
			out.LastHeartbeat, out.InstanceID, out.WokenBy, out.CycleDurationMS = &at, is.Instance, is.Reason, is.Took.Milliseconds()
			out.Active = is.Age <= activeWithin
		}
	}
	return answered(out), nil
}

// cycleReport is what a cycle found and did.
type cycleReport struct {
	WorkspaceID   string   `json:"workspaceId" format:"uuid"`
	Pending       int      `json:"pendingTasks"`
	Running       int      `json:"runningTasks"`
	HealthyAgents int      `json:"healthyAgents"`
	StaleAgents   int      `json:"staleAgents"`
	Assigned      int      `json:"assigned" doc:"Tasks that an agent got"`
	Recovered     int      `json:"recovered" doc:"Tasks whose attempt was lost"`
	Requeued      int      `json:"requeued" doc:"Tasks whose backoff was over"`
	TimedOut      int      `json:"timedOut"`
	Failed        int      `json:"failed"`
	DurationMS    int64    `json:"durationMs"`
	TraceID       trace.ID `json:"traceId"`
	Busy          bool     `json:"busy,omitempty" doc:"Another process ran a cycle: a further one follows, and the counts are not known"`
}

// recoverTasks runs a cycle. It answers 202 if another process runs one: a further one follows that.
// It is called by the Engine Room and scripts.
func (s *server) recoverTasks(ctx context.Context, in *struct {
	Body *struct {
		WorkspaceID string `json:"workspaceId,omitempty" format:"uuid" doc:"Which you administer; left out, the request's"`
	}
}) (*struct {
	Status int
	Body   cycleReport
}, error) {
	id := ""
	if in.Body != nil {
		id = in.Body.WorkspaceID
	}
	ws, err := administers(ctx, id)
	if err != nil {
		return nil, err
	}
	of, _ := trace.From(ctx)
	out := &struct {
		Status int
		Body   cycleReport
	}{http.StatusOK, cycleReport{WorkspaceID: string(ws), TraceID: of}}
	r, err := s.Cycle(ctx, ws, "hand")
	if _, busy := errors.AsType[*lane.BusyError](err); busy {
		if err := s.Coordinator.Again(ctx, ws); err != nil {
			return nil, err
		}
		s.Send(ws)
		out.Status, out.Body.Busy = http.StatusAccepted, true
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	s.Send(ws) // what the cycle started
	b := &out.Body
	b.Pending, b.Running, b.HealthyAgents, b.StaleAgents = r.Pending, r.Running, r.Healthy, r.Stale
	b.Assigned, b.Recovered, b.Requeued, b.TimedOut, b.Failed = r.Assigned, r.Recovered, r.Requeued, r.TimedOut, r.Failed
	b.DurationMS = r.Took.Milliseconds()
	return out, nil
}

// coordinatorLogItem is a row of the coordinator's log.
type coordinatorLogItem struct {
	ID        string          `json:"id" format:"uuid"`
	Level     task.Level      `json:"level" enum:"DEBUG,INFO,WARN,ERROR,CRITICAL"`
	Event     string          `json:"event"`
	Message   string          `json:"message"`
	Details   json.RawMessage `json:"details,omitempty"`
	TraceID   trace.ID        `json:"traceId,omitempty"`
	CreatedAt time.Time       `json:"createdAt"`
}

// listCoordinatorLogs is called by the Engine Room and scripts.
func (s *server) listCoordinatorLogs(ctx context.Context, in *struct {
	Workspace string     `query:"workspace" format:"uuid" doc:"Which you administer; left out, the request's"`
	Level     task.Level `query:"level" enum:"DEBUG,INFO,WARN,ERROR,CRITICAL"`
	Paging
}) (*answer[page[coordinatorLogItem]], error) {
	ws, err := administers(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Coordinator.Notes(ctx, ws, in.Level, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	found, more := db.Page(found, in.Limit)
	return newest(found, more, func(x coordinate.Note) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} },
		func(n coordinate.Note) coordinatorLogItem {
			return coordinatorLogItem{n.ID, n.Level, n.Event, n.Message, camelKeys(n.Details, everywhere), n.Trace, n.CreatedAt.UTC()}
		}), nil
}

// commanded names a command that the next cycle carries out.
type commanded struct {
	ID string `json:"id" format:"uuid"`
}

// commandCoordinator is called by the Engine Room and scripts.
func (s *server) commandCoordinator(ctx context.Context, in *struct {
	Body struct {
		Command coordinate.Name `json:"command" enum:"reassign_task,pause_agent,drain_agent,recover"`
		TaskID  string          `json:"taskId,omitempty" format:"uuid" doc:"Of reassign_task"`
		AgentID string          `json:"agentId,omitempty" format:"uuid" doc:"Of pause_agent and drain_agent"`
		Reason  string          `json:"reason,omitempty" maxLength:"500"`
	}
}) (*struct {
	Status int
	Body   commanded
}, error) {
	by, _ := auth.From(ctx)
	b := in.Body
	order := coordinate.Command{
		ID: s.newID(ctx), Name: b.Command, Task: b.TaskID, Agent: b.AgentID, Reason: discreet(ctx, b.Reason),
		Actor: principal(by),
	}
	if err := s.named(ctx, order); err != nil {
		return nil, err
	}
	err := s.change(ctx, "coordinator.command", func(ctx context.Context, tx *db.Tx) error {
		_, err := s.Coordinator.Command(ctx, tx, order)
		return err
	}, "command", b.Command, "task", b.TaskID, "agent", b.AgentID)
	if err != nil && !errors.Is(err, db.ErrUnique) { // given by an earlier execution of the request
		return nil, err
	}
	s.Send(by.Workspace)
	return &struct {
		Status int
		Body   commanded
	}{http.StatusAccepted, commanded{order.ID}}, nil
}

// named refuses a command about a task or an agent that is not in the workspace.
func (s *server) named(ctx context.Context, order coordinate.Command) (err error) {
	if order.Task != "" {
		_, err = s.Tasks.Get(ctx, workspace(ctx), order.Task)
	}
	if order.Agent != "" && err == nil {
		_, err = s.Agents.Get(ctx, workspace(ctx), order.Agent)
	}
	if errors.Is(err, db.ErrNoRows) {
		return problem.New(http.StatusNotFound, "not_found", "the task or the agent that the command names is not in this workspace")
	}
	return err
}

// coordinatorHealth says whether the coordinator works, and what it needs. A caller without a role sees
// the status only.
type coordinatorHealth struct {
	Status      string       `json:"status" enum:"healthy,degraded,unhealthy"`
	Coordinator *cyclesState `json:"coordinator,omitempty"`
	Database    string       `json:"database,omitempty" enum:"connected,down"`
	Valkey      string       `json:"valkey,omitempty" enum:"connected,down,disabled"`
	Gateway     string       `json:"gateway,omitempty" enum:"reachable,unreachable,disabled"`
	Reason      string       `json:"reason,omitempty" doc:"Why it is unhealthy though the database is connected: nothing can be written"`
}

type cyclesState struct {
	Active     bool       `json:"active" doc:"A cycle ended within the last two minutes"`
	LastCycle  *time.Time `json:"lastCycle,omitempty" doc:"When it ended; left out: there was none"`
	CycleCount int64      `json:"cycleCount"`
}

type coordinatorHealthOutput struct {
	Status int
	Body   coordinatorHealth
}

// getCoordinatorHealth checks the coordinator and what it needs. It is called by load balancers and
// alarms, and with a token by the Engine Room. A caller without a role learns of the default workspace,
// by a result that may be one second old.
func (s *server) getCoordinatorHealth(ctx context.Context, _ *struct{}) (*coordinatorHealthOutput, error) {
	by, _ := auth.From(ctx)
	if by.Role == "" {
		out, err := s.cycling.get(ctx, s.Clock, func(ctx context.Context) coordinatorHealthOutput { return s.coordinates(ctx, tenant.Default) })
		return &coordinatorHealthOutput{out.Status, coordinatorHealth{Status: out.Body.Status}}, err
	}
	out := s.coordinates(ctx, by.Workspace)
	return &out, nil
}

// coordinates checks the coordinator in a workspace, and all that it needs, at the same time.
func (s *server) coordinates(ctx context.Context, ws db.Workspace) coordinatorHealthOutput {
	var checking sync.WaitGroup
	var parts healthOutput
	var state cyclesState
	checking.Go(func() { parts = s.parts(ctx) })
	checking.Go(func() {
		s.there(ctx, "coordinator", func(ctx context.Context) error {
			is, err := s.Coordinator.Status(ctx, ws)
			if errors.Is(err, db.ErrNoRows) {
				return nil
			}
			if err == nil {
				at := is.LastCycle.UTC()
				state = cyclesState{is.Age <= activeWithin, &at, is.Cycles}
			}
			return err
		})
	})
	checking.Wait()
	h := coordinatorHealth{
		Status: parts.Body.Status, Coordinator: &state, Database: parts.Body.Database, Valkey: parts.Body.Valkey,
		Gateway: parts.Body.Gateway, Reason: parts.Body.Reason,
	}
	if h.Status == "healthy" && !state.Active {
		h.Status = "degraded"
	}
	return coordinatorHealthOutput{parts.Status, h}
}
