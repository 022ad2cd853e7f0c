package main

import (
	"io"
	"strings"
	"testing"
)

func TestTasksOnTheCommandLine(t *testing.T) {
	h := newHome(t, "DEMO=0")
	h.must(exitDone, "migrate")
	first := decode[struct{ ID, Title string }](t, h.must(exitDone, "tasks", "create", "Compare three suppliers", "--json").out)
	made := decode[struct{ ID string }](t, h.must(exitDone, "tasks", "create", `{"title":"Choose one","dependsOn":["`+first.ID+`"]}`, "--json").out)
	if first.Title != "Compare three suppliers" {
		t.Errorf("created %+v", first)
	}
	says(t, h.must(exitDone, "tasks", "list", "priority>=5").out, "Compare three suppliers", "Choose one")
	if out := h.must(exitDone, "tasks", "list", "priority>=6").out; strings.Contains(out, "Choose one") {
		t.Errorf("tasks of a low priority are listed:\n%s", out)
	}
	says(t, h.must(exitDone, "tasks", "why", made.ID).out, `It waits for task "Compare three suppliers"`, "dependency: ")
	says(t, h.must(exitDone, "tasks", "why", made.ID, "--json").out, `"summary"`)
	says(t, h.must(exitDone, "tasks", "cancel", first.ID, "not needed").out, `"statusReason": "not needed"`)
	log := h.must(exitDone, "tasks", "logs", first.ID).out
	says(t, log, "the task was created", "PENDING → ABORTED  not needed")
	if strings.Index(log, "created") > strings.Index(log, "ABORTED") {
		t.Errorf("the newest row is the first:\n%s", log)
	}
	says(t, h.must(exitDone, "tasks", "logs", first.ID, "--json").out, `"items"`)
	says(t, h.must(exitFailed, "tasks", "retry", first.ID).err, "ABORTED")
	says(t, h.must(exitUsage, "tasks", "why", "-f", first.ID).err, "-f goes with logs ID only")
	says(t, h.must(exitFailed, "tasks", "logs", "8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f").err, "8b8f5f3e")

	// A task without an agent leads to one.
	const register = `lanekeeper agents register new '{"name": "worker", "spawner": "builtin"}'`
	lonely := h.must(exitDone, "tasks", "create", "Sweep the shop")
	says(t, lonely.err, register)
	alone := decode[struct{ ID string }](t, lonely.out)
	why := h.must(exitDone, "tasks", "why", alone.ID)
	says(t, why.out, "there is no agent", "spawner is builtin")
	says(t, why.err, register)
	h.must(exitDone, "agents", "register", "new", `{"name": "builder"}`)
	if got := h.must(exitDone, "tasks", "create", "Sweep it again").err + h.must(exitDone, "tasks", "why", alone.ID).err; got != "" {
		t.Errorf("another agent is suggested: %s", got)
	}

	// A log that is followed goes on until its task has ended.
	made = decode[struct{ ID string }](t, h.must(exitDone, "tasks", "create", "Write it down", "--json").out)
	out, code := newWatched(), make(chan int)
	go func() {
		code <- run(t.Context(), []string{"lanekeeper", "tasks", "logs", "-f", made.ID}, h.environ, strings.NewReader(""), out, io.Discard)
		out.end()
	}()
	out.wait(t, "the task was created")
	h.must(exitDone, "tasks", "edit", made.ID, `{"status":"PAUSED"}`)
	out.wait(t, "PENDING → PAUSED")
	h.must(exitDone, "tasks", "cancel", made.ID)
	out.wait(t, "PAUSED → ABORTED")
	if c := <-code; c != exitDone {
		t.Errorf("following ended with %d", c)
	}
}
