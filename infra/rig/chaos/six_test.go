package chaos_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// TestOneBeatWorksInAllSixPhases runs the built function for one tick of its schedule.
func TestOneBeatWorksInAllSixPhases(t *testing.T) {
	w := newWorld(t, rig.Config{})
	ws, objective := w.workspace(t) // its first step can be done
	w.exec(t, `INSERT INTO agent_objectives (workspace_id, id, title, done_criterion, created_by, created_at, updated_at)
	           VALUES ($1, $2, 'Have a plan', 'there is one', 'test', lk_now(), lk_now())`, ws, uuid.NewString())
	w.exec(t, `INSERT INTO agent_automations (workspace_id, id, name, skill, cron, time_zone, next_run_at, created_by, created_at, updated_at)
	           VALUES ($1, $2, 'look around', 'query_activity', '@hourly', 'UTC', lk_now(), 'test', lk_now(), lk_now())`, ws, uuid.NewString())
	for range 3 {
		w.exec(t, `INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, output, trace_id, created_at)
		           VALUES ($1, $2, 'operator', 'op', 'forget_memory', 'error', '{"class": "ours"}', 'op_0mh8c1v2q_a7x2p1k9d4', lk_now())`, ws, uuid.NewString())
	}
	res, err := w.fn.Invoke(t.Context(), w.tick(ws))
	r := report(t, res, err)
	if r.Outcome != heartbeat.Completed || len(r.Phases) != 6 {
		t.Fatalf("it is %+v", r)
	}
	for i, name := range []string{"heal", "plan", "automate", "advance", "reflect", "remember"} {
		if p := r.Phases[i]; p.Name != name || p.Considered == 0 || p.Done != p.Considered {
			t.Errorf("phase %s is %+v", name, p)
		}
	}
	for what, sql := range map[string]string{
		"skills that rest":      `SELECT count(*) FROM heals WHERE workspace_id = $1 AND skill = 'forget_memory' AND status = 'active'`,
		"plans":                 `SELECT count(*) FROM ledger WHERE workspace = $1 AND effect = 'planned'`,
		"automations that ran":  `SELECT count(*) FROM agent_automations WHERE workspace_id = $1 AND last_status = 'success' AND next_run_at > lk_now()`,
		"steps of the old plan": `SELECT count(*) FROM ledger WHERE workspace = $1 AND effect = 'step.done' AND key LIKE '` + objective + `/%'`,
		"reflections":           `SELECT count(*) FROM agent_activity WHERE workspace_id = $1 AND skill_name = 'heartbeat.reflect' AND output ->> 'text' <> ''`,
	} {
		if n := w.count(t, sql, ws); n != 1 {
			t.Errorf("%s: %d, want 1", what, n)
		}
	}
	if n := w.count(t, `SELECT count(*) FROM ledger WHERE workspace = $1 AND effect = 'remembered'`, ws); n == 0 {
		t.Error("nothing was remembered")
	}
}
