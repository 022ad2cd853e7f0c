package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// AgentVitals are what an agent said in a heartbeat.
type AgentVitals struct {
	CurrentTaskID   string   `json:"currentTaskId,omitempty" format:"uuid"`
	ProgressPercent *int     `json:"progressPercent,omitempty"`
	CurrentStep     string   `json:"currentStep,omitempty"`
	MemoryMB        *float64 `json:"memoryMb,omitempty"`
	CPUPercent      *float64 `json:"cpuPercent,omitempty" doc:"Of one core"`
}

func vitalsOf(v agent.Vitals) AgentVitals {
	return AgentVitals{CurrentTaskID: v.Task, ProgressPercent: v.Progress, CurrentStep: v.Step, MemoryMB: v.MemoryMB, CPUPercent: v.CPU}
}

// AgentItem is an agent.
type AgentItem struct {
	ID                 string        `json:"id" format:"uuid"`
	Name               string        `json:"name"`
	Model              string        `json:"model,omitempty"`
	Status             agent.Status  `json:"status" enum:"IDLE,WORKING,DEGRADED,ERROR,DRAINING,TERMINATED"`
	Capabilities       []string      `json:"capabilities" nullable:"false"`
	CoordinatorEnabled bool          `json:"coordinatorEnabled" doc:"The coordinator may give it tasks"`
	MaxConcurrentTasks int           `json:"maxConcurrentTasks"`
	OpenTasks          int           `json:"openTasks" doc:"Tasks that it has now"`
	IntervalSeconds    int           `json:"heartbeatIntervalSeconds"`
	StaleSeconds       int           `json:"staleThresholdSeconds" doc:"After so long without a heartbeat its tasks are given to others"`
	Spawner            agent.Spawner `json:"spawner" enum:"http,lambda,builtin,pull"`
	SpawnerTarget      string        `json:"spawnerTarget,omitempty"`
	Health             agent.Health  `json:"health,omitempty" enum:"healthy,degraded,stale" doc:"Left out: it never sent a heartbeat, or is terminated"`
	AgentVitals
	LastSeenAt        *time.Time `json:"lastSeenAt,omitempty"`
	NextExpectedAt    *time.Time `json:"nextExpectedAt,omitempty" doc:"When its next heartbeat is due"`
	IdleSince         *time.Time `json:"idleSince,omitempty"`
	CreatedBy         string     `json:"createdBy"`
	CreatedAt         time.Time  `json:"createdAt"`
	UpdatedAt         time.Time  `json:"updatedAt" doc:"When a person changed it last"`
	TerminatedAt      *time.Time `json:"terminatedAt,omitempty"`
	TerminationReason string     `json:"terminationReason,omitempty"`
}

func agentOf(a agent.Agent) AgentItem {
	return AgentItem{
		ID: a.ID, Name: a.Name, Model: a.Model, Status: a.Status, Capabilities: orEmpty(a.Capabilities), CoordinatorEnabled: a.CoordinatorEnabled,
		MaxConcurrentTasks: a.MaxConcurrentTasks, OpenTasks: a.Tasks, IntervalSeconds: a.IntervalSeconds, StaleSeconds: a.StaleSeconds,
		Spawner: a.Spawner, SpawnerTarget: a.SpawnerTarget, Health: a.PresentHealth(), AgentVitals: vitalsOf(a.Latest),
		LastSeenAt:     utc(a.LastSeenAt),
		NextExpectedAt: utc(a.NextExpectedAt), IdleSince: utc(a.IdleSince), CreatedBy: a.CreatedBy, CreatedAt: a.CreatedAt.UTC(),
		UpdatedAt: a.UpdatedAt.UTC(), TerminatedAt: utc(a.TerminatedAt), TerminationReason: a.TerminationReason,
	}
}

func agentOutput(a agent.Agent) *versioned[AgentItem] {
	return &versioned[AgentItem]{ETag: tagOf(a.Version), Body: agentOf(a)}
}

