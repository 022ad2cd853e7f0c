package api

import (
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// skillsHealthItem is how the calls of one skill ended lately.
type skillsHealthItem struct {
	Skill       string       `json:"skill"`
	Kind        skill.Kind   `json:"kind" enum:"builtin,http,lambda,mcp"`
	Scope       skill.Scope  `json:"scope" enum:"internal,external,both"`
	Effect      skill.Effect `json:"effect" enum:"read,write"`
	Enabled     bool         `json:"enabled"`
	DisabledBy  *skill.Actor `json:"disabledBy,omitempty" enum:"human,self_healing"`
	Reason      *string      `json:"reason" doc:"Why it is disabled"`
	Calls       int          `json:"calls"`
	Failed      int          `json:"failed"`
	SuccessRate *float64     `json:"successRate" doc:"From 0 to 1; null: there was no call"`
	P50MS       *int64       `json:"p50Ms" doc:"Of the newest 1,000 calls, as are the next two"`
	P95MS       *int64       `json:"p95Ms"`
	Streak      int          `json:"streak" doc:"Failures in a row that are its own"`
	LastError   *string      `json:"lastError" doc:"Of its latest failed call"`
	LastAt      *time.Time   `json:"lastAt" doc:"When it was last called"`
	Series      []callsOfDay `json:"series" nullable:"false" doc:"One a day (UTC), today the last"`
	Heal        *healOfSkill `json:"heal,omitempty" doc:"What self-healing does about it; left out: nothing"`
}

// callsOfDay counts the calls of a day.
type callsOfDay struct {
	Day    string `json:"day" format:"date"`
	Calls  int    `json:"calls"`
	Failed int    `json:"failed"`
}

// healOfSkill is the heal of a skill that is active or probing.
type healOfSkill struct {
	ID     string      `json:"id" format:"uuid"`
	At     time.Time   `json:"at"`
	Reason string      `json:"reason" doc:"The class of its errors"`
	Status heal.Status `json:"status" enum:"active,probing"`
}

// listSkillsHealth lists how the calls of each skill ended lately, by the skill's name. It is called by the Engine
// Room, lanekeeper skills-health and scripts.
func (s *server) listSkillsHealth(ctx context.Context, in *struct {
	Days   int    `query:"days" minimum:"1" maximum:"90" default:"14"`
	Cursor string `query:"cursor" maxLength:"200"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"1000"`
}) (*answer[page[skillsHealthItem]], error) {
	all, err := s.Registry.All(ctx, workspace(ctx))
	if err != nil {
		return nil, err
	}
	now := s.Clock()
	found, err := s.Registry.HealthOfAll(ctx, workspace(ctx), now, in.Days)
	if err != nil {
		return nil, err
	}
	open, err := s.Heals.Open(ctx, workspace(ctx))
	if err != nil {
		return nil, err
	}
	heals := map[string]*healOfSkill{}
	for _, h := range open {
		heals[h.Skill] = &healOfSkill{h.ID, h.CreatedAt.UTC(), h.Code, h.Status}
	}
	items := make([]skillsHealthItem, len(all))
	for i, d := range all {
		h := found[d.Name]
		if h == nil {
			h = &skill.Summary{Days: skill.NoCalls(now, in.Days)}
		}
		items[i] = skillsHealthItem{
			Skill: d.Name, Kind: d.Kind, Scope: d.Scope, Effect: s.Registry.EffectOf(d), Enabled: d.Enabled, Reason: text(d.DisabledReason),
			Calls: h.Calls, Failed: h.Failed, P50MS: inMS(h.P50), P95MS: inMS(h.P95), Streak: h.Streak, LastError: text(h.LastError),
			LastAt: utc(h.LastCallAt), Series: make([]callsOfDay, len(h.Days)), Heal: heals[d.Name],
		}
		if d.DisabledBy != "" {
			items[i].DisabledBy = &d.DisabledBy
		}
		if h.Calls > 0 {
			items[i].SuccessRate = new(float64(h.Calls-h.Failed) / float64(h.Calls))
		}
		for j, day := range h.Days {
			items[i].Series[j] = callsOfDay{day.Date, day.Calls, day.Failed}
		}
	}
	return slicePage(items, in.Cursor, in.Limit)
}
