package task_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestTriggersRunOncePerStatement: what the database does by itself for tasks, attempts and events takes
// one call for a statement, however many rows that changes.
func TestTriggersRunOncePerStatement(t *testing.T) {
	const tasks = 50
	e := dbtest.New(t, dbtest.OnPostgres)
	conn, err := pgx.Connect(t.Context(), e.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	tx, err := conn.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "SELECT lk_enter($1)", string(e.Workspace))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	seen := map[string]bool{}
	for _, statement := range []string{
		`INSERT INTO agent_tasks (workspace_id, id, title, created_by, created_at, updated_at)
			SELECT $1, gen_random_uuid(), 'x', 'ada', lk_now(), lk_now() FROM generate_series(1, $2::integer)`,
		`UPDATE agent_tasks SET status = 'ASSIGNED', attempt = $2::integer, assigned_at = lk_now() WHERE workspace_id = $1`,
		`INSERT INTO agent_task_attempts (workspace_id, task_id, number, agent_id, started_at) SELECT workspace_id, id, $2::integer, id, lk_now() FROM agent_tasks WHERE workspace_id = $1`,
		`UPDATE agent_tasks SET status = 'COMPLETED', completed_at = lk_now(), attempt = $2::integer WHERE workspace_id = $1`,
		`UPDATE agent_task_attempts SET ended_at = lk_now(), outcome = 'completed', number = $2::integer WHERE workspace_id = $1`,
		`INSERT INTO events (workspace_id, kind, created_at) SELECT $1::uuid, 'task.status_changed', lk_now() FROM generate_series(1, $2::integer)`,
	} {
		var raw []byte
		if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "+statement, string(e.Workspace), tasks).Scan(&raw); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		var plans []struct {
			Triggers []struct {
				Name       string `json:"Trigger Name"`
				Constraint string `json:"Constraint Name"`
				Relation   string
				Calls      float64
			}
		}
		if err := json.Unmarshal(raw, &plans); err != nil {
			t.Fatal(err)
		}
		for _, tr := range plans[0].Triggers {
			if tr.Constraint != "" || tr.Name == "event_traced" { // it changes the row that is added
				continue
			}
			seen[tr.Relation+"."+tr.Name] = true
			if tr.Calls != 1 {
				t.Errorf("trigger %s ran %.0f times for %d rows of %s …", tr.Name, tr.Calls, tasks, strings.Join(strings.Fields(statement)[:3], " "))
			}
		}
	}
	for _, name := range []string{"agent_tasks.event_added", "agent_tasks.event_changed", "agent_task_attempts.budget_settled", "events.event_sent"} {
		if !seen[name] {
			t.Errorf("trigger %s did not run", name)
		}
	}
}
