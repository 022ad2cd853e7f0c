// Package skill defines what an agent may do. A skill is a named tool with a schema of its
// parameters, the surfaces that may use it, and the lanes that protect what it writes.
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

// Scope says which surfaces may use a skill.
type Scope string

// The scopes of a skill.
const (
	Internal Scope = "internal" // admin and heartbeat
	External Scope = "external" // visitors
	Both     Scope = "both"
)

// Admits reports whether a skill of scope s may be used by a surface. Visitors get external skills.
// The admin's surface and the agent's own get internal ones.
func (s Scope) Admits(surface trace.Surface) bool {
	if surface == trace.Chat {
		return s != Internal
	}
	return s != External
}

// Kind says how a skill is carried out.
type Kind string

// The kinds of skills.
const (
	Builtin Kind = "builtin" // by code of the product
	HTTP    Kind = "http"    // by a request to an HTTP server
	Lambda  Kind = "lambda"  // by an AWS Lambda function of the operator
	MCP     Kind = "mcp"     // by a tool of a Model Context Protocol server
)

// Effect says whether a skill changes anything.
type Effect string

// The effects of a skill.
const (
	Read  Effect = "read"  // it changes nothing
	Write Effect = "write" // it may change something
)

// Results says whether the results of a skill are trusted like the operator's own text.
type Results string

// Whether results are trusted.
const (
	TrustedResults   Results = "trusted"   // an execution that reads them keeps its trust
	UntrustedResults Results = "untrusted" // they may hold text of anybody
)

// A Call is one use of a skill.
type Call struct {
	Workspace db.Workspace
	Agent     string
	Surface   trace.Surface
	// Subject is the lane of the resource that the execution works on.
	Subject lane.Name
	// Key identifies this call permanently: the execution and the position in it. It is the
	// idempotency key: a skill must have its effect only once per key.
	Key       string
	Arguments json.RawMessage
	// By is the person whose turn makes the call, such as user:…. It is empty if there is none.
	By string
	// Untrusted says that the execution had read untrusted text before this call.
	Untrusted bool
	// Rule says that a rule of an admin makes the call, and no model.
	Rule bool
	// Offered are the skills that the execution may use. It is nil outside of an execution.
	Offered *Set
	// Prepared is the result of [Skill.Prepare], if the skill has it.
	Prepared any
}

// A Skill is one named tool. Exactly one of Run and Do is set.
type Skill struct {
	ID          string // of its row
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema of an object
	Scope       Scope
	Kind        Kind
	Effect      Effect // empty: Write
	// Results says whether the results of Do are trusted; empty: [UntrustedResults].
	Results Results
	// RequiresApproval holds each call until a person approves it.
	RequiresApproval bool
	// Admins reserves the skill for the turns of admins. The API reserves the same operations for
	// them.
	Admins bool
	// Through says that a call stands for a call of another skill: see [Inner].
	Through bool
	// Serial prevents the skill from running at the same time as another one of the same step.
	Serial bool
	// Timeout limits a call's duration. Zero means the workspace's default.
	Timeout time.Duration
	// Lanes returns the lanes that a call's writes need beside the execution's own lane.
	Lanes func(Call) []lane.Name
	// Prepare does what a call needs before its transaction begins, such as a request to the key
	// service. Run gets the result in [Call.Prepared]. Its errors are like those of Run. It may be nil.
	Prepare func(ctx context.Context, c Call) (any, error)
	// Run carries out a call inside the transaction that records its result, so its writes and the
	// record commit together or not at all. A [RefusalError] undoes the writes and goes to the
	// model. Any other error ends the execution.
	Run func(ctx context.Context, tx lane.Tx, c Call) (any, error)
	// Sends says that Run writes something that leaves the system later, such as a message. The
	// skill then needs the same trust as a [Skill.Remote] one.
	Sends bool
	// Undo reverts what a call changed in the database, if that is still as the call left it. It
	// reports whether it reverted all of it. It may be nil.
	Undo func(ctx context.Context, tx *db.Tx, arguments, result json.RawMessage) (bool, error)
	// Do carries out a call outside the database, in no transaction. Its result is untrusted text,
	// unless Results says otherwise.
	// The caller records the start before the call and the result after it. An error fails only
	// this call: a [RefusalError] says what went wrong, an [UncertainError] that the call may have
	// had its effect. For any other error, the model learns only that the call failed.
	Do func(ctx context.Context, c Call) (any, error)
	// Keyed says that calls with the same key have one effect, or none. An interrupted call is then
	// repeated. Without Keyed, it is recorded as uncertain.
	Keyed bool

	check *checker
}

