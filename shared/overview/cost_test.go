package overview

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// TestTheLanesAreReadOnce, those that are held and those that are idle.
func TestTheLanesAreReadOnce(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Fill(t, `INSERT INTO agent_locks (workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at, wanted_at)
		SELECT $1, 'task:' || n, 'us', CASE WHEN n <= 10 THEN gen_random_uuid() END, n, 60000, lk_now(),
		       lk_now() + CASE WHEN n <= 10 THEN interval '1 hour' ELSE interval '0' END, CASE WHEN n = 7 THEN lk_now() - interval '1 minute' END
		  FROM generate_series(1, 20000) n`)
	g.Exec(t, "VACUUM ANALYZE agent_locks")
	reads := 0.0
	plan := g.Explain(t, "overview.Lanes", 1000)
	for step := range plan.Steps() {
		if step.Table == "agent_locks" {
			reads += step.Loops
		}
	}
	if reads != 1 {
		t.Errorf("they are read %.0f times, with %d pages: %s", reads, plan.Pages(), plan)
	}
}

// TestWhatRunsIsReadByItselfOnSQLite: no execution that has ended is read.
func TestWhatRunsIsReadByItselfOnSQLite(t *testing.T) {
	if all := dbtest.New(t, dbtest.OnSQLite).ReadsAllOnSQLite(t, "overview.Running", 10); len(all) > 0 {
		t.Errorf("it reads all: %q", all)
	}
}
