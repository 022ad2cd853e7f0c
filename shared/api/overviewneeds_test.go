package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// needed returns the needs of a kind that the overview lists.
func (w *world) needed(t testing.TB, kind string) (out []struct{ Kind, ID, Tone, Title, Why string }) {
	t.Helper()
	var o seen
	w.must(t, 200, "GET", "/api/v1/overview", "", &o)
	for _, n := range o.Needs {
		if n.Kind == kind {
			out = append(out, n)
		}
	}
	return out
}

// TestTheOverviewSaysThatNoAgentCanTakeATask, and what to do about it, as long as that is so.
func TestTheOverviewSaysThatNoAgentCanTakeATask(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		create := func(body string) string {
			t.Helper()
			var made struct{ ID string }
			w.must(t, 201, "POST", "/api/v1/agent-tasks", body, &made)
			return made.ID
		}
		says := func(title, why, do string) {
			t.Helper()
			got := w.needed(t, "task")
			if len(got) != 1 || got[0].Title != title || got[0].Tone != "warn" ||
				!strings.Contains(got[0].Why, why) || !strings.Contains(got[0].Why, do) {
				t.Errorf("it needs %+v, want one task: %s: %s, and %s", got, title, why, do)
			}
		}
		if got := w.needed(t, "task"); len(got) != 0 {
			t.Errorf("it needs %+v and has no task", got)
		}
		first := create(`{"title":"Count the stock","metadata":{"requiredCapabilities":["py"]}}`)
		says("A task waits, and no agent can take it", "there is no agent", "register one")
		if got := w.needed(t, "task"); len(got) != 1 || got[0].ID != first {
			t.Errorf("it needs %+v, want %s", got, first)
		}

		pull, builtin := ids(), ids()
		w.must(t, 201, "PUT", "/api/v1/agents/"+builtin, `{"name":"worker","spawner":"builtin"}`, nil)
		project := struct{ ID string }{}
		w.must(t, 201, "POST", "/api/v1/projects", `{"name":"shop"}`, &project)
		create(fmt.Sprintf(`{"title":"Count it again","projectId":%q,"metadata":{"requiredCapabilities":["py"]}}`, project.ID))
		create(fmt.Sprintf(`{"title":"Count it later","dependsOn":[%q],"metadata":{"requiredCapabilities":["py"]}}`, first))
		create(`{"title":"Anyone may do it"}`)
		says("2 tasks wait, and no agent can take them", "no agent has the capability py", "register one that has it")

		w.must(t, 201, "PUT", "/api/v1/agents/"+pull, `{"name":"ada","capabilities":["py"],"coordinatorEnabled":false}`, nil)
		says("2 tasks wait, and no agent can take them", `agent "ada" gets no tasks from the coordinator`, "coordinatorEnabled")
		w.must(t, 200, "PUT", "/api/v1/agents/"+pull, `{"name":"ada","capabilities":["py"]}`, nil)
		says("2 tasks wait, and no agent can take them", `agent "ada" has never sent a heartbeat`, "start it")
		w.must(t, 200, "POST", "/api/v1/agents/"+pull+"/heartbeat", `{}`, nil)
		if got := w.needed(t, "task"); len(got) != 0 {
			t.Errorf("it needs %+v, and an agent can take the tasks", got)
		}

		w.must(t, 200, "POST", "/api/v1/agents/"+pull+"/claim", `{}`, nil)
		if got := w.needed(t, "task"); len(got) != 0 {
			t.Errorf("it needs %+v, and the agent that can take the other task is at work", got)
		}
		w.must(t, 201, "POST", "/api/v1/kill-switches", `{"scope":"workspace","reason":"stock-taking"}`, nil)
		create(`{"title":"Read it","metadata":{"requiredCapabilities":["read"]}}`)
		if got := w.needed(t, "task"); len(got) != 0 {
			t.Errorf("it needs %+v, and the workspace is stopped", got)
		}
	})
}

// TestFailuresLeaveRoomForWhatElseIsNeeded: a person sees each kind of need, however many tasks have failed.
func TestFailuresLeaveRoomForWhatElseIsNeeded(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	agent := ids()
	w.must(t, 201, "PUT", "/api/v1/agents/"+agent, `{"name":"ada","maxConcurrentTasks":20}`, nil)
	for range 12 {
		var made struct{ ID string }
		w.must(t, 201, "POST", "/api/v1/agent-tasks", `{"title":"Count the stock"}`, &made)
		w.must(t, 200, "POST", "/api/v1/agents/"+agent+"/claim", `{}`, nil)
		w.must(t, 200, "POST", "/api/v1/agent-tasks/"+made.ID+"/fail", `{"error":"no stock","retryable":false}`, nil)
	}
	w.must(t, 201, "POST", "/api/v1/agent-tasks", `{"title":"Sell it","metadata":{"requiredCapabilities":["sell"]}}`, nil)
	if failures, tasks := w.needed(t, "failure"), w.needed(t, "task"); len(failures) != 9 || len(tasks) != 1 {
		t.Errorf("it needs %d failures and %d tasks, want 9 and 1", len(failures), len(tasks))
	}
}

// TestATaskWhoseRunWaitsForAPersonIsNotWorkedOn: the sentence names the agent of the task that is worked on.
func TestATaskWhoseRunWaitsForAPersonIsNotWorkedOn(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		agent := ids()
		w.must(t, 201, "PUT", "/api/v1/agents/"+agent, `{"name":"ada","maxConcurrentTasks":2}`, nil)
		claim := func(title string) (id string) {
			t.Helper()
			var made struct{ ID string }
			w.must(t, 201, "POST", "/api/v1/agent-tasks", fmt.Sprintf(`{"title":%q}`, title), &made)
			w.must(t, 200, "POST", "/api/v1/agents/"+agent+"/claim", `{}`, nil)
			return made.ID
		}
		says := func(want string) {
			t.Helper()
			var o seen
			w.must(t, 200, "GET", "/api/v1/overview", "", &o)
			if o.Sentence != want {
				t.Errorf("it says %q, want %q", o.Sentence, want)
			}
		}
		claim("Count the stock")
		refund := claim("Refund the order")
		says("ada works on Refund the order")
		e := execution.Execution{ID: ids(), Agent: "ada", Surface: trace.Worker, Trace: w.Traces.New(trace.Worker), Subject: lane.Task(refund)}
		for _, step := range []func(lane.Tx) error{
			func(tx lane.Tx) error { return w.Runs.Start(tx, e) },
			func(tx lane.Tx) error { return w.Runs.Leave(tx, e, execution.Waiting, nil, "") },
		} {
			request := lane.Request{Workspace: w.Workspace, Lane: e.Subject, Holder: "test"}
			err := w.Lanes.Do(t.Context(), request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
				return w.Lanes.InHold(ctx, h, func(_ context.Context, tx lane.Tx) error { return step(tx) })
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		says("ada works on Count the stock")
	})
}
