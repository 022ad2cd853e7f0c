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

// maxSaid limits the text of an answer in the activity log, in bytes. The journal has the complete
// text.
const maxSaid = 4 << 10

// answerLine is the output of a model call in the activity log.
type answerLine struct {
	Step    int            `json:"step"`
	Purpose string         `json:"purpose,omitempty"` // empty: the run's next step
	Text    string         `json:"text,omitempty"`
	Calls   []string       `json:"calls,omitempty"` // the requested tools, as the model named them
	Stop    llm.StopReason `json:"stop,omitempty"`
	// Estimated says that the provider did not report the complete usage.
	Estimated bool           `json:"estimated,omitempty"`
	Class     llm.ErrorClass `json:"class,omitempty"` // of the failure
}

// modelLine returns the activity entry of a model call: the answer's text and calls, and the usage.
// The usage includes interrupted tries.
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
		said.Class = llm.ClassOf(failed) // the text of its error may come from the provider
		line.Status, line.Error = activity.Error, failureOf(failed)
	}
	if used != (llm.Usage{}) {
		line.Usage, line.CostUSD = usageOf(used), activity.Dollars(used.MicroUSD)
	}
	line.Output, _ = json.Marshal(said) // strings and numbers always encode
	return line
}

// failureOf describes in our own words how a model call failed.
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

// refusedLine returns the activity entry of a call that could not be made. Self-healing never
// counts its class against a skill, because the call or a person's switch caused the refusal. The
// name of a tool that does not exist appears in the input only, because the model invented it.
func (j Job) refusedLine(s *state, v decision) activity.Entry {
	why, class := "arguments", skill.Input
	k := v.skill
	if k == nil {
		k, _ = j.Skills.Find(v.call.Name)
	}
	switch {
	case k != nil && v.call.index >= maxCalls:
		why = "too_many"
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
			line.Input = json.RawMessage(v.call.Arguments) // invalid JSON is stored as a string
		}
	}
	line.Error = v.refusal
	line.Output = encode(map[string]string{"class": string(class), "refused": why, "call": v.call.id})
	return line
}

// line returns an activity entry of the run.
func (j Job) line(name string, status activity.Status) activity.Entry {
	return activity.Entry{
		Agent: j.Agent, Surface: j.Execution.Surface, Skill: name, Status: status,
		Execution: j.Execution.ID, ParentExecution: j.Execution.Parent, Attempt: j.Execution.Attempt,
	}
}

// askedFor returns the names of the skills that an answer calls, each once, in order.
func askedFor(offered *skill.Set, calls []llm.ToolCall) (names []string) {
	for _, c := range calls {
		if k := meant(offered, c); k != nil && !slices.Contains(names, k.Name) {
			names = append(names, k.Name)
		}
	}
	return names
}
