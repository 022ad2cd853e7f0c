package coordinate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// TestCyclesThatCameInAnyway writes edges past the refusal: every task of a cycle fails with the cycle
// in its log, what depends on them fails, and the rest goes on.
func TestCyclesThatCameInAnyway(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var drafts []task.Task
		for i := range 8 {
			drafts = append(drafts, draft(fmt.Sprint(i)))
		}
		of := w.create(t, drafts...)
		// 0 → 1 → 2 → 0; 3 → 2; 4 → 3; 5 → 6; 7 alone; 0 → 5
		for _, e := range [][2]int{{0, 1}, {1, 2}, {2, 0}, {3, 2}, {4, 3}, {5, 6}, {0, 5}} {
			w.exec(t, w.q.Edge, of[e[0]], of[e[1]])
		}
		w.register(t, agent.Agent{Name: "a", MaxConcurrentTasks: 10})
		r := w.cycle(t)
		if r.Failed != 5 || r.Assigned != 2 {
			t.Errorf("%+v", r)
		}
		for i, want := range []string{"dependency_cycle", "dependency_cycle", "dependency_cycle", "dependency_failed", "dependency_failed", "", "", ""} {
			is := w.get(t, of[i])
			if is.LastError != want || (want != "") != (is.Status == task.Failed) {
				t.Errorf("task %d is %s: %q", i, is.Status, is.LastError)
			}
		}
		logs, err := w.tasks.Logs(t.Context(), w.Workspace, of[1], task.LogFilter{Event: task.DependencyCycle, Limit: 1})
		if err != nil || len(logs) != 1 || !strings.Contains(logs[0].Message, of[0]+" → "+of[1]+" → "+of[2]+" → "+of[0]) {
			t.Errorf("the log: %+v, %v", logs, err)
		}
		if n := w.number(t, w.q.Told, "task.dependency_cycle"); n != 1 {
			t.Errorf("%d events", n)
		}
		w.sound(t)
	})
}

// TestAFailedDependencyFailsAllBehindIt, and a cancelled one, whatever they wait for.
func TestAFailedDependencyFailsAllBehindIt(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		root, other := w.create(t, draft("root"))[0], w.create(t, draft("other"))[0]
		chain := []string{root}
		for i := range 5 {
			d := draft(fmt.Sprint("chain ", i))
			d.DependsOn = []string{chain[i]}
			chain = append(chain, w.create(t, d)...)
		}
		d := draft("both")
		d.DependsOn = []string{other}
		both := w.create(t, d)[0]
		w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.tasks.Cancel(ctx, tx, root, "user:ada", "")
			return err
		})
		if r := w.cycle(t); r.Failed != 5 {
			t.Errorf("%+v", r)
		}
		for _, id := range chain[1:] {
			if is := w.get(t, id); is.Status != task.Failed || is.LastError != "dependency_failed" {
				t.Errorf("%q is %s: %q", is.Title, is.Status, is.LastError)
			}
		}
		if is := w.get(t, both); is.Status != task.Pending {
			t.Errorf("what depends on others is %s", is.Status)
		}
	})
}

// TestALongCycleIsTold: all of its tasks fail, and the event names some of them.
func TestALongCycleIsTold(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	drafts := make([]task.Task, 450)
	for i := range drafts {
		drafts[i] = draft(fmt.Sprint(i))
	}
	w.create(t, drafts...)
	w.exec(t, w.q.Circle)
	if r := w.cycle(t); r.Failed != len(drafts) {
		t.Errorf("%+v", r)
	}
	if n := w.number(t, w.q.Told, "task.dependency_cycle"); n != 1 {
		t.Errorf("%d events", n)
	}
}

// TestMoreThanOneRoundLocks: what can't begin any more may be so many tasks that one round does not end all of
// them. In a row, those behind the failed one have the lower ids.
func TestMoreThanOneRoundLocks(t *testing.T) {
	row := func(w world, of []string) {
		w.exec(t, w.q.Row)
		w.exec(t, w.q.Failed, of[len(of)-1])
	}
	for _, c := range []struct {
		name  string
		on    string
		edges func(w world, of []string)
		fail  int
	}{
		{"a row on SQLite", dbtest.OnSQLite, row, 5199},
		{"a row on Postgres", dbtest.OnPostgres, row, 5199},
		{"a cycle", dbtest.OnSQLite, func(w world, _ []string) { w.exec(t, w.q.Circle) }, 5200},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, dbtest.New(t, c.on))
			drafts := make([]task.Task, 5200)
			for i := range drafts {
				drafts[i] = draft(fmt.Sprint(i))
			}
			c.edges(w, w.create(t, drafts...))
			if r := w.cycle(t); r.Failed != c.fail {
				t.Errorf("%d tasks fail, want %d", r.Failed, c.fail)
			}
		})
	}
}
