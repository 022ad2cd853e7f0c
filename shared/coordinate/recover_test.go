package coordinate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// TestAStaleAgentLosesItsTask follows an agent that stops: DEGRADED, ERROR, its task tried again after
// the backoff, by another; and the agent that comes back works again, but not on that.
func TestAStaleAgentLosesItsTask(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		of := w.register(t, agent.Agent{Name: "dies", Capabilities: []string{"y"}}, agent.Agent{Name: "never started", Spawner: agent.SpawnHTTP, Capabilities: []string{"x"}})
		d := draft("lost")
		d.Metadata = []byte(`{"requiredCapabilities":["y"]}`)
		id := w.create(t, d)[0]
		w.pass(t, time.Minute, func() { w.exec(t, w.q.Beat, of[0]) })
		w.claim(t, of[0])
		if w.pass(t, 2*time.Minute, nil); w.status(t, of[0]) != agent.Degraded {
			t.Fatalf("after 2 minutes of silence: %s", w.status(t, of[0]))
		}
		if is := w.get(t, id); is.Status != task.Running {
			t.Fatalf("the task of a degraded agent is %s", is.Status)
		}
		r := w.pass(t, 2*time.Minute, nil)
		if is := w.get(t, id); r.Gone != 1 || r.Recovered != 1 || is.Status != task.Aborted || is.Retries != 1 || is.Agent != "" || is.LastError != "agent_stale" ||
			is.NextAttemptAt == nil || w.status(t, of[0]) != agent.Error {
			t.Fatalf("after 4 minutes: %+v, %+v", r, is)
		}
		if wait := w.get(t, id).NextAttemptAt.Sub(w.now(t)); wait < 3*time.Minute || wait > 5*time.Minute {
			t.Errorf("it waits for %s", wait)
		}
		if n := w.number(t, w.q.Told, "agent.stale"); n != 1 {
			t.Errorf("%d events", n)
		}
		w.exec(t, w.q.Beat, of[0])
		if w.status(t, of[0]) != agent.Idle {
			t.Errorf("the agent that came back is %s", w.status(t, of[0]))
		}
		if w.status(t, of[1]) != agent.Idle {
			t.Errorf("the agent that was never started is %s", w.status(t, of[1]))
		}
		if err := w.complete(t, id, 1); err == nil {
			t.Error("it may complete what it has lost")
		}
		r = w.pass(t, 5*time.Minute, func() { w.exec(t, w.q.BeatAll) })
		if is := w.get(t, id); r.Requeued != 1 || is.Status != task.Assigned || is.Attempt != 2 || is.Agent != of[0] {
			t.Errorf("after the backoff: %+v, %+v", r, is)
		}
		w.sound(t)
	})
}

// TestAGapKillsNobody lets no cycle run for an hour, as when the database is down: heartbeats could not
// be stored either, and everybody gets the whole threshold again.
func TestAGapKillsNobody(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "a"})[0]
		w.create(t, draft("goes on"))
		w.pass(t, time.Minute, func() { w.exec(t, w.q.BeatAll) })
		id := w.claim(t, a).ID
		w.Skew.Advance(time.Hour)
		r := w.cycle(t)
		r2 := w.pass(t, 2*time.Minute, nil)
		if is := w.get(t, id); is.Status != task.Running || r.Gone+r2.Gone+r.Recovered+r2.Recovered != 0 {
			t.Errorf("after the gap the task is %s: %+v, %+v", is.Status, r, r2)
		}
		if r := w.pass(t, 2*time.Minute, nil); r.Gone != 1 || r.Recovered != 1 {
			t.Errorf("an agent that stays silent: %+v", r)
		}
	})
}

