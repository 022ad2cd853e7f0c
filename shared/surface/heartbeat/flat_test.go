package heartbeat_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// size is what a world occupies at the end of a day.
type size struct {
	heap        uint64
	goroutines  int
	connections int // to Postgres
	rows        map[string]int
}

func (w *world) size(t testing.TB) size {
	t.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := size{heap: m.HeapAlloc, goroutines: runtime.NumGoroutine(), rows: map[string]int{}}
	if err := w.DB.One(t.Context(), w.Workspace, []any{&s.connections}, w.q.Connections, named(w.env)); err != nil {
		t.Fatal(err)
	}
	err := w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
		var table string
		var n int
		err := scan(&table, &n)
		s.rows[table] = n
		return err
	}, w.q.Rows)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSixtyDaysOfBeatsStayFlat runs two months with an hourly automation, a daily reflection, a new
// objective every five days and external events. The numbers of retained rows level off, and so do
// memory, goroutines and connections. With LK_FULL=1 it beats every half hour, among 100,000 events, else
// three times a day on SQLite and twice a day on Postgres, among 20,000.
func TestSixtyDaysOfBeatsStayFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes most of a minute")
	}
	often := func(perDay int) int {
		if promise.Full() {
			return 48
		}
		return perDay
	}
	t.Run(dbtest.OnSQLite, func(t *testing.T) { staysFlat(t, dbtest.New(t, dbtest.OnSQLite), often(3)) })
	t.Run(dbtest.OnPostgres, func(t *testing.T) {
		e := dbtest.New(t, dbtest.OnPostgres)
		e.URL += "&application_name=" + named(e)
		e.DB, e.Skew = e.Open(t, 0)
		staysFlat(t, e, often(2))
	})
}

// named returns the application name of a test's connections.
func named(e dbtest.Env) string { return "flat-" + string(e.Workspace[:8]) }

func staysFlat(t *testing.T, e dbtest.Env, perDay int) {
	t.Helper()
	const days = 60
	events := 20_000
	if promise.Full() {
		events = 100_000
	}
	proof := promise.Of(t, "R32", fmt.Sprintf("60 days of beats and %d events on %s", events, e.Engine),
		"memory, connections, table sizes flat")
	k, ran := counting("tidy")
	reflections := 0
	w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
		if tk.Kind == "reflect" {
			reflections++
			return llmtest.Say("all is well"), nil
		}
		return obedient(ctx, tk)
	}), k)
	w.metered(t)
	budgets := must(budget.New(w.DB, ids, w.Clock))(t)
	w.Sweep = func(ctx context.Context, ws db.Workspace) error { _, err := budgets.Sweep(ctx, ws); return err }
	must(w.DB.Exec(t.Context(), "", w.q.Settings, w.Workspace,
		`{"activity_days": 5, "event_days": 1, "outbox_days": 5, "beat_memories": 0}`))(t)
	w.automate(t, "tidy up", "tidy", "")
	var middle, last size
	for day := range days {
		if day%5 == 0 {
			w.plan(t, w.addObjective(t, "x", 5), "work", "close")
		}
		must(w.DB.Exec(t.Context(), w.Workspace, w.q.PastEvents, (events+days-1)/days))(t)
		for n := range perDay {
			w.Skew.Advance(24 * time.Hour / time.Duration(perDay))
			if r := w.beat(t, slot(day*perDay+n)); r.Outcome != heartbeat.Completed && r.Outcome != heartbeat.Idle {
				t.Fatalf("day %d: it is %+v", day, r)
			}
		}
		switch {
		case day >= 40 && day < 50: // usage is retained for a month, reservations for a week longer
			middle = middle.most(w.size(t))
		case day >= 50:
			last = last.most(w.size(t))
		}
	}
	proof.Tell("%d beats; heap %d to %d KiB, goroutines %d to %d, connections %d to %d", days*perDay, middle.heap>>10, last.heap>>10,
		middle.goroutines, last.goroutines, middle.connections, last.connections)
	t.Logf("%d beats; days 40 to 50: %+v; days 50 to 60: %+v; %d automations, %d reflections", days*perDay, middle, last, *ran, reflections)
	if due := days * min(perDay, 24); *ran < due-2 || *ran > due+1 || reflections < 55 || reflections > 61 {
		t.Errorf("%d automations, %d reflections", *ran, reflections)
	}
	for table, n := range last.rows {
		if m := middle.rows[table]; n > m+m/10+5 {
			t.Errorf("%s grew from %d rows to %d", table, m, n)
		}
	}
	if n := last.rows["agent_usage_logs"]; n == 0 || last.rows["events"] < events/days {
		t.Errorf("there was nothing to purge: %+v", last.rows)
	}
	if last.heap > middle.heap*3/2+1<<20 || last.goroutines > middle.goroutines+2 {
		t.Errorf("heap or goroutines grew: from %d, %d to %d, %d", middle.heap, middle.goroutines, last.heap, last.goroutines)
	}
	if last.connections < 1 || last.connections > middle.connections || last.connections > 4 {
		t.Errorf("connections grew: from %d to %d", middle.connections, last.connections)
	}
}

// most returns the maximum of two sizes, field by field.
func (s size) most(o size) size {
	out := size{max(s.heap, o.heap), max(s.goroutines, o.goroutines), max(s.connections, o.connections), o.rows}
	for table, n := range s.rows {
		out.rows[table] = max(n, out.rows[table])
	}
	return out
}
