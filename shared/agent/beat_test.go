package agent_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

func TestAHeartbeatStandsOnTheAgent(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d := draft("builder")
		d.IntervalSeconds = 7
		a := w.registered(t, d)
		if a.PresentHealth() != "" || a.LastSeenAt != nil {
			t.Errorf("before the first heartbeat: %q, %v", a.PresentHealth(), a.LastSeenAt)
		}
		task := w.running(t, a.ID)
		percent, memory, cpu := 40, 12.5, 150.0
		vitals := agent.Vitals{Task: task, Progress: &percent, Step: "reads", MemoryMB: &memory, CPU: &cpu}
		orders := w.beat(t, agent.Beat{Agent: a.ID, Says: agent.Working, Attempt: 1, Vitals: vitals})
		if diff := cmp.Diff([]agent.Order{{Order: "continue", Task: task, Attempt: 1}}, orders); diff != "" {
			t.Errorf("orders (-want +got):\n%s", diff)
		}
		is, beats, err := w.s.Heartbeats(t.Context(), w.Workspace, a.ID, 10)
		if err != nil || is.Status != agent.Working || is.Health != agent.IsHealthy || is.PresentHealth() != agent.IsHealthy || is.Tasks != 1 ||
			is.IdleSince != nil || is.Version != a.Version || is.LastSeenAt == nil || is.NextExpectedAt.Sub(*is.LastSeenAt).Round(time.Second) != 7*time.Second {
			t.Fatalf("after a heartbeat: %+v, %v", is, err)
		}
		if diff := cmp.Diff(vitals, is.Latest); diff != "" {
			t.Errorf("its latest heartbeat (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]agent.Heartbeat{{Status: agent.Working, Vitals: vitals, CreatedAt: *is.LastSeenAt}}, beats); diff != "" {
			t.Errorf("its history (-want +got):\n%s", diff)
		}
	})
}

// TestAnAgentWithoutATaskNamesNone: its latest heartbeat may have been sent before the task ended.
func TestAnAgentWithoutATaskNamesNone(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.registered(t, draft("builder"))
		task := w.running(t, a.ID)
		percent, memory := 40, 12.5
		w.beat(t, agent.Beat{Agent: a.ID, Attempt: 1, Vitals: agent.Vitals{Task: task, Progress: &percent, Step: "reads", MemoryMB: &memory}})
		w.ended(t, task, "ABORTED", "cancelled", "not needed", true)
		listed, err := w.s.List(t.Context(), w.Workspace, agent.Filter{Limit: 10})
		if err != nil || len(listed) != 1 {
			t.Fatal(listed, err)
		}
		for _, is := range []agent.Agent{w.get(t, a.ID), listed[0]} {
			if diff := cmp.Diff(agent.Vitals{MemoryMB: &memory}, is.Latest); diff != "" {
				t.Errorf("without a task (-want +got):\n%s", diff)
			}
		}
	})
}

func TestAHeartbeatEndsDegradedAndError(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.registered(t, draft("builder"))
		for _, c := range []struct {
			was, says, want agent.Status
			health          agent.Health
			tasks           int
		}{
			{agent.Idle, agent.Working, agent.Idle, agent.IsHealthy, 0}, // it has no attempt
			{agent.Error, "", agent.Idle, agent.IsHealthy, 0},
			{agent.Degraded, agent.Idle, agent.Idle, agent.IsHealthy, 0},
			{agent.Idle, agent.Degraded, agent.Degraded, agent.IsDegraded, 0},
			{agent.Idle, agent.Error, agent.Degraded, agent.IsDegraded, 0},
			{agent.Idle, agent.Draining, agent.Degraded, agent.IsDegraded, 0},
			{agent.Error, agent.Idle, agent.Working, agent.IsHealthy, 1},
			{agent.Degraded, "", agent.Working, agent.IsHealthy, 1},
			{agent.Working, agent.Degraded, agent.Degraded, agent.IsDegraded, 1},
			{agent.Draining, agent.Degraded, agent.Draining, agent.IsDegraded, 1},
		} {
			if is := w.get(t, a.ID); is.Tasks < c.tasks {
				w.assigned(t, a.ID)
			}
			w.exec(t, w.q.Put, a.ID, c.was, "stale")
			w.beat(t, agent.Beat{Agent: a.ID, Says: c.says})
			if is := w.get(t, a.ID); is.Status != c.want || is.Health != c.health || (is.IdleSince == nil) != (c.tasks > 0) {
				t.Errorf("%s that says %q with %d attempts: %s, %s, idle since %v; want %s, %s", c.was, c.says, c.tasks, is.Status, is.Health, is.IdleSince, c.want, c.health)
			}
		}
	})
}

