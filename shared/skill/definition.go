package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/schema"
)

// A Definition is a skill as one workspace has it. It is a registered row, or a built-in skill with
// the changes of its row, if there is one.
type Definition struct {
	ID          string
	Name        string
	Kind        Kind
	Description string
	Parameters  json.RawMessage // JSON Schema of an object
	// Config is the configuration that the kind needs. A built-in skill has none. It may hold
	// secrets as plain text: show [Definition.PublicConfig] instead.
	Config           json.RawMessage
	Scope            Scope
	Effect           Effect  // empty: the kind's default, see [Registry.EffectOf]
	Results          Results // empty: [UntrustedResults]
	RequiresApproval bool
	Serial           bool
	Timeout          time.Duration // whole seconds; 0: the workspace's default

	Enabled        bool
	DisabledBy     Actor // empty while the skill is enabled
	DisabledReason string
	DisabledAt     *time.Time

	Version   int // incremented by each change; 0: a built-in skill without a row
	CreatedBy string
	CreatedAt time.Time
	UpdatedAt time.Time

	changes changes
}

// changes holds what the row of a built-in skill overrides. A nil field keeps the code's value.
type changes struct {
	scope    *Scope
	approval *bool
	serial   *bool
	timeout  *time.Duration
}

// Actor says who disables or enables a skill.
type Actor string

// The actors. Self-healing does not enable what a human has disabled.
const (
	Human       Actor = "human"
	SelfHealing Actor = "self_healing"
)

// Patch is a change of a definition. A nil field stays as it is.
type Patch struct {
	Description      *string
	Parameters       json.RawMessage
	Config           json.RawMessage
	Scope            *Scope
	Effect           *Effect // empty: the kind's default
	Results          *Results
	RequiresApproval *bool
	Serial           *bool
	Timeout          *time.Duration // 0: the workspace's default
	Enabled          *bool          // disabled or enabled by a human
}

// Limits of a definition, in bytes unless noted otherwise.
const (
	MaxName        = 64
	MaxDescription = 4000 // characters
	MaxReason      = 500  // characters
	MaxParameters  = 16 << 10
	MaxConfig      = 16 << 10
	MaxTimeout     = 900 * time.Second
	// MaxSkills is the limit of rows per workspace.
	MaxSkills = 1000
)

// An InvalidError lists what is wrong with a definition.
type InvalidError = problem.InvalidError

// Invalid returns an [InvalidError] of one field.
func Invalid(field, format string, args ...any) error { return problem.Invalid(field, format, args...) }

var (
	legalName = pattern.New(`^[A-Za-z][A-Za-z0-9_-]*$`)
	// parameter names that every model provider accepts
	legalParameter = pattern.New(`^[A-Za-z0-9_.-]+$`)
)

// check validates a definition that is not built in, and normalizes it to the form that is stored.
// It reports all problems in one [InvalidError].
func (r *Registry) check(d *Definition) error {
	bad := &InvalidError{}
	bad.If(len(d.Name) > MaxName || !legalName().MatchString(d.Name), "name",
		"must be 1 to 64 letters, digits, - and _ that begin with a letter")
	_, notID := uuid.Parse(d.Name) // a route takes an id or a name
	bad.If(notID == nil, "name", "must not look like an id")
	length := utf8.RuneCountInString(d.Description)
	bad.If(length < 1 || length > MaxDescription, "description", "must have 1 to 4000 characters")
	checkCommon(bad, d)
	field, problem := checkParameters(d)
	bad.If(problem != "", field, problem)
	d.Config = activity.Storable(compact(d.Config))
	bad.If(len(d.Config) > MaxConfig, "config", "may have 16 KiB at most")
	factory, known := r.factories[d.Kind]
	bad.If(!known, "kind", "is none that can be registered here")
	if err := bad.OrNil(); err != nil {
		return err
	}
	if _, err := factory(*d); err != nil {
		if invalid, ok := errors.AsType[*InvalidError](err); ok {
			return invalid
		}
		return fmt.Errorf("skill %s: %w", d.Name, err)
	}
	return nil
}

