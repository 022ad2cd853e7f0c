package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// optional is a field of a change that may be left out, or be null.
type optional[T any] struct {
	given bool
	value T // zero for null
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *optional[T]) UnmarshalJSON(raw []byte) error {
	o.given = true
	return json.Unmarshal(raw, &o.value)
}

// Schema implements [huma.SchemaProvider].
func (optional[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), true, "")
	s.Nullable = true
	return &s
}

// SkillFields are what may be changed of a skill.
type SkillFields struct {
	Description      *string         `json:"description,omitempty" minLength:"1" maxLength:"4000" doc:"For the model: what it does, and when to use it"`
	Parameters       json.RawMessage `json:"parameters,omitempty" doc:"JSON Schema of an object, at most 32 KiB; none: it takes no arguments"`
	Scope            *skill.Scope    `json:"scope,omitempty" enum:"internal,external,both" doc:"Whom it is for: admin and heartbeat (internal, the default), visitors, or both"`
	RequiresApproval *bool           `json:"requiresApproval,omitempty" doc:"Hold each call for a person to approve"`
	TimeoutSeconds   optional[int64] `json:"timeoutSeconds,omitempty" minimum:"1" maximum:"900" doc:"Null: the workspace's default"`
	Serial           *bool           `json:"serial,omitempty" doc:"Not beside another skill in one step"`
	Enabled          *bool           `json:"enabled,omitempty"`
	Config           json.RawMessage `json:"config,omitempty" doc:"http: {url, method, headers, idempotencyKeyHeader}; lambda: {functionName}; mcp: {url, tool, headers}; values of headers may be {$secret: name}"`
}

func (f SkillFields) patch() skill.Patch {
	p := skill.Patch{
		Description: f.Description, Parameters: f.Parameters, Config: f.Config, Scope: f.Scope,
		RequiresApproval: f.RequiresApproval, Serial: f.Serial, Enabled: f.Enabled,
	}
	if f.TimeoutSeconds.given {
		limit := time.Duration(f.TimeoutSeconds.value) * time.Second
		p.Timeout = &limit
	}
	return p
}

// names are those of the fields that are given.
func (f SkillFields) names() []string {
	names := []string{}
	for name, given := range map[string]bool{
		"description": f.Description != nil, "parameters": f.Parameters != nil, "scope": f.Scope != nil, "requiresApproval": f.RequiresApproval != nil,
		"timeoutSeconds": f.TimeoutSeconds.given, "serial": f.Serial != nil, "enabled": f.Enabled != nil, "config": f.Config != nil,
	} {
		if given {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// created serves a route that answers 201.
func created[I, O any](fn func(context.Context, *I) (*O, error)) handler {
	return func(s *server, a huma.API, op huma.Operation) {
		op.DefaultStatus = http.StatusCreated
		typed(fn)(s, a, op)
	}
}

type createSkillInput struct {
	Body struct {
		Name string     `json:"name" minLength:"1" maxLength:"64" pattern:"^[a-z][a-z0-9_]*$" patternDescription:"lower-case letters, digits and _ that begin with a letter"`
		Kind skill.Kind `json:"kind" enum:"builtin,http,lambda,mcp" doc:"builtin: what differs from the code of the built-in skill of that name"`
		SkillFields
	}
}

type skillCreated struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     skillItem
}

// createSkill registers a skill, or what differs from a built-in one. It is called by
// the Engine Room and by scripts.
func (s *server) createSkill(ctx context.Context, in *createSkillInput) (*skillCreated, error) {
	by, _ := auth.From(ctx)
	create := func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
		d, err := s.Skills.Create(ctx, tx, in.definition(by))
		return d, true, err
	}
	if in.Body.Kind == skill.Builtin {
		code, err := s.Skills.Get(ctx, by.Workspace, in.Body.Name)
		switch {
		case errors.Is(err, skill.ErrNotFound) || err == nil && code.Kind != skill.Builtin:
			return nil, invalid(FieldError{"body.name", "is none of a built-in skill"})
		case err != nil:
			return nil, err
		case code.Version > 0:
			return nil, skill.ErrTaken
		}
		create = func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
			d, err := s.Skills.Patch(ctx, tx, by.Workspace, code, in.Body.patch())
			return d, true, err
		}
	}
	d, err := s.changeSkill(ctx, "skills.create", create, "fields", in.Body.names())
	if err != nil {
		return nil, err
	}
	return &skillCreated{"/api/v1/skills/" + d.ID, etag(d), skillItemOf(d)}, nil
}

