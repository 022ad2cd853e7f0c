package skill

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// A BrokenError says why a registered skill can't be used. A set leaves such a skill out and keeps
// the others.
type BrokenError struct {
	ID   string
	Name string
	Err  error
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("skill %s can't be used: %v", e.Name, e.Err)
}
func (e *BrokenError) Unwrap() error { return e.Err }

// Load reads the skills that a surface of a workspace may use now, in one statement. The built-in
// skills come first, then the registered ones by name. broken holds an error, usually a
// [BrokenError], for each skill that was left out; the caller logs them.
func (r *Registry) Load(ctx context.Context, ws db.Workspace, surface trace.Surface) (set *Set, broken []error, err error) {
	var b db.Batch
	loaded := r.LoadIn(&b, ws, surface)
	if err := r.db.Read(ctx, ws, &b); err != nil {
		return nil, nil, fmt.Errorf("load skills: %w", err)
	}
	set, broken = loaded()
	return set, broken, nil
}

// LoadIn adds the statement of [Registry.Load] to a batch of the workspace. Call the returned
// function after the batch was sent.
func (r *Registry) LoadIn(b *db.Batch, ws db.Workspace, surface trace.Surface) func() (set *Set, broken []error) {
	rows := new([]Definition)
	b.Each(collect(rows), r.q.Usable, MaxSkills+len(r.builtins.skills))
	return func() (*Set, []error) { return r.assemble(ws, surface, *rows) }
}

func (r *Registry) assemble(ws db.Workspace, surface trace.Surface, rows []Definition) (*Set, []error) {
	var skills []Skill
	var broken []error
	for _, d := range r.builtin(ws, rows) {
		if code, ok := r.builtins.exact(d.Name); ok && d.Enabled && d.Scope.Admits(surface) {
			skills = append(skills, d.describe(*code))
		}
	}
	for _, d := range rows {
		if d.Kind == Builtin || !d.Scope.Admits(surface) {
			continue
		}
		k, err := r.make(d)
		if err != nil {
			broken = append(broken, &BrokenError{d.ID, d.Name, err})
			continue
		}
		skills = append(skills, k)
	}
	set, err := NewSet(skills...)
	if err != nil { // can't happen: names are unique in the table and among the built-in skills
		broken = append(broken, err)
	}
	return set, broken
}

// make builds the skill of a row.
func (r *Registry) make(d Definition) (Skill, error) {
	if _, taken := r.builtins.exact(d.Name); taken {
		return Skill{}, errors.New("its name has become a built-in skill's: register it under another")
	}
	if problem := objectSchema(d.Parameters); problem != "" {
		return Skill{}, Invalid("parameters", "%s", problem)
	}
	factory, known := r.factories[d.Kind]
	if !known {
		return Skill{}, fmt.Errorf("nothing here does skills of kind %s", d.Kind)
	}
	k, err := factory(d)
	if err != nil {
		return Skill{}, err
	}
	return d.describe(k), nil
}

// describe returns k with the fields of its definition.
func (d Definition) describe(k Skill) Skill {
	k.ID, k.Name, k.Description, k.Parameters, k.Kind = d.ID, d.Name, d.Description, d.Parameters, d.Kind
	k.Scope, k.RequiresApproval, k.Serial = d.Scope, d.RequiresApproval, d.Serial
	k.Effect, k.Results = cmp.Or(d.Effect, k.Effect, Write), d.Results
	k.Keyed = k.Keyed || k.Effect == Read
	k.Timeout = cmp.Or(d.Timeout, k.Timeout)
	return k
}
