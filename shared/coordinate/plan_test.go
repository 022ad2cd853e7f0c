package coordinate_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestTheWaitingGraphIsReadInOneGo, also where Postgres thinks that there are no tasks: a thousand new
// ones are not paired with each other.
func TestTheWaitingGraphIsReadInOneGo(t *testing.T) {
	const tasks = 1_000
	g := dbtest.NewGrown(t)
	g.Exec(t, "ALTER TABLE agent_tasks SET (autovacuum_enabled = off)")
	g.Exec(t, "VACUUM ANALYZE agent_tasks") // and not the dependencies, of which there have never been any
	g.Exec(t, `INSERT INTO agent_tasks (workspace_id, id, title, created_by, created_at, updated_at)
		SELECT $1, gen_random_uuid(), 'x', 'ada', lk_now(), lk_now() FROM generate_series(1, $2::int)`, string(g.Workspace), tasks)
	plan := g.Explain(t, "coordinate.Waiting")
	for step := range plan.Steps() {
		if rows := step.Rows * step.Loops; rows > 2*tasks {
			t.Errorf("with %d tasks and no dependency it looks at %.0f rows:\n%s", tasks, rows, plan)
		}
	}
}

// TestTheDependenciesOfATaskAreReadByThemselves, however many others there are.
func TestTheDependenciesOfATaskAreReadByThemselves(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Fill(t, `INSERT INTO agent_tasks (workspace_id, id, title, created_by, created_at, updated_at)
		SELECT $1, CAST('00000000-0000-7000-8000-' || lpad(CAST(n AS text), 12, '0') AS uuid), 'x', 'ada', lk_now(), lk_now()
		  FROM generate_series(0, 5000) n`,
		`INSERT INTO agent_task_dependencies (workspace_id, task_id, depends_on)
		SELECT $1, t.id, '00000000-0000-7000-8000-000000000000' FROM agent_tasks t
		 WHERE t.workspace_id = $1 AND t.id <> '00000000-0000-7000-8000-000000000000'`)
	g.Exec(t, "ANALYZE agent_tasks, agent_task_dependencies")
	if plan := g.Explain(t, "coordinate.WaitingOf", `["00000000-0000-7000-8000-000000000007"]`); plan.Rows != 1 || plan.Pages() > 20 {
		t.Errorf("the %.0f dependencies of a task are read with %d pages: %s", plan.Rows, plan.Pages(), plan)
	}
}