// Remote reports whether the skill works outside the database.
func (s *Skill) Remote() bool { return s.Do != nil }

// WritesRemote reports whether the skill may change something outside the database, immediately or
// by something that it sends later. An execution that has read untrusted text needs a person's
// approval for such a skill, unless the skill's scope is external.
func (s *Skill) WritesRemote() bool { return (s.Remote() || s.Sends) && s.Effect != Read }

// Untrusted wraps the result of a Run that contains text from someone other than the operator. The
// model gets it as data, and the execution's trust becomes untrusted.
type Untrusted struct{ Value any }

// MarshalJSON implements json.Marshaler. It encodes the wrapped value.
func (f Untrusted) MarshalJSON() ([]byte, error) { return json.Marshal(f.Value) }

// Class says who is responsible for an error.
type Class string

// The classes of a skill's errors.
const (
	Input     Class = "input"      // the call's arguments; the model should correct them
	Ours      Class = "ours"       // Lanekeeper or its configuration
	Theirs    Class = "theirs"     // the remote server
	RateLimit Class = "rate_limit" // too many requests from us; retry later
	Policy    Class = "policy"     // the operation is not allowed
)

// A RefusalError is an error for the model to read, so that it can do better. Reason must contain
// no text of a remote server except what the model may read.
type RefusalError struct {
	Class  Class // empty: Input
	Reason string
}

func (r *RefusalError) Error() string { return r.Reason }

// Refuse returns a [RefusalError] of class [Input].
func Refuse(format string, args ...any) error {
	return &RefusalError{Class: Input, Reason: fmt.Sprintf(format, args...)}
}

// Fail returns a [RefusalError] of the given class.
func Fail(class Class, format string, args ...any) error {
	return &RefusalError{Class: class, Reason: fmt.Sprintf(format, args...)}
}

// UncertainError is the error of a call whose outcome is unknown: the request was sent, and no
// answer came.
type UncertainError struct{ Reason string }

func (u *UncertainError) Error() string { return "uncertain: " + u.Reason }

// Define reads a skill's text from name.md. The file holds the description, followed by the
// parameters' schema in a fenced block of JSON.
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

// A Set holds the skills that one execution may use.
type Set struct{ skills []*Skill }

// NewSet returns a set of skills, which must have different names. Each schema is compiled at its
// first use; [Set.Sound] compiles them all.
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

// Sound returns an error for every skill of the set that can't be used.
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

// For returns the subset that a surface may use.
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

// Only returns the subset with these names.
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

// Tools returns the skills in the form that a model gets.
func (s *Set) Tools() []llm.Tool {
	var tools []llm.Tool
	for _, k := range s.All() {
		tools = append(tools, k.Tool())
	}
	return tools
}

// Tool returns the skill in the form that a model gets.
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

// Find returns the skill of that name. Otherwise it returns the skill whose name differs only in
// case and separators, if there is exactly one.
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

// fold converts a name to lower case without separators.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_. /", r) {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// maxNearest is how much of a name Nearest compares, in bytes. The names of a set are shorter.
const maxNearest = 128

// Nearest lists all names of the set, the most similar to name first.
func (s *Set) Nearest(name string) []string {
	names := s.Names()
	wanted := fold(name[:min(len(name), maxNearest)])
	slices.SortStableFunc(names, func(a, b string) int {
		return Distance(fold(a), wanted) - Distance(fold(b), wanted)
	})
	return names
}

// Distance returns the Levenshtein distance: the fewest single-byte edits between a and b.
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
