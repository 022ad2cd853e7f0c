// Package skill says what an agent may do: named tools with a schema of their
// parameters, the surfaces they are for, and the lanes that protect what they
// write.
package skill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Scope says which surfaces a skill is for.
type Scope string

// The scopes of a skill.
const (
	Internal Scope = "internal" // admin and heartbeat
	External Scope = "external" // visitors
	Both     Scope = "both"
)

// Admits reports whether a skill of scope s is for a surface: the admin's and the
// agent's own get what is internal, visitors what is external.
func (s Scope) Admits(surface trace.Surface) bool {
	if surface == trace.Chat {
		return s != Internal
	}
	return s != External
}

// Kind says how a skill is done.
type Kind string

// The kinds of skills.
const (
	Builtin Kind = "builtin" // by code of the product
	HTTP    Kind = "http"    // by a request to a server
	Lambda  Kind = "lambda"  // by a function of the operator's
	MCP     Kind = "mcp"     // by a tool of a Model Context Protocol server
)

// Effect says whether a skill changes anything.
type Effect string

// The effects of a skill.
const (
	Read  Effect = "read"  // it looks, and changes nothing
	Write Effect = "write" // it may change something
)

// A Call is a skill being used.
type Call struct {
	Workspace db.Workspace
	Agent     string
	Surface   trace.Surface
	// Subject is the lane of what the execution works on.
	Subject lane.Name
	// Key names this call for ever: execution and place in it. Whoever has an effect
	// under it twice, has it once.
	Key       string
	Arguments json.RawMessage
	// By is the person whose turn makes the call, such as user:…; empty: nobody's does.
	By string
	// Untrusted says that the run had read text from outside when it asked.
	Untrusted bool
	// Offered are the skills that the run may use; nil outside of one.
	Offered *Set
}

// A Skill is one named tool. It has either Run or Do.
type Skill struct {
	ID          string // of its row
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema of an object
	Scope       Scope
	Kind        Kind
	Effect      Effect // empty: Write
	// RequiresApproval holds each call for a person to approve.
	RequiresApproval bool
	// Admins keeps the skill from the turns of those who are no admins, as the API keeps
	// them from what it does.
	Admins bool
	// Through says that a call stands for one of another skill: see [Inner].
	Through bool
	// Serial keeps the skill from being used beside another in one step.
	Serial bool
	// Timeout ends a call that takes longer; 0: the workspace's default does.
	Timeout time.Duration
	// Lanes names the lanes that a call's writes need beside the execution's own.
	Lanes func(Call) []lane.Name
	// Run does it, inside the transaction that records its result: what it writes
	// and the record commit together or not at all. A [Refusal] goes to the model,
	// and undoes what was written; any other error ends the run.
	Run func(ctx context.Context, tx lane.Tx, c Call) (any, error)
	// Sends says that what Run writes leaves the house later: it asks for the trust
	// that a skill which works outside does.
	Sends bool
	// Undo takes back what a call brought about in the database, where that is still
	// as the call left it, and reports whether nothing of it stays. It may be nil.
	Undo func(ctx context.Context, tx *db.Tx, arguments, result json.RawMessage) (bool, error)
	// Do does it in the world outside, in no transaction: what it brings is text from
	// outside. That it begins is recorded before, its result after. Every error is
	// its call's alone: a [Refusal] says what went wrong, an [Uncertain] that it may
	// have had its effect; of any other the model learns no more than that it failed.
	Do func(ctx context.Context, c Call) (any, error)
	// Keyed says that a call which is made again under its key has one effect: it is
	// made again when it was cut off. Without it, such a call is left uncertain.
	Keyed bool

	check *checker
}

// Remote reports whether the skill works outside the database.
func (s *Skill) Remote() bool { return s.Do != nil }

// WritesRemote reports whether the skill may change something outside the database, at
// once or with what it sends later. A run that has read text from outside needs a
// person's approval for such a skill, unless its scope is external.
func (s *Skill) WritesRemote() bool { return (s.Remote() || s.Sends) && s.Effect != Read }

// Untrusted is what a Run returns where it brings words that are not the
// operator's: they are data to the model, and the run's trust falls.
type Untrusted struct{ Value any }

// MarshalJSON implements json.Marshaler: it is the value's.
func (f Untrusted) MarshalJSON() ([]byte, error) { return json.Marshal(f.Value) }

// Class says whose failure an error is.
type Class string

// The classes of a skill's errors.
const (
	Input     Class = "input"      // the call's: the model is to do better
	Ours      Class = "ours"       // Lanekeeper's, or its configuration's
	Theirs    Class = "theirs"     // the other side's
	RateLimit Class = "rate_limit" // too much from us; later
	Policy    Class = "policy"     // it may not be done
)

// A Refusal is an error that the model is to read and do better. Its reason holds
// no text of the other side's but what the model may read.
type RefusalError struct {
	Class  Class // empty: Input
	Reason string
}

func (r *RefusalError) Error() string { return r.Reason }

