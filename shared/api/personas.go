package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// personaItem is one version of a persona.
type personaItem struct {
	Name         string            `json:"name"`
	Version      int               `json:"version" doc:"Counts changes; 0: a built-in one that nobody has changed"`
	DisplayName  string            `json:"displayName"`
	Instructions string            `json:"instructions"`
	Model        string            `json:"model,omitempty" doc:"Left out: the configured one"`
	Temperature  *float64          `json:"temperature,omitempty"`
	Skills       *[]string         `json:"skills,omitempty" doc:"Left out: all that its surface offers"`
	Language     string            `json:"language,omitempty"`
	TimeZone     string            `json:"timeZone,omitempty"`
	OutputCheck  string            `json:"outputCheck,omitempty"`
	Surfaces     []persona.Surface `json:"surfaces"`
	CreatedBy    string            `json:"createdBy,omitempty"`
	CreatedAt    *time.Time        `json:"createdAt,omitempty" doc:"When this version was stored"`
}

func personaOf(p persona.Persona) personaItem {
	item := personaItem{
		Name: p.Name, Version: p.Version, DisplayName: p.DisplayName, Instructions: p.Instructions, Model: p.Model, Temperature: p.Temperature,
		Language: p.Language, TimeZone: p.TimeZone, OutputCheck: p.OutputCheck, Surfaces: p.Surfaces, CreatedBy: p.CreatedBy,
	}
	if p.Skills != nil {
		item.Skills = &p.Skills
	}
	if p.Version > 0 {
		item.CreatedAt = utc(&p.CreatedAt)
	}
	return item
}

// PersonaPath names a persona.
type PersonaPath struct {
	Name string `path:"name" maxLength:"63" doc:"flowpilot, visitor_chat, or one of your own"`
}

// listPersonas lists personas by name, each in its newest version. It is called by the Engine Room
// and by scripts.
func (s *server) listPersonas(ctx context.Context, in *struct {
	Paging
}) (*answer[page[personaItem]], error) {
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Personas.List(ctx, workspace(ctx), after.key, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return sorted(found, in.Limit, func(p persona.Persona) string { return p.Name }, personaOf), nil
}

// getPersona returns the newest version of a persona. It is called by the Engine Room and by
// scripts.
func (s *server) getPersona(ctx context.Context, in *PersonaPath) (*versioned[personaItem], error) {
	p, err := s.Personas.Get(ctx, workspace(ctx), in.Name)
	if err != nil {
		return nil, err
	}
	return &versioned[personaItem]{ETag: tagOf(p.Version), Body: personaOf(p)}, nil
}

// putPersona stores a new version of a persona. Fields that the request omits get their defaults.
// It is called by the Engine Room and by scripts.
func (s *server) putPersona(ctx context.Context, in *struct {
	Name string `path:"name" maxLength:"63" pattern:"^[A-Za-z0-9][A-Za-z0-9_.-]*$" patternDescription:"letters, digits and . _ - that begin with a letter or a digit" doc:"flowpilot, visitor_chat, or one of your own"`
	IfMatch
	Body struct {
		DisplayName  string            `json:"displayName,omitempty" maxLength:"100"`
		Instructions string            `json:"instructions,omitempty" maxLength:"16384" doc:"Added to the system prompt, whose rules always come first; 16 KiB at most"`
		Model        string            `json:"model,omitempty" maxLength:"255" doc:"The provider's id of a model; left out: the configured one"`
		Temperature  *float64          `json:"temperature,omitempty" minimum:"0" maximum:"2"`
		Skills       *[]string         `json:"skills,omitempty" maxItems:"200" nullable:"false" doc:"Names; left out: all that its surface offers"`
		Language     string            `json:"language,omitempty" maxLength:"35" doc:"A language tag, such as de or pt-BR; left out: the language of the person"`
		TimeZone     string            `json:"timeZone,omitempty" maxLength:"64" doc:"Such as Europe/Berlin; left out: UTC"`
		OutputCheck  string            `json:"outputCheck,omitempty" maxLength:"64" doc:"A skill that sees each answer, as {answer, messages}, before anybody is told of it, and returns {verdict: pass, redact or hold, text, reason}; left out: none"`
		Surfaces     []persona.Surface `json:"surfaces,omitempty" maxItems:"3" nullable:"false" enum:"operate,heartbeat,chat" doc:"Your own personas serve chat"`
	}
}) (*versioned[personaItem], error) {
	read := -1 // the present version, whatever its number
	if in.IfMatch.IfMatch != "" {
		present, err := s.Personas.Get(ctx, workspace(ctx), in.Name)
		switch {
		case err == nil:
			err = in.matches(present.Version)
		case errors.Is(err, persona.ErrNotFound):
			err = stale
		}
		if err != nil {
			return nil, err
		}
		read = present.Version
	}
	by, _ := auth.From(ctx)
	p := persona.Persona{
		Name: in.Name, Version: read, DisplayName: in.Body.DisplayName, Instructions: in.Body.Instructions, Model: in.Body.Model,
		Temperature: in.Body.Temperature, Language: in.Body.Language, TimeZone: in.Body.TimeZone,
		OutputCheck: in.Body.OutputCheck, Surfaces: in.Body.Surfaces, CreatedBy: by.String(),
	}
	if in.Body.Skills != nil {
		p.Skills = append([]string{}, *in.Body.Skills...)
	}
	if err := s.knownSkills(ctx, p); err != nil {
		return nil, err
	}
	err := s.change(ctx, "persona.put", func(ctx context.Context, tx *db.Tx) (err error) {
		p, err = s.Personas.Put(ctx, tx, p)
		return err
	}, "persona", p.Name, "version", &p.Version)
	if err != nil {
		return nil, err
	}
	return &versioned[personaItem]{ETag: tagOf(p.Version), Body: personaOf(p)}, nil
}

const noSkillOfName = "no skill has this name"

// knownSkills returns an error for fields of a persona with a name that no skill of the workspace has. An
// output check that does not exist would hold every answer.
func (s *server) knownSkills(ctx context.Context, p persona.Persona) error {
	if len(p.Skills) == 0 && p.OutputCheck == "" {
		return nil
	}
	all, err := s.Registry.All(ctx, workspace(ctx))
	if err != nil {
		return err
	}
	var wrong problem.InvalidError
	known := func(name string) bool {
		return slices.ContainsFunc(all, func(d skill.Definition) bool { return d.Name == name })
	}
	for i, name := range p.Skills {
		wrong.If(!known(name), fmt.Sprintf("skills[%d]", i), noSkillOfName)
	}
	wrong.If(p.OutputCheck != "" && !known(p.OutputCheck), "outputCheck", noSkillOfName)
	return wrong.OrNil()
}

// listPersonaVersions lists the versions of a persona, newest first. It is called by the Engine
// Room and by scripts.
func (s *server) listPersonaVersions(ctx context.Context, in *struct {
	PersonaPath
	Paging
}) (*answer[page[personaItem]], error) {
	from, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	before := 0
	if in.Cursor != "" {
		if before, err = strconv.Atoi(from.key); err != nil || before < 1 {
			return nil, badCursor
		}
	}
	found, err := s.Personas.Versions(ctx, workspace(ctx), in.Name, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return sorted(found, in.Limit, func(p persona.Persona) string { return strconv.Itoa(p.Version) }, personaOf), nil
}