// TestOrdersFollowFromTheRows tells an agent what has become of the attempt that it names.
func TestOrdersFollowFromTheRows(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		other := w.registered(t, draft("other")).ID
		for _, c := range []struct {
			name   string
			change func(task, of string)
			want   agent.Order
		}{
			{"it runs", func(string, string) {}, agent.Order{Order: "continue", Attempt: 1}},
			{"it is a bit late", func(task, _ string) {
				w.exec(t, w.q.LongRun, task, -60*60_000, nil)
				w.exec(t, w.q.Late, task, -29*60_000)
			}, agent.Order{Order: "continue", Attempt: 1}},
			{"it was late before it began", func(task, _ string) { w.exec(t, w.q.Late, task, -600*60_000) },
				agent.Order{Order: "continue", Attempt: 1}},
			{"its duration is not over", func(task, _ string) {
				w.exec(t, w.q.LongRun, task, -60*60_000, 31)
				w.exec(t, w.q.Late, task, -600*60_000)
			}, agent.Order{Order: "continue", Attempt: 1}},
			{"its duration is over", func(task, _ string) { w.exec(t, w.q.LongRun, task, -60*60_000, 29) },
				agent.Order{Order: "warn", Attempt: 1, Reason: "the task is more than 30 minutes past its estimated completion"}},
			{"it is late", func(task, _ string) {
				w.exec(t, w.q.LongRun, task, -60*60_000, nil)
				w.exec(t, w.q.Late, task, -31*60_000)
			},
				agent.Order{Order: "warn", Attempt: 1, Reason: "the task is more than 30 minutes past its estimated completion"}},
			{"it was paused", func(task, _ string) { w.ended(t, task, "PAUSED", "paused", "", false) },
				agent.Order{Order: "pause", Attempt: 1, Reason: "the task was paused"}},
			{"it was paused for a reason", func(task, _ string) { w.ended(t, task, "PAUSED", "paused", "Budget exceeded", false) },
				agent.Order{Order: "pause", Attempt: 1, Reason: "the task was paused: Budget exceeded"}},
			{"it was paused and resumed", func(task, _ string) { w.ended(t, task, "PENDING", "paused", "", false) },
				agent.Order{Order: "cancel", Attempt: 1, Reason: "the attempt is over: it ended as paused"}},
			{"it was cancelled", func(task, _ string) { w.ended(t, task, "ABORTED", "cancelled", "not needed", true) },
				agent.Order{Order: "cancel", Attempt: 1, Reason: "the task was cancelled: not needed"}},
			{"it was recovered", func(task, _ string) { w.ended(t, task, "ABORTED", "aborted", "", false) },
				agent.Order{Order: "cancel", Attempt: 1, Reason: "the attempt is over: it ended as aborted"}},
			{"another agent has it", func(task, _ string) {
				w.ended(t, task, "PENDING", "aborted", "", false)
				w.assign(t, task, other)
			}, agent.Order{Order: "cancel", Attempt: 1, Reason: "attempt 2 of the task has begun"}},
		} {
			a := w.registered(t, draft(c.name))
			task := w.running(t, a.ID)
			c.change(task, a.ID)
			c.want.Task = task
			for _, attempt := range []int{0, 1} {
				orders := w.beat(t, agent.Beat{Agent: a.ID, Attempt: attempt, Vitals: agent.Vitals{Task: task}})
				if diff := cmp.Diff([]agent.Order{c.want}, orders); diff != "" {
					t.Errorf("%s, attempt %d (-want +got):\n%s", c.name, attempt, diff)
				}
			}
		}
	})
}

