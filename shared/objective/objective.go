// Package objective stores the goals of an agent: objectives, and plans of steps that heartbeats
// advance one by one.
package objective

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

//go:embed *.sql
var files embed.FS

// Status is the status of an objective.
type Status string

// The statuses of an objective.
const (
	Active    Status = "active"
	Paused    Status = "paused"
	Completed Status = "completed"
)

// StepStatus is the status of a plan step.
type StepStatus string

// The statuses of a plan step.
const (
	Pending StepStatus = "pending"
	Done    StepStatus = "done"
	Failed  StepStatus = "failed"
)

// MaxSteps is the limit of steps in a plan.
const MaxSteps = 30

var (
	// ErrNotActive says that an objective is paused, completed or does not exist.
	ErrNotActive = errors.New("the objective is not active")
	// ErrNotPending says that the plan has no pending step of that number.
	ErrNotPending = errors.New("the plan has no such pending step")
)

// Objective is one row.
type Objective struct {
	ID            string
	Title         string
	Description   string
	Priority      int // 1 to 10; 10 comes first
	DoneCriterion string
	Status        Status
	StatusReason  string
	PlanVersion   int // 0: no plan yet
	PlanAttempts  int // attempts to plan since the last plan
	Plans         int // plans since a person last resumed or planned the objective
	Summary       string
	CreatedBy     string
	Untrusted     bool // an execution that had read untrusted text wrote part of it
	Version       int  // counts changes by people
	CreatedAt     time.Time
	UpdatedAt     time.Time
	CompletedAt   *time.Time
	Plan          []Step // the present version, when read with [Store.Get]
	Progress      Progress
}

// Progress says how far the present plan of an objective is.
type Progress struct {
	Steps, Done int
	Next        string // title of the step that [Objective.Next] returns; empty if there is none
}

// Next returns the first pending step of the plan. It returns nil if there is none, or if a step of
// the plan has failed, because the plan is then stale.
func (o Objective) Next() *Step {
	var next *Step
	for i := range o.Plan {
		switch {
		case o.Plan[i].Status == Failed:
			return nil
		case o.Plan[i].Status == Pending && next == nil:
			next = &o.Plan[i]
		}
	}
	return next
}

// Step is one step of a plan.
type Step struct {
	PlanVersion   int
	Number        int
	Title         string
	Skill         string
	Inputs        json.RawMessage
	DoneCriterion string
	Status        StepStatus
	Attempts      int
	Result        string
	Execution     string
	EndedAt       *time.Time
}

// Due is an active objective in the form that a beat reads first.
type Due struct {
	ID          string
	Title       string
	Priority    int
	PlanVersion int
	NextStep    int // 0: the plan has no pending step, or is stale
}

// NeedsPlan reports whether the objective needs a plan: it has none, or one without a next step.
func (d Due) NeedsPlan() bool { return d.NextStep == 0 }

type queries struct {
	Create, Unset, Gone, Due, Get, Steps                       db.Query
	CountPlanning, NewPlan, AddStep                            db.Query
	CountStep, EndStep, Touch, Distrust, Complete, Pause, Open db.Query
	List, Patch, PlanAnew, Resume, TryAgain, Finish, Delete    db.Query
}

// Store stores the objectives of all workspaces.
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

// Create adds the creation of an active objective without a plan to a batch. It returns the id.
func (s *Store) Create(b *db.Batch, o Objective) string {
	if o.ID == "" {
		o.ID = s.ids()
	}
	b.Exec(s.q.Create, o.ID, o.Title, o.Description, o.Priority, o.DoneCriterion, o.CreatedBy, o.Untrusted)
	return o.ID
}

// Due adds a query for the active objectives to a batch, the highest priority first.
func (s *Store) Due(b *db.Batch, limit int) *[]Due {
	due := new([]Due)
	b.Each(db.Append(due, func(scan db.Scan, d *Due) error {
		return scan(&d.ID, &d.Title, &d.Priority, &d.PlanVersion, db.Optional(&d.NextStep))
	}), s.q.Due, limit)
	return due
}

// GetIn adds a query for an objective with its plan to a batch. The list is empty if there is none.
func (s *Store) GetIn(b *db.Batch, id string) *[]Objective {
	found := new([]Objective)
	b.Each(collect(found), s.q.Get, id)
	b.Each(func(scan db.Scan) error {
		var st Step
		if err := scan(&st.PlanVersion, &st.Number, &st.Title, db.Optional(&st.Skill), &st.Inputs, &st.DoneCriterion, &st.Status,
			&st.Attempts, db.Optional(&st.Result), db.Optional(&st.Execution), &st.EndedAt); err != nil {
			return err
		}
		if len(*found) == 1 { // the objective may have been created between the two statements
			(*found)[0].count(st)
		}
		return nil
	}, s.q.Steps, id)
	return found
}

// count adds a step, in order, to the plan and to its progress.
func (o *Objective) count(st Step) {
	o.Plan = append(o.Plan, st)
	o.Progress.Steps++
	if st.Status == Done {
		o.Progress.Done++
	}
	o.Progress.Next = ""
	if next := o.Next(); next != nil {
		o.Progress.Next = next.Title
	}
}

