package live_test

import (
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestAViewReadsNoBudgetOfATaskThatHasEnded: it begins at the tasks that have not.
func TestAViewReadsNoBudgetOfATaskThatHasEnded(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Fill(t, `INSERT INTO agent_tasks (workspace_id, id, title, status, completed_at, created_by, created_at, updated_at)
		SELECT $1, gen_random_uuid(), 'x', CASE WHEN n > 3 THEN 'COMPLETED' ELSE 'PENDING' END, CASE WHEN n > 3 THEN lk_now() END,
		       'ada', lk_now(), lk_now()
		  FROM generate_series(1, 5000) n`,
		`INSERT INTO usage_budgets (workspace_id, id, scope, scope_id, allocated, period_start, period_end, created_by,
		                           created_at, updated_at)
		SELECT $1, t.id, 'task', CAST(t.id AS text), 1000, lk_now() - interval '1 hour', lk_now() + interval '1 hour', 'ada',
		       lk_now(), lk_now()
		  FROM agent_tasks t
		 WHERE t.workspace_id = $1`)
	g.Exec(t, "ANALYZE agent_tasks, usage_budgets, agent_task_attempts")
	if plan := g.Explain(t, "live.TaskUsage", 1000); plan.Rows != 3 || plan.Pages() > 60 {
		t.Errorf("the budgets of %.0f tasks are read with %d pages: %s", plan.Rows, plan.Pages(), plan)
	}
}

// TestAViewReadsTheBudgetsThatAreNearlySpent, and none of the others. Of the commands it reads those that were carried out since.
func TestAViewReadsTheBudgetsThatAreNearlySpent(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Fill(t, `INSERT INTO usage_budgets (workspace_id, id, scope, scope_id, allocated, consumed, period_start, period_end, created_by,
		                           created_at, updated_at)
		SELECT $1, gen_random_uuid(), 'task', 'task ' || n, 1000, CASE WHEN n > 3 THEN 0 ELSE 999 END, lk_now() - interval '1 hour',
		       lk_now() + interval '1 hour', 'ada', lk_now(), lk_now()
		  FROM generate_series(1, 5000) n`,
		`INSERT INTO coordinator_commands (workspace_id, id, command, created_by, created_at, done_at, outcome)
		SELECT $1, gen_random_uuid(), 'recover', 'ada', lk_now(), lk_now() - n * interval '1 minute', 'done'
		  FROM generate_series(1, 5000) n`)
	g.Exec(t, "ANALYZE usage_budgets, coordinator_commands")
	for name, args := range map[string][]any{
		"live.Alerts": {100},
		"live.Done":   {time.Now().Add(-3*time.Minute - 30*time.Second), 100},
	} {
		if plan := g.Explain(t, name, args...); plan.Rows != 3 || plan.Pages() > 60 {
			t.Errorf("%s reads %d pages for %.0f rows: %s", name, plan.Pages(), plan.Rows, plan)
		}
	}
}
