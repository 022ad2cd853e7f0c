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
