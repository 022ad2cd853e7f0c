package api

import (
	"context"
	"strconv"

	"github.com/lanekeeper/lanekeeper/shared/task"
)

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
