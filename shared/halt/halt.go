// Package halt stores the kill switches: what a person has stopped until a person releases it.
package halt

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

//go:embed *.sql
var files embed.FS

type queries struct{ Set, On, AllOn, List, Get, Release db.Query }

// Store keeps the kill switches of all workspaces.
type Store struct {
	db  *db.DB
	q   queries
	ids func() string
}

// New returns a store.
func New(d *db.DB, ids func() string) (*Store, error) {
	s := &Store{db: d, ids: ids}
	return s, db.Load(files, &s.q)
}

// Scope is what a kill switch stops.
type Scope string

// The scopes.
const (
	Workspace Scope = "workspace" // all executions
	Agent     Scope = "agent"     // the executions of one agent
	Skill     Scope = "skill"     // the calls of one skill
	Model     Scope = "model"     // the executions on one model
)

// Switch is one use of a kill switch. It is on until a person releases it.
type Switch struct {
	ID    string
	Scope Scope
	// Target is the name of the agent or skill, or the id of the model or its provider's name. It
	// is empty for the workspace.
	Target     string
	Reason     string
	SetBy      string
	SetAt      time.Time
	ReleasedBy string
	ReleasedAt *time.Time
}

// ErrNotFound says that there is no such switch.
var ErrNotFound = errors.New("no such kill switch")

// Set turns a switch on and returns it. A switch that is already on stays as it is. Errors:
// [problem.InvalidError].
func (s *Store) Set(ctx context.Context, tx *db.Tx, k Switch) (Switch, error) {
	bad := &problem.InvalidError{}
	bad.If(!slices.Contains([]Scope{Workspace, Agent, Skill, Model}, k.Scope), "scope", "must be workspace, agent, skill or model")
	bad.If((k.Scope == Workspace) != (k.Target == ""), "target", "names an agent, a skill or a model; the workspace needs none")
	bad.If(len(k.Target) > 255, "target", "may have 255 bytes at most")
	bad.If(utf8.RuneCountInString(k.Reason) > 500, "reason", "may have 500 characters at most")
	if err := bad.OrNil(); err != nil {
		return Switch{}, err
	}
	tx.Later().Exec(s.q.Set, s.ids(), k.Scope, k.Target, db.Null(k.Reason), k.SetBy)
	var on []Switch
	err := tx.Each(ctx, switches(&on), s.q.On, k.Scope, k.Target)
	return db.Found(on, err, "set a kill switch", errors.New("the kill switch that was set is not there"))
}

// Release turns a switch off, and returns it and whether it was on. A switch that is off already stays as it is.
// Errors: [ErrNotFound].
func (s *Store) Release(ctx context.Context, tx *db.Tx, id, by string) (k Switch, was bool, err error) {
	changed := tx.Later().Exec(s.q.Release, id, by)
	var released []Switch
	if err := tx.Each(ctx, switches(&released), s.q.Get, id); err != nil {
		return Switch{}, false, fmt.Errorf("release a kill switch: %w", err)
	}
	k, err = db.First(released, ErrNotFound)
	return k, changed.Affected() == 1, err
}

// Switches lists the switches that are on.
type Switches []Switch

// On adds a query for all switches that are on to a batch. It has no limit, because a switch that
// is not read would stop nothing.
func (s *Store) On(b *db.Batch) *Switches {
	on := new(Switches)
	b.Each(switches((*[]Switch)(on)), s.q.AllOn)
	return on
}

// Run returns why an execution of the agent with a model must stop, or "" if it may run. A model
// may have several names.
func (k Switches) Run(agent string, models ...string) string {
	for _, on := range k {
		switch {
		case on.Scope == Workspace:
			return "a kill switch stops the workspace"
		case on.Scope == Agent && on.Target == agent:
			return "a kill switch stops the agent " + agent
		case on.Scope == Model && slices.Contains(models, on.Target):
			return "a kill switch stops the model " + on.Target
		}
	}
	return ""
}

// Give reports whether a switch is on for which Run returns that reason.
func (k Switches) Give(why string) bool {
	return slices.ContainsFunc(k, func(on Switch) bool { return Switches{on}.Run(on.Target, on.Target) == why })
}

// Skill returns why a skill must not be called, or "" if it may be called.
func (k Switches) Skill(name string) string {
	for _, on := range k {
		if on.Scope == Skill && on.Target == name {
			return "a person has stopped it by a kill switch"
		}
	}
	return ""
}

// Filter narrows a listing. Empty fields match everything.
type Filter struct {
	Active *bool // still on, or released
	Before db.Position
	Limit  int
}

// List lists switches, including released ones, the latest first.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) ([]Switch, error) {
	var found []Switch
	if err := s.db.Each(ctx, ws, switches(&found), s.q.List, append(f.Before.Args(), f.Active, f.Limit)...); err != nil {
		return nil, fmt.Errorf("list kill switches: %w", err)
	}
	return found, nil
}

// Get reads one switch, even if it was released. Errors: [ErrNotFound].
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Switch, error) {
	var found []Switch
	err := s.db.Each(ctx, ws, switches(&found), s.q.Get, id)
	return db.Found(found, err, "read a kill switch", ErrNotFound)
}

func switches(into *[]Switch) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, k *Switch) error {
		return scan(&k.ID, &k.Scope, &k.Target, db.Optional(&k.Reason), &k.SetBy, &k.SetAt, db.Optional(&k.ReleasedBy), &k.ReleasedAt)
	})
}
