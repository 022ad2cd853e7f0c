package edge_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// Between beats the schedule's event makes the built function do due work. A postponed beat runs
// under its slot before the invocation ends.
func TestTend(t *testing.T) {
	c := newCloud(t)
	migrate := c.start(t, "migrate", map[string]string{"DATABASE_URL": c.owner})
	if r := invoke(t, migrate, []byte(`{}`)); r.FunctionError != nil {
		t.Fatalf("%v\n%s", r.FunctionError, r.Logs)
	}
	owner, err := pgx.Connect(t.Context(), c.owner)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(t.Context())
	const trace = "hb_0mh8c1v2q_a7x2p1k9d4"
	_, err = owner.Exec(t.Context(), `INSERT INTO outbox (workspace_id, id, kind, topic, key, payload, format, status, max_attempts, due_at, trace_id, created_at, updated_at)
		SELECT id, gen_random_uuid(), 'kick', 'heartbeat', 'a', '{"slot": "2026-01-05T10:30:00Z"}', 1, 'ready', 3, lk_now(), $1, lk_now(), lk_now() FROM workspaces`, trace)
	if err != nil {
		t.Fatal(err)
	}
	f := c.start(t, "operate", rig.Env(map[string]string{"DATABASE_URL": dbtest.AsLogin(c.owner)}, map[string]string{"ADMIN_TOKEN": "open-sesame-open-sesame"}))
	// The time-out of the template. A beat needs a minute of it.
	r, err := f.Invoke(t.Context(), event(t, "operate", "06_tend"), rig.WithTimeout(5*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if r.FunctionError != nil || strings.TrimSpace(string(r.Payload)) != "{}" {
		t.Fatalf("%v: %s\n%s", r.FunctionError, r.Payload, r.Logs)
	}
	var slot, id string
	if err := owner.QueryRow(t.Context(), `SELECT slot, trace_id FROM executions WHERE surface = 'hb'`).Scan(&slot, &id); err != nil {
		t.Fatalf("%v\n%s", err, r.Logs)
	}
	if !strings.HasSuffix(slot, ":2026-01-05T10:30Z") || id != trace {
		t.Errorf("the beat is of %s, in %s", slot, id)
	}
	told := measured(t, r.Logs)
	for _, name := range []string{"heartbeat.duration_ms", "outbox.sent.count", "lane.wait_ms"} {
		if told[name] == nil {
			t.Errorf("it does not tell CloudWatch of %s, but of %v", name, told)
		}
	}
}

// measured returns the metrics that a function's log tells CloudWatch of.
func measured(t *testing.T, log string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `"_aws"`) {
			continue
		}
		var values map[string]any
		if err := json.Unmarshal([]byte(line), &values); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		maps.Copy(all, values)
	}
	return all
}
