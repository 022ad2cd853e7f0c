package execution_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
)

// TestAConversationIsSummedUpByItself on either engine: the sum reads no other conversation, and no budget of a task.
func TestAConversationIsSummedUpByItself(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Exec(t, "ALTER TABLE executions DISABLE TRIGGER USER")
	g.Exec(t, "ALTER TABLE messages DISABLE TRIGGER USER")
	g.Fill(t, `INSERT INTO threads (workspace_id, id, channel, address, policy, metadata, created_at, updated_at)
		SELECT $1, CAST('00000000-0000-7000-8000-' || lpad(CAST(n AS text), 12, '0') AS uuid), 'chat', 'visitor ' || n, 'queue', '{}',
		       lk_now(), lk_now()
		  FROM generate_series(1, 1000) n`,
		`INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, input, prompt_tokens, completion_tokens,
		                         created_at, updated_at)
		SELECT $1, CAST('00000000-0000-7000-9000-' || lpad(CAST(n AS text), 12, '0') AS uuid), 'visitor', 'ch', 'ch_1', 'completed',
		       jsonb_build_object('task', 'turn', 'thread_id', '00000000-0000-7000-8000-' || lpad(CAST(1 + n % 1000 AS text), 12, '0')),
		       1, 1, lk_now(), lk_now()
		  FROM generate_series(1, 5000) n`,
		`INSERT INTO messages (workspace_id, id, thread_id, seq, role, body, execution_id, created_at)
		SELECT $1, gen_random_uuid(), CAST('00000000-0000-7000-8000-' || lpad(CAST(1 + n % 1000 AS text), 12, '0') AS uuid),
		       1 + n / 1000, 'user', 'Hi.',
		       CAST('00000000-0000-7000-9000-' || lpad(CAST(n AS text), 12, '0') AS uuid), lk_now()
		  FROM generate_series(1, 5000) n`,
		`INSERT INTO usage_budgets (workspace_id, id, scope, scope_id, allocated, period_start, period_end, created_by, created_at, updated_at)
		SELECT $1, gen_random_uuid(), 'task', 'task ' || n, 1000, lk_now() - interval '1 hour', lk_now() + interval '1 hour', 'ada',
		       lk_now(), lk_now()
		  FROM generate_series(1, 5000) n`)
	for _, table := range []string{"threads", "executions", "messages", "usage_budgets"} {
		g.Exec(t, "ANALYZE "+table)
	}
	const thread, nobody = "00000000-0000-7000-8000-000000000007", "00000000-0000-7000-8000-000000000000"
	lite := dbtest.New(t, dbtest.OnSQLite)
	for name, of := range map[string][2]any{"execution.SpentIn": {thread, nobody}, "execution.SpentAt": {"chat", "visitor 7"}} {
		args := []any{of[0], of[1], -execution.Spell.Milliseconds(), "visitor", "visitor:ch"}
		if plan := g.Explain(t, name, args...); plan.Pages() > 60 {
			t.Errorf("%s reads %d pages: %s", name, plan.Pages(), plan)
		}
		plan := strings.Join(lite.ExplainSQLite(t, name, args...), "\n")
		for _, way := range []string{"SEARCH e ", "SEARCH m ", "SEARCH a ", "scope_id=?"} {
			if !strings.Contains(plan, way) {
				t.Errorf("%s is not read by %q: %s", name, way, plan)
			}
		}
	}
}

// TestAListingReadsNoMoreThanItLists: the few executions of a status, an agent or a subject are
// found among a hundred thousand.
func TestAListingReadsNoMoreThanItLists(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Exec(t, "ALTER TABLE executions DISABLE TRIGGER event_added") // nobody reads their events
	g.Fill(t, `INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, status, created_at, updated_at)
		 SELECT $1, gen_random_uuid(), CASE WHEN n % 20000 = 7 THEN 'rare' ELSE 'flowpilot' END, 'hb', 'hb_0mh8c1v2q_a7x2p1k9d4',
		        CASE WHEN n % 20000 = 9 THEN 'objective:rare' ELSE 'heartbeat' END, CASE WHEN n % 20000 = 11 THEN 'failed' ELSE 'completed' END,
		        lk_plus(lk_now(), n), lk_now()
		   FROM generate_series(1, 100000) n`)
	g.Exec(t, "ANALYZE executions")
	for name, filter := range map[string][3]any{"executions_agent": {"rare"}, "executions_status": {nil, "failed"}, "executions_subject": {nil, nil, "objective:rare"}} {
		end := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
		plan := g.Explain(t, "execution.List", filter[0], nil, filter[1], nil, filter[2], time.Unix(0, 0), end, end,
			"ffffffff-ffff-ffff-ffff-ffffffffffff", 51, false)
		if plan.Pages() > 100 || plan.Rows != 5 || !strings.Contains(plan.String(), `"`+name+`"`) {
			t.Errorf("by %s it reads %d pages for %g rows: %s", name, plan.Pages(), plan.Rows, plan)
		}
	}
}

// TestATraceIsReadByItselfOnSQLite: its executions and their steps are found by an index.
func TestATraceIsReadByItselfOnSQLite(t *testing.T) {
	lite := dbtest.New(t, dbtest.OnSQLite)
	for name, args := range map[string][]any{
		"execution.OfTrace":      {"op_1", 100},
		"execution.StepsOfTrace": {"op_1", 100, 1000},
	} {
		if all := lite.ReadsAllOnSQLite(t, name, args...); len(all) > 0 {
			t.Errorf("%s reads all: %q", name, all)
		}
	}
}
