package budget_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestUsageBySkillAndDay tells what the view tells, where days end and where a filter cuts a day.
func TestUsageBySkillAndDay(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, time.Time{})
		midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		instant := time.Microsecond
		tokens := 100
		for _, at := range []time.Time{midnight.Add(-instant), midnight, midnight.Add(24*time.Hour - instant), midnight.AddDate(0, 0, 9), midnight.AddDate(0, 0, 9).Add(instant)} {
			for _, skills := range []any{nil, `[]`, `["look"]`, `["look","pay","say"]`} {
				tokens++
				var cost any
				if tokens%4 > 0 {
					cost = 10 * tokens
				}
				_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.AddCall, newID(), tokens, cost, skills, at)
				check(t, err)
			}
		}
		var want []string
		check(t, w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
			var skill, day string
			var tokens, cost int64
			err := scan(&day, &skill, &tokens, &cost)
			want = append(want, fmt.Sprint(day, skill, tokens, cost))
			return err
		}, w.q.BySkillAndDay))
		told := func(since, until time.Time) (rows []string, calls int64) {
			t.Helper()
			used, err := w.s.Usage(t.Context(), w.Workspace, since, until, budget.ByDay, budget.BySkill)
			check(t, err)
			if !slices.IsSortedFunc(used, func(a, b budget.Usage) int { return strings.Compare(b.Key, a.Key) }) {
				t.Errorf("the last day is not the first: %+v", used)
			}
			for _, u := range used {
				rows = append(rows, fmt.Sprint(u.Key, u.Other, u.Total(), u.MicroUSD))
				calls += u.Calls
			}
			return rows, calls
		}
		got, calls := told(time.Time{}, time.Time{})
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) || calls != 5*(1+1+1+3) {
			t.Errorf("usage tells %q with %d calls, the view %q", got, calls, want)
		}
		// Of the day before only its last instant, and of the last day the first.
		if _, calls = told(midnight.Add(-instant), midnight.AddDate(0, 0, 9).Add(instant)); calls != 4*6 {
			t.Errorf("%d calls between two instants", calls)
		}
		if got, _ = told(midnight.Add(instant), midnight.Add(24*time.Hour-instant)); len(got) > 0 {
			t.Errorf("between the first and the last instant of a day: %q", got)
		}
		if got, _ = told(midnight.AddDate(1, 0, 0), midnight); len(got) > 0 {
			t.Errorf("until a time before: %q", got)
		}
	})
}

// TestUsageBySkillAndDayIsNotSorted: Postgres sums up the calls as it reads them.
func TestUsageBySkillAndDayIsNotSorted(t *testing.T) {
	const calls = 20_000
	g := dbtest.NewGrown(t)
	g.Exec(t, `INSERT INTO agent_usage_logs (workspace_id, id, trace_id, agent, surface, operation, model, input_tokens, output_tokens,
		   cache_read_tokens, cache_write_tokens, skills, created_at)
		 SELECT $1, gen_random_uuid(), 'hb_' || n, 'ann', 'hb', 'reason', 'demo', n % 500, 7, 5, 3, CASE WHEN n % 3 > 0 THEN jsonb_build_array('skill_' || n % 20) END,
		        lk_plus(lk_now(), -130000 * CAST(n AS bigint))
		   FROM generate_series(1, $2::int) n`, string(g.Workspace), calls)
	g.Exec(t, "ANALYZE agent_usage_logs")
	for _, by := range []budget.By{budget.ByDay, "", budget.ByModel} {
		plan := g.Explain(t, "budget.UsageBySkill", string(by), time.Unix(0, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 400)
		for step := range plan.Steps() {
			if step.Step != "Sort" && step.Step != "Incremental Sort" {
				continue
			}
			if rows := step.Plans[0].Rows * step.Plans[0].Loops; rows > calls/10 {
				t.Errorf("by %q it sorts %.0f rows of %d calls: %s", by, rows, calls, plan)
			}
		}
	}
}

// TestADayIsAllocatedAnew: what the beats of a day may use is changed within the day, and never below what they have used.
func TestADayIsAllocatedAnew(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		month := w.create(t, w.month(budget.Agent, "b", 700))
		ask := request("a", 600)
		ask.Day = 1000
		w.settle(t, w.reserve(t, ask), 600)
		w.refused(t, ask)
		allocate := func(tokens, microUSD int64) budget.Budget {
			var b db.Batch
			w.s.AllocateDays(&b, tokens, microUSD)
			check(t, w.DB.Do(t.Context(), w.Workspace, &b))
			return w.all(t)[1]
		}
		if day := allocate(1200, 0); day.Tokens.Allocated != 1200 || day.Capped {
			t.Errorf("raised it is %+v", day)
		}
		held := w.reserve(t, ask)
		if day := allocate(700, 5000); day.Tokens.Allocated != 700 || day.Tokens.Overdraft() != 500 || !day.Capped || day.MicroUSD.Allocated != 5000 {
			t.Errorf("lowered below what is reserved it is %+v", day)
		}
		w.settle(t, held, 0)
		allocate(1100, 0)
		w.refused(t, ask)
		if day := allocate(0, 0); day.Tokens.Allocated != 600 || day.Capped {
			t.Errorf("lowered to nothing it is %+v", day)
		}
		if got, err := w.s.Get(t.Context(), w.Workspace, month.ID); err != nil || got.Tokens.Allocated != 700 {
			t.Errorf("a person's budget is %+v, %v", got, err)
		}
	})
}