// Refuse makes a [Refusal] of what the call asked for.
func Refuse(format string, args ...any) error {
	return &RefusalError{Class: Input, Reason: fmt.Sprintf(format, args...)}
}

// Fail makes a [Refusal] of a class.
func Fail(class Class, format string, args ...any) error {
	return &RefusalError{Class: class, Reason: fmt.Sprintf(format, args...)}
}

// UncertainError is the error of a call of which it is not known whether it had its
// effect: it was sent, and no answer came.
type UncertainError struct{ Reason string }

func (u *UncertainError) Error() string { return "uncertain: " + u.Reason }

// Define reads a skill's text from name.md: the description, and at its end the
// schema of the parameters as a fenced block of JSON.
func Define(texts fs.FS, name string, s Skill) (Skill, error) {
	raw, err := fs.ReadFile(texts, name+".md")
	if err != nil {
		return Skill{}, fmt.Errorf("define skill %s: %w", name, err)
	}
	description, rest, ok := strings.Cut(string(raw), "```json\n")
	schema, tail, closed := strings.Cut(rest, "```")
	if !ok || !closed || strings.TrimSpace(tail) != "" || !json.Valid([]byte(schema)) {
		return Skill{}, fmt.Errorf("define skill %s: %s.md must end with its schema in a fenced block of JSON", name, name)
	}
	s.Name = name
	s.Description = strings.TrimSpace(description)
	s.Parameters = json.RawMessage(schema)
	s.Scope, s.Kind, s.Effect = cmp.Or(s.Scope, Internal), cmp.Or(s.Kind, Builtin), cmp.Or(s.Effect, Write)
	return s, nil
}

// A Set is the skills one run may use.
type Set struct{ skills []*Skill }

// NewSet makes a set of skills with different names. Their schemas are read when
// they are first used; [Set.Sound] reads them all.
func NewSet(skills ...Skill) (*Set, error) {
	s := &Set{}
	var errs []error
	for _, k := range skills {
		if _, taken := s.exact(k.Name); taken {
			errs = append(errs, fmt.Errorf("two skills named %s", k.Name))
		}
		k.check = newChecker(k.Parameters)
		s.skills = append(s.skills, &k)
	}
	return s, errors.Join(errs...)
}

// Sound reports every skill of the set that could not be used.
func (s *Set) Sound() error {
	var errs []error
	for _, k := range s.skills {
		if _, err := k.check.compiled(); err != nil {
			errs = append(errs, fmt.Errorf("schema of skill %s: %w", k.Name, err))
		}
		if (k.Run == nil) == (k.Do == nil) {
			errs = append(errs, fmt.Errorf("skill %s needs either Run or Do", k.Name))
		}
	}
	return errors.Join(errs...)
}

// For is the subset that a surface may use.
func (s *Set) For(surface trace.Surface) *Set {
	sub := &Set{}
	for _, k := range s.skills {
		if k.Scope.Admits(surface) {
			sub.skills = append(sub.skills, k)
		}
	}
	return sub
}

// All lists the skills.
func (s *Set) All() []*Skill {
	if s == nil {
		return nil
	}
	return slices.Clone(s.skills)
}

// Only is the subset with these names.
func (s *Set) Only(names ...string) *Set {
	sub := &Set{}
	for _, k := range s.skills {
		if slices.Contains(names, k.Name) {
			sub.skills = append(sub.skills, k)
		}
	}
	return sub
}

// Names lists the skills' names.
func (s *Set) Names() []string {
	names := make([]string, len(s.skills))
	for i, k := range s.skills {
		names[i] = k.Name
	}
	return names
}

// Tools are the skills as a model sees them.
func (s *Set) Tools() []llm.Tool {
	var tools []llm.Tool
	for _, k := range s.All() {
		tools = append(tools, k.Tool())
	}
	return tools
}

// Tool is the skill as a model sees it.
func (s *Skill) Tool() llm.Tool {
	return llm.Tool{Name: s.Name, Description: s.Description, Parameters: s.Parameters}
}

func (s *Set) exact(name string) (*Skill, bool) {
	i := slices.IndexFunc(s.skills, func(k *Skill) bool { return k.Name == name })
	if i < 0 {
		return nil, false
	}
	return s.skills[i], true
}

// Find is the skill of that name, or the only one whose name differs from it in
// case and separators alone.
func (s *Set) Find(name string) (*Skill, bool) {
	if k, ok := s.exact(name); ok {
		return k, true
	}
	var found *Skill
	for _, k := range s.skills {
		if fold(k.Name) != fold(name) {
			continue
		}
		if found != nil {
			return nil, false
		}
		found = k
	}
	return found, found != nil
}

// fold takes case and separators out of a name.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_. /", r) {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// Nearest lists the names of the set, the most similar to name first.
func (s *Set) Nearest(name string) []string {
	names := s.Names()
	wanted := fold(name)
	slices.SortStableFunc(names, func(a, b string) int {
		return Distance(fold(a), wanted) - Distance(fold(b), wanted)
	})
	return names
}

// Distance is Levenshtein's: the fewest single-byte edits between a and b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
