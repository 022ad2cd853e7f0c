package edge_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/edge"
	"github.com/lanekeeper/lanekeeper/shared/surface/coordinator"
)

const defaultWorkspace = "00000000-0000-7000-8000-000000000001"

func TestDecodeCycle(t *testing.T) {
	slot := time.Date(2026, 1, 5, 10, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		event string
		want  coordinator.Tick
	}{
		{`{"source":"lanekeeper.schedule","slot":"2026-01-05T10:30:00Z"}`, coordinator.Tick{Slot: slot}},
		{`{"source":"aws.scheduler","detail-type":"Scheduled Event","time":"2026-01-05T10:30:00Z"}`, coordinator.Tick{Slot: slot}},
		{`{"workspace":"` + defaultWorkspace + `","slot":"2026-01-05T10:30:00Z"}`, coordinator.Tick{Workspace: defaultWorkspace, Slot: slot}},
		{`{"by":"hand"}`, coordinator.Tick{}},
		{`{}`, coordinator.Tick{}},
	} {
		if got, err := edge.DecodeCycle([]byte(c.event)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.event, got, err)
		}
	}
	for _, event := range []string{``, `[]`, `{"full":true}`, `{"source":"lanekeeper.tend"}`, `{"slot":"2026-01-05T10:30:00Z"}`} {
		if got, err := edge.DecodeCycle([]byte(event)); err == nil {
			t.Errorf("%s is taken for %+v", event, got)
		}
	}
}

// The built coordinator runs cycles for each of its shipped events, and serves the routes of agents and
// machines and no others.
func TestCoordinator(t *testing.T) {
	c := newCloud(t)
	coordinator := c.start(t, "coordinator", map[string]string{"DATABASE_URL": dbtest.AsLogin(c.owner), "ADMIN_TOKEN": "open-sesame-open-sesame"})
	if r := invoke(t, coordinator, event(t, "coordinator", "03_by_hand")); r.FunctionError == nil || r.FunctionError.Type != "SchemaOutdated" {
		t.Fatalf("before the schema: %v\n%s", r.FunctionError, r.Logs)
	}
	if r := invoke(t, c.start(t, "migrate", map[string]string{"DATABASE_URL": c.owner}), []byte(`{}`)); r.FunctionError != nil {
		t.Fatalf("%v\n%s", r.FunctionError, r.Logs)
	}
	for _, name := range []string{"01_schedule", "02_fanout", "03_by_hand"} {
		r, err := coordinator.Invoke(t.Context(), event(t, "coordinator", name), rig.WithTimeout(20*time.Second)) // too short for a second pass
		if err != nil || r.FunctionError != nil {
			t.Fatalf("%s: %v, %v\n%s", name, err, r.FunctionError, r.Logs)
		}
		var did struct{ Passes, Workspaces, Cycles int }
		for _, metric := range []string{"tasks.pending.count", "tasks.failed.count", "tasks.retry.exhausted.count", "coordinator.stale_agents.count", "outbox.lag_ms"} {
			if _, there := measured(t, r.Logs)[metric].(float64); there != (name != "02_fanout") { // which is of one workspace
				t.Errorf("%s: CloudWatch is told of %s: %t", name, metric, there)
			}
		}
		if err := json.Unmarshal(r.Payload, &did); err != nil || did.Passes != 1 || did.Workspaces != 1 || did.Cycles != 1 {
			t.Errorf("%s: %s, %v", name, r.Payload, err)
		}
	}
	if got := whole(t, invoke(t, coordinator, event(t, "coordinator", "04_create_task"))); got.StatusCode != http.StatusCreated || !strings.Contains(got.Body, `"Count the geese"`) {
		t.Errorf("a task: %+v", got)
	}
	if got := whole(t, invoke(t, coordinator, event(t, "coordinator", "05_health"))); got.StatusCode != http.StatusOK {
		t.Errorf("health: %+v", got)
	}
	for path, want := range map[string]int{
		"agent-tasks": http.StatusOK, "lanes": http.StatusOK, "executions": http.StatusOK, "threads": http.StatusOK,
		"objectives": http.StatusNotFound, "skills": http.StatusNotFound, "events": http.StatusNotFound, "members": http.StatusNotFound,
	} {
		got := ask(t, coordinator, http.MethodGet, path, "")
		if got.StatusCode != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if got := ask(t, coordinator, http.MethodGet, "objectives", ""); !strings.Contains(got.Body, "at the address of the admin API") {
		t.Errorf("a route of operate: %+v", got)
	}
	if r := invoke(t, coordinator, []byte(`{"workspace":"nobody"}`)); r.FunctionError == nil || r.FunctionError.Type != "InvalidEvent" {
		t.Errorf("an unknown event: %v %s", r.FunctionError, r.Payload)
	}
}

// Many workspaces are handed to invocations of their own.
func TestCyclesFanOut(t *testing.T) {
	c := newCloud(t)
	if r := invoke(t, c.start(t, "migrate", map[string]string{"DATABASE_URL": c.owner}), []byte(`{}`)); r.FunctionError != nil {
		t.Fatalf("%v\n%s", r.FunctionError, r.Logs)
	}
	c.exec(t, `INSERT INTO workspaces (id, slug, name) SELECT gen_random_uuid(), 'w-' || n, 'W' FROM generate_series(1, 19) n`)
	f := c.start(t, "coordinator", map[string]string{"DATABASE_URL": dbtest.AsLogin(c.owner)})
	c.Forward("keeper-coordinator", f)
	r := invoke(t, f, event(t, "coordinator", "03_by_hand"))
	if r.FunctionError != nil || !strings.Contains(string(r.Payload), `"fanned":20`) {
		t.Fatalf("%v: %s\n%s", r.FunctionError, r.Payload, r.Logs)
	}
	if err := f.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kicks, dead := c.Invokes(), f.DeadLetters(); len(kicks) != 20 || len(dead) != 0 {
		t.Errorf("%d invocations, %d dead letters", len(kicks), len(dead))
	}
}