// TestAMassDisappearanceIsOneEvent loses five of six agents at once.
func TestAMassDisappearanceIsOneEvent(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		random := []float64{0.1, 0.9, 0.3, 0.5, 0.7}
		w.c.Random = func() float64 { random = append(random[1:], random[0]); return random[0] }
		var drafts []agent.Agent
		for i := range 6 {
			drafts = append(drafts, agent.Agent{Name: fmt.Sprint(i)})
		}
		of := w.register(t, drafts...)
		var tasks []task.Task
		for i := range 6 {
			tasks = append(tasks, draft(fmt.Sprint(i)))
		}
		made := w.create(t, tasks...)
		w.pass(t, time.Minute, func() { w.exec(t, w.q.BeatAll) })
		for _, a := range of {
			w.claim(t, a)
		}
		r := w.pass(t, 4*time.Minute, func() { w.exec(t, w.q.Beat, of[0]) })
		if r.Gone != 5 || r.Recovered != 5 || !r.MassStale {
			t.Fatalf("%+v", r)
		}
		if n := w.number(t, w.q.Told, "agent.stale"); n != 1 {
			t.Errorf("%d events", n)
		}
		notes, err := w.c.Notes(t.Context(), w.Workspace, "", db.Position{}, 10)
		if err != nil || len(notes) != 1 || notes[0].Event != "gateway_restart" || notes[0].Level != task.Critical {
			t.Errorf("the log: %+v, %v", notes, err)
		}
		var first, last time.Time
		for _, id := range made {
			is := w.get(t, id)
			var strikes, priority int
			var raised bool
			if err := w.DB.One(t.Context(), w.Workspace, []any{&strikes, &raised, &priority}, w.q.Strikes, id); err != nil || strikes != 0 {
				t.Errorf("a strike for a restart of the gateway: %d, %v", strikes, err)
			}
			if is.Status != task.Aborted {
				continue
			}
			if first.IsZero() || is.NextAttemptAt.Before(first) {
				first = *is.NextAttemptAt
			}
			if is.NextAttemptAt.After(last) {
				last = *is.NextAttemptAt
			}
		}
		if spread := last.Sub(first); spread < 2*time.Minute {
			t.Errorf("the tasks come back within %s", spread)
		}
		w.sound(t)
	})
}

// TestLateTasks warns, ends the attempt, raises the priority once, and quarantines at the third time.
func TestLateTasks(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "slow"})[0]
		d := draft("late")
		d.MaxRetries, d.BackoffSeconds = 10, 1
		id := w.create(t, d)[0]
		for attempt := 1; attempt <= 3; attempt++ {
			w.leap(t, time.Minute)
			if is := w.claim(t, a); is.Attempt != attempt {
				t.Fatalf("claimed: %+v", is)
			}
			w.exec(t, w.q.Estimated, id, -29*time.Minute.Milliseconds(), nil)
			if r := w.leap(t, 2*time.Minute); r.Warned != 0 {
				t.Fatalf("attempt %d, begun 2 minutes ago: %+v", attempt, r)
			}
			if r := w.leap(t, 29*time.Minute); r.Warned != 1 {
				t.Fatalf("attempt %d, begun 31 minutes ago: %+v", attempt, r)
			}
			if r := w.leap(t, 8*time.Minute); r.Warned+r.TimedOut != 0 || w.get(t, id).Status != task.Running {
				t.Fatalf("attempt %d, warned 8 minutes ago: %+v", attempt, r)
			}
			if attempt == 1 { // a report gives it ten minutes more
				half := 50
				w.tx(t, func(ctx context.Context, tx *db.Tx) error {
					_, _, err := w.tasks.Advance(ctx, tx, task.Report{Task: id, Attempt: 1, Actor: "agent:a"}, task.Progress{Percent: &half})
					return err
				})
				if r := w.leap(t, 8*time.Minute); r.TimedOut != 0 {
					t.Fatalf("after progress: %+v", r)
				}
			}
			r := w.leap(t, 3*time.Minute)
			if r.TimedOut != 1 {
				t.Fatalf("attempt %d: %+v", attempt, r)
			}
			if is := w.get(t, id); is.Priority != 6 {
				t.Errorf("attempt %d: the priority is %d", attempt, is.Priority)
			}
			w.exec(t, w.q.Estimated, id, 10*time.Hour.Milliseconds(), nil)
		}
		if is := w.get(t, id); is.Status != task.Failed || !strings.HasPrefix(is.LastError, "poison") {
			t.Errorf("after three time-outs: %s, %q", is.Status, is.LastError)
		}
		w.sound(t)
	})
}

