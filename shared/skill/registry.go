package skill

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

//go:embed *.sql
var statements embed.FS

var (
	// ErrNotFound says that a workspace has no such skill.
	ErrNotFound = errors.New("no such skill")
	// ErrTaken says that a workspace has a skill of that name already, or with [AlikeError]
	// of one that is the same to a model.
	ErrTaken = errors.New("a skill of that name exists")
	// ErrChanged says that somebody else has changed the skill meanwhile.
	ErrChanged = errors.New("the skill has been changed meanwhile")
	// ErrFull says that a workspace has [MaxSkills] rows.
	ErrFull = errors.New("the workspace has as many skills as it may")
	// ErrByHuman says that a human has disabled the skill, and only one enables it.
	ErrByHuman = errors.New("a human has disabled the skill")
)

// An AlikeError says that two names differ in case and separators alone: a model's calls
// are matched without these. It is [ErrTaken].
type AlikeError struct{ Name, Other string }

func (e *AlikeError) Error() string {
	return fmt.Sprintf("the name %s differs from that of skill %s in case, - and _ alone: choose another", e.Name, e.Other)
}

// Unwrap makes it [ErrTaken].
func (e *AlikeError) Unwrap() error { return ErrTaken }

// A Factory makes the skill that a definition describes, or says with an
// [InvalidError] what is wrong with its config. It is called at registration and
// whenever a run loads its skills: it asks nothing of the network.
type Factory func(Definition) (Skill, error)

// A Reader runs one reading statement: an open transaction, or a [db.DB] in a
// workspace.
type Reader interface {
	Each(ctx context.Context, row func(db.Scan) error, q db.Query, args ...any) error
}

// Tx is an open transaction: a [db.Tx] or a lane's.
type Tx interface {
	Reader
	Later() *db.Batch
}

type queries struct {
	ByID, ByName, Usable, Overrides, Registered db.Query
	LockHead, Count, Alike                      db.Query
	Insert, Update, Delete                      db.Query
	Health                                      db.Query
}

// Registry keeps the skills of all workspaces: rows, and built-in ones, which are
// there without. What writes takes a transaction, in which the caller records the
// change, and works on the version that was read. Safe for concurrent use.
type Registry struct {
	db        *db.DB
	q         queries
	ids       func() string
	builtins  *Set
	factories map[Kind]Factory
}

// NewRegistry makes a registry over the built-in skills and the kinds that rows
// may have.
func NewRegistry(d *db.DB, ids func() string, builtins *Set, factories map[Kind]Factory) (*Registry, error) {
	r := &Registry{db: d, ids: ids, builtins: builtins, factories: factories}
	if err := db.Load(statements, &r.q); err != nil {
		return nil, fmt.Errorf("skill: %w", err)
	}
	return r, nil
}

// Builtins are the names of the built-in skills.
func (r *Registry) Builtins() []string { return r.builtins.Names() }

// builtinID is the id of a built-in skill in a workspace, with a row or without.
func builtinID(ws db.Workspace, name string) string {
	space, _ := uuid.Parse(string(ws)) // a workspace is one
	return uuid.NewSHA1(space, []byte("skill:"+name)).String()
}

// Get finds a skill by its id or its name, or answers [ErrNotFound].
func (r *Registry) Get(ctx context.Context, ws db.Workspace, ref string) (Definition, error) {
	return r.GetIn(ctx, scoped{r.db, ws}, ws, ref)
}

// GetIn is Get inside a transaction.
func (r *Registry) GetIn(ctx context.Context, reader Reader, ws db.Workspace, ref string) (Definition, error) {
	q := r.q.ByName
	if id, err := uuid.Parse(ref); err == nil {
		ref, q = id.String(), r.q.ByID
		for _, k := range r.builtins.All() {
			if builtinID(ws, k.Name) == ref {
				ref, q = k.Name, r.q.ByName
			}
		}
	}
	code, isBuiltin := r.builtins.exact(ref)
	var found []Definition
	if err := reader.Each(ctx, collect(&found), q, ref); err != nil {
		return Definition{}, fmt.Errorf("read a skill: %w", err)
	}
	if len(found) > 0 && found[0].Kind != Builtin && !isBuiltin {
		return found[0], nil
	}
	if !isBuiltin {
		return Definition{}, ErrNotFound
	}
	if len(found) > 0 && found[0].Kind == Builtin {
		return overridden(ws, code, &found[0]), nil
	}
	return overridden(ws, code, nil), nil
}

// EffectOf is the effect of a skill: what its definition says, else its kind's. One that
// can't be used counts as [Write].
func (r *Registry) EffectOf(d Definition) Effect {
	if d.Effect == "" && d.Kind != Builtin {
		if k, err := r.make(d); err == nil {
			d.Effect = k.Effect
		}
	}
	return cmp.Or(d.Effect, Write)
}

// scoped is a database in a workspace.
type scoped struct {
	db *db.DB
	ws db.Workspace
}

func (s scoped) Each(ctx context.Context, row func(db.Scan) error, q db.Query, args ...any) error {
	return s.db.Each(ctx, s.ws, row, q, args...)
}