func TestAnAgentHearsOfAllThatItRuns(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.registered(t, draft("builder"))
		first, second := w.running(t, a.ID), w.running(t, a.ID)
		w.assigned(t, a.ID) // not claimed yet
		w.ended(t, second, "PENDING", "aborted", "", false)
		w.assign(t, second, a.ID)
		w.exec(t, w.q.Start, second)
		orders := w.beat(t, agent.Beat{Agent: a.ID})
		want := []agent.Order{{Order: "continue", Task: second, Attempt: 2}, {Order: "continue", Task: first, Attempt: 1}}
		if diff := cmp.Diff(want, orders); diff != "" {
			t.Errorf("orders (-want +got):\n%s", diff)
		}
		orders = w.beat(t, agent.Beat{Agent: a.ID, Attempt: 1, Vitals: agent.Vitals{Task: second}})
		want = append(want, agent.Order{Order: "cancel", Task: second, Attempt: 1, Reason: "attempt 2 of the task has begun"})
		if diff := cmp.Diff(want, orders); diff != "" {
			t.Errorf("orders for an old attempt of a task that it has again (-want +got):\n%s", diff)
		}
		strange := ids()
		orders = w.beat(t, agent.Beat{Agent: a.ID, Attempt: 3, Vitals: agent.Vitals{Task: strange}})
		want[2] = agent.Order{Order: "cancel", Task: strange, Attempt: 3, Reason: "this agent has no such attempt"}
		if diff := cmp.Diff(want, orders); diff != "" {
			t.Errorf("orders for a task that is not there (-want +got):\n%s", diff)
		}
		if idle := w.beat(t, agent.Beat{Agent: w.registered(t, draft("idle")).ID}); len(idle) != 0 {
			t.Errorf("orders without tasks: %v", idle)
		}
	})
}

// TestAHeartbeatIsCheap: one round trip and as many statements, whatever the agent has.
func TestAHeartbeatIsCheap(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.registered(t, draft("builder"))
		var task string
		for range 20 {
			task = w.running(t, a.ID)
			w.beat(t, agent.Beat{Agent: a.ID})
		}
		before := w.DB.Stats()
		if orders := w.beat(t, agent.Beat{Agent: a.ID, Vitals: agent.Vitals{Task: task}}); len(orders) != 20 {
			t.Errorf("%d orders", len(orders))
		}
		if spent := w.DB.Stats().Sub(before); spent.RoundTrips != 1 || spent.Statements != 5 {
			t.Errorf("a heartbeat took %d round trips and %d statements, want 1 and 5", spent.RoundTrips, spent.Statements)
		}
	})
}

// TestAHeartbeatIsPlannedOnce, whatever it names: its task with the attempt, without it, or none.
func TestAHeartbeatIsPlannedOnce(t *testing.T) {
	w := newWorld(t, dbtest.OneConnection(t))
	a := w.registered(t, draft("builder"))
	task := w.running(t, a.ID)
	for range 2 {
		w.beat(t, agent.Beat{Agent: a.ID})
		w.beat(t, agent.Beat{Agent: a.ID, Vitals: agent.Vitals{Task: task}})
		w.beat(t, agent.Beat{Agent: a.ID, Vitals: agent.Vitals{Task: task}, Attempt: 1})
		if err := w.s.EndIfDrained(t.Context(), w.Workspace, a.ID); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.Plans(t, "FROM agent_task_attempts"); n != 3 {
		t.Errorf("the plans of %d statements about attempts are kept, want 3", n)
	}
}

func TestAHeartbeatIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		over, below, none := 101, -1.0, math.NaN()
		_, err := w.s.Beat(t.Context(), w.Workspace, agent.Beat{
			Agent: ids(), Says: "SLEEPY", Attempt: 1, Vitals: agent.Vitals{Progress: &over, Step: strings.Repeat("x", 1001), MemoryMB: &below, CPU: &none},
		})
		var bad *problem.InvalidError
		if !errors.As(err, &bad) {
			t.Fatalf("got %v", err)
		}
		var fields []string
		for _, f := range bad.Fields {
			fields = append(fields, f.Field)
		}
		slices.Sort(fields)
		if diff := cmp.Diff([]string{"attempt", "cpuPercent", "currentStep", "memoryMb", "progressPercent", "status"}, fields); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
		if _, err := w.s.Beat(t.Context(), w.Workspace, agent.Beat{Agent: ids()}); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("an unknown agent: %v", err)
		}
		a := w.registered(t, draft("builder"))
		w.terminate(t, a.ID, false)
		var ended *agent.StatusError
		if _, err := w.s.Beat(t.Context(), w.Workspace, agent.Beat{Agent: a.ID}); !errors.As(err, &ended) || ended.Status != agent.Terminated {
			t.Errorf("a terminated agent: %v", err)
		}
		if is := w.get(t, a.ID); is.LastSeenAt != nil {
			t.Error("a refused heartbeat is stored")
		}
	})
}

