package execution_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
)

// TestAConversationIsSummedUpAlongItsIndex on either engine: the sum reads no other conversation.
func TestAConversationIsSummedUpAlongItsIndex(t *testing.T) {
	args := []any{"thread", "00000000-0000-7000-8000-000000000000", -execution.Spell.Milliseconds(), "visitor", "visitor:ch"}
	g := dbtest.NewGrown(t)
	g.Fill(t, `INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, input, created_at, updated_at)
		SELECT $1, gen_random_uuid(), 'visitor', 'ch', 'ch_1', 'completed', jsonb_build_object('task', 'turn', 'thread_id', 'thread ' || n), lk_now(), lk_now()
		  FROM generate_series(1, 3000) n`)
	g.Exec(t, "ANALYZE executions")
	plans := []string{g.Explain(t, "execution.SpentIn", args...).String()}
	plans = append(plans, strings.Join(dbtest.New(t, dbtest.OnSQLite).ExplainSQLite(t, "execution.SpentIn", args...), "\n"))
	for _, plan := range plans {
		if !strings.Contains(plan, "executions_thread") {
			t.Errorf("it is read by %s", plan)
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
