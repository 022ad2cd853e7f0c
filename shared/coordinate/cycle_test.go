package coordinate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// TestATaskGoesThroughTheCycle follows a task that waits for another: assigned, claimed, completed.
func TestATaskGoesThroughTheCycle(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "a"})[0]
		first := w.create(t, draft("first"))[0]
		second := draft("second")
		second.DependsOn, second.Priority = []string{first}, 10
		next := w.create(t, second)[0]
		if r := w.cycle(t); r.Assigned != 1 || r.Spawned["pull"] != 1 || r.Pending != 1 || r.Healthy != 1 {
			t.Fatalf("first cycle: %+v", r)
		}
		if is := w.get(t, first); is.Status != task.Assigned || is.Agent != a || is.Attempt != 1 {
			t.Fatalf("assigned: %+v", is)
		}
		if is := w.claim(t, a); is.ID != first || is.Status != task.Running || is.Attempt != 1 {
			t.Fatalf("claimed: %+v", is)
		}
		if r := w.cycle(t); r.Assigned != 0 || r.Running != 1 {
			t.Fatalf("while it runs: %+v", r)
		}
		if _, ok, err := w.c.Claim(t.Context(), w.Workspace, a, ""); ok || err != nil {
			t.Fatalf("a full agent claims: %v, %v", ok, err)
		}
		if err := w.complete(t, first, 1); err != nil {
			t.Fatal(err)
		}
		if is := w.claim(t, a); is.ID != next || is.Status != task.Running || is.Agent != a {
			t.Fatalf("claimed at once: %+v", is)
		}
		w.sound(t)
		var events []task.Event
		logs, err := w.tasks.Logs(t.Context(), w.Workspace, next, task.LogFilter{Limit: 10})
		for _, l := range slices.Backward(logs) {
			events = append(events, l.Event)
		}
		if err != nil || !slices.Equal(events, []task.Event{task.Created, task.TaskAssigned, task.Transition}) {
			t.Errorf("the log: %v, %v", events, err)
		}
	})
}

// TestWhoGetsATask tries one case after the other: capabilities, capacity, and who is asked at all.
func TestWhoGetsATask(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		of := w.register(t,
			agent.Agent{Name: "go", Capabilities: []string{"go", "sql"}, MaxConcurrentTasks: 2},
			agent.Agent{Name: "sql", Capabilities: []string{"sql"}, Spawner: agent.SpawnBuiltin})
		needs := func(title, capabilities string, priority int) task.Task {
			d := draft(title)
			d.Metadata, d.Priority = []byte(`{"requiredCapabilities":`+capabilities+`}`), priority
			return d
		}
		made := w.create(t, needs("low", `["sql"]`, 1), needs("high", `["sql"]`, 9), needs("both", `["sql","go"]`, 5),
			needs("nobody", `["rust"]`, 10), needs("one", `"go"`, 4))
		if r := w.cycle(t); r.Assigned != 3 {
			t.Fatalf("assigned %d", r.Assigned)
		}
		for i, want := range []string{of[1], of[0], of[0], "", ""} {
			if is := w.get(t, made[i]); is.Agent != want {
				t.Errorf("task %q is with %q, want %q", is.Title, is.Agent, want)
			}
		}
		w.sound(t)
	})
}

