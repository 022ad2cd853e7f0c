package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// TaskFilter narrows a set of tasks. Fields that are left out match all.
type TaskFilter struct {
	Status        task.Status `query:"status" json:"status,omitempty" enum:"PENDING,ASSIGNED,RUNNING,PAUSED,COMPLETED,FAILED,ABORTED,ARCHIVED"`
	Priority      int         `query:"priority" json:"priority,omitempty" minimum:"1" maximum:"10" doc:"This priority"`
	MinPriority   int         `query:"minPriority" json:"minPriority,omitempty" minimum:"1" maximum:"10" doc:"priority>=8 says the same"`
	MaxPriority   int         `query:"maxPriority" json:"maxPriority,omitempty" minimum:"1" maximum:"10" doc:"priority<=8 says the same"`
	Tags          string      `query:"tags" json:"tags,omitempty" maxLength:"1100" doc:"With commas between: the task has all of them"`
	AgentID       string      `query:"agentId" json:"agentId,omitempty" format:"uuid"`
	TaskType      string      `query:"taskType" json:"taskType,omitempty" maxLength:"100"`
	ThreadID      string      `query:"threadId" json:"threadId,omitempty" format:"uuid"`
	ProjectID     string      `query:"projectId" json:"projectId,omitempty" format:"uuid"`
	MilestoneID   string      `query:"milestoneId" json:"milestoneId,omitempty" format:"uuid"`
	Search        string      `query:"search" json:"search,omitempty" maxLength:"200" doc:"Part of the title or the description"`
	CreatedAfter  time.Time   `query:"createdAfter" json:"createdAfter,omitempty"`
	CreatedBefore time.Time   `query:"createdBefore" json:"createdBefore,omitempty"`
	ReasonCode    task.Code   `query:"reasonCode" json:"reasonCode,omitempty" enum:"dependency,dependency_failed,thread,no_agent,agents_full,budget,paused,backoff,cancelled" doc:"Tasks that wait for this reason. A page may hold fewer than limit; nextCursor says whether there are more"`
}

// of returns the filter without a position. at is where the request has the fields.
func (f TaskFilter) of(at string) (task.Filter, error) {
	out := task.Filter{
		Status: f.Status, MinPriority: f.MinPriority, MaxPriority: f.MaxPriority, Agent: f.AgentID, Type: f.TaskType,
		Thread: f.ThreadID, Project: f.ProjectID, Milestone: f.MilestoneID, Text: f.Search,
		CreatedAfter: f.CreatedAfter, CreatedBefore: f.CreatedBefore,
	}
	if f.Priority != 0 {
		if f.MinPriority != 0 || f.MaxPriority != 0 {
			return out, invalid(problem.At(at+".priority", "goes without minPriority and maxPriority"))
		}
		out.MinPriority, out.MaxPriority = f.Priority, f.Priority
	}
	for tag := range strings.SplitSeq(f.Tags, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			out.Tags = append(out.Tags, tag)
		}
	}
	return out, nil
}

type listTasksInput struct {
	TaskFilter
	Sort task.Order `query:"sort" enum:"-createdAt,createdAt,-priority" default:"-createdAt" doc:"-priority: in the order in which agents get them"`
	Paging
}

// listTasks is called by the Engine Room, scripts and lanekeeper tasks.
func (s *server) listTasks(ctx context.Context, in *listTasksInput) (*answer[page[taskItem]], error) {
	after, err := taskPlace(in.Cursor)
	if err != nil {
		return nil, err
	}
	f, err := in.of("query")
	if err != nil {
		return nil, err
	}
	f.Order, f.After, f.Limit = in.Sort, after, in.Limit+1
	items, next, err := s.waitingTasks(ctx, f, in.ReasonCode, in.Limit)
	if err != nil {
		return nil, err
	}
	return listing(items, next), nil
}

// waits reports whether a task waits, so that a reason is shown with it.
func waits(t task.Task) bool {
	return t.Status == task.Pending || t.Status == task.Paused || t.Status == task.Aborted
}

// A listing by reason reads tasks in pages of reasonPage, and at most reasonPages pages for one request,
// because reasons are computed and not stored.
const (
	reasonPage  = 200
	reasonPages = 10
)

// waitingTasks lists tasks. A task that waits has its main reason. With a reason it lists only the tasks
// that wait for that one. It returns the cursor of the next page; empty: there is none.
func (s *server) waitingTasks(ctx context.Context, f task.Filter, reason task.Code, limit int) ([]taskItem, string, error) {
	pages := 1
	if reason != "" {
		pages, f.Limit = reasonPages, reasonPage+1
		if f.Status == "" {
			f.Status = statusOf(reason)
		}
	}
	items := []taskItem{}
	for page := 1; ; page++ {
		found, err := s.Tasks.List(ctx, workspace(ctx), f)
		if err != nil {
			return nil, "", err
		}
		more := len(found) == f.Limit
		if more {
			found = found[:f.Limit-1]
		}
		waiting := []task.Task{}
		for _, t := range found {
			if waits(t) {
				waiting = append(waiting, t)
			}
		}
		reasons, err := s.Coordinator.Main(ctx, workspace(ctx), waiting)
		if err != nil {
			return nil, "", err
		}
		for i, t := range found {
			r := reasons[t.ID]
			f.After = task.Place{Priority: t.Priority, At: t.CreatedAt, ID: t.ID}
			if reason == "" || r.Code == reason {
				item := taskOf(t)
				item.ReasonCode, item.WhySummary = r.Code, r.Message
				items = append(items, item)
			}
			if len(items) == limit && (more || i < len(found)-1) {
				return items, cursorOfTask(t), nil
			}
		}
		if !more {
			return items, "", nil
		}
		if page == pages {
			return items, cursorOfTask(found[len(found)-1]), nil
		}
	}
}

