package coordinate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// allocate makes a global budget.
func (w world) allocate(t testing.TB, tokens int64) (of budget.Budget) {
	t.Helper()
	w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
		now := time.Now().Add(w.Skew.Offset())
		of, err = w.c.Budgets.Create(ctx, tx, budget.Budget{
			Scope: budget.Global, Tokens: budget.Account{Allocated: tokens}, Start: now.Add(-time.Hour), End: now.Add(1000 * time.Hour), CreatedBy: "user:ada",
		})
		return err
	})
	return of
}

// cap makes a budget of a scope.
func (w world) cap(t testing.TB, scope budget.Scope, id string, tokens int64) {
	t.Helper()
	w.tx(t, func(ctx context.Context, tx *db.Tx) error {
		now := time.Now().Add(w.Skew.Offset())
		_, err := w.c.Budgets.Create(ctx, tx, budget.Budget{
			Scope: scope, ScopeID: id, Tokens: budget.Account{Allocated: tokens}, Start: now.Add(-time.Hour), End: now.Add(1000 * time.Hour), CreatedBy: "user:ada",
		})
		return err
	})
}

// spend has an agent use tokens in an attempt at a further task, which then ends.
func (w world) spend(t testing.TB, by string, tokens int) {
	t.Helper()
	w.use(t, "", "", tokens, "used by "+by)
}

// use has an agent use tokens in an attempt at a further task of a project, which then ends.
func (w world) use(t testing.TB, agent, project string, tokens int, title string) {
	t.Helper()
	w.tx(t, func(ctx context.Context, tx *db.Tx) error {
		d := draft(title)
		d.Project = project
		other, err := w.tasks.Create(ctx, tx, d)
		if err != nil {
			return err
		}
		if _, err := w.tasks.Cancel(ctx, tx, other.ID, "user:ada", ""); err != nil {
			return err
		}
		cover := budget.Cover{Task: other.ID, Project: project, Agent: agent}
		l, err := w.c.Budgets.Lock(ctx, tx, []budget.Cover{cover})
		if err != nil {
			return err
		}
		r := budget.Report{Cover: cover, Attempt: 1, Model: "m"}
		r.PromptTokens = tokens
		_, err = w.c.Budgets.Report(ctx, tx, l, r)
		return err
	})
}

// costs is a draft of a task with an estimate.
func costs(title string, tokens, priority int) task.Task {
	d := draft(title)
	d.Metadata, d.Priority = fmt.Appendf(nil, `{"estimatedTokens":%d}`, tokens), priority
	return d
}

// TestBudgetsBoundAssignments gives a task that is too expensive to nobody, and the one behind it to an
// agent; by the cycle and by a claim. What ends gives its money back.
func TestBudgetsBoundAssignments(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.c.Budgets = budgets(t, w.DB)
		b := w.allocate(t, 1000)
		a := w.register(t, agent.Agent{Name: "a", MaxConcurrentTasks: 10})[0]
		of := w.create(t, costs("too much", 1001, 10), costs("fits", 600, 9), costs("not both", 500, 8), costs("small", 400, 1))
		r := w.cycle(t)
		if r.Assigned != 2 || r.Refused != 2 {
			t.Fatalf("%+v", r)
		}
		if w.get(t, of[1]).Status != task.Assigned || w.get(t, of[3]).Status != task.Assigned {
			t.Errorf("%s and %s", w.get(t, of[1]).Status, w.get(t, of[3]).Status)
		}
		if is, err := w.c.Budgets.Get(t.Context(), w.Workspace, b.ID); err != nil || is.Tokens.Reserved != 1000 {
			t.Errorf("reserved %d, %v", is.Tokens.Reserved, err)
		}
		summary, reasons, err := w.c.Why(t.Context(), w.Workspace, of[2])
		if err != nil || reasons[0].Code != task.WaitsForBudget || reasons[0].Until == nil || !strings.Contains(summary, "insufficient budget") {
			t.Errorf("why: %q, %+v, %v", summary, reasons, err)
		}
		summary, reasons, err = w.c.Why(t.Context(), w.Workspace, of[0])
		if err != nil || reasons[0].Code != task.WaitsForBudget || reasons[0].Until != nil || !strings.Contains(summary, "allocate more") {
			t.Errorf("why one that is larger than the budget waits: %q, %+v, %v", summary, reasons, err)
		}
		if is := w.claim(t, a); is.ID != of[1] {
			t.Fatalf("claimed %q", is.Title)
		}
		w.claim(t, a)
		if _, ok, err := w.c.Claim(t.Context(), w.Workspace, a, ""); ok || err != nil {
			t.Fatalf("a claim beyond the budget: %v, %v", ok, err)
		}
		if err := w.complete(t, of[1], 1); err != nil {
			t.Fatal(err)
		}
		if is := w.claim(t, a); is.ID != of[2] {
			t.Errorf("claimed %q", is.Title)
		}
		if is, err := w.c.Budgets.Get(t.Context(), w.Workspace, b.ID); err != nil || is.Tokens.Reserved != 900 {
			t.Errorf("reserved %d, %v", is.Tokens.Reserved, err)
		}
		w.sound(t)
	})
}