// overridden is a built-in skill with what its row, if there is one, changes.
func overridden(ws db.Workspace, code *Skill, row *Definition) Definition {
	d := Definition{
		ID: builtinID(ws, code.Name), Name: code.Name, Kind: Builtin, Description: code.Description, Parameters: code.Parameters,
		Scope: code.Scope, Effect: code.Effect, RequiresApproval: code.RequiresApproval, Serial: code.Serial, Timeout: code.Timeout, Enabled: true,
	}
	if row == nil {
		return d
	}
	set(&d.Scope, row.changes.scope)
	set(&d.RequiresApproval, row.changes.approval)
	set(&d.Serial, row.changes.serial)
	set(&d.Timeout, row.changes.timeout)
	d.Enabled, d.DisabledBy, d.DisabledReason, d.DisabledAt = row.Enabled, row.DisabledBy, row.DisabledReason, row.DisabledAt
	d.Version, d.CreatedBy, d.CreatedAt, d.UpdatedAt = row.Version, row.CreatedBy, row.CreatedAt, row.UpdatedAt
	d.changes = row.changes
	return d
}

// Filter narrows a listing; empty fields don't.
type Filter struct {
	Kind    Kind
	Scope   Scope
	Enabled *bool
	After   string // the name behind which the listing goes on
	Limit   int    // at most 200; 50 when zero
}

// Page is part of a listing, by name.
type Page struct {
	Items []Definition
	// Next is the last name of the page, to go on behind; empty at the end.
	Next string
}

const (
	defaultLimit = 50
	maxLimit     = 200
)

// List lists the skills of a workspace by name, in one round trip. A row whose name
// has become a built-in skill's is not among them: the built-in one is.
func (r *Registry) List(ctx context.Context, ws db.Workspace, f Filter) (Page, error) {
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	f.Limit = min(f.Limit, maxLimit)
	var b db.Batch
	var rows, overrides []Definition
	b.Each(collect(&rows), r.q.Registered, f.After, db.Null(f.Kind), db.Null(f.Scope), f.Enabled, f.Limit+1)
	b.Each(collect(&overrides), r.q.Overrides, MaxSkills)
	if err := r.db.Read(ctx, ws, &b); err != nil {
		return Page{}, fmt.Errorf("list skills: %w", err)
	}
	horizon := "" // where the rows that were read end, and there are more
	if len(rows) > f.Limit {
		horizon = rows[f.Limit].Name
	}
	items := slices.DeleteFunc(rows, func(d Definition) bool { _, taken := r.builtins.exact(d.Name); return taken })
	for _, d := range r.builtin(ws, overrides) {
		if d.Name > f.After && (horizon == "" || d.Name <= horizon) && f.admits(d) {
			items = append(items, d)
		}
	}
	slices.SortFunc(items, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
	if len(items) > f.Limit {
		items = items[:f.Limit]
		horizon = items[f.Limit-1].Name
	}
	return Page{Items: items, Next: horizon}, nil
}

// admits is for built-in skills what the statement is for rows.
func (f Filter) admits(d Definition) bool {
	return (f.Kind == "" || f.Kind == d.Kind) && (f.Scope == "" || f.Scope == d.Scope) && (f.Enabled == nil || *f.Enabled == d.Enabled)
}

// builtin are the built-in skills with what rows change of them.
func (r *Registry) builtin(ws db.Workspace, overrides []Definition) []Definition {
	var out []Definition
	for _, k := range r.builtins.All() {
		var row *Definition
		if i := slices.IndexFunc(overrides, func(d Definition) bool { return d.Kind == Builtin && d.Name == k.Name }); i >= 0 {
			row = &overrides[i]
		}
		out = append(out, overridden(ws, k, row))
	}
	return out
}

// collect appends rows. Of a built-in skill's only what it changes means something.
func collect(into *[]Definition) func(db.Scan) error {
	return func(scan db.Scan) error {
		var d Definition
		var description, parameters, reason *string
		var by *Actor
		var effect *Effect
		var seconds *int
		if err := scan(&d.ID, &d.Name, &d.Kind, &description, &parameters, &d.Config, &d.changes.scope, &effect, &d.changes.approval,
			&d.changes.serial, &seconds, &d.Enabled, &by, &reason, &d.DisabledAt, &d.Version, &d.CreatedBy, &d.CreatedAt, &d.UpdatedAt); err != nil {
			return err
		}
		set(&d.Description, description)
		if parameters != nil {
			d.Parameters = json.RawMessage(*parameters)
		}
		set(&d.Scope, d.changes.scope)
		set(&d.Effect, effect)
		set(&d.RequiresApproval, d.changes.approval)
		set(&d.Serial, d.changes.serial)
		set(&d.DisabledBy, by)
		set(&d.DisabledReason, reason)
		if seconds != nil {
			limit := time.Duration(*seconds) * time.Second
			d.Timeout, d.changes.timeout = limit, &limit
		}
		*into = append(*into, d)
		return nil
	}
}