// madeAgent also has the agent's token, once.
type madeAgent struct {
	AgentItem
	Token string `json:"token,omitempty" doc:"The agent's token, shown this once, when the agent is new. It is valid for 90 days, or until the next one is made"`
}

// listAgents is called by the Engine Room, scripts and lanekeeper agents.
func (s *server) listAgents(ctx context.Context, in *struct {
	Status             agent.Status `query:"status" enum:"IDLE,WORKING,DEGRADED,ERROR,DRAINING,TERMINATED"`
	CoordinatorEnabled string       `query:"coordinatorEnabled" enum:"true,false"`
	Capability         string       `query:"capability" maxLength:"100"`
	Paging
}) (*answer[page[AgentItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	f := agent.Filter{Status: in.Status, Capability: in.Capability, Before: before, Limit: in.Limit + 1}
	if in.CoordinatorEnabled != "" {
		enabled := in.CoordinatorEnabled == "true"
		f.CoordinatorEnabled = &enabled
	}
	found, err := s.Agents.List(ctx, workspace(ctx), f)
	if err != nil {
		return nil, err
	}
	found, more := db.Page(found, in.Limit)
	return newest(found, more, func(x agent.Agent) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} }, agentOf), nil
}

// registerAgent registers an agent under an id that the caller chose, or replaces its configuration.
// It is called by scripts and lanekeeper agents.
func (s *server) registerAgent(ctx context.Context, in *struct {
	IDPath
	IfMatch
	Body struct {
		Name               string        `json:"name" minLength:"1" maxLength:"255"`
		Model              string        `json:"model,omitempty" maxLength:"255"`
		Capabilities       []string      `json:"capabilities,omitempty" maxItems:"100" nullable:"false" doc:"A task goes only to agents with all that it requires"`
		CoordinatorEnabled *bool         `json:"coordinatorEnabled,omitempty" doc:"The coordinator may give it tasks; true unless given"`
		MaxConcurrentTasks int           `json:"maxConcurrentTasks,omitempty" minimum:"1" maximum:"1000" default:"1"`
		IntervalSeconds    int           `json:"heartbeatIntervalSeconds,omitempty" minimum:"1" maximum:"86400" default:"30"`
		StaleSeconds       int           `json:"staleThresholdSeconds,omitempty" minimum:"1" maximum:"604800" doc:"After so long without a heartbeat its tasks are given to others; left out: 180, or three intervals where that is more"`
		Spawner            agent.Spawner `json:"spawner,omitempty" enum:"http,lambda,builtin,pull" default:"pull" doc:"How it is started for a task; pull: it runs already, and claims its tasks"`
		SpawnerTarget      string        `json:"spawnerTarget,omitempty" maxLength:"2048" doc:"What the spawner starts, such as the name of a function"`
	}
}) (*struct {
	Status   int
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     madeAgent
}, error) {
	by, _ := auth.From(ctx)
	mint, err := s.AgentTokens.Minter(ctx, by.Workspace)
	if err != nil {
		return nil, err
	}
	b := in.Body
	a := agent.Agent{
		ID: in.ID, Name: b.Name, Model: b.Model, Capabilities: b.Capabilities, MaxConcurrentTasks: b.MaxConcurrentTasks,
		CoordinatorEnabled: b.CoordinatorEnabled == nil || *b.CoordinatorEnabled, IntervalSeconds: b.IntervalSeconds,
		StaleSeconds: b.StaleSeconds,
		Spawner:      b.Spawner, SpawnerTarget: b.SpawnerTarget, CreatedBy: principal(by),
	}
	var added bool
	err = s.change(ctx, "agent.register", func(ctx context.Context, tx *db.Tx) (err error) {
		a, added, err = s.Agents.Register(ctx, tx, a)
		switch {
		case err != nil:
			return err
		case added && in.IfMatch.IfMatch != "": // there is none to be changed
			return stale
		case added:
			return nil
		}
		return in.matches(a.Version - 1) // that of the agent before, whose row is locked; an error takes the change back
	}, "agent", in.ID, "name", b.Name)
	if err != nil {
		return nil, err
	}
	out := &struct {
		Status   int
		Location string `header:"Location"`
		ETag     string `header:"ETag"`
		Body     madeAgent
	}{Status: http.StatusOK, ETag: tagOf(a.Version), Body: madeAgent{AgentItem: agentOf(a)}}
	if added {
		token, err := mint(a.ID, a.Generation)
		if err != nil {
			return nil, err
		}
		out.Status, out.Location, out.Body.Token = http.StatusCreated, "/api/v1/agents/"+a.ID, token.Reveal()
	}
	return out, nil
}

