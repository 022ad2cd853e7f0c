package demo

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

//go:embed chat.md
var chatText string

// decide is the script. It returns the next move for the situation.
func (s situation) decide() move {
	switch {
	case s.task == "":
		return s.chat()
	case s.task == "reflect":
		return s.reflect()
	case s.task == "remember":
		return s.rememberDone()
	case s.task == "work":
		return s.work()
	case s.brief.Objective.ID == "":
		return say("I cannot read the task: the first user message is not the JSON with an objective that I expect.")
	case s.task == "plan":
		return s.plan()
	default:
		return s.advance()
	}
}

func (s situation) plan() move {
	steps := planSteps(s.brief)
	if steps == nil {
		return say("I cannot plan %s: I know none of the skills that are there.", s.title())
	}
	list := make([]any, len(steps))
	for i, st := range steps {
		list[i] = map[string]any{
			"title": st.Title, "skill": st.Skill, "inputs": st.Inputs, "doneCriterion": st.DoneCriterion,
		}
	}
	next, _ := s.pursue(act{"plan_objective", map[string]any{"objectiveId": s.brief.Objective.ID, "steps": list}})
	if next != nil {
		return *next
	}
	return say("I gave %s a plan of %d steps. The demo model plans every objective alike.", s.title(), len(steps))
}

func (s situation) advance() move {
	st := s.brief.Step
	if sameName(st.Skill, "complete_objective") {
		return s.complete()
	}
	result := "Nothing to call for this step."
	if st.Skill != "" {
		next, done := s.pursue(act{st.Skill, st.Inputs})
		if next != nil {
			return *next
		}
		result = fmt.Sprintf("%s answered with %s.", done.call.Name, describe(done.result.Content))
	}
	if next, _ := s.pursue(s.advancePlan(result)); next != nil {
		return *next
	}
	return say("Step %d of %s is done. %s", st.Number, s.title(), result)
}

// complete closes the objective. The demo model can't judge a result, and the stored summary says
// so.
func (s situation) complete() move {
	result := fmt.Sprintf("The plan has come to step %d, its review.", s.brief.Step.Number)
	if next, _ := s.pursue(s.advancePlan(result)); next != nil {
		return *next
	}
	summary := result + " The demo model did not judge the result."
	if c := short(s.brief.Objective.DoneCriterion, 200); c != "" {
		summary += " To be judged by: " + c
	}
	next, _ := s.pursue(act{"complete_objective", map[string]any{
		"objectiveId": s.brief.Objective.ID,
		"summary":     mark + summary,
	}})
	if next != nil {
		return *next
	}
	return say("I closed %s. %s", s.title(), result)
}

func (s situation) advancePlan(result string) act {
	return act{"advance_plan", map[string]any{
		"objectiveId": s.brief.Objective.ID,
		"step":        number(s.brief.Step.Number),
		"result":      mark + result,
	}}
}

// work makes the calls that the input of a task names, one after the other, and says so.
func (s situation) work() move {
	t := s.brief.Task
	if t.ID == "" {
		return say("I cannot read the task: the first user message is not the JSON with a task that I expect.")
	}
	var input struct {
		Steps []step `json:"steps"`
	}
	_ = json.Unmarshal(t.Input, &input) // another input lists no calls
	for _, st := range input.Steps {
		if next, _ := s.pursue(act{st.Skill, st.Inputs}); next != nil {
			if next.failed {
				next.text = "FAILED: " + next.text
			}
			return *next
		}
	}
	return say("I did “%s”: calls that its input lists: %d, results of other tasks that I read: %d. The demo model judges nothing.",
		short(t.Title, 80), len(input.Steps), len(t.DependsOn))
}

// reflect counts calls, and names the skill with the most failures.
func (s situation) reflect() move {
	calls, failures, worst := 0, 0, used{}
	for _, u := range s.brief.Activity {
		calls, failures = calls+u.Calls, failures+u.Failures
		if u.Failures > worst.Failures {
			worst = u
		}
	}
	if worst.Failures == 0 {
		return say("%d calls of %d skills, none of which failed. The demo model counts and proposes nothing.", calls, len(s.brief.Activity))
	}
	return say("%d calls of %d skills, %d of which failed, most of them of %s. Proposal: look at %[4]s.",
		calls, len(s.brief.Activity), failures, short(worst.Skill, 64))
}

// rememberDone saves the first finished work, once.
func (s situation) rememberDone() move {
	if len(s.brief.Done) == 0 {
		return say("Nothing was done that a later run would need.")
	}
	if _, ok := s.offered("save_memory"); !ok {
		return say("I cannot remember: save_memory is not among the tools I have here.")
	}
	first := s.brief.Done[0]
	next, _ := s.pursue(act{"save_memory", map[string]any{
		"category": "work", "importance": number(3), "content": mark + short(first.Work, 120) +
			": " + strings.TrimPrefix(short(first.Result, 300), mark),
	}})
	if next != nil {
		return *next
	}
	return say("I saved one memory about %s.", short(first.Work, 120))
}

// rememberThis matches a request to remember something. Its groups are the polite phrase, if any,
// and the text to remember.
var rememberThis = pattern.New(
	`(?is)^\W*(please,?\s+|(?:can|could|would|will)\s+you\s+(?:please\s+)?)?remember(?:\s+that\b|\s*:)?\s+(.*\w.*\S|\w)\s*$`)

func (s situation) chat() move {
	if match := rememberThis().FindStringSubmatch(s.said); match != nil {
		polite, what := match[1] != "", match[2]
		switch question := strings.HasSuffix(what, "?"); {
		case !question:
			return s.remember(what)
		case polite: // "Could you remember that …?" is a request, "Remember me?" is not
			return s.remember(strings.TrimRight(what, "? "))
		}
	}
	return say("%s", strings.NewReplacer("{tools}", s.toolList()).Replace(strings.TrimSpace(chatText)))
}

func (s situation) remember(what string) move {
	if _, ok := s.offered("save_memory"); !ok {
		return say("I cannot remember that: save_memory is not among the tools I have here.")
	}
	next, _ := s.pursue(act{"save_memory", map[string]any{"content": what}})
	if next != nil {
		return *next
	}
	return say("I saved it to memory: %s", short(what, 200))
}

// toolList lists the available tools in one sentence.
func (s situation) toolList() string {
	const most = 12
	names := make([]string, 0, most)
	for _, t := range s.tools[:min(len(s.tools), most)] {
		names = append(names, short(t.Name, 64))
	}
	switch {
	case len(names) == 0:
		return "I have no tools here."
	case len(s.tools) > most:
		return fmt.Sprintf("My tools here: %s and %d more.", strings.Join(names, ", "), len(s.tools)-most)
	}
	return fmt.Sprintf("My tools here: %s.", strings.Join(names, ", "))
}

// title returns the objective's name for use in a sentence.
func (s situation) title() string {
	if t := short(s.brief.Objective.Title, 80); t != "" {
		return "objective “" + t + "”"
	}
	return "the objective"
}

func (s situation) offered(name string) (llm.Tool, bool) {
	for _, t := range s.tools {
		if t.Name == name {
			return t, true
		}
	}
	for _, t := range s.tools {
		if name != "" && sameName(t.Name, name) {
			return t, true
		}
	}
	return llm.Tool{}, false
}
