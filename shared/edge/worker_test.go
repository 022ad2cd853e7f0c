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
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
)

func TestDecodeWork(t *testing.T) {
	const id = "00000000-0000-7000-8000-0000000e0001"
	got, err := edge.DecodeWork([]byte(`{"workspace":"` + defaultWorkspace + `","task":"` + strings.ToUpper(id) + `"}`))
	if want := (worker.Tick{Workspace: defaultWorkspace, Task: id}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, event := range []string{
		``, `[]`, `{}`, `{"task":"` + id + `"}`, `{"workspace":"` + defaultWorkspace + `"}`, `{"workspace":"` + defaultWorkspace + `","task":"7"}`,
		`{"workspace":"` + defaultWorkspace + `","task":"` + id + `","by":"hand"}`,
	} {
		if got, err := edge.DecodeWork([]byte(event)); err == nil {
			t.Errorf("%s is taken for %+v", event, got)
		}
	}
}

// The built functions do two tasks, of which the second depends on the first, from their creation to
// their results: the coordinator invokes the worker, and the end of a task has the next one begin.
func TestWorker(t *testing.T) {
	c := newCloud(t)
	if r := invoke(t, c.start(t, "migrate", map[string]string{"DATABASE_URL": c.owner}), []byte(`{}`)); r.FunctionError != nil {
		t.Fatalf("%v\n%s", r.FunctionError, r.Logs)
	}
	env := map[string]string{
		"DATABASE_URL": dbtest.AsLogin(c.owner), "ADMIN_TOKEN": "open-sesame-open-sesame", "LLM_PROVIDER": "demo",
		"TEND_FUNCTION": "keeper-operate", "WORKER_FUNCTION": "keeper-worker",
	}
	coordinator, operate, works := c.start(t, "coordinator", env), c.start(t, "operate", env), c.start(t, "worker", env)
	c.Forward("keeper-operate", operate)
	c.Forward("keeper-worker", works)
	if r := invoke(t, works, event(t, "worker", "01_task")); r.FunctionError != nil || !strings.Contains(string(r.Payload), `"outcome":"nothing"`) {
		t.Errorf("a task that is not there: %v, %s\n%s", r.FunctionError, r.Payload, r.Logs)
	}
	if r := invoke(t, works, []byte(`{"task":"7"}`)); r.FunctionError == nil || r.FunctionError.Type != "InvalidEvent" {
		t.Errorf("an unknown event: %v %s", r.FunctionError, r.Payload)
	}
	if got := ask(t, coordinator, http.MethodPut, "agents/00000000-0000-7000-8000-0000000e0002", `{"name":"worker","spawner":"builtin"}`); got.StatusCode != http.StatusCreated && got.StatusCode != http.StatusOK {
		t.Fatalf("an agent: %+v", got)
	}
	create := func(body string) (id string) {
		got := ask(t, coordinator, http.MethodPost, "agent-tasks", body)
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(got.Body), &made); err != nil || got.StatusCode != http.StatusCreated {
			t.Fatalf("a task: %+v, %v", got, err)
		}
		return made.ID
	}
	first := create(`{"title":"Count the geese","inputContext":{"steps":[{"skill":"query_activity"},{"skill":"save_memory","inputs":{"category":"fact","content":"Seven geese."}}]}}`)
	second := create(`{"title":"Tell the count","dependsOn":["` + first + `"]}`)
	if r := invoke(t, coordinator, event(t, "coordinator", "03_by_hand")); r.FunctionError != nil {
		t.Fatalf("%v\n%s", r.FunctionError, r.Logs)
	}
	var is struct {
		Status       string
		OutputResult struct{ Answer, TraceID string }
	}
	for begun := time.Now(); is.Status != "COMPLETED"; time.Sleep(50 * time.Millisecond) {
		got := ask(t, coordinator, http.MethodGet, "agent-tasks/"+second, "")
		if err := json.Unmarshal([]byte(got.Body), &is); err != nil || time.Since(begun) > 2*time.Minute {
			t.Fatalf("the second task: %s, %v", got.Body, err)
		}
	}
	if !strings.Contains(is.OutputResult.Answer, "Tell the count") {
		t.Errorf("its result: %+v", is)
	}
	for _, f := range []*rig.Function{coordinator, operate, works} {
		if err := f.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if dead := works.DeadLetters(); len(dead) != 0 {
		t.Errorf("dead letters: %+v", dead)
	}
}