// definition is what is to be registered.
func (in *createSkillInput) definition(by auth.Principal) skill.Definition {
	f := in.Body.SkillFields
	d := skill.Definition{
		Name: in.Body.Name, Kind: in.Body.Kind, Parameters: f.Parameters, Config: f.Config, Enabled: f.Enabled == nil || *f.Enabled,
		Timeout: time.Duration(f.TimeoutSeconds.value) * time.Second, CreatedBy: principal(by),
	}
	if f.Description != nil {
		d.Description = *f.Description
	}
	if f.Scope != nil {
		d.Scope = *f.Scope
	}
	d.RequiresApproval = f.RequiresApproval != nil && *f.RequiresApproval
	d.Serial = f.Serial != nil && *f.Serial
	return d
}

type patchSkillInput struct {
	SkillPath
	IfMatch string `header:"If-Match" maxLength:"20" doc:"The ETag of what is to be changed; without it, of what is there"`
	Body    SkillFields
}

// patchSkill changes the given fields of a skill. It is called by the Engine Room and
// by scripts.
func (s *server) patchSkill(ctx context.Context, in *patchSkillInput) (*skillOutput, error) {
	ws := workspace(ctx)
	read, err := s.Skills.Get(ctx, ws, in.ID)
	if err != nil {
		return nil, err
	}
	if in.IfMatch != "" && in.IfMatch != etag(read) {
		return nil, notMatching
	}
	d, err := s.changeSkill(ctx, "skills.update", func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
		d, err := s.Skills.Patch(ctx, tx, ws, read, in.Body.patch())
		return d, true, err
	}, "fields", in.Body.names())
	if err != nil {
		return nil, err
	}
	return skillOutputOf(d), nil
}

// deleteSkill deletes a skill; of a built-in one, what was changed of it. It is called
// by the Engine Room and by scripts.
func (s *server) deleteSkill(ctx context.Context, in *SkillPath) (*struct{}, error) {
	_, err := s.changeSkill(ctx, "skills.delete", func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
		d, err := s.Skills.Delete(ctx, tx, workspace(ctx), in.ID)
		return d, d.Version > 0, err
	})
	if err != nil {
		return nil, err
	}
	return &struct{}{}, nil
}

type enableSkillInput struct {
	SkillPath
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"500" doc:"Why; it stands in the activity log"`
	}
}

// enableSkill puts a skill back into use. It is called by the Engine Room and by
// scripts.
func (s *server) enableSkill(ctx context.Context, in *enableSkillInput) (*skillOutput, error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	d, err := s.changeSkill(ctx, "skills.enable", func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
		return s.Skills.Enable(ctx, tx, workspace(ctx), in.ID, skill.Human)
	}, "reason", reason)
	if err != nil {
		return nil, err
	}
	return skillOutputOf(d), nil
}

type disableSkillInput struct {
	SkillPath
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it stands with the skill"`
	}
}

// disableSkill takes a skill out of use; self-healing does not take that back. It is
// called by the Engine Room and by scripts.
func (s *server) disableSkill(ctx context.Context, in *disableSkillInput) (*skillOutput, error) {
	d, err := s.changeSkill(ctx, "skills.disable", func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
		return s.Skills.Disable(ctx, tx, workspace(ctx), in.ID, skill.Human, in.Body.Reason)
	}, "reason", in.Body.Reason)
	if err != nil {
		return nil, err
	}
	return skillOutputOf(d), nil
}

// changeSkill makes a change and writes down who made it and of what, not the values,
// in one transaction. What was so already is written down as skipped.
func (s *server) changeSkill(ctx context.Context, what string, change func(context.Context, *db.Tx) (skill.Definition, bool, error), input ...any) (skill.Definition, error) {
	by, _ := auth.From(ctx)
	begun := s.Clock()
	var d skill.Definition
	err := s.DB.Tx(ctx, by.Workspace, func(ctx context.Context, tx *db.Tx) error {
		var changed bool
		var err error
		if d, changed, err = change(ctx, tx); err != nil {
			return err
		}
		entry := activity.Entry{
			Agent: activity.Operator, Surface: trace.Operate, Skill: what, Status: activity.Skipped, Duration: s.Clock().Sub(begun),
			Input: object(append([]any{"skill", d.Name, "by", principal(by)}, input...)...),
		}
		if changed {
			entry.Status = activity.Success
			entry.Output = object("id", d.ID, "kind", d.Kind, "version", d.Version, "enabled", d.Enabled)
		}
		s.Log.Record(ctx, tx.Later(), entry)
		return nil
	})
	return d, err
}

// notMatching says that If-Match names another version.
var notMatching = refusal(http.StatusPreconditionFailed, "changed", "the skill is not of the version that If-Match names: read it again")

// invalidSkill names the fields of a definition that were refused.
func invalidSkill(e *skill.InvalidError) *Problem {
	p := invalid()
	for _, f := range e.Fields {
		p.Errors = append(p.Errors, FieldError{located("body." + f.Field), f.Problem})
	}
	return p
}

// principal names who does something.
func principal(by auth.Principal) string { return string(by.Kind) + ":" + by.ID }
