package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// auditItem is something that a person or a program did by way of the API.
type auditItem struct {
	ID        string    `json:"id" format:"uuid"`
	CreatedAt time.Time `json:"createdAt"`
	By        string    `json:"by" doc:"The kind and the id of who did it, such as user:0198…"`
	Action    string    `json:"action" doc:"The resource and the verb, such as kill_switch.set"`
	Subject   string    `json:"subject" doc:"The id or the name of what it was done to; empty: it is not known"`
	Summary   string    `json:"summary"`
	TraceID   trace.ID  `json:"traceId"`
}

// listAudit lists what people and programs did, the latest first. It is called by the Engine Room,
// lanekeeper audit and scripts.
func (s *server) listAudit(ctx context.Context, in *struct {
	By     string    `query:"by" maxLength:"255" doc:"Such as user:0198…"`
	Action string    `query:"action" maxLength:"100" doc:"An action, or its resource alone"`
	Since  time.Time `query:"since" doc:"Not before this time (RFC 3339)"`
	Until  time.Time `query:"until" doc:"Before this time (RFC 3339)"`
	Paging
}) (*answer[page[auditItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Activity.Audit(ctx, workspace(ctx), activity.AuditFilter{
		By: in.By, Action: in.Action, Since: in.Since, Until: in.Until, Before: before, Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	return newest(found.Items, found.More, positionOf, auditItemOf), nil
}

// subjects are the fields of an action's input that may name what it was done to, the best first.
var subjects = []string{"id", "task", "lane", "user", "skill", "name", "agent", "thread", "message", "slug", "target", "scope", "from"}

func auditItemOf(e activity.Entry) auditItem {
	item := auditItem{ID: e.ID, CreatedAt: e.CreatedAt.UTC(), Action: e.Skill, TraceID: e.Trace}
	var told map[string]any
	if json.Unmarshal(e.Input, &told) != nil {
		return item
	}
	item.By, _ = told["by"].(string)
	for _, field := range subjects {
		if name, _ := told[field].(string); name != "" {
			item.Subject = name
			break
		}
	}
	var facts []string
	for name, value := range told {
		if text := short(value); name != "by" && text != "" && text != item.Subject {
			facts = append(facts, camelCase(name)+" "+text)
		}
	}
	slices.Sort(facts)
	resource, verb, _ := strings.Cut(e.Skill, ".")
	item.Summary = strings.ReplaceAll(verb, "_", " ") + " " + strings.ReplaceAll(resource, "_", " ")
	if len(facts) > 0 {
		item.Summary += ": " + strings.Join(facts, ", ")
	}
	switch e.Status {
	case activity.Error:
		item.Summary += " (failed)"
	case activity.Skipped:
		item.Summary += " (nothing was done)"
	}
	return item
}

// maxFact is the largest length of a fact in a summary, in characters.
const maxFact = 120

// short returns a value for people; empty: it has none.
func short(v any) string {
	var text string
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		text = v
	case map[string]any, []any:
		raw, _ := json.Marshal(v) // it was decoded from JSON
		text = string(raw)
	default:
		text = fmt.Sprint(v)
	}
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > maxFact {
		return string(r[:maxFact-1]) + "…"
	}
	return text
}