// TestStatementsAreConstant counts the statements of a cycle that assigns all there is, at 10 tasks and
// at 1,000, and of one that recovers them all.
func TestStatementsAreConstant(t *testing.T) {
	if testing.Short() {
		t.Skip("a cycle of 1,000 tasks takes seconds under the race detector")
	}
	onEach(t, func(t *testing.T, w world) {
		w.c.Budgets = budgets(t, w.DB)
		w.allocate(t, 1e12)
		w.register(t, agent.Agent{Name: "warm"})
		w.create(t, draft("prices are read once"))
		w.cycle(t)
		var counts []db.Stats
		for _, n := range []int{10, 1000} {
			other := w
			other.Workspace = newWorkspace(t, w)
			other.allocate(t, 1e12)
			var agents []agent.Agent
			for i := range max(5, n/10) {
				agents = append(agents, agent.Agent{Name: fmt.Sprint("a", i), MaxConcurrentTasks: 10, StaleSeconds: 100})
			}
			other.register(t, agents...)
			drafts := make([]task.Task, n)
			for i := range drafts {
				drafts[i] = draft(fmt.Sprint("task ", i))
				drafts[i].Metadata = []byte(`{"requiredCapabilities":[]}`)
			}
			began := time.Now()
			other.create(t, drafts...)
			t.Logf("%d tasks created in %s", n, time.Since(began))
			began = time.Now()
			before := w.DB.Stats()
			if r := other.cycle(t); r.Assigned != n {
				t.Fatalf("assigned %d of %d", r.Assigned, n)
			}
			counts = append(counts, w.DB.Stats().Sub(before))
			t.Logf("assigned in %s", time.Since(began))
			other.sound(t)
			other.pass(t, time.Minute, nil)
			w.Skew.Advance(time.Minute)
			before = w.DB.Stats()
			if r := other.cycle(t); r.Gone != max(5, n/10) || r.Unclaimed != n {
				t.Fatalf("%+v", r)
			}
			counts = append(counts, w.DB.Stats().Sub(before))
		}
		if counts[0] != counts[2] || counts[1] != counts[3] {
			t.Errorf("statements and round trips: assigning %+v and %+v, recovering %+v and %+v", counts[0], counts[2], counts[1], counts[3])
		}
		t.Logf("assigning %+v, recovering %+v", counts[0], counts[1])
	})
}

// TestHeartbeatsAreKeptAsTheWorkspaceSays: for an hour unless its settings say how long.
func TestHeartbeatsAreKeptAsTheWorkspaceSays(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for settings, want := range map[string]int{
			`{}`: 1, `{"heartbeat_hours":3}`: 2, `{"heartbeat_hours":0}`: 1, `{"heartbeat_hours":"3"}`: 1, `{"heartbeat_hours":3e9}`: 1, `[]`: 1,
		} {
			other := w
			other.Workspace = newWorkspace(t, w)
			other.exec(t, w.q.Settings, other.Workspace, settings)
			a := other.register(t, agent.Agent{Name: "a"})[0]
			for range 2 {
				w.Skew.Advance(2 * time.Hour)
				if _, err := w.agents.Beat(t.Context(), other.Workspace, agent.Beat{Agent: a}); err != nil {
					t.Fatal(err)
				}
			}
			other.cycle(t)
			if _, beats, err := w.agents.Heartbeats(t.Context(), other.Workspace, a, 10); err != nil || len(beats) != want {
				t.Errorf("with %s: %d heartbeats, %v, want %d", settings, len(beats), err, want)
			}
		}
	})
}

// TestOneCycleAtATime finds the lane busy, and asks its holder to go round again.
func TestOneCycleAtATime(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h, err := w.c.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: lane.Coordinator, Holder: "other"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.c.Cycle(t.Context(), w.Workspace, "test")
		if busy, ok := errors.AsType[*lane.BusyError](err); !ok || busy.Holder != "other" {
			t.Fatalf("a second cycle: %v", err)
		}
		if err := w.c.Lanes.Renew(t.Context(), h, time.Minute); err != nil || !strings.HasPrefix(h.WantedBy(), "coordinator/test/") {
			t.Errorf("the holder learns of %q, %v", h.WantedBy(), err)
		}
	})
}

// TestOnlyWhatWasReadIsAssigned pauses a task while the cycle, which has read it as PENDING, waits for
// its row: that task is not assigned, and the others are.
func TestOnlyWhatWasReadIsAssigned(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.register(t, agent.Agent{Name: "a", MaxConcurrentTasks: 100})
		of := w.create(t, draft("paused meanwhile"), draft("other"))
		var cycling sync.WaitGroup
		done := make(chan struct{})
		w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			to := task.Paused
			if _, err := w.tasks.Patch(ctx, tx, of[0], "user:ada", func(task.Task) error { return nil }, task.Patch{Status: &to}); err != nil {
				return err
			}
			cycling.Go(func() {
				defer close(done)
				if r, err := w.c.Cycle(context.WithoutCancel(t.Context()), w.Workspace, "test"); err != nil || r.Assigned != 1 {
					t.Errorf("%+v, %v", r, err)
				}
			})
			dbtest.AwaitBlocked(ctx, t, w.DB.Dialect(), tx, done)
			return nil
		})
		cycling.Wait()
		w.sound(t)
		if one, two := w.get(t, of[0]), w.get(t, of[1]); one.Status != task.Paused || one.Attempt != 0 || two.Status != task.Assigned {
			t.Errorf("%s in attempt %d, and %s", one.Status, one.Attempt, two.Status)
		}
	})
}