// TestANewEstimateIsWarnedOfAgain: a person gives a late task more time, and its agent is warned again when that is over.
func TestANewEstimateIsWarnedOfAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "slow"})[0]
		id := w.create(t, draft("late"))[0]
		w.claim(t, a)
		w.exec(t, w.q.Estimated, id, -time.Hour.Milliseconds(), nil)
		if r := w.leap(t, 31*time.Minute); r.Warned != 1 {
			t.Fatalf("after 31 minutes: %+v", r)
		}
		until := new(w.now(t).Add(time.Hour))
		w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.tasks.Patch(ctx, tx, id, "user:ada", func(task.Task) error { return nil }, task.Patch{EstimatedAt: &until})
			return err
		})
		if r := w.leap(t, 89*time.Minute); r.Warned+r.TimedOut != 0 {
			t.Errorf("29 minutes after the new estimate: %+v", r)
		}
		if r := w.leap(t, 2*time.Minute); r.Warned != 1 || r.TimedOut != 0 {
			t.Errorf("31 minutes after the new estimate: %+v", r)
		}
		if r := w.leap(t, 11*time.Minute); r.TimedOut != 1 {
			t.Errorf("11 minutes after the second warning: %+v", r)
		}
		w.sound(t)
	})
}

// TestATaskThatWaitsForAPersonIsNotLate: once its run goes on, it has ten minutes for its next report.
func TestATaskThatWaitsForAPersonIsNotLate(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "patient"})[0]
		of := w.create(t, draft("warned before it waits"), draft("waits"))
		for _, id := range of {
			if is := w.claim(t, a); is.ID != id {
				t.Fatalf("claimed: %+v", is)
			}
			w.exec(t, w.q.Estimated, id, -time.Hour.Milliseconds(), nil)
			if id == of[0] {
				if r := w.leap(t, 31*time.Minute); r.Warned != 1 {
					t.Fatalf("after 31 minutes: %+v", r)
				}
			}
			w.exec(t, w.q.Run, ids(), "task:"+id, "waiting")
			if r := w.leap(t, time.Hour); r.Warned+r.TimedOut != 0 {
				t.Errorf("%s, an hour after it asked: %+v", w.get(t, id).Title, r)
			}
			w.exec(t, w.q.RunIs, "task:"+id, "running")
			if r := w.leap(t, 5*time.Minute); r.TimedOut != 0 {
				t.Errorf("5 minutes after its run went on: %+v", r)
			}
			if id == of[0] {
				if r := w.leap(t, 6*time.Minute); r.TimedOut != 1 {
					t.Errorf("11 minutes after its run went on: %+v", r)
				}
			}
		}
		w.sound(t)
	})
}

// TestWhenATaskIsLate gives tasks that begin now one estimate or both, in minutes.
func TestWhenATaskIsLate(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		minutes := func(n int64) *int64 { return &n }
		for i, c := range []struct {
			completion, duration *int64
			late                 time.Duration
		}{
			{nil, minutes(20), 50 * time.Minute},
			{minutes(20), nil, 50 * time.Minute},
			{minutes(-600), nil, 30 * time.Minute},
			{minutes(-600), minutes(20), 50 * time.Minute},
			{minutes(20), minutes(40), 70 * time.Minute},
			{minutes(40), minutes(20), 70 * time.Minute},
			{nil, nil, 0},
		} {
			other := w
			other.Workspace = newWorkspace(t, w)
			a := other.register(t, agent.Agent{Name: "a"})[0]
			id := other.create(t, draft("late"))[0]
			other.claim(t, a)
			var at any
			if c.completion != nil {
				at = *c.completion * time.Minute.Milliseconds()
			}
			other.exec(t, w.q.Estimated, id, at, c.duration)
			if c.late == 0 {
				if r := other.leap(t, 1000*time.Hour); r.Warned != 0 {
					t.Errorf("without estimates: %+v", r)
				}
				continue
			}
			if r := other.leap(t, c.late-time.Minute); r.Warned != 0 {
				t.Errorf("case %d, before %s: %+v", i, c.late, r)
			}
			if r := other.leap(t, 2*time.Minute); r.Warned != 1 {
				t.Errorf("case %d, after %s: %+v", i, c.late, r)
			}
		}
	})
}

