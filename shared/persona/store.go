package persona

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

//go:embed *.sql
var files embed.FS

type queries struct{ Put, Version, Newest, Of, Versions, List db.Query }

// Store stores the personas of all workspaces.
type Store struct {
	db *db.DB
	q  queries
}

// New returns a store.
func New(d *db.DB) (*Store, error) {
	s := &Store{db: d}
	return s, db.Load(files, &s.q)
}

// Put adds a version of a persona and returns it. p.Version is the version that the caller has
// read; a negative one means the present version, whatever its number. Errors: [invalid.Error],
// [ErrChanged].
func (s *Store) Put(ctx context.Context, tx *db.Tx, p Persona) (Persona, error) {
	if err := p.check(ctx); err != nil {
		return Persona{}, err
	}
	var present int
	if err := tx.One(ctx, []any{&present}, s.q.Version, p.Name); err != nil {
		return Persona{}, fmt.Errorf("read the version of a persona: %w", err)
	}
	if p.Version >= 0 && p.Version != present {
		return Persona{}, ErrChanged
	}
	p.Version = present + 1
	skills, err := encode(p.Skills, p.Skills != nil)
	if err != nil {
		return Persona{}, err
	}
	surfaces, err := encode(p.Surfaces, true)
	if err != nil {
		return Persona{}, err
	}
	err = tx.One(ctx, []any{&p.CreatedAt}, s.q.Put, p.Name, p.Version, p.DisplayName, p.Instructions, db.Null(p.Model), p.Temperature,
		skills, db.Null(p.Language), db.Null(p.TimeZone), db.Null(p.OutputCheck), surfaces, p.CreatedBy)
	if errors.Is(err, db.ErrUnique) {
		return Persona{}, ErrChanged
	}
	if err != nil {
		return Persona{}, fmt.Errorf("store a persona: %w", err)
	}
	return p, nil
}

func encode(v any, given bool) (*string, error) {
	if !given {
		return nil, nil //nolint:nilnil // NULL
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode a persona: %w", err)
	}
	text := string(raw)
	return &text, nil
}

// Get reads the newest version of a persona. For an unchanged built-in persona that is version 0.
// Errors: [ErrNotFound].
func (s *Store) Get(ctx context.Context, ws db.Workspace, name string) (Persona, error) {
	var b db.Batch
	found := s.Newest(&b, name)
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return Persona{}, fmt.Errorf("read a persona: %w", err)
	}
	return found.Persona(name)
}

// Found is the result of a read in a batch.
type Found []Persona

// Persona returns the persona that was read, otherwise the built-in persona of that name. Errors:
// [ErrNotFound].
func (f *Found) Persona(name string) (Persona, error) {
	if len(*f) > 0 {
		return (*f)[0], nil
	}
	if p, ok := Builtin(name); ok {
		return p, nil
	}
	return Persona{}, ErrNotFound
}

// Or returns the persona that was read, otherwise version 0 of the built-in persona of that name.
// If there is none, it returns an empty persona, which adds nothing to a prompt.
func (f *Found) Or(name string) Persona {
	p, _ := f.Persona(name)
	return p
}

// Newest adds to a batch a query for the newest version of a persona.
func (s *Store) Newest(b *db.Batch, name string) *Found {
	found := new(Found)
	b.Each(collect((*[]Persona)(found)), s.q.Newest, name)
	return found
}

// Of adds to a batch a query for the version that an execution has recorded. Version 0 has no row.
func (s *Store) Of(b *db.Batch, execution string) *Found {
	found := new(Found)
	b.Each(collect((*[]Persona)(found)), s.q.Of, execution)
	return found
}

// Versions lists the versions of a persona below before, newest first; before 0: all. Version 0 of
// a built-in persona comes last. Errors: [ErrNotFound].
func (s *Store) Versions(ctx context.Context, ws db.Workspace, name string, before, limit int) ([]Persona, error) {
	if before == 0 {
		before = math.MaxInt32
	}
	var found []Persona
	if err := s.db.Each(ctx, ws, collect(&found), s.q.Versions, name, before, limit); err != nil {
		return nil, fmt.Errorf("list the versions of a persona: %w", err)
	}
	builtin, ok := Builtin(name)
	if !ok && len(found) == 0 && before == math.MaxInt32 {
		return nil, ErrNotFound
	}
	if ok && len(found) < limit {
		found = append(found, builtin)
	}
	return found, nil
}

// List lists the newest version of each persona whose name comes after a name, including built-in
// ones, by name.
func (s *Store) List(ctx context.Context, ws db.Workspace, after string, limit int) ([]Persona, error) {
	var found []Persona
	if err := s.db.Each(ctx, ws, collect(&found), s.q.List, after, limit); err != nil {
		return nil, fmt.Errorf("list personas: %w", err)
	}
	for _, name := range []string{Flowpilot, VisitorChat} {
		builtin, _ := Builtin(name)
		if name > after && !slices.ContainsFunc(found, func(p Persona) bool { return p.Name == name }) {
			found = append(found, builtin)
		}
	}
	slices.SortFunc(found, func(a, b Persona) int { return strings.Compare(a.Name, b.Name) })
	return found[:min(len(found), limit)], nil
}

func collect(into *[]Persona) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, p *Persona) error {
		var skills *string
		var surfaces string
		if err := scan(&p.Name, &p.Version, &p.DisplayName, &p.Instructions, db.Optional(&p.Model), &p.Temperature, &skills,
			db.Optional(&p.Language), db.Optional(&p.TimeZone), db.Optional(&p.OutputCheck), &surfaces, &p.CreatedBy, &p.CreatedAt); err != nil {
			return err
		}
		if skills != nil {
			if err := json.Unmarshal([]byte(*skills), &p.Skills); err != nil {
				return fmt.Errorf("decode the skills of persona %s: %w", p.Name, err)
			}
		}
		if err := json.Unmarshal([]byte(surfaces), &p.Surfaces); err != nil {
			return fmt.Errorf("decode the surfaces of persona %s: %w", p.Name, err)
		}
		return nil
	})
}
