// Package persona stores personas. A persona holds the instructions, the name, the model, the
// language, the time zone and the skills of an agent. It is versioned data: a change adds a
// version. Each execution records the version that it began with, so that a trace shows the
// instructions that the agent had.
package persona

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/redact"
)

// The names of the built-in personas. They exist in each workspace, at version 0 until a person
// changes them.
const (
	Flowpilot   = "flowpilot"    // on the surfaces operate and heartbeat
	VisitorChat = "visitor_chat" // on the surface chat
)

// Surface is a surface that a persona may work on.
type Surface string

// The surfaces.
const (
	Operate   Surface = "operate"
	Heartbeat Surface = "heartbeat"
	Chat      Surface = "chat"
)

var (
	// ErrNotFound says that no persona has the name, or that the persona has no such version.
	ErrNotFound = errors.New("there is no such persona")
	// ErrChanged says that the persona was changed since it was read.
	ErrChanged = errors.New("the persona has been changed meanwhile")
)

// Persona is one version of a persona.
type Persona struct {
	Name         string
	Version      int // number of changes; 0: an unchanged built-in persona
	DisplayName  string
	Instructions string   // added to the system prompt
	Model        string   // the provider's id of a model; empty: the configured one
	Temperature  *float64 // 0 to 2; nil: the provider's default
	Skills       []string // names; nil: all that the surface offers
	Language     string   // such as de or pt-BR; empty: the language of the person
	TimeZone     string   // such as Europe/Berlin; empty: UTC
	OutputCheck  string   // the skill that sees each answer before anybody is told of it; empty: none
	Surfaces     []Surface
	CreatedBy    string
	CreatedAt    time.Time // zero for version 0
}

// Builtin returns version 0 of a built-in persona.
func Builtin(name string) (p Persona, ok bool) {
	switch name {
	case Flowpilot:
		return Persona{Name: name, DisplayName: "Flowpilot", Surfaces: []Surface{Operate, Heartbeat}}, true
	case VisitorChat:
		return Persona{Name: name, DisplayName: "Assistant", Surfaces: []Surface{Chat}}, true
	}
	return Persona{}, false
}

// The following values limit a persona.
const (
	MaxInstructions = 16 << 10 // bytes
	maxDisplayName  = 100      // characters
	maxModel        = 255      // bytes
	maxSkills       = 200
	maxSkill        = 64 // bytes
	maxLanguage     = 35 // bytes; RFC 5646 calls this length sufficient
)