// taskPlace reads the cursor of a listing of tasks: a time, a priority and an id.
func taskPlace(s string) (task.Place, error) {
	c, err := parseCursor(s)
	if err != nil || s == "" {
		return task.Place{}, err
	}
	priority, id, _ := strings.Cut(c.key, ".")
	n, wrong := strconv.Atoi(priority)
	key, bad := uuid.Parse(id)
	if wrong != nil || bad != nil || n < 1 || n > 10 {
		return task.Place{}, badCursor
	}
	return task.Place{Priority: n, At: c.at, ID: key.String()}, nil
}

func cursorOfTask(t task.Task) string {
	return cursor{t.CreatedAt, strconv.Itoa(t.Priority) + "." + t.ID}.String()
}

// statusOf returns the status of the tasks that can wait for a reason. A task that a budget has paused
// is found under status=PAUSED.
func statusOf(reason task.Code) task.Status {
	switch reason {
	case task.IsPaused:
		return task.Paused
	case task.WaitsForBackoff, task.IsCancelled:
		return task.Aborted
	}
	return task.Pending
}

// taskGraph is the neighbourhood of a task.
type taskGraph struct {
	Nodes     []graphNode `json:"nodes" nullable:"false" doc:"The task itself first, then the nearest; at most 60"`
	Edges     []graphEdge `json:"edges" nullable:"false"`
	Truncated bool        `json:"truncated" doc:"There are more tasks within these hops"`
}

type graphNode struct {
	ID         string      `json:"id" format:"uuid"`
	Title      string      `json:"title"`
	Status     task.Status `json:"status" enum:"PENDING,ASSIGNED,RUNNING,PAUSED,COMPLETED,FAILED,ABORTED,ARCHIVED"`
	ReasonCode task.Code   `json:"reasonCode,omitempty" enum:"dependency,dependency_failed,thread,no_agent,agents_full,budget,paused,backoff,cancelled" doc:"Of a task that waits"`
	Hops       int         `json:"hops"`
}

type graphEdge struct {
	From     string `json:"from" format:"uuid" doc:"Must be COMPLETED before to begins"`
	To       string `json:"to" format:"uuid"`
	Blocking bool   `json:"blocking" doc:"It holds to up now"`
}

// getTaskGraph is called by the Engine Room.
func (s *server) getTaskGraph(ctx context.Context, in *struct {
	IDPath
	Hops int `query:"hops" minimum:"1" maximum:"5" default:"2" doc:"How far from the task, in both directions"`
}) (*answer[taskGraph], error) {
	g, err := s.Tasks.Graph(ctx, workspace(ctx), in.ID, in.Hops)
	if err != nil {
		return nil, err
	}
	out := taskGraph{Nodes: make([]graphNode, len(g.Nodes)), Edges: make([]graphEdge, len(g.Edges)), Truncated: g.Truncated}
	waiting := []task.Task{}
	for _, n := range g.Nodes {
		if waits(n.Task) {
			waiting = append(waiting, n.Task)
		}
	}
	reasons, err := s.Coordinator.Main(ctx, workspace(ctx), waiting)
	if err != nil {
		return nil, err
	}
	for i, n := range g.Nodes {
		out.Nodes[i] = graphNode{ID: n.ID, Title: n.Title, Status: n.Status, ReasonCode: reasons[n.ID].Code, Hops: n.Hops}
	}
	for i, e := range g.Edges {
		out.Edges[i] = graphEdge{e.From, e.To, e.Blocking}
	}
	return answered(out), nil
}

// taskReason is one reason why a task does not run.
type taskReason struct {
	Code     task.Code   `json:"code" enum:"dependency,dependency_failed,thread,no_agent,agents_full,budget,paused,backoff,cancelled,failed,ended,assigned,running"`
	Message  string      `json:"message"`
	TaskID   string      `json:"taskId,omitempty" format:"uuid" doc:"The task that it waits for"`
	Status   task.Status `json:"status,omitempty" doc:"Of that task"`
	ThreadID string      `json:"threadId,omitempty" format:"uuid"`
	Until    *time.Time  `json:"until,omitempty"`
}

type taskExplanation struct {
	Summary string       `json:"summary" doc:"In one sentence"`
	Reasons []taskReason `json:"reasons" nullable:"false" doc:"The main reason first; at most 20 dependencies"`
}