// TestAStartedAgentServesAgain has an agent that is started for its task fall silent. Nobody beats for it
// without a task, and it gets the next one all the same.
func TestAStartedAgentServesAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnHTTP})[0]
		serve := func(title string, silent time.Duration, while agent.Status) {
			t.Helper()
			d := draft(title)
			d.MaxRetries = 0
			id := w.create(t, d)[0]
			w.pass(t, time.Minute, nil)
			if is := w.get(t, id); is.Agent != a {
				t.Fatalf("%s is %s with agent %q, which is %s", title, is.Status, is.Agent, w.status(t, a))
			}
			w.exec(t, w.q.Begin, id)
			w.exec(t, w.q.Beat, a)
			w.pass(t, silent, nil)
			if is := w.status(t, a); is != while {
				t.Fatalf("after %s of silence: %s", silent, is)
			}
			if while == agent.Degraded {
				if err := w.complete(t, id, 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		serve("lost", 4*time.Minute, agent.Idle) // it was ERROR for one cycle
		serve("completed", 2*time.Minute, agent.Degraded)
		if r := w.pass(t, time.Minute, nil); w.status(t, a) != agent.Idle || r.Gone != 0 {
			t.Errorf("it rests and is %s: %+v", w.status(t, a), r)
		}
		w.sound(t)
	})
}

// TestADrainIsNotForgotten when the agent falls silent, and an agent that is silent drains at once.
func TestADrainIsNotForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		of := w.register(t, agent.Agent{Name: "drains"}, agent.Agent{Name: "is gone"})
		made := w.create(t, draft("one"), draft("two"))
		w.pass(t, time.Minute, func() { w.exec(t, w.q.BeatAll) })
		w.claim(t, of[0])
		w.claim(t, of[1])
		drain := func(a string) {
			w.tx(t, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.c.Command(ctx, tx, coordinate.Command{Name: coordinate.DrainAgent, Agent: a, Actor: "user:ada"})
				return err
			})
		}
		drain(of[0])
		r := w.pass(t, 4*time.Minute, nil)
		if w.status(t, of[0]) != agent.Terminated || w.status(t, of[1]) != agent.Error || r.Recovered != 2 {
			t.Errorf("silent: the agent that drains is %s, the other %s: %+v", w.status(t, of[0]), w.status(t, of[1]), r)
		}
		for _, id := range made {
			if is := w.get(t, id); is.Status != task.Aborted {
				t.Errorf("%s is %s", is.Title, is.Status)
			}
		}
		drain(of[1])
		if w.cycle(t); w.status(t, of[1]) != agent.Terminated {
			t.Errorf("drained while it is gone: %s", w.status(t, of[1]))
		}
		w.sound(t)
	})
}

// TestAnAgentThatDrainsDoesWhatItWasGiven, also what it has not begun, and nothing further.
func TestAnAgentThatDrainsDoesWhatItWasGiven(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "a"})[0]
		given := w.create(t, draft("given"))[0]
		if r := w.cycle(t); r.Assigned != 1 {
			t.Fatalf("%+v", r)
		}
		w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.c.Command(ctx, tx, coordinate.Command{Name: coordinate.DrainAgent, Agent: a, Actor: "user:ada"})
			return err
		})
		w.create(t, draft("waits"))
		if w.cycle(t); w.status(t, a) != agent.Draining {
			t.Fatalf("it is %s", w.status(t, a))
		}
		if is := w.claim(t, a); is.ID != given {
			t.Errorf("claimed %q", is.Title)
		}
		if _, ok, err := w.c.Claim(t.Context(), w.Workspace, a, ""); ok || err != nil {
			t.Errorf("a further task: %v, %v", ok, err)
		}
		if err := w.complete(t, given, 1); err != nil {
			t.Fatal(err)
		}
		if w.cycle(t); w.status(t, a) != agent.Terminated {
			t.Errorf("at the end it is %s", w.status(t, a))
		}
	})
}

// TestRetriesEnd has the agent of a task without retries die.
func TestRetriesEnd(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "dies"})[0]
		d := draft("once")
		d.MaxRetries = 0
		id := w.create(t, d)[0]
		w.pass(t, time.Minute, func() { w.exec(t, w.q.BeatAll) })
		w.claim(t, a)
		r := w.pass(t, 4*time.Minute, nil)
		if is := w.get(t, id); is.Status != task.Failed || !strings.HasPrefix(is.LastError, "max retries exceeded (0/0)") || r.Failed != 1 {
			t.Errorf("%+v, %+v", is, r)
		}
	})
}

