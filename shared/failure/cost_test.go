package failure_test

import (
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// TestAsManyFailuresAreReadAsAreCounted, and none of those that follow, where a dead endpoint has many.
func TestAsManyFailuresAreReadAsAreCounted(t *testing.T) {
	const most = 50
	g := dbtest.NewGrown(t)
	g.Fill(t, `INSERT INTO outbox (workspace_id, id, kind, topic, key, payload, status, max_attempts, due_at, trace_id, created_at, updated_at)
		SELECT $1, gen_random_uuid(), 'webhook', 'webhook', 'key ' || n, '{}', 'failed', 3, lk_now(), 'op_1', lk_now(), lk_now() - n * interval '1 second'
		  FROM generate_series(1, 3000) n`,
		`INSERT INTO inbox (workspace_id, id, source_id, source, delivery_id, event, headers, body, digest, status, ended_at, trace_id, received_at, updated_at)
		SELECT $1, gen_random_uuid(), gen_random_uuid(), 'shop', 'd' || n, 'e', '{}', 'x', repeat('a', 64), 'parked', lk_now(), 'wh_1', lk_now(),
		       lk_now() - n * interval '1 second'
		  FROM generate_series(1, 3000) n`)
	g.Exec(t, "ANALYZE outbox, inbox")
	plan := g.Explain(t, "failure.Open", append(db.Position{}.Args(), -(30*24*time.Hour).Milliseconds(), 10, most)...)
	if plan.Rows != 10 {
		t.Errorf("it shows %.0f failures", plan.Rows)
	}
	for step := range plan.Steps() { // one more is read to see where those of the same time end
		if (step.Table == "outbox" || step.Table == "inbox") && (step.Rows > most+1 || step.Refused > most) {
			t.Errorf("of %s it reads %.0f rows: %s", step.Table, step.Rows+step.Refused, plan)
		}
	}
}