// explainTask says why a task is not running. It is called by the Engine Room and lanekeeper tasks.
func (s *server) explainTask(ctx context.Context, in *IDPath) (*answer[taskExplanation], error) {
	summary, reasons, err := s.Coordinator.Why(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	out := taskExplanation{Summary: summary, Reasons: make([]taskReason, len(reasons))}
	for i, r := range reasons {
		out.Reasons[i] = taskReason{Code: r.Code, Message: r.Message, TaskID: r.Task, Status: r.Status, ThreadID: r.Thread, Until: utc(r.Until)}
	}
	t, err := s.Tasks.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	unpaid, err := s.whyUnpaid(ctx, t)
	if err != nil {
		return nil, err
	}
	if unpaid != nil && !slices.ContainsFunc(reasons, func(r task.Reason) bool { return r.Code == task.WaitsForBudget }) {
		if t.Status == task.Paused {
			out.Reasons = nil // nobody has to resume it: the budget holds it up
		}
		if out.Reasons = append(out.Reasons, *unpaid); len(out.Reasons) == 1 {
			out.Summary = unpaid.Message
		}
	}
	return answered(out), nil
}

// whyUnpaid says which budget holds a task up, or nil.
func (s *server) whyUnpaid(ctx context.Context, t task.Task) (*taskReason, error) {
	if t.Status != task.Pending && (t.Status != task.Paused || t.StatusReason != budget.PauseReason) {
		return nil, nil
	}
	shape := budget.Shape(t.Type, t.Priority, t.Metadata)
	h, err := s.Budgets.Headroom(ctx, workspace(ctx), coverOf(t), shape)
	switch {
	case err != nil:
		return nil, err
	case h.Refused == nil && t.Status == task.Paused:
		why := "it is paused: " + budget.PauseReason + "; no budget holds it up any more, and the next cycle has it go on"
		return &taskReason{Code: task.WaitsForBudget, Message: why}, nil
	case h.Refused == nil:
		return nil, nil
	}
	r := taskReason{Code: task.WaitsForBudget, Until: utc(h.Refused.Until())}
	if t.Status == task.Paused {
		r.Until = utc(&h.Refused.FreesAt)
		r.Message = fmt.Sprintf("it is paused: %s; it goes on by itself when more is allocated to %s, or at %s", budget.PauseReason,
			h.Refused.Level(), r.Until.Format(time.RFC3339))
		return &r, nil
	}
	r.Message = fmt.Sprintf("%s, and the task is expected to use %d tokens: reallocate some to it, or pause the task", h.Refused, h.Tokens)
	return &r, nil
}

// taskLogItem is one row of a task's log.
type taskLogItem struct {
	ID             string          `json:"id" format:"uuid"`
	Level          task.Level      `json:"level" enum:"DEBUG,INFO,WARN,ERROR,CRITICAL"`
	Event          task.Event      `json:"event" enum:"created,state_transition,task_assigned,progress_update,checkpoint,task_recovery,timeout,conflict,dependency_cycle,budget,error"`
	Message        string          `json:"message"`
	Details        json.RawMessage `json:"details,omitempty"`
	PreviousStatus task.Status     `json:"previousStatus,omitempty"`
	NewStatus      task.Status     `json:"newStatus,omitempty"`
	Attempt        int             `json:"attempt,omitempty"`
	AgentID        string          `json:"agentId,omitempty" format:"uuid"`
	SessionKey     string          `json:"sessionKey,omitempty"`
	StackTrace     string          `json:"stackTrace,omitempty"`
	Actor          string          `json:"actor" doc:"Who did it"`
	TraceID        trace.ID        `json:"traceId,omitempty"`
	CreatedAt      time.Time       `json:"createdAt"`
}

// listTaskLogs is called by the Engine Room and lanekeeper tasks.
func (s *server) listTaskLogs(ctx context.Context, in *struct {
	IDPath
	Level task.Level `query:"level" enum:"DEBUG,INFO,WARN,ERROR,CRITICAL"`
	Event task.Event `query:"event" enum:"created,state_transition,task_assigned,progress_update,checkpoint,task_recovery,timeout,conflict,dependency_cycle,budget,error"`
	Paging
}) (*answer[page[taskLogItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Tasks.Logs(ctx, workspace(ctx), in.ID, task.LogFilter{Level: in.Level, Event: in.Event,
		Before: before, Limit: in.Limit + 1})
	if err != nil {
		return nil, err
	}
	found, more := db.Page(found, in.Limit)
	return newest(found, more, func(x task.Entry) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} },
		func(e task.Entry) taskLogItem {
			return taskLogItem{
				ID: e.ID, Level: e.Level, Event: e.Event, Message: e.Message, Details: camelKeys(e.Details, everywhere),
				PreviousStatus: e.From, NewStatus: e.To,
				Attempt: e.Attempt, AgentID: e.Agent, SessionKey: e.Session, StackTrace: e.StackTrace, Actor: e.Actor,
				TraceID: e.Trace, CreatedAt: e.CreatedAt.UTC(),
			}
		}), nil
}
