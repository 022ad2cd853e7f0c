package valkey_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/live"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// dump returns the keys of a view with what they hold, without the namespace.
func (v *view) dump(t testing.TB) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, key := range v.keys(t) {
		name := strings.TrimPrefix(key, v.ns+":")
		switch kind := v.raw.Type(t.Context(), key).Val(); kind {
		case "string":
			out[name] = v.raw.Get(t.Context(), key).Val()
		case "hash":
			out[name] = v.raw.HGetAll(t.Context(), key).Val()
		case "list":
			out[name] = v.raw.LRange(t.Context(), key, 0, -1).Val()
		case "set":
			out[name] = slices.Sorted(slices.Values(v.raw.SMembers(t.Context(), key).Val()))
		case "zset":
			out[name] = v.raw.ZRange(t.Context(), key, 0, -1).Val()
		default:
			t.Errorf("%s is a %s", key, kind)
		}
		if left := v.raw.PTTL(t.Context(), key).Val(); left <= 0 {
			t.Errorf("%s lives for ever", key)
		}
	}
	return out
}

// fill makes something for each key, and returns what the keys must hold.
func (w *world) fill(t testing.TB) map[string]any {
	t.Helper()
	ws := "{" + string(w.Workspace) + "}"
	busy, silent := w.pull(t, "busy"), w.pull(t, "silent")
	for range 2 {
		w.create(t, "for the agent", 5)
	}
	first, _ := w.claim(t, busy)
	second, _ := w.claim(t, busy)
	_, err := w.far.UpdateTask(t.Context(), w.Workspace, task.Report{Task: second.ID, Attempt: 1, Actor: "agent:a"}, live.Fail{Error: "it broke"})
	must(t, err)
	old, urgent := w.create(t, "old", 5), w.create(t, "urgent", 9)
	w.exec(t, w.q.Session, first.ID, "session-"+first.ID)
	w.exec(t, w.q.Silent, silent)
	w.beat(t, busy, first.ID)
	w.exec(t, w.q.Budget, w.c.IDs(), "global", "", 1000, 950)
	w.exec(t, w.q.Budget, w.c.IDs(), "task", first.ID, 500, 100)
	w.live.Rebuild(t.Context(), w.Workspace)

	view, _, err := w.far.View(t.Context(), w.Workspace, time.Now())
	must(t, err)
	at := slices.IndexFunc(view.Agents, func(a live.Watched) bool { return a.ID == busy })
	seen, since := view.Agents[at].LastSeenAt.UTC().Format(time.RFC3339Nano), view.Active[0].AssignedAt.UTC().Format(time.RFC3339Nano)
	return map[string]any{
		"tasks:pending:" + ws:              []string{urgent, old},
		"tasks:active:" + ws:               []string{first.ID + ":session-" + first.ID},
		"coordinator:recovery_queue:" + ws: []string{second.ID},
		"coordinator:stale_agents":         []string{silent},
		"agent:tasks:" + busy:              map[string]string{first.ID: since},
		"agent:status:" + busy:             map[string]string{"status": "WORKING", "current_task": first.ID, "last_heartbeat": seen},
		"agent:status:" + silent:           map[string]string{"status": "ERROR", "current_task": "", "last_heartbeat": ""},
		"agent:heartbeat:" + busy:          fmt.Sprintf(`{"status":"WORKING","task_id":%q,"timestamp":%q}`, first.ID, seen),
		"session:context:session-" + first.ID: map[string]string{
			"workspace_id": string(w.Workspace), "agent_id": busy, "task_id": first.ID, "started_at": since,
		},
		"usage:current:" + ws: map[string]string{
			"total_tokens": "950", "total_cost_usd": "0", "last_updated": view.Usage.UpdatedAt.UTC().Format(time.RFC3339Nano),
		},
		"usage:task:" + first.ID: map[string]string{"allocated": "500", "consumed": "100", "remaining": "400", "agents": fmt.Sprintf("[%q]", busy)},
		"usage:alerts:" + ws:     []string{`{"task_id":"","level":"warning","percent_used":95,"message":"the budget of the workspace is spent by 95 %"}`},
	}
}

func (v *view) shows(t testing.TB, want map[string]any) {
	t.Helper()
	got := v.dump(t)
	for name := range got {
		if strings.HasPrefix(name, "live:position:") {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestEveryKey: each cycle shows each key, as it is in the database, also after a flush and in a cluster.
func TestEveryKey(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, newView(t, dbtest.Servers(t).RedisURL, patient))
		want := w.fill(t)
		w.view.shows(t, want)
		w.view.advance(t, 24*time.Hour)
		if left := w.view.dump(t); len(left) > 0 {
			t.Errorf("without cycles these stay: %v", left)
		}
		w.live.Rebuild(t.Context(), w.Workspace)
		w.view.shows(t, want)
	})
	t.Run("cluster", func(t *testing.T) {
		v := newView(t, newCluster(t), patient)
		v.onCluster(t)
		w := newWorld(t, dbtest.New(t, dbtest.OnSQLite), v)
		w.view.shows(t, w.fill(t))
	})
}

