package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// schedule says when an automation runs: at the times of a cron expression, or after an event.
type schedule struct {
	Cron     string `json:"cron,omitempty"`
	TimeZone string `json:"timeZone,omitempty"`
	Event    string `json:"event,omitempty" enum:"approval.approved,approval.expired,approval.rejected,approval.requested,execution.failed,memory.saved,objective.completed,objective.created,objective.paused,objective.resumed,skill.disabled,skill.enabled"`
}

// automationItem is an automation, which runs a skill by schedule.
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

// listAutomations lists automations by name. It is called by the Engine Room and by scripts.
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
	return sorted(found, in.Limit, func(a automation.Automation) string { return a.Name }, automationItemOf), nil
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

// getAutomation returns one automation. It is called by the Engine Room and by scripts.
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

// notFitting says that the automation's input does not fit its skill's present parameters.
var notFitting = problem.New(http.StatusConflict, "input", "the automation's input does not fit its skill: change it first")

// runAutomation makes an automation's call now, even if the automation is disabled, and not while a beat or a webhook
// runs it. It is called by the Engine Room and by scripts.
func (s *server) runAutomation(ctx context.Context, in *runAutomationInput) (*answer[runSkillAnswer], error) {
	a, err := s.automation(ctx, in.AutomationPath)
	if err != nil {
		return nil, err
	}
	call := &runSkillInput{SkillPath: SkillPath{a.Skill}}
	call.Body = &struct {
		Input givenJSON `json:"input,omitempty" doc:"What fits the skill's parameters; left out: {}"`
	}{givenJSON(a.Input)}
	out, err := s.runByHand(ctx, call, operate.ByHand{Untrusted: a.Untrusted, Lane: lane.Automation(a.ID)})
	if _, wrong := errors.AsType[*operate.InputError](err); wrong {
		return nil, notFitting
	}
	if errors.Is(err, skill.ErrNotFound) || errors.Is(err, operate.ErrNoSkill) {
		return nil, problem.New(http.StatusConflict, "skill_gone", "the automation's skill is not there, or not for this use")
	}
	return out, err
}

// scheduleFields holds the fields of a schedule in a request. A nil field was not given.
type scheduleFields struct {
	Cron     *string `json:"cron,omitempty" maxLength:"200" doc:"Five fields, or one of @hourly, @daily, @weekly, @monthly and @yearly"`
	TimeZone *string `json:"timeZone,omitempty" maxLength:"64" doc:"Of the expression; UTC when left out"`
	Event    *string `json:"event,omitempty" enum:"approval.approved,approval.expired,approval.rejected,approval.requested,execution.failed,memory.saved,objective.completed,objective.created,objective.paused,objective.resumed,skill.disabled,skill.enabled" doc:"Instead of cron: the kind of event it waits for"`
}

type createAutomationInput struct {
	Body struct {
		Name     string         `json:"name" minLength:"1" maxLength:"200"`
		Skill    string         `json:"skill" minLength:"1" maxLength:"64" doc:"The name of a skill"`
		Input    givenJSON      `json:"input,omitempty" doc:"What fits the skill's parameters, at most 16 KiB; left out: {}"`
		Schedule scheduleFields `json:"schedule,omitempty" doc:"When it runs: by cron or by event"`
		Event    *string        `json:"event,omitempty" enum:"approval.approved,approval.expired,approval.rejected,approval.requested,execution.failed,memory.saved,objective.completed,objective.created,objective.paused,objective.resumed,skill.disabled,skill.enabled" doc:"Short for schedule.event"`
		Enabled  *bool          `json:"enabled,omitempty" default:"true"`
	}
}

// createAutomation creates an automation. It is called by the Engine Room and by scripts.
func (s *server) createAutomation(ctx context.Context, in *createAutomationInput) (*createdAt[automationItem], error) {
	by, _ := auth.From(ctx)
	b := in.Body
	n := automation.Automation{
		ID: s.newID(ctx), Name: b.Name, Skill: b.Skill, Input: json.RawMessage(b.Input),
		Enabled: b.Enabled == nil || *b.Enabled, CreatedBy: principal(by),
	}
	for to, from := range map[*string]*string{&n.Cron: b.Schedule.Cron, &n.TimeZone: b.Schedule.TimeZone,
		&n.Event: cmp.Or(b.Schedule.Event, b.Event)} {
		if from != nil {
			*to = *from
		}
	}
	if err := s.runnable(ctx, n.Skill, n.Input); err != nil {
		return nil, err
	}
	var a automation.Automation
	err := s.change(ctx, "automation.create", func(ctx context.Context, tx *db.Tx) (err error) {
		a, err = s.Automations.Create(ctx, tx, n)
		return err
	}, "id", &a.ID, "name", b.Name, "skill", b.Skill)
	if a, err = before(ctx, a, err, s.Automations.Get); err != nil {
		return nil, err
	}
	return &createdAt[automationItem]{"/api/v1/automations/" + a.ID, tagOf(a.Version), automationItemOf(a)}, nil
}

