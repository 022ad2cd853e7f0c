// Package overview answers three questions about a workspace in one round trip: what does the agent do
// now, does it work, and what needs a person? The page, the terminal and /mcp tell the same, because
// the sentence and the verdict are made here.
package overview

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/failure"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

//go:embed *.sql
var files embed.FS

type queries struct {
	Clock, Beats, PutOff, Phases db.Query
	Running, Held, Lanes         db.Query
	Calls, Models, Heals, Agents db.Query
	Cycle, Tasks, Working        db.Query
	Approvals, Today             db.Query
}

// Store reads the overview of any workspace. It is safe for concurrent use.
type Store struct {
	db *db.DB
	q  queries
	of Sources
}

// Sources are the stores that the overview reads along with its own statements.
type Sources struct {
	Switches    *halt.Store
	Budgets     *budget.Store
	Workspaces  *workspace.Store
	Failures    *failure.Store
	Coordinator *coordinate.Coordinator
	// Every is the interval of the heartbeat's schedule; zero: it is not known.
	Every time.Duration
}

// New returns a store.
func New(d *db.DB, of Sources) (*Store, error) {
	s := &Store{db: d, of: of}
	return s, db.Load(files, &s.q)
}

// The most rows of each kind that are read.
const (
	maxBeats     = 5
	maxPhases    = 50
	maxShown     = 20 // of runs and lanes
	maxApprovals = 5
	maxItems     = 10 // of failures, heals and agents
	maxCalls     = 10_000
	maxPending   = 10_000
	maxBudgets   = 200
)

// The windows of the rules.
const (
	callWindow = time.Hour
)

// putOffKey is the supersede key of beats that were put off.
const putOffKey = "heartbeat:put-off"

// Facts is what was read. The rules of the verdict are computed from it alone.
type Facts struct {
	Now, Created time.Time // of the database; the workspace was created then
	Every        time.Duration

	Beats   []Beat // the newest first
	PutOff  *time.Time
	Phases  []Phase // of the newest beat, those that have ended
	Running []Run
	Held    []Hold

	LanesHeld, LanesWanted int
	WantedSince            *time.Time
	WantedLane             lane.Name

	Calls, Succeeded   int
	Models, ModelsDown int

	Heals       []Heal
	HealCount   int
	Agents      int
	Unwell      []Agent
	UnwellCount int

	LastCycle *time.Time
	CycleTook time.Duration

	Tasks []Count // by the reason why they wait, or running, or failed
	// Stranded are the tasks that wait because no agent can take them, those first that wait for longest.
	Stranded []Stranded
	due      []waiting
	Task     *Task // the one that was begun last

	Failures      *failure.Look
	Approvals     []Approval
	ApprovalCount int
	Oldest        *time.Time // when the approval that waits for longest was asked for

	Today    Used
	Settings workspace.Settings
	Switches halt.Switches
	Budgets  []budget.Advice
	// BudgetNames are the names of what those budgets are of that end early, by their scope ids.
	BudgetNames map[string]string
}

// Beat is an execution of the heartbeat.
type Beat struct {
	ID       string
	Trace    trace.ID
	Status   execution.Status
	Slot     string
	Began    time.Time
	Ended    time.Time // or when it last wrote
	LaneHeld bool
}

// Phase is a phase of a beat that has ended.
type Phase struct {
	Name                           string
	Took                           time.Duration
	Considered, Done, Failed, Left int
}

// At is the latest entry in the journal of an execution.
type At struct {
	Step  *int
	Kind  execution.Kind
	Skill string // that it calls
}

// Run is an execution that is being worked on.
type Run struct {
	ID      string
	Trace   trace.ID
	Surface trace.Surface
	Agent   string
	Subject lane.Name
	Input   json.RawMessage
	Began   time.Time
	At      At

	// What its trace has used so far.
	Tokens, MicroUSD int64
}

// Hold is a lane that is held, with the execution that holds it, if there is one.
type Hold struct {
	Lane              lane.Name
	Holder            lane.Holder
	Fence             int64
	Acquired, Expires time.Time
	WantedAt          *time.Time
	WantedBy          string
	Execution         string
	Trace             trace.ID
	Agent             string
	Surface           trace.Surface
	Input             json.RawMessage
	At                At
}

// Heal is a skill that self-healing has disabled.
type Heal struct {
	ID, Skill, Code string
	Failures        int
	At              time.Time
}

