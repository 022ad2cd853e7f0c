package heartbeat_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// size is how much there is of a world at the end of a day.
type size struct {
	heap       uint64
	goroutines int
	rows       map[string]int
}

func (w *world) size(t testing.TB) size {
	t.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := size{m.HeapAlloc, runtime.NumGoroutine(), map[string]int{}}
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

// TestSixtyDaysOfBeatsStayFlat: two months of half hours with an hourly automation,
// a daily reflection and a new objective every five days. Rows that are kept for days
// level off, and so do memory and goroutines.
func TestSixtyDaysOfBeatsStayFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes most of a minute")
	}
	k, ran := counting("tidy")
	reflections := 0
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite), pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
		if tk.Kind == "reflect" {
			reflections++
			return llmtest.Say("all is well"), nil
		}
		return obedient(ctx, tk)
	}), k)
	must(w.DB.Exec(t.Context(), "", w.q.Settings, w.Workspace,
		`{"activity_days": 5, "event_days": 1, "outbox_days": 5, "beat_memories": 0}`))(t)
	w.automate(t, "tidy up", "tidy", "")
	w.Clock = func() time.Time { return time.Now().Add(w.Skew.Offset()) }
	w.Reason.Clock = w.Clock
	var middle, last size
	for day := range 60 {
		if day%5 == 0 {
			w.plan(t, w.addObjective(t, "x", 5), "work", "close")
		}
		for half := range 48 {
			w.Skew.Advance(30 * time.Minute)
			if r := w.beat(t, slot(day*48+half)); r.Outcome != heartbeat.Completed && r.Outcome != heartbeat.Idle {
				t.Fatalf("day %d: it is %+v", day, r)
			}
		}
		switch {
		case day >= 20 && day < 30:
			middle = middle.most(w.size(t))
		case day >= 50:
			last = last.most(w.size(t))
		}
	}
	t.Logf("days 20 to 30: %+v; days 50 to 60: %+v; %d automations, %d reflections", middle, last, *ran, reflections)
	if *ran < 1_438 || *ran > 1_441 || reflections < 55 || reflections > 61 {
		t.Errorf("%d automations, %d reflections", *ran, reflections)
	}
	for table, n := range last.rows {
		if m := middle.rows[table]; n > m+m/10+5 {
			t.Errorf("%s grew from %d rows to %d", table, m, n)
		}
	}
	if last.heap > middle.heap*3/2+1<<20 || last.goroutines > middle.goroutines+2 {
		t.Errorf("heap or goroutines grew: from %d, %d to %d, %d", middle.heap, middle.goroutines, last.heap, last.goroutines)
	}
}

// most is the greater of two sizes, each in its own.
func (s size) most(o size) size {
	out := size{max(s.heap, o.heap), max(s.goroutines, o.goroutines), o.rows}
	for table, n := range s.rows {
		out.rows[table] = max(n, out.rows[table])
	}
	return out
}
