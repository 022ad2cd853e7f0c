package budget_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// write stores what a ledger has reserved.
func (w world) write(ctx context.Context, tx *db.Tx, l *budget.Ledger) error {
	done := w.s.Write(tx.Later(), l)
	if err := tx.Flush(ctx); err != nil {
		return err
	}
	return done()
}

// aTask creates a PENDING task.
func (w world) aTask(t testing.TB, project, metadata string) task.Task {
	t.Helper()
	var is task.Task
	check(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		is, err = w.tasks.Create(ctx, tx, task.Task{
			Title: "a task", Priority: task.DefaultPriority, BackoffSeconds: task.DefaultBackoff, Project: project, Metadata: []byte(metadata),
			CreatedBy: "user:ada",
		})
		return err
	}))
	return is
}

func (w world) project(t testing.TB) string {
	t.Helper()
	id := newID()
	_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Project, id, "project "+id)
	check(t, err)
	return id
}

// assign begins the next attempt of a task as the coordinator does: it reserves tokens in all budgets
// that cover it. A refusal changes nothing.
func (w world) assign(t testing.TB, c budget.Cover, tokens, microUSD int64) (number int, refused *budget.RefusedError) {
	t.Helper()
	number, refused, err := w.tryAssign(t.Context(), c, tokens, microUSD)
	check(t, err)
	return number, refused
}

func (w world) tryAssign(ctx context.Context, c budget.Cover, tokens, microUSD int64) (number int, refused *budget.RefusedError, err error) {
	is, err := w.tasks.Get(ctx, w.Workspace, c.Task)
	if err != nil {
		return 0, nil, err
	}
	number = is.Attempt + 1
	err = w.DB.Tx(ctx, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		refused = nil
		l, err := w.s.Lock(ctx, tx, []budget.Cover{c})
		if err != nil {
			return err
		}
		if refused = l.Hold(c, c.Task, number, tokens, microUSD); refused == nil {
			tx.Later().Exec(w.q.Assign, c.Task, c.Agent).MustFind()
			tx.Later().Exec(w.q.Attempt, c.Task)
			tx.Later().Exec(w.q.Start, c.Task)
			err = w.write(ctx, tx, l)
		}
		return err
	})
	return number, refused, err
}

// assigned is assign of an attempt that the budgets have room for.
func (w world) assigned(t testing.TB, c budget.Cover, tokens int64) {
	t.Helper()
	if _, refused := w.assign(t, c, tokens, 0); refused != nil {
		t.Fatal(refused)
	}
}

// report counts what an attempt used.
func (w world) report(t testing.TB, c budget.Cover, number int, model string, u llm.Usage) (out budget.Reported) {
	t.Helper()
	check(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		l, err := w.s.Lock(ctx, tx, []budget.Cover{c})
		if err == nil {
			out, err = w.s.Report(ctx, tx, l, budget.Report{Usage: u, Cover: c, Attempt: number, Model: model})
		}
		return err
	}))
	return out
}

func (w world) change(t testing.TB, fn func(context.Context, *db.Tx) (task.Task, error)) {
	t.Helper()
	check(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := fn(ctx, tx)
		return err
	}))
}

func (w world) complete(t testing.TB, id string) {
	t.Helper()
	w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
		return w.tasks.Complete(ctx, tx, task.Report{Task: id, Actor: "agent:a"}, nil, "")
	})
}

