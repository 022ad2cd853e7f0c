package budget_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine. Its clock says noon.
type world struct {
	dbtest.Env
	s     *budget.Store
	tasks *task.Store
	q     statements
	noon  time.Time
}

// statements are what other packages do to the tables.
type statements struct {
	BySkill, BySkillAndDay, Assign, Attempt, Start, Project, Happened, FinishAll, AddUsage, AddCall, AddTasks, CapMoney, EndAttempts, UsedByTask, HoldWorkspace db.Query
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		noon := time.Now().UTC().Truncate(24 * time.Hour).Add(36 * time.Hour)
		e.Skew.Advance(time.Until(noon))
		fn(t, newWorld(t, e, noon))
	})
}

func newWorld(t testing.TB, e dbtest.Env, noon time.Time) world {
	t.Helper()
	w := world{Env: e, s: open(t, e.DB), noon: noon}
	var err error
	w.tasks, err = task.New(e.DB, newID, func() float64 { return 0.5 })
	check(t, err)
	dbtest.Load(t, "testdata", &w.q)
	return w
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func open(t testing.TB, d *db.DB) *budget.Store {
	t.Helper()
	s, err := budget.New(d, newID, time.Now)
	check(t, err)
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// request returns a request for output tokens of a model without a price, without input.
func request(agent string, tokens int64) budget.Request {
	return budget.Request{
		Agent: agent, Surface: trace.Heartbeat, Execution: uuid.NewString(), Trace: "hb_0mh8c1v2q_a7x2p1k9d4", Model: "demo",
		Output: tokens, Lease: time.Minute,
	}
}

func (w world) reserve(t testing.TB, r budget.Request) budget.Reservation {
	t.Helper()
	got, err := w.s.Reserve(t.Context(), w.Workspace, r)
	check(t, err)
	return got
}

// refused makes a reservation that must be refused.
func (w world) refused(t testing.TB, r budget.Request) budget.RefusedError {
	t.Helper()
	got, err := w.s.Reserve(t.Context(), w.Workspace, r)
	refused, ok := errors.AsType[*budget.RefusedError](err)
	if !ok {
		t.Fatalf("reserving %d tokens: %+v, %v; want a refusal", r.Output, got, err)
	}
	return *refused
}

func (w world) settle(t testing.TB, r budget.Reservation, tokens int) {
	t.Helper()
	w.settleAs(t, r, budget.Used{Usage: llm.Usage{CompletionTokens: tokens}})
}

func (w world) settleAs(t testing.TB, r budget.Reservation, u budget.Used) (microUSD int64) {
	t.Helper()
	microUSD, err := w.s.Settle(t.Context(), w.Workspace, r, u)
	check(t, err)
	return microUSD
}

// month returns a budget of tokens for the 30 days around noon.
func (w world) month(scope budget.Scope, id string, tokens int64) budget.Budget {
	return budget.Budget{
		Scope: scope, ScopeID: id, Tokens: budget.Account{Allocated: tokens},
		Start: w.noon.AddDate(0, 0, -15), End: w.noon.AddDate(0, 0, 15), CreatedBy: "ann",
	}
}

func (w world) tryCreate(b budget.Budget) (made budget.Budget, err error) {
	err = w.DB.Tx(context.Background(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		made, err = w.s.Create(ctx, tx, b)
		return err
	})
	return made, err
}

func (w world) create(t testing.TB, b budget.Budget) budget.Budget {
	t.Helper()
	made, err := w.tryCreate(b)
	check(t, err)
	return made
}

func (w world) get(t testing.TB, id string) budget.Budget {
	t.Helper()
	b, err := w.s.Get(t.Context(), w.Workspace, id)
	check(t, err)
	return b
}

// holds fails unless the budget's tokens are these.
func (w world) holds(t testing.TB, id string, consumed, reserved int64) {
	t.Helper()
	if b := w.get(t, id); b.Tokens.Consumed != consumed || b.Tokens.Reserved != reserved {
		t.Errorf("of %s %s %d are consumed and %d reserved, want %d and %d", b.Scope, b.ScopeID, b.Tokens.Consumed, b.Tokens.Reserved, consumed, reserved)
	}
}

// all returns the workspace's budgets, oldest first.
func (w world) all(t testing.TB) []budget.Budget {
	t.Helper()
	items, more, err := w.s.List(t.Context(), w.Workspace, budget.Filter{Limit: 200})
	check(t, err)
	if more {
		t.Fatal("more budgets than a page")
	}
	for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
		items[i], items[j] = items[j], items[i]
	}
	return items
}

// spent returns what fn costs.
func (w world) spent(fn func()) db.Stats {
	before := w.DB.Stats()
	fn()
	return w.DB.Stats().Sub(before)
}

// newWorkspace makes a neighbour.
func newWorkspace(t testing.TB, w world) db.Workspace {
	t.Helper()
	return dbtest.NewWorkspace(t, w.DB)
}