// TestUsageWithoutABudget: where no budget of the workspace is in force, what it used today is shown.
func TestUsageWithoutABudget(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, newView(t, dbtest.Servers(t).RedisURL, patient))
		shown := func() (tokens, usd string) {
			w.live.Rebuild(t.Context(), w.Workspace)
			usage, _ := w.view.dump(t)["usage:current:{"+string(w.Workspace)+"}"].(map[string]string)
			return usage["total_tokens"], usage["total_cost_usd"]
		}
		if tokens, _ := shown(); tokens != "" {
			t.Errorf("nothing was used, and %s tokens are shown", tokens)
		}
		w.exec(t, w.q.Used, w.c.IDs(), 1_500_000)
		w.exec(t, w.q.Used, w.c.IDs(), nil)
		if tokens, usd := shown(); tokens != "1840" || usd != "1.5" {
			t.Errorf("%q tokens and %q dollars are shown", tokens, usd)
		}
		w.exec(t, w.q.Budget, w.c.IDs(), "global", "", 1000, 950)
		if tokens, _ := shown(); tokens != "950" {
			t.Errorf("with a budget %q tokens are shown", tokens)
		}
	})
}

// TestWhatIsOverIsNotShown: what a workspace no longer has is gone after the next cycle.
func TestWhatIsOverIsNotShown(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite), newView(t, dbtest.Servers(t).RedisURL, patient))
	a := w.pull(t, "a")
	w.create(t, "one", 5)
	one, _ := w.claim(t, a)
	w.beat(t, a, one.ID)
	w.live.Rebuild(t.Context(), w.Workspace)
	if _, there := w.view.dump(t)["agent:tasks:"+a]; !there {
		t.Error("the agent's task is not shown")
	}
	_, err := w.far.UpdateTask(t.Context(), w.Workspace, task.Report{Task: one.ID, Attempt: 1, Actor: "agent:a"}, live.Complete{})
	must(t, err)
	w.live.Rebuild(t.Context(), w.Workspace)
	shown := w.view.dump(t)
	status, _ := shown["agent:status:"+a].(map[string]string)
	if beat := shown["agent:heartbeat:"+a]; status["current_task"] != "" || strings.Contains(fmt.Sprint(beat), one.ID) {
		t.Errorf("an agent without a task is shown as %v and %v", status, beat)
	}
	must(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, _, err := w.c.Agents.Terminate(ctx, tx, a, "enough", false)
		return err
	}))
	w.live.Rebuild(t.Context(), w.Workspace)
	for name := range w.view.dump(t) {
		if strings.Contains(name, a) || strings.Contains(name, "active") {
			t.Errorf("%s is shown", name)
		}
	}
}

// TestOrderOfWaitingTasks: a score orders by priority, then age, without loss of a millisecond.
func TestOrderOfWaitingTasks(t *testing.T) {
	at := time.UnixMilli(1_790_000_000_123)
	last := -1.0
	for priority := 10; priority >= 1; priority-- {
		for _, d := range []time.Duration{0, time.Millisecond, time.Hour, 50 * 365 * 24 * time.Hour} {
			if s := (live.Waiting{Priority: priority, CreatedAt: at.Add(d)}).Score(); s <= last {
				t.Errorf("priority %d after %s: %f is not above %f", priority, d, s, last)
			} else {
				last = s
			}
		}
	}
}

// TestNews: what happens between two cycles is published once on its channel, and commands with what
// came of them.
func TestNews(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, newView(t, dbtest.Servers(t).RedisURL, patient))
		ws := "{" + string(w.Workspace) + "}"
		channels := []string{w.view.ns + ":tasks:events:" + ws, w.view.ns + ":agents:events:" + ws, w.view.ns + ":coordinator:commands:" + ws}
		earlier := w.create(t, "before anybody listened", 5)
		w.live.Rebuild(t.Context(), w.Workspace)
		heard := w.view.raw.Subscribe(t.Context(), channels...)
		defer func() { must(t, heard.Close()) }()
		for range channels {
			_, err := heard.Receive(t.Context())
			must(t, err)
		}
		id := w.create(t, "news", 5)
		must(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.c.Command(ctx, tx, coordinate.Command{Name: coordinate.ReassignTask, Task: id, Reason: "why not", Actor: "user:ada"})
			return err
		}))
		_, err := w.c.Cycle(t.Context(), w.Workspace, "test")
		must(t, err)
		told := map[string][]string{}
		messages := heard.Channel()
		within(t, "the task and the command are told", func() bool {
			w.live.Rebuild(t.Context(), w.Workspace) // an older transaction elsewhere may hold events back
			collect(messages, told)
			told[channels[0]] = slices.DeleteFunc(told[channels[0]], func(m string) bool { return strings.Contains(m, earlier) })
			return len(told[channels[0]]) > 0 && len(told[channels[2]]) > 0
		})
		for range 3 {
			w.live.Rebuild(t.Context(), w.Workspace)
		}
		must(t, w.view.raw.Publish(t.Context(), channels[0], "the end").Err())
		within(t, "the end", func() bool { collect(messages, told); return slices.Contains(told[channels[0]], "the end") })
		var happened struct{ Kind, Subject string }
		must(t, json.Unmarshal([]byte(told[channels[0]][0]), &happened))
		if happened.Kind != "task.created" || happened.Subject != id || len(told[channels[0]]) != 2 {
			t.Error(told[channels[0]])
		}
		var done live.CommandDone
		must(t, json.Unmarshal([]byte(told[channels[2]][0]), &done))
		if done.Command != "reassign_task" || done.TaskID != id || done.Reason != "why not" || !strings.Contains(done.Outcome, "with no agent") || len(told[channels[2]]) != 1 {
			t.Error(told[channels[2]])
		}
	})
}