func TestAnAttemptReservesAtEveryLevel(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		c := budget.Cover{Project: w.project(t), Milestone: newID(), Agent: newID()}
		c.Task = w.aTask(t, c.Project, "{}").ID
		of := map[budget.Scope]budget.Budget{}
		for _, k := range []struct {
			scope budget.Scope
			id    string
		}{{budget.Global, ""}, {budget.Project, c.Project}, {budget.Milestone, c.Milestone}, {budget.Task, c.Task}, {budget.Agent, c.Agent}} {
			b := w.month(k.scope, k.id, 1000)
			b.Capped, b.MicroUSD.Allocated = true, 500
			of[k.scope] = w.create(t, b)
		}
		other := w.create(t, w.month(budget.Project, newID(), 1000))
		number, refused := w.assign(t, c, 300, 100)
		if number != 1 || refused != nil {
			t.Fatalf("attempt %d: %v", number, refused)
		}
		for _, b := range of {
			w.holds(t, b.ID, 0, 300)
			if got := w.get(t, b.ID).MicroUSD.Reserved; got != 100 {
				t.Errorf("%s has $%d reserved, want 100", b.Scope, got)
			}
		}
		w.holds(t, other.ID, 0, 0)

		// Each level can refuse, says so, and then no level reserves anything.
		for _, k := range []struct {
			scope budget.Scope
			money bool
		}{{budget.Project, false}, {budget.Milestone, true}, {budget.Agent, false}} {
			tight := of[k.scope]
			c := c
			c.Task = w.aTask(t, c.Project, "{}").ID
			tokens, money := int64(700), int64(400)
			if k.money {
				_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.CapMoney, tight.ID, 450)
				check(t, err)
			} else {
				_, err := w.patch(t, tight.ID, 0, 900)
				check(t, err)
			}
			_, refused := w.assign(t, c, tokens, money)
			if refused == nil || refused.Scope != k.scope || refused.ScopeID != tight.ScopeID || refused.Money != k.money || !refused.FreesAt.Equal(tight.End) ||
				k.money && !strings.Contains(refused.Error(), " has $0.00035 left ") {
				t.Errorf("%s: %+v", k.scope, refused)
			}
			for _, b := range of {
				w.holds(t, b.ID, 0, 300)
			}
			_, err := w.patch(t, tight.ID, 0, 1000)
			check(t, err)
			_, err = w.DB.Exec(t.Context(), w.Workspace, w.q.CapMoney, tight.ID, 500)
			check(t, err)
		}
	})
}

// TestWhatAssigningCosts: the number of statements depends neither on that of the attempts nor on that of the
// budgets.
func TestWhatAssigningCosts(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.create(t, w.month(budget.Global, "", 1e9))
		projects := make([]string, 20)
		for i := range projects {
			projects[i] = w.project(t)
			w.create(t, w.month(budget.Project, projects[i], 1e9))
		}
		for _, n := range []int{1, 60} {
			covers := make([]budget.Cover, n)
			for i := range covers {
				p := projects[i%len(projects)]
				covers[i] = budget.Cover{Task: w.aTask(t, p, "{}").ID, Project: p, Agent: newID()}
			}
			var lock, write db.Stats
			check(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				check(t, tx.Flush(ctx))
				var l *budget.Ledger
				lock = w.spent(func() {
					var err error
					l, err = w.s.Lock(ctx, tx, covers)
					check(t, err)
				})
				for _, c := range covers {
					if refused := l.Hold(c, c.Task, 1, 100, 0); refused != nil {
						t.Error(refused)
					}
					tx.Later().Exec(w.q.Assign, c.Task, c.Agent)
					tx.Later().Exec(w.q.Attempt, c.Task)
				}
				check(t, tx.Flush(ctx))
				write = w.spent(func() { check(t, w.write(ctx, tx, l)) })
				return nil
			}))
			if want := (db.Stats{Statements: 2, RoundTrips: 1}); lock.Statements != want.Statements || lock.RoundTrips > 2 {
				t.Errorf("%d covers: locking took %+v, want %+v", n, lock, want)
			}
			if want := (db.Stats{Statements: 3, RoundTrips: 1}); write != want {
				t.Errorf("%d attempts: writing took %+v, want %+v", n, write, want)
			}
		}
	})
}

