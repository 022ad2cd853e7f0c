package observe_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/observe"
)

type queries struct{ Task, Agent, Due db.Query }

type world struct {
	dbtest.Env
	g *observe.Gauges
	q queries
}

func onEach(t *testing.T, fn func(*testing.T, *world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		w := &world{Env: e}
		var err error
		if w.g, err = observe.NewGauges(e.DB); err != nil {
			t.Fatal(err)
		}
		dbtest.Load(t, "testdata", &w.q)
		fn(t, w)
	})
}

func (w *world) run(t *testing.T, ws db.Workspace, q db.Query, args ...any) {
	t.Helper()
	if _, err := w.DB.Exec(t.Context(), ws, q, append([]any{uuid.NewString()}, args...)...); err != nil {
		t.Fatal(err)
	}
}

// read returns the gauges by their names in a scrape, and with a label's value behind it.
func (w *world) read(t *testing.T, ws db.Workspace) map[string]float64 {
	t.Helper()
	before := w.DB.Stats()
	samples, err := w.g.Read(t.Context(), ws)
	if err != nil {
		t.Fatal(err)
	}
	if cost := w.DB.Stats().Sub(before); cost.Statements != 1 || cost.RoundTrips != 1 {
		t.Errorf("the gauges cost %+v", cost)
	}
	got := map[string]float64{}
	for _, s := range text(t, nil, samples...).Series {
		got[s.Name+s.Labels["status"]] = s.Value
	}
	return got
}

func TestGauges(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for name, v := range w.read(t, w.Workspace) {
			if v != 0 {
				t.Errorf("%s is %v where there is nothing", name, v)
			}
		}
		theirs := dbtest.NewWorkspace(t, w.DB)
		w.run(t, theirs, w.q.Task, "PENDING", 0, 0)
		for status, n := range map[string]int{"PENDING": 4, "ASSIGNED": 3, "RUNNING": 2, "PAUSED": 1, "COMPLETED": 7} {
			for range n {
				w.run(t, w.Workspace, w.q.Task, status, 0, 0)
			}
		}
		w.run(t, w.Workspace, w.q.Task, "FAILED", 0, (30 * time.Minute).Milliseconds())
		w.run(t, w.Workspace, w.q.Task, "FAILED", 3, (30 * time.Minute).Milliseconds())
		w.run(t, w.Workspace, w.q.Task, "FAILED", 3, (61 * time.Minute).Milliseconds())
		for _, a := range []struct{ status, health string }{
			{"IDLE", "healthy"}, {"IDLE", "healthy"}, {"ERROR", "stale"}, {"ERROR", "degraded"}, {"TERMINATED", "stale"},
		} {
			w.run(t, w.Workspace, w.q.Agent, a.status, a.health)
		}
		w.run(t, w.Workspace, w.q.Due, -(90 * time.Second).Milliseconds())
		w.run(t, w.Workspace, w.q.Due, -(10 * time.Second).Milliseconds())
		lanes, err := lane.New(w.DB)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: "a", Holder: "test"}); err != nil {
			t.Fatal(err)
		}
		got := w.read(t, w.Workspace)
		for name, want := range map[string]float64{
			"tasks_pending": 4, "tasks_assigned": 3, "tasks_running": 2, "tasks_paused": 1, "tasks_failed": 2, "tasks_retry_exhausted": 1,
			"agentsIDLE": 2, "agentsERROR": 2, "agentsWORKING": 0, "coordinator_stale_agents": 2, "lane_active": 1, "approvals_pending": 0,
			"inbox_lag_seconds": 0,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s is %v (there: %t), want %v", name, v, ok, want)
			}
		}
		if lag := got["outbox_lag_seconds"]; lag < 90 || lag > 600 {
			t.Errorf("the outbox lags by %v seconds, want 90 and a little", lag)
		}
		if all := w.read(t, "")["tasks_pending"]; all < 5 { // other tests add some and end some at the same time
			t.Errorf("all workspaces together have %v pending tasks, and these two have 5", all)
		}
	})
}

// The number of statements and series does not grow with the number of tasks and agents.
func TestGaugesAreAsMany(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		before := len(w.read(t, w.Workspace))
		for range 20 {
			w.run(t, w.Workspace, w.q.Task, "PENDING", 0, 0)
			w.run(t, w.Workspace, w.q.Agent, "WORKING", "degraded")
		}
		if after := len(w.read(t, w.Workspace)); after != before {
			t.Errorf("%d series became %d", before, after)
		}
	})
}

// A gauge that was set stands in the next line; one that is there no more is zero, not what it was.
func TestSetGaugesAreInTheLine(t *testing.T) {
	g, err := observe.NewGauges(dbtest.New(t, dbtest.OnSQLite).DB)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := g.Read(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for at := range samples {
		samples[at].Value = 2.5
	}
	m := observe.NewLines()
	for _, want := range []struct {
		samples []observe.Sample
		text    []string
	}{
		{samples, []string{`"tasks.pending.count":2.5`, `"outbox.lag_ms":2500`, `"agents.count":12.5`}},
		{nil, []string{`"tasks.pending.count":0`, `"outbox.lag_ms":0`, `"agents.count":0`}},
	} {
		m.Set(want.samples)
		var b bytes.Buffer
		if err := m.Line(&b, "f", time.UnixMilli(0)); err != nil {
			t.Fatal(err)
		}
		for _, text := range want.text {
			if !bytes.Contains(b.Bytes(), []byte(text)) {
				t.Errorf("%s lacks %s", b.String(), text)
			}
		}
	}
}