// Agent is a registered agent that is not well.
type Agent struct {
	ID, Name, Status string
	At               time.Time
}

// Count is a number of tasks.
type Count struct {
	Code string
	N    int
}

// Stranded are tasks that need the same, and that no agent can take.
type Stranded struct {
	Task  string // the id of the first
	N     int
	Since time.Time // when the first was created
	Why   string
	Next  string // what a person can do
}

// waiting is a number of tasks of one queue that could begin.
type waiting struct {
	queue string
	Task  string // the id of the first
	N     int
	Since time.Time // when the first was created
}

// WaitingMore reports whether more tasks may be PENDING than were counted.
func (f *Facts) WaitingMore() bool {
	n := 0
	for _, c := range f.Tasks {
		switch c.Code {
		case "running", "failed", "paused", "backoff":
		default:
			n += c.N
		}
	}
	return n >= maxPending
}

// Task is a task that an agent works on. Agent is the name of the agent.
type Task struct{ ID, Title, Step, Agent string }

// Approval is a call that waits for a person.
type Approval struct {
	ID, Skill, Agent string
	Title            string // what the call would do, in one line
	Asked, Expires   time.Time
}

// Used is what model calls used.
type Used struct{ Calls, Tokens, MicroUSD, BeatTokens, BeatMicroUSD int64 }

// Read reads the facts of a workspace, in one batch. A second one reads the names of what budgets are of that end early.
func (s *Store) Read(ctx context.Context, ws db.Workspace, now time.Time) (Facts, error) {
	f := Facts{Every: s.of.Every}
	var b db.Batch
	b.One([]any{&f.Now, &f.Created}, s.q.Clock)
	settings := s.of.Workspaces.Settings(&b)
	switches := s.of.Switches.On(&b)
	advice := s.of.Budgets.AdviceIn(&b, maxBudgets)
	stranded := s.of.Coordinator.Stranded(&b)
	s.work(&b, &f)
	s.wants(&b, &f)
	b.One([]any{&f.Calls, &f.Succeeded}, s.q.Calls, callWindow.Milliseconds(), maxCalls)
	b.One([]any{&f.Models, &f.ModelsDown}, s.q.Models)
	today := []any{&f.Today.Calls, &f.Today.Tokens, &f.Today.MicroUSD, &f.Today.BeatTokens, &f.Today.BeatMicroUSD}
	b.One(today, s.q.Today, now.UTC().Truncate(24*time.Hour))
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return f, fmt.Errorf("read the overview: %w", err)
	}
	var err error
	if f.Settings, err = settings(); err != nil {
		return f, fmt.Errorf("read the overview: %w", err)
	}
	f.Switches, f.Budgets = *switches, *advice
	f.strand(stranded)
	var early []budget.Budget
	for _, a := range f.Budgets {
		if a.Recommendation != budget.Continue {
			early = append(early, a.Budget)
		}
	}
	f.BudgetNames, err = s.of.Budgets.Names(ctx, ws, early...)
	return f, err
}

// work adds the statements about what goes on.
func (s *Store) work(b *db.Batch, f *Facts) {
	b.Each(db.Append(&f.Beats, func(scan db.Scan, x *Beat) error {
		return scan(&x.ID, &x.Trace, &x.Status, db.Optional(&x.Slot), &x.Began, &x.Ended, &x.LaneHeld)
	}), s.q.Beats, maxBeats)
	b.Each(func(scan db.Scan) error { return scan(&f.PutOff) }, s.q.PutOff, putOffKey)
	b.Each(db.Append(&f.Phases, scanPhase), s.q.Phases, maxPhases)
	b.Each(db.Append(&f.Running, func(scan db.Scan, x *Run) error {
		return scan(&x.ID, &x.Trace, &x.Surface, &x.Agent, db.Optional(&x.Subject), &x.Input, &x.Began,
			&x.At.Step, db.Optional(&x.At.Kind), db.Optional(&x.At.Skill), &x.Tokens, &x.MicroUSD)
	}), s.q.Running, maxShown)
	f.heldIn(b, s.q.Held, maxShown)
	b.One([]any{&f.LanesHeld, &f.LanesWanted, &f.WantedSince, db.Optional(&f.WantedLane)}, s.q.Lanes, wantedFor.Milliseconds())
	b.Each(func(scan db.Scan) error {
		var took int64
		err := scan(&f.LastCycle, &took)
		f.CycleTook = time.Duration(took) * time.Millisecond
		return err
	}, s.q.Cycle)
	b.Each(f.count, s.q.Tasks, maxPending)
	b.Each(func(scan db.Scan) error {
		f.Task = new(Task)
		return scan(&f.Task.ID, &f.Task.Title, db.Optional(&f.Task.Step), db.Optional(&f.Task.Agent))
	}, s.q.Working)
}

