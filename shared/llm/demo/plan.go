package demo

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

var (
	//go:embed note.md
	noteText string
	//go:embed draft.md
	draftText string
)

// planSteps returns four or five steps for the brief's objective: look, note, use the skill that
// the objective names, draft, review. It only uses skills of the brief, or all usual skills if the
// brief has no list. It returns nil if it knows none of them.
func planSteps(b brief) []step {
	look := b.pick("query_activity", "search_memory", "list_skills", "save_memory")
	write := b.pick("save_memory", "search_memory", "query_activity", "list_skills")
	if look == "" {
		return nil
	}
	about := b.Objective.fill
	named := about("“{title}”")
	steps := []step{{
		Title:         "Look at what happened so far",
		Skill:         look,
		Inputs:        b.inputs(look, about(noteText)),
		DoneCriterion: "What is on record has been read.",
	}, {
		Title:         "Note what matters about " + named,
		Skill:         write,
		Inputs:        b.inputs(write, about(noteText)),
		DoneCriterion: "A later run finds what the objective asks for.",
	}}
	if own := b.namedSkill(); own != "" {
		steps = append(steps, step{
			Title:         fmt.Sprintf("Run %s for %s", own, named),
			Skill:         own,
			Inputs:        map[string]any{},
			DoneCriterion: own + " answered without an error.",
		})
	}
	steps = append(steps, step{
		Title:         "Draft a result for " + named,
		Skill:         write,
		Inputs:        b.inputs(write, about(draftText)),
		DoneCriterion: "A draft is stored.",
	})
	if b.pick("complete_objective") == "" {
		return append(steps, step{
			Title:         "Review against the done criterion, for a person to close",
			Skill:         look,
			Inputs:        b.inputs(look, about(draftText)),
			DoneCriterion: about("{done}"),
		})
	}
	return append(steps, step{
		Title:         "Review against the done criterion and close",
		Skill:         "complete_objective",
		Inputs:        map[string]any{},
		DoneCriterion: about("{done}"),
	})
}

// pick returns the first of the names that is one of the brief's skills.
func (b brief) pick(names ...string) string {
	for _, n := range names {
		if len(b.Skills) == 0 || slices.Contains(b.Skills, n) {
			return n
		}
	}
	return ""
}

// inputs returns the inputs for a skill that the script knows. text is the text that it would
// write. Other arguments that the schema requires are added when the step runs.
func (b brief) inputs(skill, text string) map[string]any {
	switch skill {
	case "query_activity":
		return map[string]any{"limit": number(10)}
	case "search_memory":
		return map[string]any{"q": b.Objective.fill("{title}")}
	case "save_memory":
		return map[string]any{"category": "note", "content": text}
	}
	return map[string]any{}
}

// scripted lists the skills that the script itself uses, and those that would send its placeholder
// texts to people. An objective that names one of them does not run it.
var scripted = []string{
	"plan_objective", "advance_plan", "complete_objective", "set_objective",
	"query_activity", "save_memory", "search_memory", "forget_memory", "list_skills", "run_skill",
	"send_message",
}

// namedSkill returns the skill of the brief whose name the objective's text contains as a word, or
// "".
func (b brief) namedSkill() string {
	words := strings.FieldsFunc(b.Objective.Title+" "+b.Objective.Description, func(r rune) bool {
		return r != '_' && r != '-' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	for i, w := range words {
		words[i] = strings.Trim(w, ".-")
	}
	for _, skill := range b.Skills {
		if skill != "" && !slices.Contains(scripted, skill) && slices.Contains(words, skill) {
			return skill
		}
	}
	return ""
}

// fill replaces the placeholders in a text with the objective's texts.
func (o objective) fill(text string) string {
	or := func(s, otherwise string, most int) string {
		if s = short(s, most); s == "" {
			return otherwise
		}
		return s
	}
	return strings.TrimSpace(strings.NewReplacer(
		"{title}", or(o.Title, "the objective", 80),
		"{description}", or(o.Description, "no description", 600),
		"{done}", or(o.DoneCriterion, "no done criterion is given", 300),
	).Replace(text))
}
