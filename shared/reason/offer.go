package reason

import (
	"cmp"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// toolShare is the share of a model's context window that tool definitions may take.
const toolShare = 0.25

// offer returns the tools of a request. If all skills fit into their share of the window, it
// returns all. Otherwise it returns, as far as they fit: the skills that list and run other skills,
// the skills that the run has used, most recent first, and the built-in skills. The model can call
// the others through run_skill. Without run_skill, offer adds as many of the others as fit.
func offer(skills *skill.Set, window int, used []string) []llm.Tool {
	left, all := int(toolShare*float64(window)), skills.All()
	if window == 0 || estimate(llm.Request{Tools: skills.Tools()}) <= left {
		return skills.Tools()
	}
	const builtin, others = 1, 2
	ranks := map[string]int{}
	for i, name := range used {
		ranks[name] = -i - 1
	}
	through := false
	for _, k := range all {
		switch {
		case k.Through || k.Name == skill.ListSkills:
			ranks[k.Name] = -len(used) - 1
			through = through || k.Through
		case ranks[k.Name] < 0:
		case k.Kind == skill.Builtin:
			ranks[k.Name] = builtin
		default:
			ranks[k.Name] = others
		}
	}
	slices.SortStableFunc(all, func(a, b *skill.Skill) int { return cmp.Compare(ranks[a.Name], ranks[b.Name]) })
	var names []string
	for _, k := range all {
		weight := estimate(llm.Request{Tools: []llm.Tool{k.Tool()}})
		if weight <= left && (!through || ranks[k.Name] < others) {
			names, left = append(names, k.Name), left-weight
		}
	}
	return skills.Only(names...).Tools() // in a fixed order, which suits caches
}