// TestAnUnclaimedAssignmentGoesBack without a retry, to another agent where there is one.
func TestAnUnclaimedAssignmentGoesBack(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		of := w.register(t, agent.Agent{Name: "deaf"})
		id := w.create(t, draft("unclaimed"))[0]
		alive := func() { w.exec(t, w.q.BeatAll) }
		w.pass(t, time.Minute, alive)
		if is := w.get(t, id); is.Agent != of[0] {
			t.Fatalf("assigned to %q", is.Agent)
		}
		other := w.register(t, agent.Agent{Name: "other"})[0]
		r := w.pass(t, 5*time.Minute, alive)
		if is := w.get(t, id); r.Unclaimed != 1 || is.Status != task.Assigned || is.Agent != other || is.Attempt != 2 || is.Retries != 0 {
			t.Errorf("%+v, %+v", r, is)
		}
		w.sound(t)
	})
}

// TestAStoppedAgentBeginsNothing: a kill switch also keeps an agent from what it was assigned before.
func TestAStoppedAgentBeginsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "stopped"})[0]
		id := w.create(t, draft("assigned"))[0]
		w.cycle(t)
		if is := w.get(t, id); is.Status != task.Assigned {
			t.Fatalf("the task is %s", is.Status)
		}
		w.exec(t, w.q.Stop, ids(), "agent", "stopped")
		if is, ok, err := w.c.Claim(t.Context(), w.Workspace, a, ""); ok || err != nil {
			t.Errorf("a stopped agent gets %+v, %v", is, err)
		}
		if r := w.pass(t, 6*time.Minute, func() { w.exec(t, w.q.BeatAll) }); r.Unclaimed != 1 {
			t.Errorf("what it does not begin: %+v", r)
		}
	})
}

// TestASilentTaskIsRecovered has an agent that never sends a heartbeat claim a task and vanish.
func TestASilentTaskIsRecovered(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "silent", Spawner: agent.SpawnHTTP})[0]
		w.create(t, draft("silent"))
		id := w.claim(t, a).ID
		if r := w.leap(t, 50*time.Minute); r.Recovered != 0 {
			t.Fatalf("after 50 minutes: %+v", r)
		}
		if r := w.leap(t, 11*time.Minute); r.Recovered != 1 || w.get(t, id).LastError != "agent_silent" {
			t.Errorf("after an hour: %+v", r)
		}
	})
}

// TestAClaimIsASignOfLife of an agent that sends no heartbeats: it loses the task as soon as it has been silent for its
// threshold, and no sooner after a gap between cycles.
func TestAClaimIsASignOfLife(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "claims", StaleSeconds: 180})[0]
		w.exec(t, w.q.Unseen, a)
		w.create(t, draft("claimed"))
		id := w.claim(t, a).ID
		if r := w.pass(t, 2*time.Minute, nil); r.Recovered != 0 {
			t.Fatalf("after two minutes: %+v", r)
		}
		report := func() {
			t.Helper()
			w.tx(t, func(ctx context.Context, tx *db.Tx) error {
				_, _, err := w.tasks.Advance(ctx, tx, task.Report{Task: id, Attempt: 1, Actor: "agent:" + a, Agent: a}, task.Progress{Percent: new(0)})
				return err
			})
		}
		report()
		if r := w.pass(t, 2*time.Minute, nil); r.Recovered != 0 {
			t.Fatalf("two minutes after a report: %+v", r)
		}
		w.Skew.Advance(time.Hour)
		if r := w.cycle(t); r.Recovered != 0 {
			t.Errorf("after an hour without a cycle: %+v", r)
		}
		report()
		if r := w.pass(t, 4*time.Minute, nil); r.Recovered != 1 || w.get(t, id).LastError != "agent_silent" {
			t.Errorf("after four minutes of silence: %+v", r)
		}
	})
}

