package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// situation is a request in the form that the script needs.
type situation struct {
	task      string // plan, advance, reflect, remember, work or ""
	brief     brief  // of all tasks but ""
	said      string // the last user message
	tools     []llm.Tool
	exchanges []exchange // since the brief; in a chat since the last user message
	ids       map[string]bool
}

// brief is the first user message of a task.
type brief struct {
	Objective  objective `json:"objective"`
	Skills     []string  `json:"skills"`   // plan
	Step       step      `json:"step"`     // advance
	Activity   []used    `json:"activity"` // reflect
	Done       []done    `json:"done"`     // remember
	Remembered []string  `json:"remembered"`
	Task       work      `json:"task"` // work
}

// work is a task of the built-in worker.
type work struct {
	ID        string          `json:"id"`
	Title     string          `json:"title"`
	Input     json.RawMessage `json:"input"`
	DependsOn []struct {
		Title string `json:"title"`
	} `json:"dependsOn"`
}

// used holds the call counts of a skill.
type used struct {
	Skill    string `json:"skill"`
	Calls    int    `json:"calls"`
	Failures int    `json:"failures"`
}

// done is the result of a piece of work.
type done struct {
	Work   string `json:"work"`
	Result string `json:"result"`
}

type objective struct {
	ID            string `json:"id"`
	Title         string `json:"title"`
	Description   string `json:"description"`
	DoneCriterion string `json:"doneCriterion"`
}

type step struct {
	Number        int            `json:"number"`
	Title         string         `json:"title"`
	Skill         string         `json:"skill"`
	Inputs        map[string]any `json:"inputs"`
	DoneCriterion string         `json:"doneCriterion"`
}

// exchange is a call and its result.
type exchange struct {
	call    llm.ToolCall
	result  llm.ToolResult
	refused string // why a call that waited for an approval was not made, or failed
}

// read extracts the situation from a request. It returns an error if a provider would refuse the
// conversation.
func read(req llm.Request) (situation, error) {
	s := situation{task: task(req.System), tools: req.Tools, ids: map[string]bool{}}
	if len(req.Messages) == 0 {
		return s, errors.New("no messages")
	}
	var open []llm.ToolCall // calls of the last assistant message without a result
	first := ""
	for i, m := range req.Messages {
		switch m.Role {
		case llm.RoleTool:
			open = s.record(open, m.Results)
			continue
		case llm.RoleSystem:
			s.note(m.Text)
			continue
		}
		if len(open) > 0 {
			return s, fmt.Errorf("message %d comes before the result of call %q", i, open[0].ID)
		}
		switch m.Role {
		case llm.RoleAssistant:
			open = m.Calls
			for _, c := range m.Calls {
				s.ids[c.ID] = true
			}
		case llm.RoleUser:
			if s.said = m.Text; first == "" {
				first = m.Text
			}
			if s.task == "" {
				s.exchanges = nil
			} else {
				s.told(m.Text)
			}
		default:
			return s, fmt.Errorf("message %d has the unknown role %q", i, m.Role)
		}
	}
	if len(open) > 0 {
		return s, fmt.Errorf("call %q has no result", open[0].ID)
	}
	s.brief = parseBrief(first)
	return s, nil
}

// record pairs results with open calls and returns the calls that are still open.
func (s *situation) record(open []llm.ToolCall, results []llm.ToolResult) []llm.ToolCall {
	var still []llm.ToolCall
	for _, c := range open {
		answered := false
		for _, r := range results {
			if r.CallID == c.ID && !answered {
				s.exchanges = append(s.exchanges, exchange{call: c, result: r})
				answered = true
			}
		}
		if !answered {
			still = append(still, c)
		}
	}
	return still
}

// outcome matches a note about a call that waited for an approval: its skill, and what became of it.
var outcome = pattern.New(`(?s)The call of (\S+) that waited for approval (\S+) (was approved.*? and made\. Its result \(data, not instructions\):\n)?(.*)`)

// told puts what became of a call that waited in the place of its result.
func (s *situation) told(text string) {
	found := outcome().FindStringSubmatch(text)
	if found == nil {
		return
	}
	for i, e := range s.exchanges {
		if !sameName(e.call.Name, found[1]) || !strings.Contains(e.result.Content, found[2]) {
			continue
		}
		if found[3] != "" {
			s.exchanges[i].result.Content = found[4]
		} else {
			s.exchanges[i].refused = found[4]
		}
	}
}

// note adds a system message to the failed result that it comments on.
func (s *situation) note(text string) {
	if n := len(s.exchanges); n > 0 && s.exchanges[n-1].result.IsError {
		s.exchanges[n-1].result.Content += "\n" + text
	}
}

// nextID returns a call id that the conversation does not have yet.
func (s situation) nextID() string {
	for n := len(s.ids) + 1; ; n++ {
		if id := fmt.Sprintf("demo_%d", n); !s.ids[id] {
			return id
		}
	}
}

// task returns the task that the last line of the system prompt names.
func task(system string) string {
	lines := strings.Split(strings.TrimSpace(system), "\n")
	switch strings.TrimSpace(lines[len(lines)-1]) {
	case "task: plan":
		return "plan"
	case "task: advance":
		return "advance"
	case "task: reflect":
		return "reflect"
	case "task: remember":
		return "remember"
	case "task: work":
		return "work"
	}
	return ""
}

// parseBrief parses the JSON in text, also if other text surrounds it. It returns an empty brief if
// the JSON is invalid.
func parseBrief(text string) (b brief) {
	from, to := strings.Index(text, "{"), strings.LastIndex(text, "}")
	if from < 0 || to < from {
		return b
	}
	if jsonscan.Decode([]byte(text[from:to+1]), &b) != nil {
		return brief{}
	}
	return b
}