// TestHoweverAnAttemptEndsItGivesTheRestBack, and no time ends its reservation before.
func TestHoweverAnAttemptEndsItGivesTheRestBack(t *testing.T) {
	paused := task.Paused
	ends := []struct {
		how string
		end func(w world, ctx context.Context, tx *db.Tx, id string) (task.Task, error)
	}{
		{"completed", func(w world, ctx context.Context, tx *db.Tx, id string) (task.Task, error) {
			return w.tasks.Complete(ctx, tx, task.Report{Task: id, Actor: "agent:a"}, nil, "")
		}},
		{"failed", func(w world, ctx context.Context, tx *db.Tx, id string) (task.Task, error) {
			return w.tasks.Fail(ctx, tx, task.Report{Task: id, Actor: "agent:a"}, task.Failure{Error: "it broke"})
		}},
		{"cancelled", func(w world, ctx context.Context, tx *db.Tx, id string) (task.Task, error) {
			return w.tasks.Cancel(ctx, tx, id, "user:ada", "enough")
		}},
		{"paused", func(w world, ctx context.Context, tx *db.Tx, id string) (task.Task, error) {
			return w.tasks.Patch(ctx, tx, id, "user:ada", func(task.Task) error { return nil }, task.Patch{Status: &paused})
		}},
	}
	onEach(t, func(t *testing.T, w world) {
		b := w.create(t, w.month(budget.Global, "", 1000))
		for i, e := range ends {
			c := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
			number, refused := w.assign(t, c, 500, 0)
			if refused != nil {
				t.Fatal(refused)
			}
			w.Skew.Advance(25 * time.Hour)
			w.holds(t, b.ID, int64(i)*100, 500)
			w.report(t, c, number, "demo", llm.Usage{PromptTokens: 60, CompletionTokens: 40})
			w.holds(t, b.ID, int64(i)*100+100, 400)
			w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) { return e.end(w, ctx, tx, c.Task) })
			w.holds(t, b.ID, int64(i)*100+100, 0)
		}
	})
}

func TestWhatIsUsedBeyondTheReservationIsOverdraft(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		c := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
		b := w.month(budget.Task, c.Task, 1000)
		b.Capped, b.MicroUSD.Allocated = true, 10_000
		b = w.create(t, b)
		number, _ := w.assign(t, c, 600, 1000)
		got := w.report(t, c, number, "claude-sonnet-4", llm.Usage{PromptTokens: 800, CompletionTokens: 100})
		if got.Tokens != 900 || got.MicroUSD != 800*3+100*15 || !got.Priced || got.Exhausted != nil || len(got.Budgets) != 1 {
			t.Errorf("the report: %+v", got)
		}
		w.holds(t, b.ID, 900, 0)
		got = w.report(t, c, number, "nobody-knows", llm.Usage{PromptTokens: 300})
		if got.Priced || got.Exhausted == nil || got.Exhausted.ID != b.ID {
			t.Errorf("the report beyond the end: %+v", got)
		}
		if is := w.get(t, b.ID); is.Tokens.Consumed != 1200 || is.Tokens.Overdraft() != 200 || is.MicroUSD.Consumed != 3900 {
			t.Errorf("the budget is %+v", is)
		}
		if _, refused := w.assign(t, budget.Cover{Task: c.Task, Agent: c.Agent}, 1, 0); refused == nil || refused.Remaining != 0 {
			t.Errorf("a spent budget: %+v", refused)
		}
		used := w.usage(t, budget.ByTask)
		if len(used) != 1 || used[0].Key != c.Task || used[0].Total() != 1200 || used[0].Unpriced != 1 {
			t.Errorf("the log has %+v", used)
		}
	})
}

// TestAReportLosesKnownSecrets in what it says of the model and of the operation. The model's price is that of
// the name that was reported.
func TestAReportLosesKnownSecrets(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		c := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
		number, _ := w.assign(t, c, 600, 1000)
		known := redact.New(nil)
		known.Add(secret("hunter2-hunter2"))
		check(t, w.DB.Tx(redact.With(t.Context(), known), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			l, err := w.s.Lock(ctx, tx, []budget.Cover{c})
			if err != nil {
				return err
			}
			out, err := w.s.Report(ctx, tx, l, budget.Report{
				Usage: llm.Usage{PromptTokens: 10}, Cover: c, Attempt: number,
				Model: "claude-sonnet-4-hunter2-hunter2", Operation: "edit with hunter2-hunter2",
			})
			if out.MicroUSD != 30 {
				t.Errorf("it costs %d", out.MicroUSD)
			}
			return err
		}))
		for by, want := range map[budget.By]string{budget.ByModel: "claude-sonnet-4-[redacted]", budget.ByOperation: "edit with [redacted]"} {
			if used := w.usage(t, by); len(used) != 1 || used[0].Key != want {
				t.Errorf("by %s: %+v", by, used)
			}
		}
	})
}

type secret string

func (s secret) Reveal() string { return string(s) }