// checkCommon checks the fields that the row of a built-in skill may also set.
func checkCommon(bad *InvalidError, d *Definition) {
	bad.If(!slices.Contains([]Scope{Internal, External, Both}, d.Scope), "scope", "must be internal, external or both")
	bad.If(!slices.Contains([]Effect{"", Read, Write}, d.Effect), "effect", "must be read or write")
	bad.If(!slices.Contains([]Results{"", TrustedResults, UntrustedResults}, d.Results), "results", "must be trusted or untrusted")
	bad.If(d.Timeout < 0 || d.Timeout > MaxTimeout || d.Timeout%time.Second != 0, "timeoutSeconds", "must be 1 to 900")
	bad.If(utf8.RuneCountInString(d.DisabledReason) > MaxReason, "reason", "may have 500 characters at most")
}

// noParameters is the schema of a skill without parameters.
const noParameters = `{"type":"object","properties":{},"additionalProperties":false}`

// checkParameters compiles the schema and checks it against the rules of model providers. One skill
// with a schema that a provider refuses would make every model call fail. An empty problem means
// that the schema is good.
func checkParameters(d *Definition) (field, problem string) {
	if len(d.Parameters) == 0 {
		d.Parameters = json.RawMessage(noParameters)
	}
	d.Parameters = compact(d.Parameters)
	if len(d.Parameters) > MaxParameters {
		return "parameters", "may have 16 KiB at most"
	}
	if problem := objectSchema(d.Parameters); problem != "" {
		return "parameters", problem
	}
	if _, err := schema.Compile(d.Parameters); err != nil {
		if wrong, ok := errors.AsType[*schema.Error](err); ok {
			return "parameters" + dotted(wrong.Path), wrong.Problem
		}
		return "parameters", err.Error()
	}
	return "", ""
}

// objectSchema checks that a schema describes an object and that model providers accept it. It
// returns the problem, or "" if there is none. It is cheap enough to run at every load.
func objectSchema(raw json.RawMessage) string {
	var top map[string]json.RawMessage
	if json.Unmarshal(raw, &top) != nil || top == nil {
		return "must be a JSON Schema of an object"
	}
	if kind := top["type"]; string(kind) != `"object"` {
		return `must say "type": "object" at the top`
	}
	for _, word := range []string{"oneOf", "anyOf", "allOf", "not", "enum", "$ref"} {
		if _, there := top[word]; there {
			return "must not have " + word + " at the top: model providers refuse it"
		}
	}
	var properties map[string]json.RawMessage
	if raw, there := top["properties"]; there && json.Unmarshal(raw, &properties) != nil {
		return "must have an object of properties"
	}
	for name := range properties {
		if len(name) > MaxName || !legalParameter().MatchString(name) {
			return "has a property whose name is not 1 to 64 letters, digits, dots, - and _"
		}
	}
	return ""
}

// dotted converts a JSON pointer to a field path, such as ".properties.a".
func dotted(pointer string) string {
	return strings.NewReplacer("/", ".", "~1", "/", "~0", "~").Replace(pointer)
}

func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw // the code that reads it reports the error
	}
	return b.Bytes()
}

// patched returns d with the patch applied. It also records in changes what a built-in skill's row
// overrides.
func (d Definition) patched(p Patch) Definition {
	db.Patch(&d.Description, p.Description)
	db.Patch(&d.Scope, p.Scope)
	db.Patch(&d.Effect, p.Effect)
	db.Patch(&d.Results, p.Results)
	db.Patch(&d.RequiresApproval, p.RequiresApproval)
	db.Patch(&d.Serial, p.Serial)
	db.Patch(&d.Timeout, p.Timeout)
	if p.Parameters != nil {
		d.Parameters = p.Parameters
	}
	if p.Config != nil {
		d.Config = p.Config
	}
	if p.Scope != nil {
		d.changes.scope = p.Scope
	}
	if p.RequiresApproval != nil {
		d.changes.approval = p.RequiresApproval
	}
	if p.Serial != nil {
		d.changes.serial = p.Serial
	}
	if p.Timeout != nil {
		d.changes.timeout = p.Timeout
	}
	if p.Enabled != nil && *p.Enabled {
		d = d.enabled()
	} else if p.Enabled != nil && d.DisabledBy != Human {
		d = d.disabled(Human, "")
	}
	return d
}

func (d Definition) enabled() Definition {
	d.Enabled, d.DisabledBy, d.DisabledReason = true, "", ""
	return d
}

func (d Definition) disabled(by Actor, reason string) Definition {
	d.Enabled, d.DisabledBy, d.DisabledReason = false, by, reason
	return d
}
