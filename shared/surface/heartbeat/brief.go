package heartbeat

import (
	"encoding/json"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/objective"
)

// brief is the message a run starts from: the objective as data and, where there
// is one, the step to do.
type brief struct {
	Objective objectiveBrief `json:"objective"`
	Step      *stepBrief     `json:"step,omitempty"`
	Skills    []string       `json:"skills,omitempty"` // that a plan may name
}

type objectiveBrief struct {
	ID            string      `json:"id"`
	Title         string      `json:"title"`
	Description   string      `json:"description,omitempty"`
	DoneCriterion string      `json:"done_criterion,omitempty"`
	Priority      int         `json:"priority"`
	Plan          []stepBrief `json:"plan,omitempty"`
}

type stepBrief struct {
	Number        int                  `json:"number"`
	Title         string               `json:"title"`
	Skill         string               `json:"skill,omitempty"`
	Inputs        json.RawMessage      `json:"inputs,omitempty"`
	DoneCriterion string               `json:"done_criterion,omitempty"`
	Status        objective.StepStatus `json:"status,omitempty"`
	Result        string               `json:"result,omitempty"`
}

func (p *piece) brief() brief {
	o := p.objective
	b := brief{Objective: objectiveBrief{
		ID: o.ID, Title: o.Title, Description: o.Description, DoneCriterion: o.DoneCriterion, Priority: o.Priority,
	}}
	for _, st := range o.Plan {
		b.Objective.Plan = append(b.Objective.Plan, briefOf(st))
	}
	if p.step != nil {
		step := briefOf(*p.step)
		b.Step = &step
		return b
	}
	b.Skills = p.skills.Names()
	return b
}

func briefOf(st objective.Step) stepBrief {
	return stepBrief{
		Number: st.Number, Title: st.Title, Skill: st.Skill, Inputs: st.Inputs,
		DoneCriterion: st.DoneCriterion, Status: st.Status, Result: st.Result,
	}
}

// stored is the report as the activity log keeps it: columns of JSON are in
// snake case.
func (r Report) stored() any {
	phases := make([]any, len(r.Phases))
	for i, p := range r.Phases {
		phases[i] = p.stored()
	}
	return struct {
		Outcome    Outcome `json:"outcome"`
		Slot       string  `json:"slot,omitempty"`
		Reason     string  `json:"reason,omitempty"`
		Holder     string  `json:"holder,omitempty"`
		Phases     []any   `json:"phases"`
		Tokens     int64   `json:"tokens"`
		CostUSD    float64 `json:"cost_usd"`
		DurationMS int64   `json:"duration_ms"`
		Left       int     `json:"left"`
	}{r.Outcome, r.Slot, r.Reason, r.Holder, phases, r.Tokens, r.CostUSD, r.DurationMS, r.Left}
}

func (p Phase) stored() any {
	return struct {
		Name       string  `json:"name"`
		Considered int     `json:"considered"`
		Done       int     `json:"done"`
		Failed     int     `json:"failed"`
		Left       int     `json:"left"`
		ModelCalls int     `json:"model_calls"`
		Tokens     int64   `json:"tokens"`
		CostUSD    float64 `json:"cost_usd"`
		DurationMS int64   `json:"duration_ms"`
	}{p.Name, p.Considered, p.Done, p.Failed, p.Left, p.ModelCalls, p.Tokens, p.CostUSD, p.DurationMS}
}

// usage is what the phase's model calls used; nil when there were none.
func (p Phase) usage() *activity.Usage {
	if p.ModelCalls == 0 {
		return nil
	}
	return &activity.Usage{PromptTokens: p.prompt, CompletionTokens: p.Tokens - p.prompt, TotalTokens: p.Tokens}
}