// TestAReportOfUsageBreaksTheSilence of an agent that sends no heartbeats.
func TestAReportOfUsageBreaksTheSilence(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.c.Budgets = budgets(t, w.DB)
		a := w.register(t, agent.Agent{Name: "spends", Spawner: agent.SpawnHTTP})[0]
		w.create(t, draft("spends"))
		id := w.claim(t, a).ID
		w.leap(t, 50*time.Minute)
		w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			cover := budget.Cover{Task: id, Agent: a}
			l, err := w.c.Budgets.Lock(ctx, tx, []budget.Cover{cover})
			if err == nil {
				_, err = w.c.Budgets.Report(ctx, tx, l, budget.Report{Cover: cover, Attempt: 1, Model: "m"})
			}
			return err
		})
		if r := w.leap(t, 50*time.Minute); r.Recovered != 0 {
			t.Errorf("50 minutes after a report of usage: %+v", r)
		}
		if r := w.leap(t, 11*time.Minute); r.Recovered != 1 || w.get(t, id).LastError != "agent_silent" {
			t.Errorf("after an hour: %+v", r)
		}
	})
}

// TestAReportOfTheSameProgressBreaksTheSilence of an agent that sends no heartbeats: it may be at the same step for hours.
func TestAReportOfTheSameProgressBreaksTheSilence(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "builds", Spawner: agent.SpawnHTTP})[0]
		w.create(t, draft("builds"))
		id := w.claim(t, a).ID
		for range 3 {
			w.tx(t, func(ctx context.Context, tx *db.Tx) error {
				of := task.Report{Task: id, Attempt: 1, Actor: "agent:" + a, Agent: a}
				_, _, err := w.tasks.Advance(ctx, tx, of, task.Progress{Percent: new(50), Step: new("builds")})
				return err
			})
			if r := w.leap(t, 50*time.Minute); r.Recovered != 0 {
				t.Errorf("50 minutes after a report of progress: %+v", r)
			}
		}
		if r := w.leap(t, 11*time.Minute); r.Recovered != 1 || w.get(t, id).LastError != "agent_silent" {
			t.Errorf("after an hour: %+v", r)
		}
	})
}

// TestAnAgentThatBecomesBuiltInKeepsNoTask: nobody works on it any more, and the built-in worker does not know of it.
func TestAnAgentThatBecomesBuiltInKeepsNoTask(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "changes"})[0]
		id := w.create(t, draft("running"))[0]
		w.cycle(t)
		w.claim(t, a)
		w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			of := agent.Agent{ID: a, Name: "changes", Spawner: agent.SpawnBuiltin, CoordinatorEnabled: true, CreatedBy: "user:ada"}
			_, _, err := w.agents.Register(ctx, tx, of)
			return err
		})
		if r := w.pass(t, 4*time.Minute, nil); r.Recovered != 0 {
			t.Errorf("after 4 minutes: %+v", r)
		}
		r := w.pass(t, 2*time.Minute, nil)
		if is := w.get(t, id); r.Recovered != 1 || is.Status != task.Aborted || is.Retries != 1 || is.LastError != "agent_unattended" {
			t.Errorf("after 6 minutes: %+v, %+v", r, is)
		}
	})
}

// TestCommandsAreCarriedOut tries one after the other.
func TestCommandsAreCarriedOut(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		of := w.register(t, agent.Agent{Name: "a"})
		id := w.create(t, draft("moves"))[0]
		w.pass(t, time.Minute, func() { w.exec(t, w.q.BeatAll) })
		w.claim(t, of[0])
		of = append(of, w.register(t, agent.Agent{Name: "b"})...)
		order := func(c coordinate.Command) {
			c.Actor = "user:ada"
			w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.c.Command(ctx, tx, c); return err })
		}
		order(coordinate.Command{Name: coordinate.ReassignTask, Task: id})
		if r := w.cycle(t); r.Commands != 1 {
			t.Errorf("%+v", r)
		}
		if is := w.get(t, id); is.Status != task.Assigned || is.Agent != of[1] || is.Attempt != 2 || is.Retries != 0 {
			t.Fatalf("reassigned: %+v", is)
		}
		w.claim(t, of[1])
		version := w.agentOf(t, of[0]).Version
		order(coordinate.Command{Name: coordinate.PauseAgent, Agent: of[0]})
		order(coordinate.Command{Name: coordinate.DrainAgent, Agent: of[1], Reason: "too slow"})
		w.create(t, draft("waits"))
		if r := w.cycle(t); r.Assigned != 0 || r.Commands != 2 || w.status(t, of[1]) != agent.Draining {
			t.Errorf("%+v, %s", r, w.status(t, of[1]))
		}
		if is := w.agentOf(t, of[0]); is.CoordinatorEnabled || is.Version != version+1 { // who read it before does not undo it
			t.Errorf("paused: %v, version %d after %d", !is.CoordinatorEnabled, is.Version, version)
		}
		if err := w.complete(t, id, 2); err != nil {
			t.Fatal(err)
		}
		if w.cycle(t); w.status(t, of[1]) != agent.Terminated || w.status(t, of[0]) != agent.Idle {
			t.Errorf("drained: %s, paused: %s", w.status(t, of[1]), w.status(t, of[0]))
		}
		if is, err := w.agents.Get(t.Context(), w.Workspace, of[1]); err != nil || is.TerminationReason != "too slow" {
			t.Errorf("drained because of %q, %v", is.TerminationReason, err)
		}
		if r := w.cycle(t); r.Commands != 0 {
			t.Errorf("carried out again: %+v", r)
		}
		w.sound(t)
	})
}