// TestManyThatNobodyCanPayHideNothing: the cycle looks further where budgets have refused all that it has read.
func TestManyThatNobodyCanPayHideNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.c.Budgets = budgets(t, w.DB)
		w.allocate(t, 1000)
		w.register(t, agent.Agent{Name: "a"})
		var drafts []task.Task
		for i := range 100 {
			drafts = append(drafts, costs(fmt.Sprint("too much ", i), 1001, 9))
		}
		of := w.create(t, append(drafts, costs("small", 400, 1))...)
		if r := w.cycle(t); r.Assigned != 1 || r.Rounds != 2 || w.get(t, of[100]).Status != task.Assigned {
			t.Errorf("%+v", r)
		}
		if r := w.cycle(t); r.Assigned != 0 || r.Rounds != 1 {
			t.Errorf("without a free place: %+v", r)
		}
		w.sound(t)
	})
}

// TestALowerTierIsSaid: the log of a task tells which model serves an attempt, and that the budget can't pay a
// better one.
func TestALowerTierIsSaid(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.c.Budgets = budgets(t, w.DB)
		w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			now := time.Now().Add(w.Skew.Offset())
			_, err := w.c.Budgets.Create(ctx, tx, budget.Budget{
				Scope: budget.Global, Tokens: budget.Account{Allocated: 1e9}, Capped: true, MicroUSD: budget.Account{Allocated: 100_000},
				Start: now.Add(-time.Hour), End: now.Add(1000 * time.Hour), CreatedBy: "user:ada",
			})
			return err
		})
		w.register(t, agent.Agent{Name: "a"})
		id := w.create(t, costs("critical", 10_000, 9))[0]
		if r := w.cycle(t); r.Assigned != 1 {
			t.Fatalf("%+v", r)
		}
		found, err := w.tasks.Logs(t.Context(), w.Workspace, id, task.LogFilter{Event: task.TaskAssigned, Limit: 1})
		if err != nil || len(found) != 1 {
			t.Fatalf("%+v, %v", found, err)
		}
		var said struct{ Model, Tier, Why string }
		if err := json.Unmarshal(found[0].Details, &said); err != nil || said.Tier != "middle" || said.Model == "" ||
			!strings.Contains(said.Why, "the budget can't pay the top tier") {
			t.Errorf("the log says %s, %v", found[0].Details, err)
		}
	})
}

