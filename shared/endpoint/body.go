package endpoint

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Happened is an event as the rows of the outbox carry it. A trigger of the database writes it.
type Happened struct {
	Event   string                     `json:"event"`
	Subject string                     `json:"subject"` // the id of what it happened to
	Data    map[string]json.RawMessage `json:"data"`    // keys in snake_case
	Micros  int64                      `json:"at_us"`   // of Unix time
}

// subjects names the subject of each event in bodies.
var subjects = map[string]string{
	TaskStatusChanged: "taskId", TaskDependencyCycle: "taskId", AgentStale: "agentId", BudgetWarning: "budgetId", BudgetExhausted: "budgetId",
	ApprovalRequested: "approvalId", LaneWaitWarning: "lane", HeartbeatCompleted: "executionId",
}

// Fields returns what is told of an event: event, workspaceId, traceId, timestamp, the id of what it
// happened to, and the event's data, with keys in camelCase.
func (h Happened) Fields(ws db.Workspace, id trace.ID) map[string]any {
	out := map[string]any{}
	for key, v := range h.Data {
		if key == "status" && h.Event == TaskStatusChanged {
			key = "new_status"
		}
		out[camel(key)] = v
	}
	if name := subjects[h.Event]; name != "" && h.Subject != "" {
		out[name] = h.Subject
	}
	out["event"], out["workspaceId"] = h.Event, ws
	out["timestamp"] = time.UnixMicro(h.Micros).UTC().Format("2006-01-02T15:04:05.000Z")
	if id != "" {
		out["traceId"] = id
	}
	return out
}

// body returns the body of a delivery. It is the same for each attempt.
func (h Happened) body(ws db.Workspace, id trace.ID) (json.RawMessage, error) {
	raw, err := json.Marshal(h.Fields(ws, id))
	if err != nil {
		return nil, fmt.Errorf("write the body of a webhook: %w", err)
	}
	return raw, nil
}

// camel converts a key of an event's data to its name in bodies.
func camel(key string) string {
	words := strings.Split(key, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}
