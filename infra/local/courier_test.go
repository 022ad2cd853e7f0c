package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/task"
)

// ofCourier reads the tasks of the demo's courier, by their titles.
func ofCourier(t *testing.T, url, token string) map[string]map[string]any {
	t.Helper()
	_, body := call(t, http.MethodGet, url+"/api/v1/agent-tasks?limit=200&tags="+courierTag, token, "")
	var page struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	by := map[string]map[string]any{}
	for _, item := range page.Items {
		by[fmt.Sprint(item["title"])] = item
	}
	if len(by) != len(page.Items) {
		t.Fatalf("there are tasks twice: %s", body)
	}
	return by
}

// delivered waits until the courier has done its tasks and has left, and verifies that each began after those that it
// depends on had ended.
func delivered(t *testing.T, d *running, url, token string) {
	t.Helper()
	d.out.wait(t, "courier left: its tasks have ended")
	is := ofCourier(t, url, token)
	for _, e := range errands {
		if is[e.title]["status"] != string(task.Completed) || is[e.title]["agentId"] != courierID {
			t.Errorf("%s is %v", e.title, is[e.title])
		}
		for _, before := range e.after {
			if begun, ended := fmt.Sprint(is[e.title]["startedAt"]), fmt.Sprint(is[errands[before].title]["completedAt"]); begun < ended {
				t.Errorf("%s began at %s, and %s ended at %s", e.title, begun, errands[before].title, ended)
			}
		}
	}
}

// TestTheDemosCourierPulls: it does tasks that depend on each other, leaves, and does not come back.
func TestTheDemosCourierPulls(t *testing.T) {
	t.Parallel()
	h := newHome(t, "DEMO=1")
	d := h.dev()
	url, token, _ := d.started()
	delivered(t, d, url, token)
	says(t, d.out.String(), "courier claimed Count the parcels", "courier done Deliver the parcels")
	says(t, h.must(exitDone, "tasks", "list", "tags="+courierTag).out, "COMPLETED", "Deliver the parcels")
	says(t, h.must(exitDone, "agents").out, "courier", "TERMINATED")
	for title, is := range ofCourier(t, url, token) {
		if is["attempt"] != 1.0 || is["createdBy"] != shopBy {
			t.Errorf("%s is %v", title, is)
		}
	}
	if code := d.end(); code != exitDone || d.errs.String() != "" {
		t.Fatalf("exit code %d\n%s", code, d)
	}
	again := h.dev()
	url, token, _ = again.started()
	again.out.wait(t, "next beat at")
	if is := ofCourier(t, url, token); len(is) != len(errands) {
		t.Errorf("after a restart there are %d tasks", len(is))
	}
	says(t, h.must(exitDone, "demo", "remove").out, "Its agent “courier” is gone.")
	if out := h.must(exitDone, "agents").out; strings.Contains(out, "courier") {
		t.Errorf("the agents are\n%s", out)
	}
	if code := again.end(); code != exitDone || strings.Contains(again.out.String(), "courier claimed") {
		t.Errorf("exit code %d\n%s", code, again)
	}
	last := h.dev() // the demo comes back, without tasks that were archived
	url, token, _ = last.started()
	last.out.wait(t, "next beat at")
	for title, is := range ofCourier(t, url, token) {
		if is["status"] != string(task.Archived) {
			t.Errorf("%s is %v", title, is)
		}
	}
	if code := last.end(); code != exitDone || strings.Contains(last.out.String(), "courier claimed") {
		t.Errorf("exit code %d\n%s", code, last)
	}
}

// TestTheCourierGoesOn after its process was killed in the middle of a task, and after one that was stopped.
func TestTheCourierGoesOn(t *testing.T) {
	t.Parallel()
	h := newHome(t, "DEMO=1")
	<-h.devUntil("courier claimed Count the parcels").out.ended
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed := newWatched()
	cmd := exec.CommandContext(t.Context(), self, "dev")
	cmd.Env = append(append(cmd.Environ(), h.environ...), asLanekeeper+"=1")
	cmd.Stdout, cmd.Stderr = killed, killed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed.wait(t, "courier claimed Print the labels")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	d := h.dev()
	url, token, _ := d.started()
	delivered(t, d, url, token)
	if code := d.end(); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, d)
	}
}

