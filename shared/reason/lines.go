package reason

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// summarising is the purpose of a model call that compacts a conversation.
const summarising = "summary"

// maxSaid bounds the text of an answer in the activity log, in bytes; the journal has
// all of it.
const maxSaid = 4 << 10

// answerLine is the output of a model call in the activity log.
type answerLine struct {
	Step    int            `json:"step"`
	Purpose string         `json:"purpose,omitempty"` // other than the run's own next step
	Text    string         `json:"text,omitempty"`
	Calls   []string       `json:"calls,omitempty"` // the tools it asks for, as the model named them
	Stop    llm.StopReason `json:"stop,omitempty"`
	// Estimated says that the provider did not report all of what it used.
	Estimated bool           `json:"estimated,omitempty"`
	Class     llm.ErrorClass `json:"class,omitempty"` // of its failure
}

// modelLine is the line of a model call in the activity log: what it said, which calls
// it asks for, and what it used. What tries used that broke off is in it.
func (r *Runner) modelLine(
	job Job, s *state, purpose string, resp llm.Response, failed error, took time.Duration,
) activity.Entry {
	used := resp.Used()
	said := answerLine{Step: s.Steps + 1, Purpose: purpose, Text: clip(resp.Text, maxSaid), Stop: resp.StopReason, Estimated: used.Estimated}
	for _, c := range resp.Calls {
		said.Calls = append(said.Calls, clip(c.Name, maxName))
	}
	line := job.line(activity.ModelCall, activity.Success)
	line.Model, line.Duration = cmp.Or(resp.Model, job.Model, r.ModelID, s.model.Name()), took
	if failed != nil {
		said.Class = llm.ClassOf(failed) // the text of its error may be the provider's
		line.Status, line.Error = activity.Error, failureOf(failed)
	}
	if used != (llm.Usage{}) {
		line.Usage, line.CostUSD = usageOf(used), activity.Dollars(used.MicroUSD)
	}
	line.Output, _ = json.Marshal(said) // texts and numbers have a JSON
	return line
}

// failureOf says in our words how a model call failed.
func failureOf(err error) string {
	return "the model failed: " + cmp.Or(string(llm.ClassOf(err)), "unknown error")
}

func usageOf(u llm.Usage) *activity.Usage {
	return &activity.Usage{
		PromptTokens:     int64(u.TotalTokens() - u.CompletionTokens),
		CompletionTokens: int64(u.CompletionTokens),
		TotalTokens:      int64(u.TotalTokens()),
	}
}

// refusedLine is the line of a call that could not be made. Its class is never one by
// which self-healing judges a skill: the call was at fault, or a person's switch. A
// tool that does not exist is told in the input, as its name is the model's invention.
func (j Job) refusedLine(s *state, v decision) activity.Entry {
	why, class := "arguments", skill.Input
	k := v.skill
	if k == nil {
		k, _ = j.Skills.Find(v.call.Name)
	}
	switch {
	case k == nil || v.skill == nil && !s.cut():
		why = "unknown_tool"
	case v.skill == nil:
		why = "cut_off"
	case s.halts.Skill(k.Name) != "":
		why, class = "switched_off", skill.Policy
	case v.arguments != nil:
		why, class = "approval", skill.Policy
	}
	line := j.line(activity.UnknownTool, activity.Error)
	line.Input = encode(map[string]string{"tool": clip(v.call.Name, maxName), "arguments": string(v.call.Arguments)})
	if why != "unknown_tool" {
		line.Skill, line.SkillID = k.Name, k.ID
		line.Input = nil
		if v.call.Arguments != "" {
			line.Input = json.RawMessage(v.call.Arguments) // what is not JSON is stored as a text
		}
	}
	line.Error = v.refusal
	line.Output = encode(map[string]string{"class": string(class), "refused": why, "call": v.call.id})
	return line
}

// line is a line of the run's in the activity log.
func (j Job) line(name string, status activity.Status) activity.Entry {
	return activity.Entry{
		Agent: j.Agent, Surface: j.Execution.Surface, Skill: name, Status: status,
		Execution: j.Execution.ID, ParentExecution: j.Execution.Parent, Attempt: j.Execution.Attempt,
	}
}

// askedFor are the skills that the calls of an answer ask for, each once, in order.
func askedFor(offered *skill.Set, calls []llm.ToolCall) (names []string) {
	for _, c := range calls {
		if k := meant(offered, c); k != nil && !slices.Contains(names, k.Name) {
			names = append(names, k.Name)
		}
	}
	return names
}
