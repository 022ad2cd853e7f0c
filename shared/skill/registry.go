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
	// ErrNotFound says that the workspace has no such skill.
	ErrNotFound = errors.New("no such skill")
	// ErrTaken says that the workspace already has a skill of that name. An [AlikeError] wraps it.
	ErrTaken = errors.New("a skill of that name exists")
	// ErrChanged says that someone else changed the skill after it was read.
	ErrChanged = errors.New("the skill has been changed meanwhile")
	// ErrFull says that the workspace has [MaxSkills] rows.
	ErrFull = errors.New("the workspace has as many skills as it may")
	// ErrByHuman says that a human disabled the skill. Only a human may enable it.
	ErrByHuman = errors.New("a human has disabled the skill")
)

// An AlikeError says that two names differ only in case and separators. A model's calls are matched
// without these, so the names would be ambiguous. It wraps [ErrTaken].
type AlikeError struct{ Name, Other string }

func (e *AlikeError) Error() string {
	return fmt.Sprintf("the name %s differs from that of skill %s in case, - and _ alone: choose another", e.Name, e.Other)
}

// Unwrap returns [ErrTaken].
func (e *AlikeError) Unwrap() error { return ErrTaken }

// A Factory builds the skill that a definition describes. It returns an [InvalidError] if the
// config is wrong. It runs at registration and each time that a run loads its skills, so it must
// not use the network.
type Factory func(Definition) (Skill, error)

// A Reader runs one reading statement. It is an open transaction, or a [db.DB] with a workspace.
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
	Health, HealthOfAll, CallsOfAll             db.Query
}

// Registry stores the skills of all workspaces. Built-in skills exist without a row. Methods that
// write take a transaction, in which the caller also records the change, and check the version that
// was read. A Registry is safe for concurrent use.
type Registry struct {
	db        *db.DB
	q         queries
	ids       func() string
	builtins  *Set
	factories map[Kind]Factory
}

// NewRegistry returns a registry of the built-in skills and of rows. factories holds the kinds that
// rows may have.
func NewRegistry(d *db.DB, ids func() string, builtins *Set, factories map[Kind]Factory) (*Registry, error) {
	r := &Registry{db: d, ids: ids, builtins: builtins, factories: factories}
	return r, db.Load(statements, &r.q)
}

// Builtins returns the names of the built-in skills.
func (r *Registry) Builtins() []string { return r.builtins.Names() }

// builtinID returns the id of a built-in skill in a workspace. It is the same with and without a
// row.
func builtinID(ws db.Workspace, name string) string {
	space, _ := uuid.Parse(string(ws)) // a workspace's id is a UUID
	return uuid.NewSHA1(space, []byte("skill:"+name)).String()
}

// Get finds a skill by its id or its name. Errors: [ErrNotFound].
func (r *Registry) Get(ctx context.Context, ws db.Workspace, ref string) (Definition, error) {
	return r.GetIn(ctx, scoped{r.db, ws}, ws, ref)
}

// GetIn is [Registry.Get] inside a transaction.
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

// EffectOf returns the effect of a skill: that of its definition, or else the default of its kind.
// A skill that can't be used counts as [Write].
func (r *Registry) EffectOf(d Definition) Effect {
	if d.Effect == "" && d.Kind != Builtin {
		if k, err := r.make(d); err == nil {
			d.Effect = k.Effect
		}
	}
	return cmp.Or(d.Effect, Write)
}

// scoped is a database with a workspace.
type scoped struct {
	db *db.DB
	ws db.Workspace
}

func (s scoped) Each(ctx context.Context, row func(db.Scan) error, q db.Query, args ...any) error {
	return s.db.Each(ctx, s.ws, row, q, args...)
}

