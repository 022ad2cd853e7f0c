package heartbeat

import (
	"encoding/json"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/objective"
)

// brief is the first message of a run: the objective as data and, when advancing, the step to do.
type brief struct {
	Objective objectiveBrief `json:"objective"`
	Step      *stepBrief     `json:"step,omitempty"`
	Skills    []string       `json:"skills,omitempty"` // the skills that a plan may name
	// Health is what self-healing found in this beat, as codes and counts.
	Health *heal.Report `json:"health,omitempty"`
}

// reflectBrief is the input of a reflection. It holds numbers and names only.
type reflectBrief struct {
	Days             int             `json:"days"`
	Activity         []activity.Used `json:"activity"`
	Health           heal.Report     `json:"health"`
	ActiveObjectives int             `json:"activeObjectives"`
	Waiting          int             `json:"approvalsWaiting"`
}

// rememberBrief is the input of a run that saves memories.
type rememberBrief struct {
	AtMost     int         `json:"atMost"`
	Done       []doneBrief `json:"done"`
	Reflection string      `json:"reflection,omitempty"`
	Remembered []string    `json:"remembered"`
}

// doneBrief is one piece of work and its result.
type doneBrief struct {
	Work   string `json:"work"`
	Result string `json:"result"`
}

type objectiveBrief struct {
	ID            string      `json:"id"`
	Title         string      `json:"title"`
	Description   string      `json:"description,omitempty"`
	DoneCriterion string      `json:"doneCriterion,omitempty"`
	Priority      int         `json:"priority"`
	Plan          []stepBrief `json:"plan,omitempty"`
}

type stepBrief struct {
	Number        int                  `json:"number"`
	Title         string               `json:"title"`
	Skill         string               `json:"skill,omitempty"`
	Inputs        json.RawMessage      `json:"inputs,omitempty"`
	DoneCriterion string               `json:"doneCriterion,omitempty"`
	Status        objective.StepStatus `json:"status,omitempty"`
	Result        string               `json:"result,omitempty"`
}

func (p *objectiveWork) brief() brief {
	o := p.objective
	b := brief{Objective: objectiveBrief{
		ID: o.ID, Title: o.Title, Description: o.Description, DoneCriterion: o.DoneCriterion, Priority: o.Priority,
	}}
	for _, st := range o.Plan {
		b.Objective.Plan = append(b.Objective.Plan, briefOf(st))
	}
	if p.snapshot.failing.Any() {
		b.Health = &p.healed
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

// stored returns the report as the activity log stores it. JSON columns use snake case.
func (r Report) stored() any {
	phases := make([]any, len(r.Phases))
	for i, p := range r.Phases {
		phases[i] = p.stored()
	}
	return struct {
		Outcome    Outcome  `json:"outcome"`
		Slot       string   `json:"slot,omitempty"`
		Reason     string   `json:"reason,omitempty"`
		Holder     string   `json:"holder,omitempty"`
		Phases     []any    `json:"phases"`
		Tokens     int64    `json:"tokens"`
		CostUSD    float64  `json:"cost_usd"`
		DurationMS int64    `json:"duration_ms"`
		Left       int      `json:"left"`
		Alerts     []string `json:"alerts,omitempty"`
	}{r.Outcome, r.Slot, r.Reason, r.Holder, phases, r.Tokens, r.CostUSD, r.DurationMS, r.Left, r.Alerts}
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

		Healed *heal.Report `json:"healed,omitempty"`
		Text   string       `json:"text,omitempty"`
	}{p.Name, p.Considered, p.Done, p.Failed, p.Left, p.ModelCalls, p.Tokens, p.CostUSD, p.DurationMS, p.healed, p.Text}
}
