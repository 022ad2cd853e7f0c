// Package automation stores automations: skills that run by themselves, at the times of a schedule
// or after an event.
package automation

import (
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
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.sql
var files embed.FS

// Limits of a workspace and of an automation.
const (
	Max       = 200 // automations per workspace
	maxName   = 200
	maxInput  = 16 << 10
	maxReason = 500
)

var (
	// ErrNotFound says that there is no such automation.
	ErrNotFound = errors.New("there is no such automation")
	// ErrTaken says that the workspace already has an automation of that name.
	ErrTaken = errors.New("an automation of that name exists")
	// ErrChanged says that someone else changed the automation after it was read.
	ErrChanged = errors.New("the automation has been changed meanwhile")
	// ErrFull says that the workspace has [Max] automations.
	ErrFull = errors.New("the workspace has as many automations as it may")
	// ErrByHuman says that a human disabled the automation. Only a human may enable it.
	ErrByHuman = errors.New("a human has disabled the automation")
)

// Automation is one row. It has either a cron expression or an event.
type Automation struct {
	ID        string
	Name      string
	Skill     string
	Input     json.RawMessage // an object, the skill's arguments
	Cron      string
	TimeZone  string // of the cron expression
	Event     string // the kind of event that starts it
	Untrusted bool   // created by an execution that had read untrusted text, and not edited by a person since

	Enabled        bool
	DisabledBy     skill.Actor // empty while it is enabled
	DisabledReason string
	DisabledAt     *time.Time

	NextRunAt  *time.Time // nil: disabled, or started by an event
	LastRunAt  *time.Time
	LastStatus string // success, error, pending_approval or skipped
	LastTrace  trace.ID

	Version   int // counts changes by people and by self-healing
	CreatedBy string
	CreatedAt time.Time
	UpdatedAt time.Time

	now time.Time  // the database's time when the row was read
	due *time.Time // when set, check uses it as NextRunAt instead of the schedule's next time
}

// Events lists the kinds of events that can start an automation.
func Events() []string {
	return []string{
		"approval.approved", "approval.expired", "approval.rejected", "approval.requested", "execution.failed", "memory.saved",
		"objective.completed", "objective.created", "objective.paused", "objective.resumed", "skill.disabled", "skill.enabled",
	}
}

type queries struct {
	Get, List, Now, Insert, Update, Delete     db.Query
	Uncreate, Due, Lock, Claimed, Happened     db.Query
	Advance, Ended, Using, LockUsing, LockHead db.Query
}

// Store stores the automations of all workspaces. Methods that write take a transaction, in which
// the caller also records the change.
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

// Tx is an open transaction: a [db.Tx] or a lane's.
type Tx = db.Writer

// Get finds an automation by its id or its name. Errors: [ErrNotFound].
func (s *Store) Get(ctx context.Context, ws db.Workspace, ref string) (Automation, error) {
	var found []Automation
	err := s.db.Each(ctx, ws, collect(&found), s.q.Get, idOf(ref), ref)
	return db.Found(found, err, "read an automation", ErrNotFound)
}

// GetIn adds a read of an automation to a batch, by id or name. The list is empty when there is none.
func (s *Store) GetIn(b *db.Batch, ref string) *[]Automation {
	found := new([]Automation)
	b.Each(collect(found), s.q.Get, idOf(ref), ref)
	return found
}

// idOf parses ref as an id. If ref is not an id, it returns an id that no row has.
func idOf(ref string) string {
	id, _ := uuid.Parse(ref)
	return id.String()
}

// Filter narrows a listing. Empty fields match everything.
type Filter struct {
	Skill, Event string
	Enabled      *bool
	After        string // the listing starts after this name
	Limit        int
}

// List lists the automations of a workspace by name.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) ([]Automation, error) {
	var found []Automation
	if err := s.db.Each(ctx, ws, collect(&found), s.q.List, f.After, db.Null(f.Skill), db.Null(f.Event), f.Enabled, f.Limit); err != nil {
		return nil, fmt.Errorf("list automations: %w", err)
	}
	return found, nil
}

// check validates an automation and reports all problems in one [problem.InvalidError]. It also computes
// NextRunAt.
func (a *Automation) check() error {
	bad := &problem.InvalidError{}
	a.Name = strings.TrimSpace(a.Name)
	bad.If(a.Name == "" || len([]rune(a.Name)) > maxName, "name", "must have 1 to 200 characters")
	bad.If(uuid.Validate(a.Name) == nil, "name", "must not look like an id")
	bad.If(a.Skill == "" || len(a.Skill) > skill.MaxName, "skill", "must be the name of a skill")
	if len(a.Input) == 0 {
		a.Input = json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	bad.If(len(a.Input) > maxInput || json.Unmarshal(a.Input, &object) != nil || object == nil, "input", "must be an object of 16 KiB at most")
	a.NextRunAt = nil
	switch {
	case (a.Cron == "") == (a.Event == ""):
		bad.If(true, "schedule", "must have either cron or event")
	case a.Event != "":
		bad.If(a.TimeZone != "", "schedule.timeZone", "goes with cron only")
		bad.If(!slices.Contains(Events(), a.Event), "schedule.event", "must be one of "+strings.Join(Events(), ", "))
	default:
		schedule, err := ParseSchedule(a.Cron, a.TimeZone)
		if err != nil {
			field := "schedule.cron"
			if errors.Is(err, ErrZone) {
				field = "schedule.timeZone"
			}
			bad.If(true, field, err.Error())
			break
		}
		if a.TimeZone == "" {
			a.TimeZone = "UTC"
		}
		if next, ok := schedule.Next(a.now); ok && a.Enabled {
			a.NextRunAt = &next
			if a.due != nil {
				a.NextRunAt = a.due
			}
		}
	}
	return bad.OrNil()
}

func (a *Automation) values() []any {
	return []any{
		a.Name, a.Skill, string(a.Input), db.Null(a.Cron), db.Null(a.TimeZone), db.Null(a.Event),
		a.Enabled, db.Null(a.DisabledBy), db.Null(a.DisabledReason), a.NextRunAt, a.Untrusted,
	}
}

func collect(into *[]Automation) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, a *Automation) error {
		var input string
		err := scan(&a.ID, &a.Name, &a.Skill, &input, db.Optional(&a.Cron), db.Optional(&a.TimeZone), db.Optional(&a.Event), &a.Enabled,
			db.Optional(&a.DisabledBy), db.Optional(&a.DisabledReason), &a.DisabledAt, &a.NextRunAt, &a.LastRunAt,
			db.Optional(&a.LastStatus), db.Optional(&a.LastTrace), &a.Version, &a.CreatedBy, &a.CreatedAt, &a.UpdatedAt, &a.Untrusted, &a.now)
		a.Input = json.RawMessage(input)
		return err
	})
}