func collect(into *[]Objective) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, o *Objective) error { return scan(o.columns()...) })
}

func (o *Objective) columns() []any {
	return []any{&o.ID, &o.Title, &o.Description, &o.Priority, &o.DoneCriterion, &o.Status, db.Optional(&o.StatusReason), &o.PlanVersion,
		&o.PlanAttempts, db.Optional(&o.Summary), &o.CreatedBy, &o.Version, &o.CreatedAt, &o.UpdatedAt, &o.CompletedAt, &o.Untrusted,
		&o.Plans}
}

// Get reads an objective with its plan. It returns [db.ErrNoRows] if there is none.
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Objective, error) {
	var b db.Batch
	found := s.GetIn(&b, id)
	err := s.db.Read(ctx, ws, &b)
	return db.Found(*found, err, "read objective", fmt.Errorf("read objective: %w", db.ErrNoRows))
}

// CountPlanning queues the count of an attempt to plan, before the work starts.
func (s *Store) CountPlanning(tx lane.Tx, id string) error {
	if err := tx.Proves(lane.Objective(id)); err != nil {
		return fmt.Errorf("count a planning: %w", err)
	}
	tx.Later().Exec(s.q.CountPlanning, id)
	return nil
}

// Plan replaces an active objective's plan with a new version.
func (s *Store) Plan(ctx context.Context, tx lane.Tx, id string, steps []Step) (version int, err error) {
	if err := tx.Proves(lane.Objective(id)); err != nil {
		return 0, fmt.Errorf("plan objective: %w", err)
	}
	if len(steps) > MaxSteps {
		return 0, fmt.Errorf("plan objective %s: %d steps, %d are the most", id, len(steps), MaxSteps)
	}
	if err := tx.One(ctx, []any{&version}, s.q.NewPlan, id); err != nil {
		return 0, fmt.Errorf("plan objective %s: %w", id, missing(err, ErrNotActive))
	}
	s.addSteps(tx.Later(), id, version, discreetSteps(ctx, steps))
	return version, nil
}

func (s *Store) addSteps(b *db.Batch, id string, version int, steps []Step) {
	for i, st := range steps {
		if len(st.Inputs) == 0 {
			st.Inputs = json.RawMessage("{}")
		}
		b.Exec(s.q.AddStep, id, version, i+1, st.Title, db.Null(st.Skill), st.Inputs, st.DoneCriterion)
	}
}

// CountStep queues the count of an attempt at a step, before the work starts. It also stores the
// execution that makes the attempt.
func (s *Store) CountStep(tx lane.Tx, id string, st Step, execution string) error {
	if err := tx.Proves(lane.Objective(id)); err != nil {
		return fmt.Errorf("count a step's try: %w", err)
	}
	tx.Later().Exec(s.q.CountStep, id, st.PlanVersion, st.Number, execution)
	tx.Later().Exec(s.q.Touch, id)
	return nil
}

// EndStep ends a pending step of the present plan as done or failed. It returns [ErrNotPending] if
// there is no such step.
func (s *Store) EndStep(ctx context.Context, tx lane.Tx, id string, number int, status StepStatus, result string) error {
	if err := tx.Proves(lane.Objective(id)); err != nil {
		return fmt.Errorf("end a step: %w", err)
	}
	tx.Later().Exec(s.q.Touch, id)
	if err := tx.One(ctx, []any{&number}, s.q.EndStep, id, number, status, result); err != nil {
		return fmt.Errorf("end step %d of objective %s: %w", number, id, missing(err, ErrNotPending))
	}
	return nil
}

// Complete completes an active objective. It returns [ErrNotActive] for any other.
func (s *Store) Complete(ctx context.Context, tx lane.Tx, id, summary string) error {
	return s.end(ctx, tx, s.q.Complete, id, summary)
}

// Pause pauses an active objective: beats no longer work on it. A person will read the reason. It
// returns [ErrNotActive] for an objective that is not active.
func (s *Store) Pause(ctx context.Context, tx lane.Tx, id, reason string) error {
	return s.end(ctx, tx, s.q.Pause, id, reason)
}

// Halt queues the pause of an objective. It changes nothing if the objective is not active then.
func (s *Store) Halt(tx lane.Tx, id, reason string) error {
	if err := tx.Proves(lane.Objective(id)); err != nil {
		return fmt.Errorf("halt objective: %w", err)
	}
	tx.Later().Exec(s.q.Pause, id, reason)
	return nil
}

func (s *Store) end(ctx context.Context, tx lane.Tx, q db.Query, id, why string) error {
	if err := tx.Proves(lane.Objective(id)); err != nil {
		return fmt.Errorf("end objective: %w", err)
	}
	if err := tx.One(ctx, []any{&id}, q, id, discreet(ctx, why)); err != nil {
		return fmt.Errorf("end objective %s: %w", id, missing(err, ErrNotActive))
	}
	return nil
}

func missing(err, instead error) error {
	if errors.Is(err, db.ErrNoRows) {
		return instead
	}
	return err
}