// TestOneTaskPerThread assigns tasks of one thread one after the other.
func TestOneTaskPerThread(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		thread := ids()
		w.exec(t, w.q.Thread, thread, "ada")
		a := w.register(t, agent.Agent{Name: "a", MaxConcurrentTasks: 5})[0]
		one, two := draft("one"), draft("two")
		one.Thread, two.Thread = thread, thread
		w.create(t, one, two, draft("three"))
		if r := w.cycle(t); r.Assigned != 2 {
			t.Errorf("assigned %d", r.Assigned)
		}
		first, other := w.claim(t, a), w.claim(t, a)
		if first.Title != "one" { // both were assigned at once
			first, other = other, first
		}
		if first.Title != "one" || other.Title != "three" {
			t.Fatalf("claimed %q and %q", first.Title, other.Title)
		}
		if _, ok, err := w.c.Claim(t.Context(), w.Workspace, a, ""); ok || err != nil {
			t.Errorf("a second task of a thread: %v, %v", ok, err)
		}
		if err := w.complete(t, first.ID, 1); err != nil {
			t.Fatal(err)
		}
		if is := w.claim(t, a); is.Title != "two" {
			t.Errorf("claimed %q", is.Title)
		}
		w.sound(t)
	})
}

// TestAThreadHidesNoOtherTasks: what waits for its thread at the head of a queue holds nobody up behind it.
func TestAThreadHidesNoOtherTasks(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		thread := ids()
		w.exec(t, w.q.Thread, thread, "ada")
		w.register(t, agent.Agent{Name: "a", MaxConcurrentTasks: 2})
		of := make([]task.Task, 70)
		for i := range of {
			of[i] = draft("of the thread")
			of[i].Thread = thread
		}
		w.create(t, of...)
		other := w.create(t, draft("other"))[0]
		if r := w.cycle(t); r.Assigned != 2 || w.get(t, other).Status != task.Assigned {
			t.Errorf("assigned %d, the other task is %s", r.Assigned, w.get(t, other).Status)
		}
	})
}

// TestAMassDisappearanceInTwoCyclesIsNobodysFault loses three agents in one cycle and the other three in the next, because
// their last heartbeats were 20 seconds apart.
func TestAMassDisappearanceInTwoCyclesIsNobodysFault(t *testing.T) {
	for name, spawner := range map[string]agent.Spawner{"pull": agent.SpawnPull, "started per task": agent.SpawnHTTP} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w world) {
				var drafts []agent.Agent
				var tasks []task.Task
				for i := range 6 {
					drafts, tasks = append(drafts, agent.Agent{Name: fmt.Sprint(i), Spawner: spawner}), append(tasks, draft(fmt.Sprint(i)))
				}
				of, made := w.register(t, drafts...), w.create(t, tasks...)
				w.pass(t, time.Minute, func() { w.exec(t, w.q.BeatAll) })
				for _, id := range made {
					w.exec(t, w.q.Begin, id)
				}
				w.Skew.Advance(20 * time.Second)
				for _, a := range of[3:] {
					w.exec(t, w.q.Beat, a)
				}
				if r := w.pass(t, 170*time.Second, nil); r.Gone != 3 || !r.MassStale {
					t.Errorf("the first three: %+v", r)
				}
				if r := w.pass(t, 30*time.Second, nil); r.Gone != 3 || !r.MassStale {
					t.Errorf("the other three: %+v", r)
				}
				notes, err := w.c.Notes(t.Context(), w.Workspace, task.Critical, db.Position{}, 10)
				if err != nil || len(notes) != 2 || !strings.HasPrefix(notes[0].Message, "6 agents disappeared at once, 3 of them found now:") {
					t.Errorf("noted is %+v, %v", notes, err)
				}
				for _, id := range made {
					var strikes, priority int
					var raised bool
					into := []any{&strikes, &raised, &priority}
					if err := w.DB.One(t.Context(), w.Workspace, into, w.q.Strikes, id); err != nil || strikes != 0 {
						t.Errorf("strikes for a restart of the gateway: %d, %v", strikes, err)
					}
				}
			})
		})
	}
}

