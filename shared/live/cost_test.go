package live_test

import (
	"testing"

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
