package heal_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// rows is the number of activity rows in the table: calls of 200 skills in the last two and a half
// days.
const rows = 1_000_000

// TestALookReadsLittleOfAMillionRows: it follows the index and reads the newest calls of each skill
// only. So does the query for the used skills.
func TestALookReadsLittleOfAMillionRows(t *testing.T) {
	g := dbtest.NewGrown(t)
	begun := time.Now()
	fill(t, g)
	t.Logf("%d rows in %v", rows, time.Since(begun).Round(time.Second))
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprint("skill_", i))
	}
	builtins, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	const days = int64(3 * 24 * 3600 * 1000)
	for name, args := range map[string][]any{"heal.Diagnose": {3, days, string(builtins)}, "heal.Used": {days}} {
		plan := g.Explain(t, name, args...)
		t.Logf("%s: %d pages, %.0f found", name, plan.Pages(), plan.Rows)
		if !strings.Contains(plan.String(), `"agent_activity_judged"`) {
			t.Errorf("%s does not go along its index: %s", name, plan)
		}
		for step := range plan.Steps() {
			if step.Step == "Seq Scan" && step.Table == "agent_activity" {
				t.Errorf("%s reads the whole table: %s", name, plan)
			}
		}
		if plan.Pages() > 20_000 { // 200 skills: 20 calls of each and the path to them
			t.Errorf("%s read %d pages: %s", name, plan.Pages(), plan)
		}
	}
}

// TestARelapseIsFoundAmongManyHeals of the skill.
func TestARelapseIsFoundAmongManyHeals(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Exec(t, "ALTER TABLE heals DISABLE TRIGGER USER")
	g.Fill(t, `INSERT INTO heals (workspace_id, id, skill, code, failures, status, probe_at, trace_id, created_at, updated_at)
		SELECT $1, gen_random_uuid(), 'look', 'x', 5, CASE WHEN n % 2 = 0 THEN 'restored' ELSE 'superseded' END, lk_now(), 'hb_1', lk_now(),
		       lk_now() - n * interval '1 second'
		  FROM generate_series(1, 5000) n`)
	g.Exec(t, "ANALYZE heals")
	if plan := g.Explain(t, "heal.Relapse", "look", int64(86_400_000)); plan.Rows != 1 || plan.Pages() > 40 {
		t.Errorf("it reads %d pages: %s", plan.Pages(), plan)
	}
}

// fill writes the rows before it creates the indexes, which is faster.
func fill(t testing.TB, g *dbtest.Grown) {
	t.Helper()
	conn := dbtest.Connect(t, g.URL)
	indexes := map[string]string{}
	for _, name := range []string{"judged", "skill", "newest", "trace", "conversation"} {
		name = "agent_activity_" + name
		var definition string
		if err := conn.QueryRow(t.Context(), "SELECT indexdef FROM pg_indexes WHERE indexname = $1", name).Scan(&definition); err != nil {
			t.Fatal(err)
		}
		indexes[name] = definition
	}
	for name := range indexes {
		g.Exec(t, "DROP INDEX "+name)
	}
	g.Exec(t, "ALTER TABLE agent_activity DISABLE TRIGGER event_added") // nobody reads their events
	const part = 50_000                                                 // per transaction: others of the cluster wait for a long one
	for done := 0; done < rows; done += part {
		g.Exec(t, `INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, output, trace_id, created_at)
			SELECT $1, ('00000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 'operator', 'hb', 'skill_' || i % 200,
			       CASE WHEN i % 200 < 5 AND i < 800 OR i % 3 = 0 THEN 'error' ELSE 'success' END, '{"class":"theirs"}', 'hb_x', lk_now() - i * interval '0.2 s'
			  FROM generate_series($2::int + 1, $2::int + $3::int) AS i`, string(g.Workspace), done, part)
	}
	g.Exec(t, "ALTER TABLE agent_activity ENABLE TRIGGER event_added")
	for _, name := range []string{"agent_activity_judged", "agent_activity_skill"} {
		g.Exec(t, indexes[name])
	}
}
