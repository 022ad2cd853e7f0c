package retain_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestAPurgeOfMemoriesWritesTheirEventsAtOnce, not one at a time.
func TestAPurgeOfMemoriesWritesTheirEventsAtOnce(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Fill(t, `INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, expires_at, created_at, updated_at)
		SELECT $1, gen_random_uuid(), 'operator', 'fact', 'x', gen_random_uuid()::text, lk_now() - interval '91 days', lk_now(), lk_now()
		  FROM generate_series(1, 100)`)
	plan := g.Explain(t, "retain.Memories", int64(90*86_400_000))
	var told []struct {
		Triggers []struct {
			Calls float64
		}
	}
	if err := json.Unmarshal([]byte(plan.String()), &told); err != nil {
		t.Fatal(err)
	}
	calls := 0.0
	for _, trigger := range told[0].Triggers {
		calls += trigger.Calls
	}
	if plan.Rows != 100 || calls != 1 {
		t.Errorf("%.0f deletions have %.0f calls of triggers: %s", plan.Rows, calls, plan)
	}
}

// TestAPurgeComparesNoRowWithAll checks that a purge compares no row of the workspace with each row that it deletes,
// also where the planner expects none of the workspace's rows: its statistics are of another workspace.
func TestAPurgeComparesNoRowWithAll(t *testing.T) {
	const rows, batch = 5_000, 2_000
	g := dbtest.NewGrown(t)
	theirs := uuid.NewString()
	g.Exec(t, "INSERT INTO workspaces (id, slug, name) VALUES ($1, 'others', 'Many')", theirs)
	for table, of := range map[string]struct{ query, fill string }{
		"executions": {"retain.Executions", `INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, created_at, updated_at, ended_at)
			SELECT $1, gen_random_uuid(), 'operator', 'op', 'op_test', 'completed', lk_now() - interval '91 days', lk_now() - interval '91 days', lk_now() - interval '91 days'
			  FROM generate_series(1, $2::int)`},
		"outbox": {"retain.Outbox", `INSERT INTO outbox (workspace_id, id, kind, topic, key, payload, status, max_attempts, due_at, trace_id, created_at, updated_at)
			SELECT $1, gen_random_uuid(), 'kick', 'x', gen_random_uuid()::text, '{}', 'failed', 1, lk_now(), 'op_test', lk_now() - interval '91 days', lk_now() - interval '91 days'
			  FROM generate_series(1, $2::int)`},
		"agent_memory": {"retain.Memories", `INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, expires_at, created_at, updated_at)
			SELECT $1, gen_random_uuid(), 'operator', 'fact', 'x', gen_random_uuid()::text, lk_now() - interval '91 days', lk_now(), lk_now()
			  FROM generate_series(1, $2::int)`},
	} {
		t.Run(table, func(t *testing.T) {
			g.Exec(t, "ALTER TABLE "+table+" SET (autovacuum_enabled = off)")
			g.Exec(t, "ALTER TABLE "+table+" DISABLE TRIGGER USER")
			g.Exec(t, of.fill, theirs, 1_000)
			g.Exec(t, "ANALYZE "+table)
			g.Exec(t, of.fill, string(g.Workspace), rows)
			plan := g.Explain(t, of.query, int64(90*86_400_000))
			if plan.Rows != batch {
				t.Errorf("it deletes %v rows, not %d", plan.Rows, batch)
			}
			compared := 0.0 // in vain
			for step := range plan.Steps() {
				compared += step.Unjoined * step.Loops
			}
			if compared > rows {
				t.Errorf("to delete %d of %d rows it makes %.0f comparisons: %s", batch, rows, compared, plan)
			}
		})
	}
}
