package quiet_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestALookReadsLittleOfALongLog: whether a skill was used since the last reflection is looked up behind that
// reflection, however long the log is.
func TestALookReadsLittleOfALongLog(t *testing.T) {
	const month = 30 * 24 * 3600 * 1000
	g := dbtest.NewGrown(t)
	g.Exec(t, "ALTER TABLE agent_activity DISABLE TRIGGER event_added") // nobody reads their events
	g.Fill(t,
		`INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, trace_id, created_at)
			SELECT $1, gen_random_uuid(), 'pilot', 'hb', 'tidy', 'success', 'hb_1', lk_plus(lk_now(), -60000 - 60000 * CAST(i AS bigint))
			  FROM generate_series(1, 30000) i`,
		`INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, output, trace_id, created_at)
			VALUES ($1, gen_random_uuid(), 'pilot', 'hb', 'heartbeat.reflection', 'success', '{"text": "all is well"}', 'hb_2', lk_now())`)
	g.Exec(t, "ANALYZE agent_activity")
	plan := g.Explain(t, "quiet.Look", "9999", `["beat"]`, 600_000, 600_000, 3, 3*24*3600*1000, "heartbeat.reflection", month)
	if plan.Pages() > 200 {
		t.Errorf("a look reads %d pages: %s", plan.Pages(), plan)
	} else {
		t.Logf("%d pages", plan.Pages())
	}
}