// TestTheCourierHonoursOrders: it leaves a task that is paused and goes on with it later, gives up one that is
// cancelled, and leaves tasks of others alone.
func TestTheCourierHonoursOrders(t *testing.T) {
	t.Parallel()
	h := newHome(t, "DEMO=1")
	d := h.dev()
	url, token, _ := d.started()
	d.out.wait(t, "courier claimed Count the parcels")
	first := fmt.Sprint(ofCourier(t, url, token)["Count the parcels"]["id"])
	h.must(exitDone, "tasks", "edit", first, `{"status":"PAUSED"}`)
	d.out.wait(t, "courier stopped Count the parcels: pause")
	own := decode[struct{ ID string }](t, h.must(exitDone, "tasks", "create", "Compare three suppliers", "--json").out)
	d.out.wait(t, "done Compare three suppliers")
	if _, body := call(t, http.MethodGet, url+"/api/v1/agent-tasks/"+own.ID, token, ""); strings.Contains(body, courierID) {
		t.Errorf("the courier has done a task of the user: %s", body)
	}
	h.must(exitDone, "tasks", "edit", first, `{"status":"PENDING"}`)
	d.out.wait(t, "courier claimed Print the labels")
	h.must(exitDone, "tasks", "cancel", fmt.Sprint(ofCourier(t, url, token)["Print the labels"]["id"]), "not needed")
	d.out.wait(t, "courier stopped Print the labels: cancel")
	d.out.wait(t, "courier left: its tasks have ended") // what depends on the cancelled task has failed
	by := ofCourier(t, url, token)
	for title, want := range map[string]task.Status{
		"Count the parcels": task.Completed, "Print the labels": task.Aborted, "Plan the tour": task.Completed, "Deliver the parcels": task.Failed,
	} {
		if by[title]["status"] != string(want) {
			t.Errorf("%s is %v", title, by[title])
		}
	}
	if code := d.end(); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, d)
	}
}

// TestTheCourierFinishesItsTaskBeforeItLeaves: it is terminated gracefully, ends what it works on, and is
// given nothing more.
func TestTheCourierFinishesItsTaskBeforeItLeaves(t *testing.T) {
	t.Parallel()
	h := newHome(t, "DEMO=1")
	d := h.dev()
	url, token, _ := d.started()
	d.out.wait(t, "courier claimed Count the parcels")
	at := url + "/api/v1/agents/" + courierID + "/terminate"
	if status, body := call(t, http.MethodPost, at, token, `{"graceful":true,"reason":"holidays"}`); status != http.StatusOK {
		t.Fatalf("terminate: %d %s", status, body)
	}
	d.out.wait(t, "courier done Count the parcels")
	d.out.wait(t, "courier left")
	for title, is := range ofCourier(t, url, token) {
		want := task.Pending
		if title == "Count the parcels" {
			want = task.Completed
		}
		if is["status"] != string(want) {
			t.Errorf("%s is %v", title, is)
		}
	}
	if code := d.end(); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, d)
	}
}

// TestThereIsNoCourierWithoutADemo of a file that begins without one.
func TestThereIsNoCourierWithoutADemo(t *testing.T) {
	h := newHome(t, "DEMO=0")
	d := h.dev()
	d.started()
	d.out.wait(t, "next beat at")
	h.environ = append(h.environ, "DEMO=") // not set: the file has a workspace already
	if code := d.end(); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, d)
	}
	again := h.dev()
	again.started()
	again.out.wait(t, "next beat at")
	says(t, h.must(exitDone, "agents").out, "There are no agents.")
	says(t, h.must(exitDone, "tasks", "list").out, "There are no tasks.")
	if code := again.end(); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, again)
	}
}