var (
	legalName     = pattern.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)
	legalLanguage = pattern.New(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`)
	legalSkill    = pattern.New(`^[a-zA-Z0-9_-]+$`)
)

// check completes a persona that a person wants to store and redacts known secrets in its texts. It
// returns an error that lists all problems.
func (p *Persona) check(ctx context.Context) error {
	bad := &problem.InvalidError{}
	known := redact.From(ctx).Values()
	p.DisplayName, p.Instructions = known.Text(strings.TrimSpace(p.DisplayName)), known.Text(p.Instructions)
	builtin, isBuiltin := Builtin(p.Name)
	bad.If(!legalName().MatchString(p.Name), "name", "must begin with a letter or a digit and have up to 63 of a-z, A-Z, 0-9, _, . and -")
	bad.If(utf8.RuneCountInString(p.DisplayName) > maxDisplayName || strings.ContainsFunc(p.DisplayName,
		unicode.IsControl) || !utf8.ValidString(p.DisplayName),
		"displayName", "must be one line of at most 100 characters")
	bad.If(len(p.Instructions) > MaxInstructions || !utf8.ValidString(p.Instructions) || strings.ContainsRune(p.Instructions, 0),
		"instructions", "may have 16 KiB of text at most")
	bad.If(len(p.Model) > maxModel || strings.ContainsFunc(p.Model, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }),
		"model", "must be the id of a model, without spaces, of at most 255 bytes")
	bad.If(p.Temperature != nil && !(*p.Temperature >= 0 && *p.Temperature <= 2), "temperature", "must be between 0 and 2")
	bad.If(len(p.Skills) > maxSkills, "skills", "may name 200 skills at most")
	bad.If(slices.ContainsFunc(p.Skills, func(s string) bool { return len(s) > maxSkill || !legalSkill().MatchString(s) }), "skills",
		"must be names of skills: up to 64 of a-z, A-Z, 0-9, _ and -")
	bad.If(p.Language != "" && (len(p.Language) > maxLanguage || !legalLanguage().MatchString(p.Language)), "language",
		"must be a language tag, such as de or pt-BR")
	bad.If(p.OutputCheck != "" && (len(p.OutputCheck) > maxSkill || !legalSkill().MatchString(p.OutputCheck)), "outputCheck",
		"must be the name of a skill: up to 64 of a-z, A-Z, 0-9, _ and -")
	if err := automation.CheckZone(p.TimeZone); err != nil {
		bad.If(true, "timeZone", err.Error())
	}
	switch {
	case isBuiltin:
		bad.If(len(p.Surfaces) > 0 && !sameSurfaces(p.Surfaces, builtin.Surfaces), "surfaces", "of a built-in persona can't be changed")
		p.Surfaces = builtin.Surfaces
	case len(p.Surfaces) == 0:
		p.Surfaces = []Surface{Chat}
	default:
		bad.If(!sameSurfaces(p.Surfaces, []Surface{Chat}), "surfaces", "must be chat: the other surfaces have the built-in persona")
	}
	if p.DisplayName == "" {
		p.DisplayName = p.Name
		if isBuiltin {
			p.DisplayName = builtin.DisplayName
		}
	}
	return bad.OrNil()
}

func sameSurfaces(a, b []Surface) bool {
	for _, s := range append(slices.Clone(a), b...) {
		if !slices.Contains(a, s) || !slices.Contains(b, s) {
			return false
		}
	}
	return true
}

// System returns the system prompt of an agent with this persona. frame, which holds the rules of
// the surface, comes first. If the last line of frame names the task, it stays the last line.
func (p Persona) System(frame string) string {
	words := p.words()
	if words == "" {
		return frame
	}
	rules, task := split(frame)
	return rules + words + task + "\n"
}

// Instead replaces the texts of p by those of next in a system prompt that was made with p.
func (p Persona) Instead(system string, next Persona) string {
	if words := p.words(); words != "" {
		rules, task := split(system)
		system = strings.TrimSuffix(rules, words) + task + "\n"
	}
	return next.System(system)
}

// split separates the rules of a prompt from its last line, if that names the task.
func split(prompt string) (rules, task string) {
	rules = strings.TrimRight(prompt, "\n")
	if at := strings.LastIndexByte(rules, '\n'); at >= 0 && strings.HasPrefix(rules[at+1:], "task: ") {
		return strings.TrimRight(rules[:at], "\n"), "\n\n" + rules[at+1:]
	}
	return rules, ""
}

// words returns the text that the persona adds to a prompt.
func (p Persona) words() string {
	var b strings.Builder
	line := func(text string) { b.WriteString("\n\n" + text) }
	if builtin, ok := Builtin(p.Name); p.DisplayName != "" && (!ok || p.DisplayName != builtin.DisplayName) {
		line("Your name is " + p.DisplayName + ".")
	}
	if p.Language != "" {
		line("Answer in the language with the tag " + p.Language + ", unless the person asks for another one.")
	}
	if p.TimeZone != "" {
		line("Times that people name are in the time zone " + p.TimeZone + ".")
	}
	if text := strings.TrimSpace(p.Instructions); text != "" {
		line("The people who run this workspace have written these instructions for you. The rules above go before them.\n\n" + text)
	}
	return b.String()
}

// Serves reports whether the persona works on a surface.
func (p Persona) Serves(s Surface) bool { return slices.Contains(p.Surfaces, s) }
