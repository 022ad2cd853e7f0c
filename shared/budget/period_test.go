package budget_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func TestADayRollsOver(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		ask := request("a", 1000)
		ask.Day = 1000
		before := w.reserve(t, ask)
		w.refused(t, ask)
		w.Skew.Advance(12 * time.Hour)
		ask.Day = 2000 // the setting has changed meanwhile
		w.reserve(t, ask)
		days := w.all(t)
		if len(days) != 2 || !days[1].Start.Equal(days[0].End) || days[1].Tokens.Allocated != 2000 || days[1].Tokens.Reserved != 1000 {
			t.Fatalf("the days are %+v", days)
		}
		w.settle(t, before, 900) // belongs to the day in which it was reserved
		w.holds(t, days[0].ID, 900, 0)
		w.holds(t, days[1].ID, 0, 1000)

		w.Skew.Advance(3 * 24 * time.Hour) // days without a call have no budget
		w.reserve(t, ask)
		if days = w.all(t); len(days) != 3 || !days[2].Start.Equal(w.noon.Truncate(24*time.Hour).AddDate(0, 0, 4)) {
			t.Fatalf("the days are %+v", days)
		}
		ask.Day = 0 // no limit from now on
		w.Skew.Advance(24 * time.Hour)
		w.reserve(t, request("a", 1_000_000))
		if days = w.all(t); len(days) != 3 {
			t.Errorf("the days are %+v", days)
		}
	})
}

func TestAPersonsBudgetGoesOnByItself(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		week := w.month(budget.Agent, "a:hb", 1000)
		week.End = week.Start.AddDate(0, 0, 16)
		week.Capped, week.MicroUSD.Allocated = true, 77_000
		w.create(t, week)
		ask := request("a", 600)
		ask.Model, ask.Day = "claude-sonnet-4", 10 // Day applies to agents without a budget there
		w.settle(t, w.reserve(t, ask), 600)
		w.refused(t, ask)
		planned := w.month(budget.Agent, "a:hb", 5)
		planned.Start, planned.End = week.End.AddDate(0, 0, 18), week.End.AddDate(0, 0, 19)
		w.create(t, planned)

		w.Skew.Advance(36 * time.Hour)
		w.reserve(t, ask)
		next := w.all(t)[2]
		if next.Tokens.Allocated != 1000 || next.MicroUSD.Allocated != 77_000 || !next.Capped || !next.Start.Equal(week.End) ||
			!next.End.Equal(week.End.AddDate(0, 0, 16)) || next.CreatedBy != "ann" {
			t.Errorf("the next period is %+v", next)
		}
		w.Skew.Advance(16 * 24 * time.Hour)
		w.reserve(t, ask)
		last := w.all(t)[3]
		if !last.Start.Equal(next.End) || !last.End.Equal(planned.Start) {
			t.Errorf("the period before the planned one is %s to %s", last.Start, last.End)
		}
	})
}

// TestWhoBeginsAPeriodHoldsNoBudget: while it waits for the workspace's row, who has that row gets each
// budget.
func TestWhoBeginsAPeriodHoldsNoBudget(t *testing.T) {
	e := dbtest.New(t, dbtest.OnPostgres) // SQLite has one writer
	noon := time.Now().UTC().Truncate(24 * time.Hour).Add(36 * time.Hour)
	e.Skew.Advance(time.Until(noon))
	w := newWorld(t, e, noon)
	w.create(t, w.month(budget.Global, "", 1000))
	project := w.project(t)
	short := w.month(budget.Project, project, 1000)
	short.End = w.noon.Add(2 * time.Hour)
	w.create(t, short)
	w.Skew.Advance(3 * time.Hour)
	locked, done := make(chan error, 1), make(chan struct{})
	check(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		if _, err := tx.Exec(ctx, w.q.HoldWorkspace); err != nil {
			return err
		}
		go func() {
			defer close(done)
			locked <- w.DB.Tx(context.WithoutCancel(t.Context()), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.s.Lock(ctx, tx, []budget.Cover{{Project: project}})
				return err
			})
		}()
		dbtest.AwaitBlocked(ctx, t, w.DB.Dialect(), tx, done)
		_, err := w.s.Lock(ctx, tx, []budget.Cover{{}})
		return err
	}))
	check(t, <-locked)
	if all := w.all(t); len(all) != 3 {
		t.Errorf("%d budgets, want 3", len(all))
	}
}

func TestManyWhoBeginADayMakeOneBudget(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				ask := request("a", 100)
				ask.Day = 1000
				if _, err := w.s.Reserve(t.Context(), w.Workspace, ask); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if all := w.all(t); len(all) != 1 || all[0].Tokens.Reserved != 800 {
			t.Errorf("there are %+v", all)
		}
	})
}