// TestASpentBudgetPausesAndResumes at the next cycle.
func TestASpentBudgetPausesAndResumes(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.c.Budgets = budgets(t, w.DB)
		b := w.allocate(t, 1000)
		a := w.register(t, agent.Agent{Name: "a"})[0]
		id := w.create(t, costs("spends", 500, 5))[0]
		w.claim(t, a)
		w.spend(t, a, 1200)
		if r := w.cycle(t); r.Paused != 1 {
			t.Fatalf("%+v", r)
		}
		if is := w.get(t, id); is.Status != task.Paused || is.StatusReason != budget.PauseReason || is.Agent != "" {
			t.Fatalf("%+v", is)
		}
		if r := w.cycle(t); r.Paused+r.Requeued+r.Assigned != 0 {
			t.Errorf("while it is spent: %+v", r)
		}
		w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.c.Budgets.Patch(ctx, tx, b.ID, b.Version, budget.Allocation{Tokens: new(int64(100_000))})
			return err
		})
		r := w.pass(t, time.Minute, func() { w.exec(t, w.q.BeatAll) })
		if is := w.get(t, id); r.Requeued != 1 || is.Status != task.Assigned || is.Attempt != 2 {
			t.Errorf("after more was allocated: %+v, %+v", r, is)
		}
		w.sound(t)
	})
}

// TestAPauseBetweenReadAndLockLasts: a person pauses a task while a cycle, which has read that its budget has room
// again, waits for its row.
func TestAPauseBetweenReadAndLockLasts(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnPostgres)) // SQLite has one writer
	w.c.Budgets = budgets(t, w.DB)
	b := w.allocate(t, 1000)
	a := w.register(t, agent.Agent{Name: "a"})[0]
	id := w.create(t, costs("spends", 500, 5))[0]
	w.claim(t, a)
	w.spend(t, a, 1200)
	if r := w.cycle(t); r.Paused != 1 {
		t.Fatalf("%+v", r)
	}
	w.tx(t, func(ctx context.Context, tx *db.Tx) error {
		_, err := w.c.Budgets.Patch(ctx, tx, b.ID, b.Version, budget.Allocation{Tokens: new(int64(100_000))})
		return err
	})
	failed, done := make(chan error, 1), make(chan struct{})
	w.tx(t, func(ctx context.Context, tx *db.Tx) error {
		as := func(task.Task) error { return nil }
		if _, err := w.tasks.Patch(ctx, tx, id, "user:ada", as, task.Patch{Status: new(task.Paused)}); err != nil {
			return err
		}
		go func() {
			defer close(done)
			_, err := w.c.Cycle(context.WithoutCancel(t.Context()), w.Workspace, "test")
			failed <- err
		}()
		dbtest.AwaitBlocked(ctx, t, w.DB.Dialect(), tx, done)
		return nil
	})
	if err := <-failed; err != nil {
		t.Error(err)
	}
	if is := w.get(t, id); is.Status != task.Paused || is.StatusReason != "" {
		t.Errorf("the task that a person paused is %s: %q", is.Status, is.StatusReason)
	}
}

// TestASpentAgentLeavesTasksToOthers although it would be asked first, and takes what it can pay.
func TestASpentAgentLeavesTasksToOthers(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.c.Budgets = budgets(t, w.DB)
		poor := w.register(t, agent.Agent{Name: "poor", MaxConcurrentTasks: 10})[0]
		w.Skew.Advance(time.Second)
		rich := w.register(t, agent.Agent{Name: "rich", MaxConcurrentTasks: 2})[0]
		w.cap(t, budget.Agent, poor, 100)
		of := w.create(t, costs("first", 500, 9), costs("second", 500, 8), costs("cheap", 100, 7), costs("for nobody", 500, 6))
		if r := w.cycle(t); r.Assigned != 3 || r.Refused != 1 {
			t.Errorf("%+v", r)
		}
		for i, want := range []string{rich, rich, poor, ""} {
			if is := w.get(t, of[i]); is.Agent != want {
				t.Errorf("%s is with agent %q, not %q", is.Title, is.Agent, want)
			}
		}
		w.sound(t)
	})
}

