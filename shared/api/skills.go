package api

import (
	"bytes"
	"cmp"
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
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// skillItem is a skill of a workspace.
type skillItem struct {
	ID               string          `json:"id" format:"uuid"`
	Name             string          `json:"name"`
	Description      string          `json:"description"`
	Parameters       json.RawMessage `json:"parameters" doc:"JSON Schema of an object"`
	Kind             skill.Kind      `json:"kind" enum:"builtin,http,lambda,mcp"`
	Scope            skill.Scope     `json:"scope" enum:"internal,external,both"`
	Effect           skill.Effect    `json:"effect" enum:"read,write" doc:"read: it changes nothing, so that a run which has read text from outside may go on calling it"`
	Results          skill.Results   `json:"results" enum:"trusted,untrusted" doc:"trusted: a run that reads what the skill answers keeps its trust"`
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
		Effect: s.Registry.EffectOf(d), Results: cmp.Or(d.Results, skill.UntrustedResults), RequiresApproval: d.RequiresApproval, Serial: d.Serial, Enabled: d.Enabled,
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

// listSkills lists the workspace's skills by name, including the built-in ones. It is called by the
// Engine Room and by scripts.
func (s *server) listSkills(ctx context.Context, in *skillsInput) (*answer[page[skillItem]], error) {
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	f := skill.Filter{Kind: in.Kind, Scope: in.Scope, After: after.key, Limit: in.Limit}
	if in.Enabled != "" {
		f.Enabled = new(in.Enabled == "true")
	}
	found, err := s.Registry.List(ctx, workspace(ctx), f)
	if err != nil {
		return nil, err
	}
	items := each(found.Items, func(d skill.Definition) skillItem { return s.skillItemOf(ctx, d) })
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

// getSkill returns one skill. It is called by the Engine Room and by scripts.
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

// skillHealth summarizes the calls of a skill over some days.
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

// getSkillHealth returns the health of a skill. It is called by the Engine Room.
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

// optional is a field of a change that distinguishes a missing field from null.
type optional[T any] struct {
	given bool
	value T // zero for null
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *optional[T]) UnmarshalJSON(raw []byte) error {
	o.given = true
	return json.Unmarshal(raw, &o.value)
}

// givenJSON is a JSON value of a request. Null counts as left out, as it does in optional fields of other types.
type givenJSON json.RawMessage

// UnmarshalJSON implements [json.Unmarshaler].
func (g *givenJSON) UnmarshalJSON(raw []byte) error {
	if string(raw) != "null" {
		*g = bytes.Clone(raw)
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (g givenJSON) MarshalJSON() ([]byte, error) { return json.RawMessage(g).MarshalJSON() }

// Schema implements [huma.SchemaProvider].
func (givenJSON) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// changedTime returns what a change sets a time to. It is nil for no change, and points to nil for null.
func changedTime(o optional[time.Time]) **time.Time {
	if !o.given {
		return nil
	}
	at := &o.value
	if at.IsZero() {
		at = nil
	}
	return &at
}

// Schema implements [huma.SchemaProvider].
func (optional[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), true, "")
	s.Nullable = true
	return &s
}

// SkillFields holds the changeable fields of a skill.
type SkillFields struct {
	Description      *string                `json:"description,omitempty" minLength:"1" maxLength:"4000" doc:"For the model: what it does, and when to use it"`
	Parameters       givenJSON              `json:"parameters,omitempty" doc:"JSON Schema of an object, at most 16 KiB; none: it takes no arguments"`
	Scope            *skill.Scope           `json:"scope,omitempty" enum:"internal,external,both" doc:"Whom it is for: admin and heartbeat (internal, the default), visitors, or both"`
	Effect           optional[skill.Effect] `json:"effect,omitempty" enum:"read,write" doc:"Whether it changes anything. Null, the default: read for http with GET or HEAD, else write. A run that has read text from outside needs an approval for write"`
	Results          *skill.Results         `json:"results,omitempty" enum:"trusted,untrusted" doc:"Whether its results are trusted like your own text. untrusted, the default: a run that has read one needs an approval for what it does outside. Say trusted of your own systems that hold no text of strangers"`
	RequiresApproval *bool                  `json:"requiresApproval,omitempty" doc:"Hold each call for a person to approve"`
	TimeoutSeconds   optional[int64]        `json:"timeoutSeconds,omitempty" minimum:"1" maximum:"900" doc:"Null: the workspace's default"`
	Serial           *bool                  `json:"serial,omitempty" doc:"Not beside another skill in one step"`
	Enabled          *bool                  `json:"enabled,omitempty"`
	Config           givenJSON              `json:"config,omitempty" doc:"http: {url, method, headers, idempotencyKeyHeader}; lambda: {functionName}; mcp: {url, tool, headers}; values of headers may be {$secret: name}"`
}

func (f SkillFields) patch() skill.Patch {
	p := skill.Patch{
		Description: f.Description, Parameters: json.RawMessage(f.Parameters), Config: json.RawMessage(f.Config),
		Scope: f.Scope, Results: f.Results,
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

// names returns the names of the given fields, sorted.
func (f SkillFields) names() []string {
	names := []string{}
	for name, given := range map[string]bool{
		"description": f.Description != nil, "parameters": f.Parameters != nil, "scope": f.Scope != nil,
		"effect": f.Effect.given, "results": f.Results != nil, "requiresApproval": f.RequiresApproval != nil,
		"timeoutSeconds": f.TimeoutSeconds.given, "serial": f.Serial != nil, "enabled": f.Enabled != nil, "config": f.Config != nil,
	} {
		if given {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// created serves a route that returns 201.
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

// createSkill registers a skill, or the workspace's changes to a built-in one. It is called by the
// Engine Room and by scripts.
func (s *server) createSkill(ctx context.Context, in *createSkillInput) (*createdAt[skillItem], error) {
	by, _ := auth.From(ctx)
	create := func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
		d := in.definition(by)
		d.ID = s.newID(ctx)
		d, err := s.Registry.Create(ctx, tx, d)
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
			if errors.Is(err, skill.ErrChanged) { // another request was faster
				err = skill.ErrTaken
			}
			return d, true, err
		}
	}
	d, err := s.changeSkill(ctx, "skill.create", create, "fields", in.Body.names())
	if d, err = before(ctx, d, err, s.Registry.Get); err != nil {
		return nil, err
	}
	return &createdAt[skillItem]{"/api/v1/skills/" + d.ID, tagOf(d.Version), s.skillItemOf(ctx, d)}, nil
}

// definition returns the skill that the request describes.
func (in *createSkillInput) definition(by auth.Principal) skill.Definition {
	f := in.Body.SkillFields
	d := skill.Definition{
		Name: in.Body.Name, Kind: in.Body.Kind, Parameters: json.RawMessage(f.Parameters), Config: json.RawMessage(f.Config),
		Enabled: f.Enabled == nil || *f.Enabled,
		Timeout: time.Duration(f.TimeoutSeconds.value) * time.Second, CreatedBy: principal(by),
	}
	db.Patch(&d.Description, f.Description)
	db.Patch(&d.Scope, f.Scope)
	d.Effect = f.Effect.value
	db.Patch(&d.Results, f.Results)
	d.RequiresApproval = f.RequiresApproval != nil && *f.RequiresApproval
	d.Serial = f.Serial != nil && *f.Serial
	return d
}

type patchSkillInput struct {
	SkillPath
	IfMatch
	Body SkillFields
}

// patchSkill changes the given fields of a skill. It is called by the Engine Room and by scripts.
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

// deleteSkill deletes a skill. For a built-in skill it deletes the workspace's changes. It is
// called by the Engine Room and by scripts.
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

// enableSkill enables a skill. It is called by the Engine Room and by scripts.
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

// disableSkill disables a skill. Self-healing does not enable it again. It is called by the Engine
// Room and by scripts.
func (s *server) disableSkill(ctx context.Context, in *disableSkillInput) (*versioned[skillItem], error) {
	d, err := s.changeSkill(ctx, "skill.disable", func(ctx context.Context, tx *db.Tx) (skill.Definition, bool, error) {
		return s.Registry.Disable(ctx, tx, workspace(ctx), in.ID, skill.Human, in.Body.Reason)
	}, "reason", in.Body.Reason)
	if err != nil {
		return nil, err
	}
	return s.skillOutputOf(ctx, d), nil
}

// changeSkill is [server.change] for a skill. fn returns the skill and whether it changed anything.
func (s *server) changeSkill(ctx context.Context, what string, fn func(context.Context, *db.Tx) (skill.Definition, bool, error), input ...any) (skill.Definition, error) {
	var d skill.Definition
	var changed bool
	err := s.change(ctx, what, func(ctx context.Context, tx *db.Tx) (err error) {
		d, changed, err = fn(ctx, tx)
		return err
	}, append([]any{"skill", &d.Name, "version", &d.Version, "changed", &changed}, input...)...)
	return d, err
}

// invalidSkill returns the problem that names the invalid fields of a definition.
func invalidSkill(e *skill.InvalidError) *problem.Problem {
	p := invalid()
	for _, f := range e.Fields {
		p.Errors = append(p.Errors, problem.At(located("body."+f.Field), f.Problem))
	}
	return p
}

// principal returns the text form of a principal, such as user:{id}.
func principal(by auth.Principal) string { return string(by.Kind) + ":" + by.ID }

type runSkillInput struct {
	SkillPath
	Body *struct {
		Input givenJSON `json:"input,omitempty" doc:"What fits the skill's parameters; left out: {}"`
	}
}

type runSkillAnswer struct {
	Status      execution.StepStatus `json:"status" enum:"succeeded,failed,uncertain" doc:"uncertain: it may have had its effect, and nobody knows"`
	Output      json.RawMessage      `json:"output,omitempty"`
	Error       string               `json:"error,omitempty"`
	ExecutionID string               `json:"executionId"`
	TraceID     trace.ID             `json:"traceId"`
}

// runSkill makes one call of a skill. It needs no approval if a person asks for it. It is called by
// the Engine Room, to try a skill, and by scripts.
func (s *server) runSkill(ctx context.Context, in *runSkillInput) (*answer[runSkillAnswer], error) {
	return s.runByHand(ctx, in, operate.ByHand{})
}

// leftOut returns the problem that says why an enabled skill was left out of a run, or else the
// given error.
func (s *server) leftOut(ctx context.Context, name string, otherwise error) error {
	_, broken, err := s.Registry.Load(ctx, workspace(ctx), trace.Operate)
	if err != nil {
		return err
	}
	for _, b := range broken {
		if e, ok := errors.AsType[*skill.BrokenError](b); ok && e.Name == name {
			p := problem.New(http.StatusConflict, "unusable", "the skill can't be used here")
			if wrong, ok := errors.AsType[*skill.InvalidError](e); ok {
				p.Errors = invalidSkill(wrong).Errors
			}
			return p
		}
	}
	return otherwise
}

// runByHand makes a call of a skill for the caller.
func (s *server) runByHand(ctx context.Context, in *runSkillInput, hand operate.ByHand) (*answer[runSkillAnswer], error) {
	d, err := s.Registry.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	if !d.Enabled {
		return nil, problem.New(http.StatusConflict, "disabled", "the skill is disabled: enable it first")
	}
	input := json.RawMessage("{}")
	if in.Body != nil && len(in.Body.Input) > 0 {
		input = json.RawMessage(in.Body.Input)
	}
	by, _ := auth.From(ctx)
	hand.ID, hand.By, hand.Person = claimedID(ctx), principal(by), by.Kind == auth.Local || by.Kind == auth.User
	used, err := s.Operate.RunSkill(ctx, by.Workspace, d.Name, input, hand)
	switch {
	case errors.Is(err, db.ErrUnique): // the request was executed before, and its response was lost
		return nil, doneBy(used.Execution)
	case errors.Is(err, operate.ErrNoSkill):
		return nil, s.leftOut(ctx, d.Name, err)
	}
	if err != nil {
		return nil, err
	}
	s.Kick(workspace(ctx)) // sends the messages that the call left in the outbox
	return answered(runSkillAnswer{
		Status: used.Status, Output: used.Output, Error: used.Error, ExecutionID: used.Execution, TraceID: used.Trace,
	}), nil
}