func TestHealthFollowsFromSilence(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, c := range []struct {
			spawner agent.Spawner
			tasks   int
			says    agent.Status
			silence time.Duration
			begun   time.Duration // ago, of its task
			want    agent.Health
		}{
			{agent.SpawnPull, 0, "", 30 * time.Second, 0, agent.IsHealthy},
			{agent.SpawnPull, 0, agent.Degraded, 0, 0, agent.IsDegraded},
			{agent.SpawnPull, 0, "", 62 * time.Second, 0, agent.IsDegraded},
			{agent.SpawnPull, 0, "", 182 * time.Second, 0, agent.IsStale},
			{agent.SpawnPull, 1, "", time.Hour, 0, agent.IsStale},
			{agent.SpawnHTTP, 0, "", time.Hour, 0, agent.IsHealthy}, // it is started for each task
			{agent.SpawnHTTP, 1, "", time.Hour, time.Hour, agent.IsStale},
			{agent.SpawnHTTP, 1, "", time.Hour, 0, agent.IsHealthy},            // a start counts as a heartbeat
			{agent.SpawnBuiltin, 1, "", time.Hour, time.Hour, agent.IsHealthy}, // its task waits: nobody holds it
		} {
			d := draft("builder")
			d.Spawner = c.spawner
			a := w.registered(t, d)
			for range c.tasks {
				w.running(t, a.ID)
			}
			w.beat(t, agent.Beat{Agent: a.ID, Says: c.says})
			w.exec(t, w.q.Age, a.ID, -c.silence.Milliseconds())
			if c.begun > 0 {
				w.exec(t, w.q.Begun, a.ID, -c.begun.Milliseconds())
			}
			is := w.get(t, a.ID)
			if silence, heard := is.Silence(); is.PresentHealth() != c.want || !heard || silence < c.silence {
				t.Errorf("%s with %d tasks, silent for %s: %s, want %s", c.spawner, c.tasks, silence, is.PresentHealth(), c.want)
			}
		}
	})
}

// TestATerminatedAgentHasNoHealth: nobody expects a heartbeat of it.
func TestATerminatedAgentHasNoHealth(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, spawner := range []agent.Spawner{agent.SpawnPull, agent.SpawnBuiltin} {
			d := draft(string(spawner))
			d.Spawner = spawner
			a := w.registered(t, d)
			w.beat(t, agent.Beat{Agent: a.ID})
			if h := w.get(t, a.ID).PresentHealth(); h != agent.IsHealthy {
				t.Errorf("%s after a heartbeat: %q", spawner, h)
			}
			w.terminate(t, a.ID, false)
			w.exec(t, w.q.Age, a.ID, -time.Hour.Milliseconds())
			if h := w.get(t, a.ID).PresentHealth(); h != "" {
				t.Errorf("%s, terminated: %q", spawner, h)
			}
		}
	})
}

func TestWhatHappensToAnAgentIsAnEvent(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.registered(t, draft("builder"))
		w.beat(t, agent.Beat{Agent: a.ID}) // no change of status
		w.exec(t, w.q.Put, a.ID, agent.Error, "stale")
		w.exec(t, w.q.Put, a.ID, agent.Error, "stale")
		w.beat(t, agent.Beat{Agent: a.ID})
		w.terminate(t, a.ID, false)
		var told []string
		err := w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
			var kind, data string
			if err := scan(&kind, &data); err != nil {
				return err
			}
			var d struct {
				Name, Status, Health string
				Previous             string `json:"previous_status"`
			}
			err := json.Unmarshal([]byte(data), &d)
			told = append(told, strings.TrimSpace(strings.Join([]string{kind, d.Name, d.Previous + ">" + d.Status, d.Health}, " ")))
			return err
		}, w.q.Happened, a.ID)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(told[1:3]) // two triggers of one change
		want := []string{
			"agent.registered builder >IDLE", "agent.stale builder IDLE>ERROR stale", "agent.status_changed builder IDLE>ERROR stale",
			"agent.status_changed builder ERROR>IDLE healthy", "agent.status_changed builder IDLE>TERMINATED healthy",
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestAnAttemptIsDoneWithTheAgentsOwnModel(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, c := range []struct{ own, routed, want string }{{"", "", ""}, {"", "small", "small"}, {"own", "small", "own"}, {"own", "", "own"}} {
			d := draft("builder")
			d.Model = c.own
			task := w.running(t, w.registered(t, d).ID)
			w.exec(t, w.q.Routed, task, db.Null(c.routed))
			if model, err := w.s.ModelOf(t.Context(), w.Workspace, agent.Attempt{Task: task, Number: 1}); err != nil || model != c.want {
				t.Errorf("own %q, routed %q: %q, %v", c.own, c.routed, model, err)
			}
		}
	})
}
