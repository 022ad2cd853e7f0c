package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// skillItem is a skill as a workspace has it.
type skillItem struct {
	ID               string          `json:"id" format:"uuid"`
	Name             string          `json:"name"`
	Description      string          `json:"description"`
	Parameters       json.RawMessage `json:"parameters" doc:"JSON Schema of an object"`
	Kind             skill.Kind      `json:"kind" enum:"builtin,http,lambda,mcp"`
	Scope            skill.Scope     `json:"scope" enum:"internal,external,both"`
	Effect           skill.Effect    `json:"effect" enum:"read,write" doc:"read: it changes nothing, so that a run which has read text from outside may go on calling it"`
	RequiresApproval bool            `json:"requiresApproval"`
	TimeoutSeconds   *int64          `json:"timeoutSeconds" doc:"Null: the workspace's default"`
	Serial           bool            `json:"serial"`
	Enabled          bool            `json:"enabled"`
	DisabledBy       skill.Actor     `json:"disabledBy,omitempty" enum:"human,self_healing"`
	DisabledReason   string          `json:"disabledReason,omitempty"`
	DisabledAt       *time.Time      `json:"disabledAt,omitempty"`
	Config           json.RawMessage `json:"config,omitempty" doc:"Without what looks like a secret in clear; plain values of headers are shown to admins"`
	CreatedAt        *time.Time      `json:"createdAt,omitempty" doc:"Left out of a built-in skill that is as it came"`
	UpdatedAt        *time.Time      `json:"updatedAt,omitempty"`
}

func (s *server) skillItemOf(ctx context.Context, d skill.Definition) skillItem {
	by, _ := auth.From(ctx)
	item := skillItem{
		ID: d.ID, Name: d.Name, Description: d.Description, Parameters: d.Parameters, Kind: d.Kind, Scope: d.Scope,
		Effect: s.Registry.EffectOf(d), RequiresApproval: d.RequiresApproval, Serial: d.Serial, Enabled: d.Enabled,
		DisabledBy: d.DisabledBy, DisabledReason: d.DisabledReason, Config: d.PublicConfig(by.Role.AtLeast(auth.Admin)),
	}
	if d.Timeout > 0 {
		seconds := int64(d.Timeout / time.Second)
		item.TimeoutSeconds = &seconds
	}
	item.DisabledAt, item.CreatedAt, item.UpdatedAt = utc(d.DisabledAt), utc(&d.CreatedAt), utc(&d.UpdatedAt)
	return item
}

func (s *server) skillOutputOf(ctx context.Context, d skill.Definition) *versioned[skillItem] {
	return &versioned[skillItem]{ETag: tagOf(d.Version), Body: s.skillItemOf(ctx, d)}
}

type skillsInput struct {
	Kind    skill.Kind  `query:"kind" enum:"builtin,http,lambda,mcp"`
	Scope   skill.Scope `query:"scope" enum:"internal,external,both"`
	Enabled string      `query:"enabled" enum:"true,false"`
	Cursor  string      `query:"cursor" maxLength:"400"`
	Limit   int         `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// listSkills lists the workspace's skills by name, the built-in ones among them. It
// is called by the Engine Room and by scripts.
func (s *server) listSkills(ctx context.Context, in *skillsInput) (*answer[page[skillItem]], error) {
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	f := skill.Filter{Kind: in.Kind, Scope: in.Scope, After: after.key, Limit: in.Limit}
	if in.Enabled != "" {
		enabled := in.Enabled == "true"
		f.Enabled = &enabled
	}
	found, err := s.Registry.List(ctx, workspace(ctx), f)
	if err != nil {
		return nil, err
	}
	items := make([]skillItem, 0, len(found.Items))
	for _, d := range found.Items {
		items = append(items, s.skillItemOf(ctx, d))
	}
	next := ""
	if found.Next != "" {
		next = keyCursor(found.Next)
	}
	return listing(items, next), nil
}

// SkillPath names a skill.
type SkillPath struct {
	ID string `path:"id" pattern:"^[A-Za-z0-9_-]+$" patternDescription:"letters, digits, _ and -" maxLength:"64" doc:"Its id or its name"`
}

// getSkill tells one skill. It is called by the Engine Room and by scripts.
func (s *server) getSkill(ctx context.Context, in *SkillPath) (*versioned[skillItem], error) {
	d, err := s.Registry.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return s.skillOutputOf(ctx, d), nil
}

type skillHealthInput struct {
	SkillPath
	Days int `query:"days" minimum:"1" maximum:"90" default:"7"`
}

// skillHealth is how a skill has done.
type skillHealth struct {
	SkillID             string      `json:"skillId" format:"uuid"`
	Name                string      `json:"name"`
	Days                int         `json:"days"`
	Calls               int         `json:"calls" doc:"Those that succeeded and those that failed, at most 10,000"`
	Successes           int         `json:"successes"`
	Failures            int         `json:"failures"`
	ConsecutiveFailures int         `json:"consecutiveFailures" doc:"Since the last success, without those that were the caller's"`
	P50MS               *int64      `json:"p50Ms" doc:"Duration that half of the calls did not exceed"`
	P95MS               *int64      `json:"p95Ms"`
	LastErrorClass      skill.Class `json:"lastErrorClass,omitempty" enum:"input,ours,theirs,rate_limit,policy"`
	LastErrorAt         *time.Time  `json:"lastErrorAt,omitempty"`
	LastCallAt          *time.Time  `json:"lastCallAt,omitempty"`
}

// getSkillHealth tells how a skill has done lately. It is called by the Engine Room.
func (s *server) getSkillHealth(ctx context.Context, in *skillHealthInput) (*answer[skillHealth], error) {
	d, err := s.Registry.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	h, err := s.Registry.Health(ctx, workspace(ctx), d.Name, in.Days)
	if err != nil {
		return nil, err
	}
	out := skillHealth{
		SkillID: d.ID, Name: d.Name, Days: in.Days, Calls: h.Calls, Successes: h.Successes, Failures: h.Failures,
		ConsecutiveFailures: h.ConsecutiveFailures, LastErrorClass: h.LastErrorClass, P50MS: inMS(h.P50), P95MS: inMS(h.P95),
		LastErrorAt: utc(h.LastErrorAt), LastCallAt: utc(h.LastCallAt),
	}
	return answered(out), nil
}

func inMS(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}
