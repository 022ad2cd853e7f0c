package objective

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// Limits of texts that people write about objectives, in characters unless noted otherwise.
const (
	MaxTitle       = 255
	MaxDescription = 8000
	MaxCriterion   = 2000
	MaxReason      = 500
	MaxSkill       = 255
	MaxInputs      = 32 << 10 // bytes
)

// problems collects validation errors.
type problems struct{ skill.InvalidError }

func (p *problems) add(field, format string, args ...any) {
	p.Fields = append(p.Fields, problem.Field{Field: field, Problem: fmt.Sprintf(format, args...)})
}

// text normalizes a text to the form that is stored, and checks its length.
func (p *problems) text(field string, s *string, shortest, longest int) {
	*s = strings.TrimSpace(activity.Text(*s))
	if n := utf8.RuneCountInString(*s); n < shortest || n > longest {
		p.add(field, "must have %d to %d characters", shortest, longest)
	}
}

func (p *problems) orNil() error {
	if len(p.Fields) == 0 {
		return nil
	}
	return &p.InvalidError
}

func checkText(field, s string, shortest, longest int) (string, error) {
	var p problems
	p.text(field, &s, shortest, longest)
	return s, p.orNil()
}

// check normalizes an objective to the form that is stored, and validates it.
func check(o *Objective) error {
	var p problems
	p.text("title", &o.Title, 1, MaxTitle)
	p.text("description", &o.Description, 0, MaxDescription)
	p.text("doneCriterion", &o.DoneCriterion, 0, MaxCriterion)
	if o.Priority < 1 || o.Priority > 10 {
		p.add("priority", "must be 1 to 10")
	}
	return p.orNil()
}

// checkSteps normalizes and validates the steps of a plan. It returns a copy.
func checkSteps(steps []Step) ([]Step, error) {
	var p problems
	if len(steps) < 1 || len(steps) > MaxSteps {
		p.add("steps", "must be 1 to %d", MaxSteps)
		return nil, p.orNil()
	}
	steps = slices.Clone(steps)
	for i := range steps {
		st, at := &steps[i], fmt.Sprintf("steps[%d].", i)
		p.text(at+"title", &st.Title, 1, MaxTitle)
		p.text(at+"skill", &st.Skill, 0, MaxSkill)
		p.text(at+"doneCriterion", &st.DoneCriterion, 0, MaxCriterion)
		st.Inputs = activity.Storable(st.Inputs)
		var object map[string]json.RawMessage
		switch {
		case len(st.Inputs) > MaxInputs:
			p.add(at+"inputs", "may have 32 KiB at most")
		case len(st.Inputs) > 0 && (json.Unmarshal(st.Inputs, &object) != nil || object == nil):
			p.add(at+"inputs", "must be an object")
		}
	}
	return steps, p.orNil()
}
