package skill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// ListSkills is the name of the built-in skill that lists the usable skills.
const ListSkills = "list_skills"

// Skills returns the built-in skills that list and run other skills.
func Skills() ([]Skill, error) {
	list, err1 := Define(texts, ListSkills, Skill{Scope: Both, Effect: Read, Run: listSkills})
	through, err2 := Define(texts, "run_skill", Skill{Scope: Both, Through: true, Run: func(context.Context, lane.Tx, Call) (any, error) {
		return nil, Refuse("a skill is run in its own right, not here")
	}})
	return []Skill{list, through}, errors.Join(err1, err2)
}

// listSkills lists the skills that the execution may use.
func listSkills(_ context.Context, _ lane.Tx, c Call) (any, error) {
	var args struct {
		Query      string `json:"q"`
		Parameters bool   `json:"parameters"`
	}
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return nil, Refuse("the arguments could not be read")
	}
	type item struct {
		Name             string          `json:"name"`
		Description      string          `json:"description"`
		Effect           Effect          `json:"effect,omitempty"`
		RequiresApproval bool            `json:"requiresApproval,omitempty"`
		Parameters       json.RawMessage `json:"parameters,omitempty"`
	}
	out := struct {
		Skills []item `json:"skills"`
		More   int    `json:"more,omitempty"`
	}{Skills: []item{}}
	most := maxListed
	if args.Parameters {
		most = maxDescribed
	}
	for _, k := range c.Offered.All() {
		if !strings.Contains(strings.ToLower(k.Name+" "+k.Description), strings.ToLower(args.Query)) {
			continue
		}
		if len(out.Skills) == most {
			out.More++
			continue
		}
		i := item{Name: k.Name, Description: k.Description, Effect: k.Effect, RequiresApproval: k.RequiresApproval}
		if args.Parameters {
			i.Parameters = k.Parameters
		}
		out.Skills = append(out.Skills, i)
	}
	return out, nil
}

// The most skills that one answer lists, without and with their parameters.
const (
	maxListed    = 50
	maxDescribed = 10
)

// Inner returns the call that a call of a skill with Through stands for.
func Inner(arguments json.RawMessage) (name string, input json.RawMessage, err error) {
	var args struct {
		Skill string          `json:"skill"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(arguments, &args); err != nil {
		return "", nil, Refuse("the arguments could not be read")
	}
	return args.Skill, json.RawMessage(cmp.Or(string(args.Input), "{}")), nil
}