// getAgent is called by the Engine Room, scripts and lanekeeper agents.
func (s *server) getAgent(ctx context.Context, in *IDPath) (*versioned[AgentItem], error) {
	a, err := s.Agents.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return agentOutput(a), nil
}

// agentHealth is the health of an agent, with its latest heartbeats.
type agentHealth struct {
	AgentID        string       `json:"agentId" format:"uuid"`
	Status         agent.Status `json:"status" enum:"IDLE,WORKING,DEGRADED,ERROR,DRAINING,TERMINATED"`
	Health         agent.Health `json:"health,omitempty" enum:"healthy,degraded,stale" doc:"By its silence now; left out: it never sent a heartbeat, or is terminated"`
	OpenTasks      int          `json:"openTasks"`
	LastSeenAt     *time.Time   `json:"lastSeenAt,omitempty"`
	NextExpectedAt *time.Time   `json:"nextExpectedAt,omitempty"`
	SilentMS       int64        `json:"silentMs,omitempty" doc:"How long nothing was heard of it"`
	AgentVitals
	Heartbeats []agentHeartbeat `json:"heartbeats" nullable:"false" doc:"Of the last heartbeatHours, the newest first; at most 120"`
}

type agentHeartbeat struct {
	Status agent.Status `json:"status" enum:"IDLE,WORKING,DEGRADED,ERROR,DRAINING"`
	AgentVitals
	CreatedAt time.Time `json:"createdAt"`
}

// maxHeartbeats is how many heartbeats are shown.
const maxHeartbeats = 120

// getAgentHealth is called by the Engine Room, scripts and lanekeeper agents.
func (s *server) getAgentHealth(ctx context.Context, in *IDPath) (*answer[agentHealth], error) {
	a, beats, err := s.Agents.Heartbeats(ctx, workspace(ctx), in.ID, maxHeartbeats)
	if err != nil {
		return nil, err
	}
	silence, _ := a.Silence()
	out := agentHealth{
		AgentID: a.ID, Status: a.Status, Health: a.PresentHealth(), OpenTasks: a.Tasks, LastSeenAt: utc(a.LastSeenAt),
		NextExpectedAt: utc(a.NextExpectedAt),
		SilentMS:       silence.Milliseconds(), AgentVitals: vitalsOf(a.Latest), Heartbeats: make([]agentHeartbeat, len(beats)),
	}
	for i, h := range beats {
		out.Heartbeats[i] = agentHeartbeat{Status: h.Status, AgentVitals: vitalsOf(h.Vitals), CreatedAt: h.CreatedAt.UTC()}
	}
	return answered(out), nil
}

// itself refuses an agent that names another agent in the path, as if that one did not exist.
func itself(ctx context.Context, id string) error {
	if by, _ := auth.From(ctx); by.Kind == auth.Agent && by.ID != id {
		return notFound
	}
	return nil
}

