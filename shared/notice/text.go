package notice

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Text returns what people are told of an event: what happened, on one line, and then where to look
// and what to do.
func Text(h endpoint.Happened, id trace.ID) (subject, body string) {
	subject, next := say(h)
	lines := []string{subject + ".", ""}
	if next != "" {
		lines = append(lines, next)
	}
	if id != "" {
		lines = append(lines, "What led to it: bin/lanekeeper trace "+string(id))
	}
	return subject, strings.Join(append(lines, time.UnixMicro(h.Micros).UTC().Format("2006-01-02 15:04:05 MST")), "\n")
}

// say returns the first line and the next step.
func say(h endpoint.Happened) (what, next string) {
	d := data(h.Data)
	switch h.Event {
	case endpoint.ApprovalRequested:
		return fmt.Sprintf("An approval is needed: %s wants to call %s", d.text("agent", "an agent"), d.text("skill", "a skill")),
			fmt.Sprintf("Look at it: bin/lanekeeper approvals show %s. Then approve or reject it.", h.Subject)
	case endpoint.TaskDependencyCycle:
		return "Tasks depend on each other in a circle and have failed", fmt.Sprintf("See one of them: bin/lanekeeper tasks show %s", h.Subject)
	case endpoint.AgentStale:
		if h.Subject == "" {
			return fmt.Sprintf("%s agents stopped answering at once, as after a restart of their gateway",
				d.text("count", "Many")), "Their tasks are tried again."
		}
		return fmt.Sprintf("Agent %s has stopped answering", d.text("name",
			h.Subject)), "Its tasks are given to others. Look at it: bin/lanekeeper agents show " + h.Subject
	case endpoint.BudgetWarning, endpoint.BudgetExhausted:
		of := strings.TrimSpace(d.text("scope", "") + " " + d.text("scope_id", ""))
		what := fmt.Sprintf("The budget %s has used %s %% or more", of, d.text("threshold", "90"))
		if h.Event == endpoint.BudgetExhausted {
			what = fmt.Sprintf("The budget %s is used up: what it pays for waits", of)
		}
		return what, fmt.Sprintf("Used: %s of %s tokens. See it: bin/lanekeeper budgets show %s", d.text("consumed", "?"),
			d.text("allocated", "?"), h.Subject)
	case endpoint.LaneWaitWarning:
		return fmt.Sprintf("Work has waited %s ms for lane %s", d.text("waited_ms", "?"), h.Subject), "Who has it: bin/lanekeeper lanes list"
	case endpoint.HeartbeatCompleted:
		return "A heartbeat has ended: " + d.text("status", "completed"), ""
	case endpoint.TaskStatusChanged:
		return fmt.Sprintf("Task \"%s\" is %s, it was %s", d.text("title", h.Subject), d.text("status", "?"), d.text("previous_status", "?")),
			"See it: bin/lanekeeper tasks show " + h.Subject
	}
	return h.Event + " " + h.Subject, ""
}

// data is an event's data.
type data map[string]json.RawMessage

// text returns a value as a text on one line, or what is said in its place.
func (d data) text(key, otherwise string) string {
	raw, there := d[key]
	var s string
	switch {
	case !there || string(raw) == "null":
		return otherwise
	case json.Unmarshal(raw, &s) != nil:
		s = string(raw)
	}
	return strings.Join(strings.Fields(s), " ")
}
