package budget_test

import (
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestACallReadsItsOwnBudgets and none of the other tasks', nor of the thousand days that are over. An overview reads none
// of tasks at all.
func TestACallReadsItsOwnBudgets(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Fill(t, `INSERT INTO usage_budgets (workspace_id, id, scope, scope_id, allocated, period_start, period_end, created_by,
		                           created_at, updated_at)
		SELECT $1, CAST('00000000-0000-7000-8000-' || lpad(CAST(n AS text), 12, '0') AS uuid), 'task', 'task ' || n, 1000,
		       lk_now() - interval '1 hour', lk_now() + interval '1 hour', 'ada', lk_now(), lk_now()
		  FROM generate_series(1, 10000) n`,
		`INSERT INTO usage_budgets (workspace_id, id, scope, scope_id, allocated, period_start, period_end, created_by, created_at, updated_at)
		SELECT $1, gen_random_uuid(), 'global', '', 1000, d - interval '1 day', d, 'ada', d - interval '1 hour', lk_now()
		  FROM (SELECT lk_now() + interval '1 hour' - n * interval '1 day' AS d FROM generate_series(0, 1000) n) days`,
		`INSERT INTO usage_reservations (workspace_id, id, budget_id, holder, tokens, created_at, expires_at)
		SELECT $1, b.id, b.id, b.scope_id, 1, lk_now(), lk_now() + interval '1 hour'
		  FROM usage_budgets b
		 WHERE b.workspace_id = $1 AND b.scope = 'task'`)
	g.Exec(t, "ANALYZE usage_budgets")
	g.Exec(t, "ANALYZE usage_reservations")
	const seventh = "00000000-0000-7000-8000-000000000007"
	for name, args := range map[string][]any{
		"budget.Look":         {"ann", "ann:hb"},
		"budget.Lock":         {"ann", "look", "ann:hb"},
		"budget.LookCovers":   {`[["global",""],["task","task 7"]]`},
		"budget.LockCovers":   {`[["global",""],["task","task 7"]]`},
		"budget.Planned":      {`[["task","task 7","2000-01-01T00:00:00Z","2999-01-01T00:00:00Z"]]`},
		"budget.HoldAttempts": {`[["00000000-0000-7000-9000-000000000000","` + seventh + `","` + seventh + `",2,1,0]]`, db.EndOfTime},
		"budget.LockReserved": {seventh, `["look"]`},
		"budget.Advice":       {24 * time.Hour.Milliseconds(), 50},
		"budget.Paces":        {24 * time.Hour.Milliseconds()},
	} {
		if plan := g.Explain(t, name, args...); plan.Pages() > 150 { // with what Postgres looks up for itself
			t.Errorf("%s reads %d pages: %s", name, plan.Pages(), plan)
		}
	}
}

// TestTheUsageOfADayIsReadByItself, and not that of all days.
func TestTheUsageOfADayIsReadByItself(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Exec(t, "ALTER TABLE agent_usage_logs DISABLE TRIGGER USER")
	g.Fill(t, `INSERT INTO usage_budgets (workspace_id, id, scope, scope_id, allocated, period_start, period_end, created_by,
		                           created_at, updated_at)
		VALUES ($1, '00000000-0000-7000-8000-000000000007', 'agent', 'operator', 1000, lk_now() - interval '1 hour',
		        lk_now() + interval '1 hour', 'ada', lk_now(), lk_now())`,
		`INSERT INTO agent_usage_logs (workspace_id, id, trace_id, agent, surface, operation, model, input_tokens, output_tokens,
		                              cache_read_tokens, cache_write_tokens, created_at)
		SELECT $1, gen_random_uuid(), 'op_1', 'operator', 'op', 'reason', 'some', 1, 1, 0, 0, lk_now() - n * interval '5 minutes'
		  FROM generate_series(1, 20000) n`)
	g.Exec(t, "ANALYZE usage_budgets, agent_usage_logs")
	plan := g.Explain(t, "budget.Burn", "00000000-0000-7000-8000-000000000007", 24*time.Hour.Milliseconds())
	if plan.Pages() > 100 {
		t.Errorf("it reads %d pages: %s", plan.Pages(), plan)
	}
}

// TestACycleLearnsFromWhatWasFinishedSince it learned before, and reads no other estimate.
func TestACycleLearnsFromWhatWasFinishedSince(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Exec(t, "ALTER TABLE agent_tasks DISABLE TRIGGER USER")
	g.Fill(t, `INSERT INTO agent_tasks (workspace_id, id, title, status, completed_at, created_by, created_at, updated_at)
		SELECT $1, gen_random_uuid(), 'x', 'COMPLETED', lk_now() - n * interval '1 hour', 'ada', lk_now(), lk_now()
		  FROM generate_series(1, 10000) n`,
		`INSERT INTO usage_estimates (workspace_id, task_id, task_type, complexity, estimated, used, finished_at)
		SELECT $1, t.id, 'some', 1, 1, 1, t.completed_at FROM agent_tasks t WHERE t.workspace_id = $1`,
		`INSERT INTO usage_corrections (workspace_id, task_type, samples, permille, learned_at) VALUES ($1, 'some', 200, 1000, lk_now())`)
	g.Exec(t, "ANALYZE usage_estimates, usage_corrections")
	if plan := g.Explain(t, "budget.Learn", 1000); plan.Pages() > 60 {
		t.Errorf("it reads %d pages: %s", plan.Pages(), plan)
	}
}

// TestACallReadsItsOwnBudgetsOnSQLite: and none of other scopes.
func TestACallReadsItsOwnBudgetsOnSQLite(t *testing.T) {
	lite := dbtest.New(t, dbtest.OnSQLite)
	for name, args := range map[string][]any{
		"budget.Look":       {"ann", "ann:hb"},
		"budget.Lock":       {"ann", "look", "ann:hb"},
		"budget.LookCovers": {"[]"},
		"budget.LockCovers": {"[]"},
		"budget.Charge":     {"00000000-0000-7000-8000-000000000007", 1, 1},
		"budget.Spend":      {"[]", 1, 1},
	} {
		if all := lite.ReadsAllOnSQLite(t, name, args...); len(all) > 0 {
			t.Errorf("%s reads all: %q", name, all)
		}
	}
}