// overridden returns a built-in skill with the changes of its row. row may be nil.
func overridden(ws db.Workspace, code *Skill, row *Definition) Definition {
	d := Definition{
		ID: builtinID(ws, code.Name), Name: code.Name, Kind: Builtin, Description: code.Description, Parameters: code.Parameters,
		Scope: code.Scope, Effect: code.Effect, RequiresApproval: code.RequiresApproval, Serial: code.Serial,
		Timeout: code.Timeout, Enabled: true,
	}
	if row == nil {
		return d
	}
	db.Patch(&d.Scope, row.changes.scope)
	db.Patch(&d.RequiresApproval, row.changes.approval)
	db.Patch(&d.Serial, row.changes.serial)
	db.Patch(&d.Timeout, row.changes.timeout)
	d.Enabled, d.DisabledBy, d.DisabledReason, d.DisabledAt = row.Enabled, row.DisabledBy, row.DisabledReason, row.DisabledAt
	d.Version, d.CreatedBy, d.CreatedAt, d.UpdatedAt = row.Version, row.CreatedBy, row.CreatedAt, row.UpdatedAt
	d.changes = row.changes
	return d
}

// Filter narrows a listing. Empty fields match everything.
type Filter struct {
	Kind    Kind
	Scope   Scope
	Enabled *bool
	After   string // the listing starts after this name
	Limit   int    // at most 200; 50 when zero
}

// Page is one page of a listing, sorted by name.
type Page struct {
	Items []Definition
	// Next is the After of the next page. It is empty at the end.
	Next string
}

const (
	defaultLimit = 50
	maxLimit     = 200
)

// List lists the skills of a workspace by name, in one round trip. It omits a row whose name a
// built-in skill has taken since, and lists the built-in skill instead.
func (r *Registry) List(ctx context.Context, ws db.Workspace, f Filter) (Page, error) {
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	f.Limit = min(f.Limit, maxLimit)
	return r.list(ctx, ws, f)
}

// All lists all skills of a workspace by name.
func (r *Registry) All(ctx context.Context, ws db.Workspace) ([]Definition, error) {
	all, err := r.list(ctx, ws, Filter{Limit: MaxSkills + len(r.builtins.Names())})
	return all.Items, err
}

func (r *Registry) list(ctx context.Context, ws db.Workspace, f Filter) (Page, error) {
	var b db.Batch
	var rows, overrides []Definition
	b.Each(collect(&rows), r.q.Registered, f.After, db.Null(f.Kind), db.Null(f.Scope), f.Enabled, f.Limit+1)
	b.Each(collect(&overrides), r.q.Overrides, MaxSkills)
	if err := r.db.Read(ctx, ws, &b); err != nil {
		return Page{}, fmt.Errorf("list skills: %w", err)
	}
	horizon := "" // name of the last row that was read, if there are more rows
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

// admits does for built-in skills what the statement does for rows.
func (f Filter) admits(d Definition) bool {
	return (f.Kind == "" || f.Kind == d.Kind) && (f.Scope == "" || f.Scope == d.Scope) && (f.Enabled == nil || *f.Enabled == d.Enabled)
}

// builtin returns the built-in skills with the changes of their rows.
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

// collect returns a function that appends scanned rows to into. In the row of a built-in skill only
// the overrides in changes have a meaning.
func collect(into *[]Definition) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, d *Definition) error {
		var parameters *string
		var seconds *int
		if err := scan(&d.ID, &d.Name, &d.Kind, db.Optional(&d.Description), &parameters, &d.Config, &d.changes.scope,
			db.Optional(&d.Effect), db.Optional(&d.Results), &d.changes.approval, &d.changes.serial, &seconds, &d.Enabled, db.Optional(&d.DisabledBy),
			db.Optional(&d.DisabledReason), &d.DisabledAt, &d.Version, &d.CreatedBy, &d.CreatedAt, &d.UpdatedAt); err != nil {
			return err
		}
		if parameters != nil {
			d.Parameters = json.RawMessage(*parameters)
		}
		db.Patch(&d.Scope, d.changes.scope)
		db.Patch(&d.RequiresApproval, d.changes.approval)
		db.Patch(&d.Serial, d.changes.serial)
		if seconds != nil {
			limit := time.Duration(*seconds) * time.Second
			d.Timeout, d.changes.timeout = limit, &limit
		}
		return nil
	})
}