func TestANewPeriodTakesOpenReservationsAlong(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		short := w.month(budget.Global, "", 1000)
		short.End = w.noon.Add(2 * time.Hour)
		short = w.create(t, short)
		open := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
		number, _ := w.assign(t, open, 300, 0)
		w.report(t, open, number, "demo", llm.Usage{PromptTokens: 100})
		done := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
		w.assigned(t, done, 400)
		w.complete(t, done.Task)
		w.Skew.Advance(3 * time.Hour)
		if _, refused := w.assign(t, budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}, 801, 0); refused == nil || refused.Remaining != 800 {
			t.Errorf("in the new period: %+v", refused)
		}
		all := w.all(t)
		if len(all) != 2 || !all[1].Start.Equal(short.End) || all[1].End.Sub(all[1].Start) != short.End.Sub(short.Start) {
			t.Fatalf("the budgets: %+v", all)
		}
		w.holds(t, all[1].ID, 0, 200)
		w.holds(t, short.ID, 100, 0)
		w.report(t, open, number, "demo", llm.Usage{PromptTokens: 50})
		w.holds(t, all[1].ID, 50, 150)
	})
}

// TestWhateverBeginsAPeriodTakesOpenReservationsAlong: the first of a new period may be a call outside of tasks, and
// a person may have planned that period.
func TestWhateverBeginsAPeriodTakesOpenReservationsAlong(t *testing.T) {
	for _, c := range []struct {
		name          string
		planned, call bool
	}{
		{"a call", false, true},
		{"a call in a planned period", true, true},
		{"an attempt in a planned period", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w world) {
				short := w.month(budget.Global, "", 1000)
				short.End = w.noon.Add(2 * time.Hour)
				short = w.create(t, short)
				if c.planned {
					next := w.month(budget.Global, "", 1000)
					next.Start = short.End
					w.create(t, next)
				}
				open := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
				number, _ := w.assign(t, open, 300, 0)
				w.Skew.Advance(3 * time.Hour)
				called := int64(0)
				if c.call {
					w.reserve(t, request("flowpilot", 10))
					called = 10
				}
				_, refused := w.assign(t, budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}, 701, 0)
				if refused == nil || refused.Remaining != 700-called {
					t.Errorf("more than the new period has left: %+v", refused)
				}
				all := w.all(t)
				if len(all) != 2 {
					t.Fatalf("the budgets: %+v", all)
				}
				w.holds(t, short.ID, 0, 0)
				w.holds(t, all[1].ID, 0, 300+called)
				w.report(t, open, number, "demo", llm.Usage{PromptTokens: 50})
				w.holds(t, all[1].ID, 50, 250+called)
			})
		})
	}
}

// TestOpenReservationsAreTakenAlongOverPlannedPeriods in which nothing was asked of the budget.
func TestOpenReservationsAreTakenAlongOverPlannedPeriods(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		first := w.month(budget.Global, "", 1000)
		first.End = w.noon.Add(2 * time.Hour)
		first = w.create(t, first)
		for at := range 3 {
			next := w.month(budget.Global, "", 1000)
			next.Start = first.End.Add(time.Duration(at) * time.Hour)
			next.End = next.Start.Add(time.Hour)
			w.create(t, next)
		}
		open := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
		number, _ := w.assign(t, open, 300, 0)
		w.Skew.Advance(4*time.Hour + time.Minute) // the third one
		if _, refused := w.assign(t, budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}, 701, 0); refused == nil || refused.Remaining != 700 {
			t.Errorf("more than the new period has left: %+v", refused)
		}
		all := w.all(t)
		w.holds(t, first.ID, 0, 0)
		w.holds(t, all[len(all)-1].ID, 0, 300)
		w.report(t, open, number, "demo", llm.Usage{PromptTokens: 300})
		w.holds(t, all[len(all)-1].ID, 300, 0)
	})
}

// happened are the events of budgets.
func (w world) happened(t testing.TB) (out []string) {
	t.Helper()
	check(t, w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
		var kind, subject string
		err := scan(&kind, &subject)
		out = append(out, kind)
		return err
	}, w.q.Happened))
	return out
}

func TestCrossingAThresholdIsAnEventOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		c := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
		b := w.create(t, w.month(budget.Global, "", 1000))
		other := w.create(t, w.month(budget.Project, newID(), 1000))
		number, _ := w.assign(t, c, 1000, 0)
		step := func(tokens int, want ...string) {
			t.Helper()
			w.report(t, c, number, "demo", llm.Usage{PromptTokens: tokens})
			if got := w.happened(t); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("after %d more tokens: %q, want %q", tokens, got, want)
			}
		}
		step(899)
		step(1, "budget.warning")
		step(50, "budget.warning")
		step(50, "budget.warning", "budget.exhausted")
		step(10, "budget.warning", "budget.exhausted")
		_, _, err := w.reallocate(t, other.ID, b.ID, 500)
		check(t, err)
		step(10, "budget.warning", "budget.exhausted")
		step(400, "budget.warning", "budget.exhausted", "budget.warning")
	})
}

func TestASpentBudgetPausesAndGoesOnByItself(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		project := w.project(t)
		short := w.month(budget.Project, project, 1000)
		short.End = w.noon.Add(2 * time.Hour)
		w.create(t, short)
		in := budget.Cover{Task: w.aTask(t, project, "{}").ID, Project: project, Agent: newID()}
		out := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
		number, _ := w.assign(t, in, 500, 0)
		w.assigned(t, out, 500)
		look := func() (e budget.Exhaustion) {
			t.Helper()
			check(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
				cost := w.spent(func() { e, err = w.s.Exhausted(ctx, tx) })
				if cost.Statements > 4 {
					t.Errorf("it took %+v", cost)
				}
				return err
			}))
			return e
		}
		w.report(t, in, number, "demo", llm.Usage{PromptTokens: 999})
		if e := look(); len(e.Pause)+len(e.Resume) != 0 {
			t.Errorf("not spent: %+v", e)
		}
		w.report(t, in, number, "demo", llm.Usage{PromptTokens: 1})
		e := look()
		if len(e.Pause) != 1 || e.Pause[0].Task != in.Task || e.Pause[0].Attempt != number || e.Pause[0].Agent != in.Agent ||
			e.Pause[0].Scope != budget.Project || !e.Pause[0].FreesAt.Equal(short.End) {
			t.Errorf("spent: %+v", e)
		}
		w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
			return w.tasks.Pause(ctx, tx, in.Task, "lanekeeper", budget.PauseReason, "it is spent")
		})
		if e := look(); len(e.Pause)+len(e.Resume) != 0 {
			t.Errorf("paused: %+v", e)
		}
		w.Skew.Advance(2 * time.Hour)
		if e := look(); len(e.Resume) != 1 || e.Resume[0] != in.Task {
			t.Errorf("in the next period: %+v", e)
		}
	})
}

// TestALedgerKnowsWhatItHolds: within one transaction, too, nothing is reserved twice.
func TestALedgerKnowsWhatItHolds(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		b := w.create(t, w.month(budget.Global, "", 1000))
		covers := []budget.Cover{{Task: w.aTask(t, "", "{}").ID, Agent: newID()}, {Task: w.aTask(t, "", "{}").ID, Agent: newID()}}
		check(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			l, err := w.s.Lock(ctx, tx, covers)
			check(t, err)
			if refused := l.Hold(covers[0], covers[0].Task, 1, 600, 0); refused != nil {
				t.Error(refused)
			}
			if refused := l.Hold(covers[1], covers[1].Task, 1, 401, 0); refused == nil || refused.Remaining != 400 {
				t.Errorf("the second: %+v", refused)
			}
			if tokens, money := l.Remaining(covers[1]); tokens != 400 || money != budget.MaxMicroUSD {
				t.Errorf("%d tokens and $%d remain", tokens, money)
			}
			tx.Later().Exec(w.q.Assign, covers[0].Task, covers[0].Agent)
			tx.Later().Exec(w.q.Attempt, covers[0].Task)
			return w.write(ctx, tx, l)
		}))
		w.holds(t, b.ID, 0, 600)
	})
}