// TestWhyNamesWhatElseHoldsUp: each budget that has too little, and the agents that are full.
func TestWhyNamesWhatElseHoldsUp(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.c.Budgets = budgets(t, w.DB)
		full := w.register(t, agent.Agent{Name: "full"})[0]
		w.create(t, draft("under way"))
		w.claim(t, full)
		for _, name := range []string{"poor", "poorer"} {
			w.cap(t, budget.Agent, w.register(t, agent.Agent{Name: name})[0], 100)
		}
		id := w.create(t, costs("waits", 500, 5))[0]
		_, reasons, err := w.c.Why(t.Context(), w.Workspace, id)
		var codes []task.Code
		for _, r := range reasons {
			codes = append(codes, r.Code)
		}
		if err != nil || !slices.Equal(codes, []task.Code{task.WaitsForBudget, task.WaitsForBudget, task.WaitsForCapacity}) {
			t.Errorf("%q, %+v, %v", codes, reasons, err)
		}
	})
}

// TestAClaimLooksBehindWhatItCanNotPay has more tasks of a project without budget than a claim looks at.
func TestAClaimLooksBehindWhatItCanNotPay(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.c.Budgets = budgets(t, w.DB)
		a := w.register(t, agent.Agent{Name: "a"})[0]
		project := ids()
		w.exec(t, w.q.Project, project)
		w.cap(t, budget.Project, project, 100)
		var drafts []task.Task
		for i := range 40 {
			d := costs(fmt.Sprint("too much ", i), 500, 9)
			d.Project = project
			drafts = append(drafts, d)
		}
		w.create(t, append(drafts, costs("paid", 500, 1))...)
		if is := w.claim(t, a); is.Title != "paid" {
			t.Errorf("claimed %q", is.Title)
		}
		w.sound(t)
	})
}

// TestWhatAClaimCosts counts what an agent's claim of a due task sends under a budget, and one that finds
// nothing.
func TestWhatAClaimCosts(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.c.Budgets = budgets(t, w.DB)
		a := w.register(t, agent.Agent{Name: "a", MaxConcurrentTasks: 3})[0]
		w.cap(t, budget.Global, "", 10_000)
		w.create(t, costs("first", 500, 5), costs("second", 500, 5))
		w.claim(t, a) // which reads the prices of models
		before := w.DB.Stats()
		if is := w.claim(t, a); is.Title != "second" {
			t.Fatalf("claimed %q", is.Title)
		}
		if cost := w.DB.Stats().Sub(before); cost.Statements > 22 || cost.RoundTrips > 6 {
			t.Errorf("a claim took %d statements in %d round trips, want 22 in 6", cost.Statements, cost.RoundTrips)
		}
		before = w.DB.Stats()
		if _, ok, err := w.c.Claim(t.Context(), w.Workspace, a, ""); ok || err != nil {
			t.Fatalf("claimed once more: %v, %v", ok, err)
		}
		if cost := w.DB.Stats().Sub(before); cost.Statements > 6 || cost.RoundTrips > 2 {
			t.Errorf("a claim of nothing took %d statements in %d round trips, want 6 in 2", cost.Statements, cost.RoundTrips)
		}
	})
}

// TestAClaimIsPlannedOnce: a connection keeps the plan of each statement that a claim sends.
func TestAClaimIsPlannedOnce(t *testing.T) {
	w := newWorld(t, dbtest.OneConnection(t))
	a := w.register(t, agent.Agent{Name: "a", MaxConcurrentTasks: 9})[0]
	w.create(t, costs("first", 500, 5), costs("second", 500, 5), costs("third", 500, 5))
	for range 3 {
		w.claim(t, a)
	}
	if n := w.Plans(t, "FROM agents a"); n != 3 {
		t.Errorf("the plans of %d statements about agents are kept, want 3", n)
	}
}