// listTasksOfAgent lists the tasks that an agent has or has completed. It is called by the Engine Room,
// scripts, lanekeeper agents, and by agents for themselves.
func (s *server) listTasksOfAgent(ctx context.Context, in *struct {
	IDPath
	Status task.Status `query:"status" enum:"PENDING,ASSIGNED,RUNNING,PAUSED,COMPLETED,FAILED,ABORTED,ARCHIVED"`
	Paging
}) (*answer[page[taskItem]], error) {
	if err := itself(ctx, in.ID); err != nil {
		return nil, err
	}
	if _, err := s.Agents.Get(ctx, workspace(ctx), in.ID); err != nil {
		return nil, err
	}
	return s.listTasks(ctx, &listTasksInput{TaskFilter: TaskFilter{Status: in.Status, AgentID: in.ID},
		Sort: task.Newest, Paging: in.Paging})
}

// agentToken is a new token.
type agentToken struct {
	Token string `json:"token" doc:"Shown this once. It is valid for 90 days, or until the next one is made"`
}

// rotateAgentToken is called by scripts and lanekeeper agents.
func (s *server) rotateAgentToken(ctx context.Context, in *struct {
	IDPath
	Body *struct{}
}) (*answer[agentToken], error) {
	mint, err := s.AgentTokens.Minter(ctx, workspace(ctx))
	if err != nil {
		return nil, err
	}
	var a agent.Agent
	err = s.change(ctx, "agent.rotate_token", func(ctx context.Context, tx *db.Tx) (err error) {
		a, err = s.Agents.Rotate(ctx, tx, in.ID)
		return err
	}, "agent", in.ID)
	var token secret.Value
	if err == nil {
		token, err = mint(a.ID, a.Generation)
	}
	if err != nil {
		return nil, err
	}
	return answered(agentToken{token.Reveal()}), nil
}

// terminateAgent ends an agent for good. If the agent may not finish its tasks first, the same transaction
// recovers them. It is called by the Engine Room, scripts and lanekeeper agents.
func (s *server) terminateAgent(ctx context.Context, in *struct {
	IDPath
	Body *struct {
		Reason   string `json:"reason,omitempty" maxLength:"500"`
		Graceful *bool  `json:"graceful,omitempty" doc:"True unless given: it finishes the tasks that it has, and gets no more. False: its tasks are given to others at once"`
	}
}) (*versioned[AgentItem], error) {
	by, _ := auth.From(ctx)
	reason, graceful := "", true
	if in.Body != nil {
		reason, graceful = in.Body.Reason, in.Body.Graceful == nil || *in.Body.Graceful
	}
	var a agent.Agent
	recovered := 0
	err := s.change(ctx, "agent.terminate", func(ctx context.Context, tx *db.Tx) error {
		is, open, err := s.Agents.Terminate(ctx, tx, in.ID, reason, graceful)
		if err != nil {
			return err
		}
		lost := make([]task.Report, len(open))
		for i, at := range open {
			lost[i] = task.Report{Task: at.Task, Attempt: at.Number, Actor: principal(by)}
		}
		recovered, err = s.Tasks.RecoverAll(ctx, tx, lost, "its agent was terminated")
		a = is
		a.Tasks -= len(open)
		return err
	}, "agent", in.ID, "reason", reason, "graceful", graceful, "recovered", &recovered)
	if err != nil {
		return nil, err
	}
	return agentOutput(a), nil
}

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
	if err := itself(ctx, in.ID); err != nil {
		return nil, err
	}
	b := in.Body
	beat := agent.Beat{Agent: in.ID, Says: b.Status, Attempt: b.Attempt, Vitals: agent.Vitals{
		Task: b.CurrentTaskID, Progress: b.ProgressPercent, Step: b.CurrentStep, MemoryMB: b.MemoryMB, CPU: b.CPUPercent,
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

// agentProblem is the problem of an error of package agent, or nil.
func agentProblem(err error) *problem.Problem {
	if e, ok := errors.AsType[*agent.StatusError](err); ok {
		p := problem.New(http.StatusConflict, "agent_status", e.Error())
		p.PresentStatus = string(e.Status)
		return p
	}
	return nil
}