// TestTwoAssignmentsAtOnce: the second decides after the first has committed.
func TestTwoAssignmentsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		b := w.create(t, w.month(budget.Global, "", 1000))
		first := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
		second := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
		got := make(chan *budget.RefusedError, 1)
		check(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			l, err := w.s.Lock(ctx, tx, []budget.Cover{first})
			check(t, err)
			if refused := l.Hold(first, first.Task, 1, 600, 0); refused != nil {
				t.Error(refused)
			}
			begun := make(chan struct{})
			go func() {
				close(begun)
				_, refused, err := w.tryAssign(context.WithoutCancel(t.Context()), second, 600, 0)
				if err != nil {
					t.Error(err)
				}
				got <- refused
			}()
			<-begun
			tx.Later().Exec(w.q.Assign, first.Task, first.Agent)
			tx.Later().Exec(w.q.Attempt, first.Task)
			return w.write(ctx, tx, l)
		}))
		if refused := <-got; refused == nil || refused.Remaining != 400 {
			t.Errorf("the second: %+v", refused)
		}
		w.holds(t, b.ID, 0, 600)
	})
}

// TestACallOfAnAttemptIsReserved beyond what its assignment has reserved, and clipped to what is left.
func TestACallOfAnAttemptIsReserved(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		c := budget.Cover{Agent: newID()}
		c.Task = w.aTask(t, "", "{}").ID
		of := w.create(t, w.month(budget.Global, "", 1000))
		w.assigned(t, c, 100)
		call := func(input, output, least int64) (granted int64, refused bool) {
			t.Helper()
			err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				l, err := w.s.Lock(ctx, tx, []budget.Cover{c})
				if err == nil {
					granted, err = w.s.HoldCall(ctx, tx, l, c, 1, budget.Request{Model: "x", Input: input, Output: output, Min: least})
				}
				return err
			})
			if _, refused = errors.AsType[*budget.RefusedError](err); !refused {
				check(t, err)
			}
			return granted, refused
		}
		reserved := func(want int64) {
			t.Helper()
			is, err := w.s.Get(t.Context(), w.Workspace, of.ID)
			if check(t, err); is.Tokens.Reserved != want {
				t.Errorf("%d are reserved, not %d", is.Tokens.Reserved, want)
			}
		}
		if got, _ := call(40, 50, 10); got != 50 {
			t.Errorf("granted %d", got)
		}
		reserved(100) // the assignment paid for it
		if got, _ := call(100, 300, 10); got != 300 {
			t.Errorf("granted %d", got)
		}
		reserved(400)
		if got, _ := call(800, 300, 10); got != 200 {
			t.Errorf("granted %d of what is left", got)
		}
		reserved(1000)
		if _, refused := call(995, 300, 10); !refused {
			t.Error("it was not refused")
		}
		w.report(t, c, 1, "x", llm.Usage{PromptTokens: 800, CompletionTokens: 100})
		reserved(100)
		if got, _ := call(40, 300, 10); got != 60 {
			t.Errorf("granted %d at last", got)
		}
	})
}

// TestACallOfAnAttemptNeedsAPriceWhereMoneyIsCapped, also that of each model which may answer instead.
func TestACallOfAnAttemptNeedsAPriceWhereMoneyIsCapped(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		c := budget.Cover{Agent: newID()}
		c.Task = w.aTask(t, "", "{}").ID
		of := w.create(t, w.month(budget.Global, "", 1000))
		w.assigned(t, c, 100)
		call := func(model string, others ...string) (unpriced string) {
			t.Helper()
			err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				l, err := w.s.Lock(ctx, tx, []budget.Cover{c})
				if err == nil {
					_, err = w.s.HoldCall(ctx, tx, l, c, 1, budget.Request{Model: model, Others: others, Input: 100, Output: 50})
				}
				return err
			})
			if e, ok := errors.AsType[*budget.UnpricedError](err); ok {
				return e.Model
			}
			check(t, err)
			return ""
		}
		if got := call("x"); got != "" {
			t.Errorf("where no money is capped, %s is refused", got)
		}
		_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.CapMoney, of.ID, 1_000_000)
		check(t, err)
		if got := call("x") + " " + call("claude-sonnet-4", "y") + " " + call("claude-sonnet-4", "claude-opus-4"); got != "x y " {
			t.Errorf("refused are %q", got)
		}
	})
}