// TestWhyAgreesWithTheCycle asks why no agent has a task, case after case.
func TestWhyAgreesWithTheCycle(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		needs := draft("needs rust")
		needs.Metadata = []byte(`{"requiredCapabilities":["rust","go"]}`)
		id := w.create(t, needs)[0]
		expect := func(when string, code task.Code, part string) {
			t.Helper()
			summary, reasons, err := w.c.Why(t.Context(), w.Workspace, id)
			if err != nil || reasons[0].Code != code || !strings.Contains(fmt.Sprint(reasons), part) {
				t.Errorf("%s: %q, %+v, %v", when, summary, reasons, err)
			}
			if code != "" && w.get(t, id).Status == task.Pending {
				if r := w.cycle(t); r.Assigned != 0 {
					t.Errorf("%s: the cycle assigned it", when)
				}
			}
		}
		expect("no agent", task.WaitsForAgent, "go and rust")
		a := w.register(t, agent.Agent{Name: "a", Capabilities: []string{"go", "rust"}})[0]
		urgent := draft("urgent")
		urgent.Priority = 10
		other := w.create(t, urgent)[0]
		if is := w.claim(t, a); is.ID != other {
			t.Fatalf("claimed %q", is.Title)
		}
		expect("a full agent", task.WaitsForCapacity, "works on 1 of at most 1")
		if err := w.complete(t, other, 1); err != nil {
			t.Fatal(err)
		}
		summary, _, err := w.c.Why(t.Context(), w.Workspace, id)
		if err != nil || !strings.Contains(summary, "next cycle") {
			t.Errorf("%q, %v", summary, err)
		}
		if r := w.cycle(t); r.Assigned != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// TestEachBudgetPacesItsTasks: what is spent too fast holds back the tasks of a low priority of its project or
// agent, and no others; for a claim, too, which sums nothing up. More allocated lets them begin at once.
func TestEachBudgetPacesItsTasks(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.c.Budgets = budgets(t, w.DB)
		of := w.register(t, agent.Agent{Name: "a", MaxConcurrentTasks: 10}, agent.Agent{Name: "b", MaxConcurrentTasks: 10})
		project := ids()
		w.exec(t, w.q.Project, project)
		w.cap(t, budget.Project, project, 10_000)
		w.cap(t, budget.Agent, of[0], 10_000)
		w.use(t, of[0], project, 3000, "fast") // the rest lasts for two days
		in := func(title string, priority int, project string) task.Task {
			d := costs(title, 10, priority)
			d.Project = project
			return d
		}
		tasks := w.create(t, in("low", 4, project), in("normal", 5, project), in("other", 4, ""), in("another", 4, ""))
		w.cycle(t)
		low, normal := w.get(t, tasks[0]), w.get(t, tasks[1])
		if low.Status != task.Pending || normal.Status != task.Assigned {
			t.Errorf("%s, %s", low.Status, normal.Status)
		}
		for _, id := range tasks[2:] { // the other agent has more to do already
			if is := w.get(t, id); is.Status != task.Assigned || is.Agent != of[1] {
				t.Errorf("%q is %s, of %s", is.Title, is.Status, is.Agent)
			}
		}
		_, reasons, err := w.c.Why(t.Context(), w.Workspace, low.ID)
		if err != nil || len(reasons) != 1 || reasons[0].Code != task.WaitsForBudget ||
			!strings.Contains(reasons[0].Message, "project "+project+" is spent too fast (THROTTLE)") {
			t.Errorf("%+v, %v", reasons, err)
		}
		notes, err := w.c.Notes(t.Context(), w.Workspace, task.Info, db.Position{}, 10)
		if err != nil || len(notes) != 2 || notes[0].Event != "budget_pace" {
			t.Errorf("%+v, %v", notes, err)
		}
		for { // what it was assigned
			is, ok, err := w.c.Claim(t.Context(), w.Workspace, of[1], "")
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if is.ID == low.ID {
				t.Errorf("the agent claimed %q", is.Title)
			}
		}
		list, _, err := w.c.Budgets.List(t.Context(), w.Workspace, budget.Filter{Scope: budget.Project, Limit: 1})
		if err != nil || len(list) != 1 || list[0].Pace != budget.Throttle {
			t.Fatalf("%+v, %v", list, err)
		}
		w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.c.Budgets.Patch(ctx, tx, list[0].ID, 0, budget.Allocation{Tokens: new(int64(1_000_000))})
			return err
		})
		if is := w.claim(t, of[1]); is.ID != low.ID {
			t.Errorf("the agent claimed %q", is.Title)
		}
	})
}