func TestSuccessor(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse("2006-01-02 15:04", s)
		check(t, err)
		return v
	}
	for _, c := range []struct{ name, start, end, now, wantStart, wantEnd string }{
		{"a day", "2026-03-01 00:00", "2026-03-02 00:00", "2026-03-02 00:00", "2026-03-02 00:00", "2026-03-03 00:00"},
		{"a day, later", "2026-03-01 06:00", "2026-03-02 06:00", "2026-03-12 05:59", "2026-03-11 06:00", "2026-03-12 06:00"},
		{"a calendar month", "2026-01-01 00:00", "2026-02-01 00:00", "2026-02-10 00:00", "2026-02-01 00:00", "2026-03-01 00:00"},
		{"a month after a pause", "2026-01-15 00:00", "2026-02-15 00:00", "2027-01-01 00:00", "2026-12-15 00:00", "2027-01-15 00:00"},
		{"a quarter", "2026-10-01 00:00", "2027-01-01 00:00", "2027-02-01 00:00", "2027-01-01 00:00", "2027-04-01 00:00"},
		{"from one last day to another", "2026-01-31 00:00", "2026-03-31 00:00", "2026-04-01 00:00", "2026-03-31 00:00", "2026-05-29 00:00"},
		{"a year", "2024-01-01 00:00", "2025-01-01 00:00", "2026-06-01 00:00", "2026-01-01 00:00", "2027-01-01 00:00"},
	} {
		start, end := budget.Successor(at(c.start), at(c.end), at(c.now))
		if !start.Equal(at(c.wantStart)) || !end.Equal(at(c.wantEnd)) {
			t.Errorf("%s: %s to %s, want %s to %s", c.name, start, end, c.wantStart, c.wantEnd)
		}
	}
}

func TestPeriodsOfOneScopeNeverOverlap(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		first := w.create(t, w.month(budget.Agent, "a", 1000))
		for _, c := range []struct {
			name       string
			scope      budget.Scope
			id         string
			start, end time.Time
			overlaps   bool
		}{
			{"the same", budget.Agent, "a", first.Start, first.End, true},
			{"within", budget.Agent, "a", first.Start.Add(time.Hour), first.End.Add(-time.Hour), true},
			{"around", budget.Agent, "a", first.Start.Add(-time.Hour), first.End.Add(time.Hour), true},
			{"over its end", budget.Agent, "a", first.End.Add(-time.Microsecond), first.End.AddDate(0, 0, 1), true},
			{"right behind", budget.Agent, "a", first.End, first.End.AddDate(0, 0, 1), false},
			{"right before", budget.Agent, "a", first.Start.AddDate(0, 0, -1), first.Start, false},
			{"of another agent", budget.Agent, "b", first.Start, first.End, false},
			{"of a skill so named", budget.Skill, "a", first.Start, first.End, false},
		} {
			b := w.month(c.scope, c.id, 1)
			b.Start, b.End = c.start, c.end
			_, err := w.tryCreate(b)
			overlap, refused := errors.AsType[*budget.OverlapError](err)
			if refused != c.overlaps || !refused && err != nil || refused && overlap.ID != first.ID {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	})
}

func TestOfTwoWhoCreateAtOnceOneIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		const creators = 6
		errs := make([]error, creators)
		var wg sync.WaitGroup
		for i := range creators {
			wg.Go(func() {
				b := w.month(budget.Project, "p", 1000)
				b.Start = b.Start.Add(time.Duration(i) * time.Hour) // no unique key distinguishes them
				_, errs[i] = w.tryCreate(b)
			})
		}
		wg.Wait()
		made := 0
		for _, err := range errs {
			if _, refused := errors.AsType[*budget.OverlapError](err); err == nil {
				made++
			} else if !refused {
				t.Error(err)
			}
		}
		if made != 1 || len(w.all(t)) != 1 {
			t.Errorf("%d were made, and there are %d", made, len(w.all(t)))
		}
	})
}

// TestWhoCreatesWaitsForWhoCreatesAlready: the second finds the budget of the first, which was not
// committed when it came.
func TestWhoCreatesWaitsForWhoCreatesAlready(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		second := make(chan error, 1)
		done := make(chan struct{})
		check(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			if _, err := w.s.Create(ctx, tx, w.month(budget.Project, "p", 1000)); err != nil {
				return err
			}
			go func() {
				defer close(done)
				later := w.month(budget.Project, "p", 1000)
				later.Start = later.Start.Add(time.Hour) // no unique key distinguishes them
				_, err := w.tryCreate(later)
				second <- err
			}()
			dbtest.AwaitBlocked(ctx, t, w.DB.Dialect(), tx, done)
			return nil
		}))
		if _, refused := errors.AsType[*budget.OverlapError](<-second); !refused || len(w.all(t)) != 1 {
			t.Errorf("the second is not refused, and there are %d", len(w.all(t)))
		}
	})
}

func TestInvalidBudgets(t *testing.T) {
	w := world{Env: dbtest.New(t, dbtest.OnSQLite), noon: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	w.s = open(t, w.DB)
	for field, changes := range map[string][]func(*budget.Budget){
		"scope":             {func(b *budget.Budget) { b.Scope = "planet" }},
		"scopeId":           {func(b *budget.Budget) { b.ScopeID = "" }, func(b *budget.Budget) { b.Scope = budget.Global }, func(b *budget.Budget) { b.ScopeID = string(make([]byte, 256)) }},
		"allocated":         {func(b *budget.Budget) { b.Tokens.Allocated = -1 }, func(b *budget.Budget) { b.Tokens.Allocated = budget.MaxTokens + 1 }},
		"allocatedMicroUsd": {func(b *budget.Budget) { b.MicroUSD.Allocated = -1 }},
		"periodEnd":         {func(b *budget.Budget) { b.End = b.Start }, func(b *budget.Budget) { b.End = b.Start.Add(-time.Hour) }},
		"periodStart":       {func(b *budget.Budget) { b.Start = time.Time{} }},
	} {
		for i, change := range changes {
			b := w.month(budget.Agent, "a", 1)
			change(&b)
			_, err := w.tryCreate(b)
			if invalid, ok := errors.AsType[*budget.InvalidError](err); !ok || invalid.Field != field {
				t.Errorf("%s (%d): %v", field, i, err)
			}
		}
	}
	if all := w.all(t); len(all) > 0 {
		t.Errorf("there are %+v", all)
	}
}