// runnable refuses a skill that the workspace does not have and a skill for visitors only. If
// heartbeats can use the skill now, runnable also refuses an input that does not fit it.
func (s *server) runnable(ctx context.Context, name string, input json.RawMessage) error {
	ws := workspace(ctx)
	d, err := s.Registry.Get(ctx, ws, name)
	if errors.Is(err, skill.ErrNotFound) || err == nil && d.Name != name {
		return invalid(problem.At("body.skill", "expected the name of a skill"))
	}
	if err != nil {
		return err
	}
	if d.Scope == skill.External {
		return invalid(problem.At("body.skill", "expected a skill whose scope is internal or both"))
	}
	usable, _, err := s.Registry.Load(ctx, ws, trace.Heartbeat)
	if err != nil {
		return err
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	if k, ok := usable.Find(name); ok && k.Name == name {
		if violations := k.Check(ctx, input); len(violations) > 0 {
			return misfits("body.input", violations)
		}
	}
	return nil
}

type patchAutomationInput struct {
	AutomationPath
	IfMatch
	Body struct {
		Name     *string         `json:"name,omitempty" minLength:"1" maxLength:"200"`
		Skill    *string         `json:"skill,omitempty" minLength:"1" maxLength:"64"`
		Input    json.RawMessage `json:"input,omitempty"`
		Schedule *scheduleFields `json:"schedule,omitempty" doc:"cron takes the place of event, and the other way round"`
		Event    *string         `json:"event,omitempty" enum:"approval.approved,approval.expired,approval.rejected,approval.requested,execution.failed,memory.saved,objective.completed,objective.created,objective.paused,objective.resumed,skill.disabled,skill.enabled" doc:"Short for schedule.event"`
		Enabled  *bool           `json:"enabled,omitempty" doc:"As by /enable and /disable"`
	}
}

// patchAutomation changes the given fields of an automation. It is called by the Engine Room and by
// scripts.
func (s *server) patchAutomation(ctx context.Context, in *patchAutomationInput) (*versioned[automationItem], error) {
	read, err := s.automation(ctx, in.AutomationPath)
	if err != nil {
		return nil, err
	}
	if err := in.matches(read.Version); err != nil {
		return nil, err
	}
	p := automation.Patch{Name: in.Body.Name, Skill: in.Body.Skill, Input: in.Body.Input}
	if f := in.Body.Schedule; f != nil {
		p.Cron, p.TimeZone, p.Event = f.Cron, f.TimeZone, f.Event
	}
	p.Event = cmp.Or(p.Event, in.Body.Event)
	if p.Skill != nil || p.Input != nil {
		name, input := read.Skill, read.Input
		if p.Skill != nil {
			name = *p.Skill
		}
		if p.Input != nil {
			input = p.Input
		}
		if err := s.runnable(ctx, name, input); err != nil {
			return nil, err
		}
	}
	var a automation.Automation
	err = s.change(ctx, "automation.update", func(ctx context.Context, tx *db.Tx) (err error) {
		a, err = s.Automations.Patch(ctx, tx, read, p)
		on := in.Body.Enabled
		switch {
		case err != nil || on == nil:
		case *on:
			a, _, err = s.Automations.Enable(ctx, tx, a, skill.Human)
		default:
			a, _, err = s.Automations.Disable(ctx, tx, a, skill.Human, byHand)
		}
		return err
	}, "id", read.ID, "name", &a.Name, "version", &a.Version)
	if err != nil {
		return nil, err
	}
	return automationOutput(a), nil
}

// deleteAutomation deletes an automation. It is called by the Engine Room and by scripts.
func (s *server) deleteAutomation(ctx context.Context, in *AutomationPath) (*struct{}, error) {
	a, err := s.automation(ctx, *in)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, "automation.delete", func(ctx context.Context, tx *db.Tx) error {
		there, err := s.Automations.Delete(ctx, tx, a.ID)
		if err == nil && !there {
			return automation.ErrNotFound
		}
		return err
	}, "id", a.ID, "name", a.Name)
}

type enableAutomationInput struct {
	AutomationPath
	Body *struct{}
}

// enableAutomation enables an automation. It skips the times that the automation missed while it was
// disabled. It is called by the Engine Room and by scripts.
func (s *server) enableAutomation(ctx context.Context, in *enableAutomationInput) (*versioned[automationItem], error) {
	return s.switchAutomation(ctx, "automation.enable", in.AutomationPath, "", func(ctx context.Context, tx *db.Tx, a automation.Automation) (automation.Automation, bool, error) {
		return s.Automations.Enable(ctx, tx, a, skill.Human)
	})
}

type disableAutomationInput struct {
	AutomationPath
	Body *struct {
		Reason string `json:"reason,omitempty" minLength:"1" maxLength:"500" doc:"Why; it stands with the automation"`
	}
}

// byHand is the default reason for disabling something.
const byHand = "disabled by hand"

// disableAutomation disables an automation. Self-healing does not enable it again. It is called by
// the Engine Room and by scripts.
func (s *server) disableAutomation(ctx context.Context, in *disableAutomationInput) (*versioned[automationItem], error) {
	why := byHand
	if in.Body != nil {
		why = cmp.Or(in.Body.Reason, why)
	}
	return s.switchAutomation(ctx, "automation.disable", in.AutomationPath, why, func(ctx context.Context, tx *db.Tx, a automation.Automation) (automation.Automation, bool, error) {
		return s.Automations.Disable(ctx, tx, a, skill.Human, why)
	})
}

// switchAutomation enables or disables an automation by calling to, and writes the audit entry.
func (s *server) switchAutomation(ctx context.Context, what string, of AutomationPath, reason string, to func(context.Context, *db.Tx, automation.Automation) (automation.Automation, bool, error)) (*versioned[automationItem], error) {
	read, err := s.automation(ctx, of)
	if err != nil {
		return nil, err
	}
	var a automation.Automation
	var changed bool
	err = s.change(ctx, what, func(ctx context.Context, tx *db.Tx) (err error) {
		a, changed, err = to(ctx, tx, read)
		return err
	}, "id", read.ID, "name", read.Name, "reason", reason, "changed", &changed)
	if err != nil {
		return nil, err
	}
	return automationOutput(a), nil
}