// TestAnAgentThatIsNotStartedYetOwesNoHeartbeat, however long its gateway has the start wait.
func TestAnAgentThatIsNotStartedYetOwesNoHeartbeat(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnHTTP})[0]
		id := w.create(t, draft("waits"))[0]
		w.pass(t, time.Minute, func() { w.exec(t, w.q.BeatAll) })
		r := w.pass(t, 10*time.Minute, nil)
		if is := w.get(t, id); r.Gone != 0 || is.Status != task.Assigned || is.Attempt != 1 || w.status(t, a) != agent.Working {
			t.Fatalf("the agent is %s and the task %s in attempt %d: %+v", w.status(t, a), is.Status, is.Attempt, r)
		}
		if is, err := w.agents.Get(t.Context(), w.Workspace, a); err != nil || is.PresentHealth() != agent.IsHealthy {
			t.Errorf("its health is %s, %v", is.PresentHealth(), err)
		}
		w.exec(t, w.q.Begin, id)
		if w.pass(t, 2*time.Minute, nil); w.get(t, id).Status != task.Running {
			t.Errorf("two minutes after its start: %s", w.get(t, id).Status)
		}
		if r := w.pass(t, 2*time.Minute, nil); r.Gone != 1 || r.Recovered != 1 {
			t.Errorf("four minutes after its start: %+v", r)
		}
	})
}

// TestAMassDisappearanceHidesNothingElse: the log has what else went wrong in that cycle.
func TestAMassDisappearanceHidesNothingElse(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var drafts []agent.Agent
		for i := range 4 {
			drafts = append(drafts, agent.Agent{Name: fmt.Sprint(i), Capabilities: []string{"x"}})
		}
		w.register(t, drafts...)
		first := w.create(t, draft("fails"))[0]
		next := draft("can't begin")
		next.DependsOn = []string{first}
		w.create(t, next)
		w.pass(t, time.Minute, func() { w.exec(t, w.q.BeatAll) })
		w.pass(t, 170*time.Second, nil)
		w.exec(t, w.q.Failed, first)
		if r := w.pass(t, 30*time.Second, nil); r.Gone != 4 || !r.MassStale || r.Failed != 1 {
			t.Fatalf("%+v", r)
		}
		notes, err := w.c.Notes(t.Context(), w.Workspace, "", db.Position{}, 10)
		var events []string
		for _, n := range notes {
			events = append(events, n.Event)
		}
		if slices.Sort(events); err != nil || !slices.Equal(events, []string{"gateway_restart", "task_recovery"}) {
			t.Errorf("the log: %q, %v", events, err)
		}
	})
}

// TestAMassOutageOfManyIsTold: an event names some of 500 agents and counts them all.
func TestAMassOutageOfManyIsTold(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	var drafts []agent.Agent
	for i := range 500 {
		drafts = append(drafts, agent.Agent{Name: fmt.Sprint(i)})
	}
	w.register(t, drafts...)
	w.pass(t, time.Minute, func() { w.exec(t, w.q.BeatAll) })
	if r := w.pass(t, 4*time.Minute, func() {}); r.Gone != 500 || !r.MassStale {
		t.Fatalf("%+v", r)
	}
	var raw string
	var told struct {
		Count  int
		Agents []string
	}
	err := w.DB.One(t.Context(), w.Workspace, []any{&raw}, w.q.Data, "agent.stale")
	if err := errors.Join(err, json.Unmarshal([]byte(raw), &told)); err != nil || told.Count != 500 || len(told.Agents) != 100 {
		t.Errorf("the event counts %d agents and names %d, %v", told.Count, len(told.Agents), err)
	}
}
