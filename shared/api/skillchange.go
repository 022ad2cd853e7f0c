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

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/skill"
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
	Description      *string                `json:"description,omitempty" minLength:"1" maxLength:"4000" doc:"For the model: what it does, and when to use it"`
	Parameters       json.RawMessage        `json:"parameters,omitempty" doc:"JSON Schema of an object, at most 16 KiB; none: it takes no arguments"`
	Scope            *skill.Scope           `json:"scope,omitempty" enum:"internal,external,both" doc:"Whom it is for: admin and heartbeat (internal, the default), visitors, or both"`
	Effect           optional[skill.Effect] `json:"effect,omitempty" enum:"read,write" doc:"Whether it changes anything. Null, the default: read for http with GET or HEAD, else write. A run that has read text from outside needs an approval for write"`
	RequiresApproval *bool                  `json:"requiresApproval,omitempty" doc:"Hold each call for a person to approve"`
	TimeoutSeconds   optional[int64]        `json:"timeoutSeconds,omitempty" minimum:"1" maximum:"900" doc:"Null: the workspace's default"`
	Serial           *bool                  `json:"serial,omitempty" doc:"Not beside another skill in one step"`
	Enabled          *bool                  `json:"enabled,omitempty"`
	Config           json.RawMessage        `json:"config,omitempty" doc:"http: {url, method, headers, idempotencyKeyHeader}; lambda: {functionName}; mcp: {url, tool, headers}; values of headers may be {$secret: name}"`
}

func (f SkillFields) patch() skill.Patch {
	p := skill.Patch{
		Description: f.Description, Parameters: f.Parameters, Config: f.Config, Scope: f.Scope,
		RequiresApproval: f.RequiresApproval, Serial: f.Serial, Enabled: f.Enabled,
	}
	if f.Effect.given {
		p.Effect = &f.Effect.value
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
		"description": f.Description != nil, "parameters": f.Parameters != nil, "scope": f.Scope != nil, "effect": f.Effect.given, "requiresApproval": f.RequiresApproval != nil,
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
		Name string     `json:"name" minLength:"1" maxLength:"64" pattern:"^[A-Za-z][A-Za-z0-9_-]*$" patternDescription:"letters, digits, - and _ that begin with a letter" doc:"Unique without regard to case, - and _"`
		Kind skill.Kind `json:"kind" enum:"builtin,http,lambda,mcp" doc:"builtin: what differs from the code of the built-in skill of that name"`
		SkillFields
	}
}

// createSkill registers a skill, or what differs from a built-in one. It is called by
// the Engine Room and by scripts.
func (s *server) createSkill(ctx context.Context, in *createSkillInput) (*createdAt[skillItem], error) {
	by, _ := auth.From(ctx)
	create := func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
		d, err := s.Registry.Create(ctx, tx, in.definition(by))
		return d, true, err
	}
	if in.Body.Kind == skill.Builtin {
		code, err := s.Registry.Get(ctx, by.Workspace, in.Body.Name)
		switch {
		case errors.Is(err, skill.ErrNotFound) || err == nil && code.Kind != skill.Builtin:
			return nil, invalid(problem.At("body.name", "is none of a built-in skill"))
		case err != nil:
			return nil, err
		case code.Version > 0:
			return nil, skill.ErrTaken
		}
		create = func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
			d, err := s.Registry.Patch(ctx, tx, by.Workspace, code, in.Body.patch())
			if errors.Is(err, skill.ErrChanged) { // somebody else was faster
				err = skill.ErrTaken
			}
			return d, true, err
		}
	}
	d, err := s.changeSkill(ctx, "skill.create", create, "fields", in.Body.names())
	if err != nil {
		return nil, err
	}
	return &createdAt[skillItem]{"/api/v1/skills/" + d.ID, tagOf(d.Version), s.skillItemOf(ctx, d)}, nil
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
	d.Effect = f.Effect.value
	d.RequiresApproval = f.RequiresApproval != nil && *f.RequiresApproval
	d.Serial = f.Serial != nil && *f.Serial
	return d
}

type patchSkillInput struct {
	SkillPath
	IfMatch
	Body SkillFields
}

// patchSkill changes the given fields of a skill. It is called by the Engine Room and
// by scripts.
func (s *server) patchSkill(ctx context.Context, in *patchSkillInput) (*versioned[skillItem], error) {
	ws := workspace(ctx)
	read, err := s.Registry.Get(ctx, ws, in.ID)
	if err == nil {
		err = in.matches(read.Version)
	}
	if err != nil {
		return nil, err
	}
	d, err := s.changeSkill(ctx, "skill.update", func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
		d, err := s.Registry.Patch(ctx, tx, ws, read, in.Body.patch())
		return d, true, err
	}, "fields", in.Body.names())
	if err != nil {
		return nil, err
	}
	return s.skillOutputOf(ctx, d), nil
}

// deleteSkill deletes a skill; of a built-in one, what was changed of it. It is called
// by the Engine Room and by scripts.
func (s *server) deleteSkill(ctx context.Context, in *SkillPath) (*struct{}, error) {
	_, err := s.changeSkill(ctx, "skill.delete", func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
		d, err := s.Registry.Delete(ctx, tx, workspace(ctx), in.ID)
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
func (s *server) enableSkill(ctx context.Context, in *enableSkillInput) (*versioned[skillItem], error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	d, err := s.changeSkill(ctx, "skill.enable", func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
		return s.Registry.Enable(ctx, tx, workspace(ctx), in.ID, skill.Human)
	}, "reason", reason)
	if err != nil {
		return nil, err
	}
	return s.skillOutputOf(ctx, d), nil
}

type disableSkillInput struct {
	SkillPath
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it stands with the skill"`
	}
}

// disableSkill takes a skill out of use; self-healing does not take that back. It is
// called by the Engine Room and by scripts.
func (s *server) disableSkill(ctx context.Context, in *disableSkillInput) (*versioned[skillItem], error) {
	d, err := s.changeSkill(ctx, "skill.disable", func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
		return s.Registry.Disable(ctx, tx, workspace(ctx), in.ID, skill.Human, in.Body.Reason)
	}, "reason", in.Body.Reason)
	if err != nil {
		return nil, err
	}
	return s.skillOutputOf(ctx, d), nil
}

// changeSkill is change of a skill. changed is false of what was so already.
func (s *server) changeSkill(ctx context.Context, what string, fn func(context.Context, *db.Tx) (skill.Definition, bool, error), input ...any) (skill.Definition, error) {
	var d skill.Definition
	var changed bool
	err := s.change(ctx, what, func(ctx context.Context, tx *db.Tx) (err error) {
		d, changed, err = fn(ctx, tx)
		return err
	}, append([]any{"skill", &d.Name, "version", &d.Version, "changed", &changed}, input...)...)
	return d, err
}

// invalidSkill names the fields of a definition that were refused.
func invalidSkill(e *skill.InvalidError) *problem.Problem {
	p := invalid()
	for _, f := range e.Fields {
		p.Errors = append(p.Errors, problem.At(located("body."+f.Field), f.Problem))
	}
	return p
}

// principal names who does something.
func principal(by auth.Principal) string { return string(by.Kind) + ":" + by.ID }