// count reads a number of tasks: of one code, and of one queue where they could begin.
func (f *Facts) count(scan db.Scan) error {
	var n Count
	var of waiting
	if err := scan(&n.Code, db.Optional(&of.queue), &n.N, &of.Since, db.Optional(&of.Task)); err != nil {
		return err
	}
	if of.queue != "" {
		of.N = n.N
		f.due = append(f.due, of)
	}
	if at := slices.IndexFunc(f.Tasks, func(c Count) bool { return c.Code == n.Code }); at >= 0 {
		f.Tasks[at].N += n.N
		return nil
	}
	f.Tasks = append(f.Tasks, n)
	return nil
}

// strand sorts out the tasks that no agent can take.
func (f *Facts) strand(of func(queue string) *coordinate.Stranded) {
	slices.SortStableFunc(f.Tasks, func(a, b Count) int { return cmp.Compare(b.N, a.N) })
	at := map[string]int{}
	slices.SortStableFunc(f.due, func(a, b waiting) int { return a.Since.Compare(b.Since) })
	for _, w := range f.due {
		is := of(w.queue)
		if is == nil {
			continue
		}
		if i, has := at[is.Needs]; has {
			f.Stranded[i].N += w.N
			continue
		}
		at[is.Needs] = len(f.Stranded)
		f.Stranded = append(f.Stranded, Stranded{w.Task, w.N, w.Since, is.Why, is.Next})
	}
}

func (f *Facts) heldIn(b *db.Batch, q db.Query, most int) {
	b.Each(db.Append(&f.Held, func(scan db.Scan, x *Hold) error {
		return scan(&x.Lane, &x.Holder, &x.Fence, &x.Acquired, &x.Expires, &x.WantedAt, db.Optional(&x.WantedBy), db.Optional(&x.Execution),
			db.Optional(&x.Trace), db.Optional(&x.Agent), db.Optional(&x.Surface), &x.Input, &x.At.Step, db.Optional(&x.At.Kind), db.Optional(&x.At.Skill))
	}), q, most)
}

// wants adds the statements about what a person may have to look at.
func (s *Store) wants(b *db.Batch, f *Facts) {
	b.Each(db.Append(&f.Heals, func(scan db.Scan, x *Heal) error {
		return scan(&x.ID, &x.Skill, &x.Code, &x.Failures, &x.At, &f.HealCount)
	}), s.q.Heals, maxItems)
	b.Each(func(scan db.Scan) error {
		var id *string
		var x Agent
		var seen, changed *time.Time
		var n int
		if err := scan(&id, db.Optional(&x.Name), db.Optional(&x.Status), &seen, &changed, &f.Agents, &n); err != nil || id == nil {
			return err
		}
		x.ID, x.At, f.UnwellCount = *id, *changed, n
		if seen != nil {
			x.At = *seen
		}
		f.Unwell = append(f.Unwell, x)
		return nil
	}, s.q.Agents, maxItems)
	f.Failures = s.of.Failures.Look(b, maxItems)
	b.Each(db.Append(&f.Approvals, func(scan db.Scan, x *Approval) error {
		var arguments json.RawMessage
		err := scan(&x.ID, &x.Skill, &arguments, &x.Agent, &x.Asked, &x.Expires, &f.ApprovalCount, &f.Oldest)
		x.Title = approval.Approval{Skill: x.Skill, Arguments: arguments}.Title()
		return err
	}), s.q.Approvals, maxApprovals)
}

// scanPhase reads a line that a phase has left in the activity log.
func scanPhase(scan db.Scan, p *Phase) error {
	var name string
	var ms int64
	var output json.RawMessage
	if err := scan(&name, db.Optional(&ms), &output); err != nil {
		return err
	}
	_ = json.Unmarshal(output, p) // a line that was cut tells no numbers
	p.Name, p.Took = phaseOf(name), time.Duration(ms)*time.Millisecond
	return nil
}

// Held reads the lanes that are held now, at most limit.
func (s *Store) Held(b *db.Batch, limit int) *[]Hold {
	f := new(Facts)
	f.heldIn(b, s.q.Held, limit)
	return &f.Held
}