// collect adds the messages that are there by channel.
func collect(messages <-chan *redis.Message, into map[string][]string) {
	for {
		select {
		case m := <-messages:
			into[m.Channel] = append(into[m.Channel], m.Payload)
		case <-time.After(20 * time.Millisecond):
			return
		}
	}
}

// TestAHeartbeatIsShownAtOnce: before the next cycle, and no shorter than the cycle knows it to last.
func TestAHeartbeatIsShownAtOnce(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite), newView(t, dbtest.Servers(t).RedisURL, patient))
	a := w.pull(t, "a")
	w.beat(t, a, "")
	if got := w.view.text(t, "agent:heartbeat:%s", a); !strings.HasPrefix(got, `{"status":"IDLE","task_id":null,"timestamp":"`) {
		t.Error(got)
	}
	key := w.view.ns + ":agent:heartbeat:" + a
	must(t, w.view.raw.PExpire(t.Context(), key, time.Hour).Err())
	w.beat(t, a, "")
	if left := w.view.raw.PTTL(t.Context(), key).Val(); left < 59*time.Minute {
		t.Error(left)
	}
}

// TestAResultIsShownAtOnce: who waits for an attempt learns how it ended, without the database.
func TestAResultIsShownAtOnce(t *testing.T) {
	v := newView(t, dbtest.Servers(t).RedisURL, patient)
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite), v)
	done := task.Task{ID: w.c.IDs(), Status: task.Completed, Attempt: 3, Output: json.RawMessage(`{"n":1}`)}
	w.live.Ended(t.Context(), w.Workspace, done)
	got, there, err := v.GetResult(t.Context(), w.Workspace, live.Attempt{Task: done.ID, Number: 3})
	if err != nil || !there || string(got) != `{"n":1}` {
		t.Error(string(got), there, err)
	}
	done.Status, done.Attempt = task.Failed, 4
	w.live.Ended(t.Context(), w.Workspace, done)
	if _, there, _ := v.GetResult(t.Context(), w.Workspace, live.Attempt{Task: done.ID, Number: 4}); there {
		t.Error("a failed attempt has a result")
	}
}

// TestACycleShowsResults of what was completed since the one before, also by who does not reach the Redis. They are kept as long
// as the workspace says.
func TestACycleShowsResults(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, newView(t, dbtest.Servers(t).RedisURL, patient))
		w.exec(t, w.q.Settings, w.Workspace, `{"result_hours":30}`)
		w.live.Rebuild(t.Context(), w.Workspace)
		a := w.pull(t, "a")
		for range 2 {
			w.create(t, "do it", 5)
		}
		first, _ := w.claim(t, a)
		second, _ := w.claim(t, a)
		for id, change := range map[string]live.Change{first.ID: live.Complete{Output: json.RawMessage(`{"n":1}`)}, second.ID: live.Fail{Error: "it broke"}} {
			_, err := w.far.UpdateTask(t.Context(), w.Workspace, task.Report{Task: id, Attempt: 1, Actor: "agent:a"}, change)
			must(t, err)
		}
		within(t, "the result is shown", func() bool {
			w.live.Rebuild(t.Context(), w.Workspace) // an older transaction elsewhere may hold events back
			got, there, err := w.view.GetResult(t.Context(), w.Workspace, live.Attempt{Task: first.ID, Number: 1})
			return err == nil && there && string(got) == `{"n":1}`
		})
		if left := w.view.raw.PTTL(t.Context(), w.view.ns+":result:"+first.ID+":1").Val(); left < 29*time.Hour {
			t.Errorf("the result is kept for %s, want 30 hours", left)
		}
		if _, there, _ := w.view.GetResult(t.Context(), w.Workspace, live.Attempt{Task: second.ID, Number: 1}); there {
			t.Error("a failed attempt has a result")
		}
	})
}
