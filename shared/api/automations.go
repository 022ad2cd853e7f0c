package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// schedule says when an automation runs: at times, or when something happens.
type schedule struct {
	Cron     string `json:"cron,omitempty"`
	TimeZone string `json:"timeZone,omitempty"`
	Event    string `json:"event,omitempty" enum:"approval.approved,approval.expired,approval.rejected,approval.requested,execution.failed,memory.saved,objective.completed,objective.created,objective.paused,objective.resumed,skill.disabled,skill.enabled"`
}

// automationItem is a skill that runs by itself.
type automationItem struct {
	ID             string          `json:"id" format:"uuid"`
	Name           string          `json:"name"`
	Skill          string          `json:"skill"`
	Input          json.RawMessage `json:"input"`
	Schedule       schedule        `json:"schedule"`
	Enabled        bool            `json:"enabled"`
	DisabledBy     skill.Actor     `json:"disabledBy,omitempty" enum:"human,self_healing"`
	DisabledReason string          `json:"disabledReason,omitempty"`
	DisabledAt     *time.Time      `json:"disabledAt,omitempty"`
	NextRunAt      *time.Time      `json:"nextRunAt" doc:"Null: it is disabled, or waits for its event"`
	LastRunAt      *time.Time      `json:"lastRunAt,omitempty" doc:"By itself; runs by hand don't count"`
	LastStatus     string          `json:"lastStatus,omitempty" enum:"success,error,pending_approval,skipped"`
	LastTraceID    trace.ID        `json:"lastTraceId,omitempty"`
	Outside        bool            `json:"outside" doc:"A run that had read text from outside made it, and no person has edited it since"`
	CreatedBy      string          `json:"createdBy"`
	CreatedAt      time.Time       `json:"createdAt"`
	UpdatedAt      time.Time       `json:"updatedAt"`
}

func automationItemOf(a automation.Automation) automationItem {
	return automationItem{
		ID: a.ID, Name: a.Name, Skill: a.Skill, Input: a.Input, Schedule: schedule{a.Cron, a.TimeZone, a.Event},
		Enabled: a.Enabled, DisabledBy: a.DisabledBy, DisabledReason: a.DisabledReason, DisabledAt: utc(a.DisabledAt),
		NextRunAt: utc(a.NextRunAt), LastRunAt: utc(a.LastRunAt), LastStatus: a.LastStatus, LastTraceID: a.LastTrace,
		Outside: a.Untrusted, CreatedBy: a.CreatedBy, CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(),
	}
}

func automationOutput(a automation.Automation) *versioned[automationItem] {
	return &versioned[automationItem]{ETag: tagOf(a.Version), Body: automationItemOf(a)}
}

type automationsInput struct {
	Skill   string `query:"skill" maxLength:"64"`
	Event   string `query:"event" maxLength:"100"`
	Enabled string `query:"enabled" enum:"true,false"`
	Cursor  string `query:"cursor" maxLength:"1200"`
	Limit   int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// listAutomations lists automations by name. It is called by the Engine Room and by
// scripts.
func (s *server) listAutomations(ctx context.Context, in *automationsInput) (*answer[page[automationItem]], error) {
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	f := automation.Filter{Skill: in.Skill, Event: in.Event, After: after.key, Limit: in.Limit + 1}
	if in.Enabled != "" {
		f.Enabled = new(in.Enabled == "true")
	}
	found, err := s.Automations.List(ctx, workspace(ctx), f)
	if err != nil {
		return nil, err
	}
	next := ""
	if len(found) > in.Limit {
		found = found[:in.Limit]
		next = keyCursor(found[in.Limit-1].Name)
	}
	items := make([]automationItem, len(found))
	for i, a := range found {
		items[i] = automationItemOf(a)
	}
	return listing(items, next), nil
}

// AutomationPath names an automation.
type AutomationPath struct {
	ID string `path:"id" minLength:"1" maxLength:"200" doc:"Its id or its name"`
}

func (s *server) automation(ctx context.Context, in AutomationPath) (automation.Automation, error) {
	if unfit(in.ID) != "" {
		return automation.Automation{}, automation.ErrNotFound
	}
	return s.Automations.Get(ctx, workspace(ctx), in.ID)
}

// getAutomation tells of one. It is called by the Engine Room and by scripts.
func (s *server) getAutomation(ctx context.Context, in *AutomationPath) (*versioned[automationItem], error) {
	a, err := s.automation(ctx, *in)
	if err != nil {
		return nil, err
	}
	return automationOutput(a), nil
}

type runAutomationInput struct {
	AutomationPath
	Body *struct{}
}

// notFitting says that an automation's skill takes other arguments now.
var notFitting = problem.New(http.StatusConflict, "input", "the automation's input does not fit its skill: change it first")

// runAutomation makes an automation's call now, by hand, also where the automation is
// disabled. It is called by the Engine Room and by scripts.
func (s *server) runAutomation(ctx context.Context, in *runAutomationInput) (*answer[runSkillAnswer], error) {
	a, err := s.automation(ctx, in.AutomationPath)
	if err != nil {
		return nil, err
	}
	call := &runSkillInput{SkillPath: SkillPath{a.Skill}}
	call.Body = &struct {
		Input json.RawMessage `json:"input,omitempty" doc:"What fits the skill's parameters; left out: {}"`
	}{a.Input}
	out, err := s.runByHand(ctx, call, a.Untrusted)
	if _, wrong := errors.AsType[*operate.InputError](err); wrong {
		return nil, notFitting
	}
	if errors.Is(err, skill.ErrNotFound) || errors.Is(err, operate.ErrNoSkill) {
		return nil, problem.New(http.StatusConflict, "skill_gone", "the automation's skill is not there, or not for this use")
	}
	return out, err
}
