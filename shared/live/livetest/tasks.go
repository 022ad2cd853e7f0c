package livetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/live"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// State is a state of a task that agents and the coordinator bring about.
type State string

// The states.
const (
	Pending   State = "PENDING"
	Assigned  State = "ASSIGNED"
	Running   State = "RUNNING"
	Paused    State = "PAUSED"
	Completed State = "COMPLETED"
	Failed    State = "FAILED"
	Backoff   State = "ABORTED until its backoff is over"
	Due       State = "ABORTED, its backoff over"
	Cancelled State = "ABORTED, cancelled"
	Archived  State = "ARCHIVED"
)

// Tasks returns the cases of tasks.
func Tasks() []Case {
	var all []Case
	all = append(all, goodTasks()...)
	all = append(all, badTasks()...)
	all = append(all, unknownTasks()...)
	all = append(all, transitions()...)
	all = append(all, reports()...)
	return append(all, listings()...)
}

func draft(title string) task.Task {
	return task.Task{Title: title, Priority: task.DefaultPriority, MaxRetries: task.DefaultRetries, BackoffSeconds: task.DefaultBackoff, CreatedBy: "user:ada"}
}

func (w *World) create(t testing.TB, d task.Task) task.Task {
	t.Helper()
	made, err := w.Durable.CreateTask(t.Context(), w.Workspace, d)
	ok(t, err)
	return made
}

func (w *World) get(t testing.TB, id string) task.Task {
	t.Helper()
	got, err := w.Durable.GetTask(t.Context(), w.Workspace, id)
	ok(t, err)
	return got
}

// variant is a draft with one difference.
type variant struct {
	name string
	edit func(*task.Task)
}

func goodTasks() (all []Case) {
	variants := []variant{
		{"as it comes", func(*task.Task) {}},
		{"title of one", func(d *task.Task) { d.Title = "x" }},
		{"title of 255", func(d *task.Task) { d.Title = strings.Repeat("ä", 255) }},
		{"title trimmed", func(d *task.Task) { d.Title = "  a title  " }},
		{"title with emoji", func(d *task.Task) { d.Title = "ship it 🚢" }},
		{"description of 16,000", func(d *task.Task) { d.Description = strings.Repeat("d", 16_000) }},
		{"type", func(d *task.Task) { d.Type = "research" }},
		{"type of 100", func(d *task.Task) { d.Type = strings.Repeat("t", 100) }},
		{"no retries", func(d *task.Task) { d.MaxRetries = 0 }},
		{"100 retries", func(d *task.Task) { d.MaxRetries = 100 }},
		{"backoff of one second", func(d *task.Task) { d.BackoffSeconds = 1 }},
		{"backoff of six hours", func(d *task.Task) { d.BackoffSeconds = 21_600 }},
		{"minutes", func(d *task.Task) { d.EstimatedMinutes = 40 }},
		{"estimated end", func(d *task.Task) { d.EstimatedAt = new(time.Date(2031, 2, 3, 4, 5, 6, 7000, time.UTC)) }},
		{"input", func(d *task.Task) { d.Input = json.RawMessage(`{"url":"https://example.com","n":[1,2]}`) }},
		{"metadata", func(d *task.Task) { d.Metadata = json.RawMessage(`{"requiredCapabilities":["go"]}`) }},
		{"tags", func(d *task.Task) { d.Tags = []string{"b", "a", "b", " c "} }},
		{"20 tags", func(d *task.Task) {
			for i := range 20 {
				d.Tags = append(d.Tags, fmt.Sprintf("t%02d", i))
			}
		}},
		{"an id", func(d *task.Task) { d.ID = newID() }},
		{"an id in capitals", func(d *task.Task) { d.ID = strings.ToUpper(newID()) }},
		{"untrusted", func(d *task.Task) { d.Untrusted = true }},
	}
	for p := 1; p <= 10; p++ {
		variants = append(variants, variant{fmt.Sprintf("priority %d", p), func(d *task.Task) { d.Priority = p }})
	}
	for _, v := range variants {
		all = append(all, Case{"task: " + v.name, func(t *testing.T, w *World) {
			d := draft("a task")
			v.edit(&d)
			made := w.create(t, d)
			if made.Status != task.Pending || made.Attempt != 0 || made.Priority != d.Priority || made.Title != strings.TrimSpace(d.Title) ||
				made.Description != d.Description || made.MaxRetries != d.MaxRetries || made.Untrusted != d.Untrusted || made.Version != 1 {
				t.Errorf("%+v", made)
			}
			if diff := differ(made, w.get(t, made.ID)); diff != "" {
				t.Error(diff)
			}
		}})
	}
	return all
}

func badTasks() (all []Case) {
	for _, v := range []struct {
		field string
		variant
	}{
		{"title", variant{"none", func(d *task.Task) { d.Title = "" }}},
		{"title", variant{"blanks", func(d *task.Task) { d.Title = "   " }}},
		{"title", variant{"256", func(d *task.Task) { d.Title = strings.Repeat("x", 256) }}},
		{"description", variant{"16,001", func(d *task.Task) { d.Description = strings.Repeat("x", 16_001) }}},
		{"taskType", variant{"101", func(d *task.Task) { d.Type = strings.Repeat("x", 101) }}},
		{"priority", variant{"0", func(d *task.Task) { d.Priority = 0 }}},
		{"priority", variant{"11", func(d *task.Task) { d.Priority = 11 }}},
		{"priority", variant{"-1", func(d *task.Task) { d.Priority = -1 }}},
		{"maxRetries", variant{"-1", func(d *task.Task) { d.MaxRetries = -1 }}},
		{"maxRetries", variant{"101", func(d *task.Task) { d.MaxRetries = 101 }}},
		{"retryBackoffSeconds", variant{"0", func(d *task.Task) { d.BackoffSeconds = 0 }}},
		{"retryBackoffSeconds", variant{"21,601", func(d *task.Task) { d.BackoffSeconds = 21_601 }}},
		{"estimatedDurationMinutes", variant{"-1", func(d *task.Task) { d.EstimatedMinutes = -1 }}},
		{"inputContext", variant{"a list", func(d *task.Task) { d.Input = json.RawMessage(`[]`) }}},
		{"inputContext", variant{"null", func(d *task.Task) { d.Input = json.RawMessage(`null`) }}},
		{"inputContext", variant{"too much", func(d *task.Task) { d.Input = json.RawMessage(`{"a":"` + strings.Repeat("x", 256<<10) + `"}`) }}},
		{"metadata", variant{"a text", func(d *task.Task) { d.Metadata = json.RawMessage(`"x"`) }}},
		{"metadata", variant{"too much", func(d *task.Task) { d.Metadata = json.RawMessage(`{"a":"` + strings.Repeat("x", 16<<10) + `"}`) }}},
		{"tags", variant{"empty", func(d *task.Task) { d.Tags = []string{""} }}},
		{"tags", variant{"comma", func(d *task.Task) { d.Tags = []string{"a,b"} }}},
		{"tags", variant{"51", func(d *task.Task) { d.Tags = []string{strings.Repeat("x", 51)} }}},
		{"tags", variant{"21 of them", func(d *task.Task) {
			for i := range 21 {
				d.Tags = append(d.Tags, fmt.Sprint(i))
			}
		}}},
		{"dependsOn", variant{"101", func(d *task.Task) {
			for range 101 {
				d.DependsOn = append(d.DependsOn, newID())
			}
		}}},
	} {
		all = append(all, Case{"task refused: " + v.field + " " + v.name, func(t *testing.T, w *World) {
			d := draft("a task")
			d.ID = newID()
			v.edit(&d)
			_, err := w.Durable.CreateTask(t.Context(), w.Workspace, d)
			invalid(t, err, v.field)
			_, err = w.Durable.GetTask(t.Context(), w.Workspace, d.ID)
			is(t, err, db.ErrNoRows)
		}})
	}
	return all
}

func unknownTasks() []Case {
	rename := live.Patch{Title: new("renamed")}
	return []Case{
		{"a task that is not there", func(t *testing.T, w *World) {
			_, err := w.Durable.GetTask(t.Context(), w.Workspace, newID())
			is(t, err, db.ErrNoRows)
			_, err = w.Durable.UpdateTask(t.Context(), w.Workspace, task.Report{Task: newID(), Actor: "user:ada"}, rename)
			is(t, err, db.ErrNoRows)
		}},
		{"a task of another workspace", func(t *testing.T, w *World) {
			made := w.create(t, draft("mine"))
			_, err := w.Durable.GetTask(t.Context(), w.Other, made.ID)
			is(t, err, db.ErrNoRows)
			_, err = w.Durable.UpdateTask(t.Context(), w.Other, task.Report{Task: made.ID, Actor: "user:eve"}, rename)
			is(t, err, db.ErrNoRows)
			if got := w.get(t, made.ID); got.Title != "mine" {
				t.Errorf("it is called %q", got.Title)
			}
		}},
		{"an id that is taken", func(t *testing.T, w *World) {
			made := w.create(t, draft("first"))
			again := draft("second")
			again.ID = made.ID
			_, err := w.Durable.CreateTask(t.Context(), w.Workspace, again)
			is(t, err, db.ErrUnique)
			if got := w.get(t, made.ID); got.Title != "first" {
				t.Errorf("it is called %q", got.Title)
			}
		}},
		{"a dependency", func(t *testing.T, w *World) {
			first := w.create(t, draft("first"))
			d := draft("second")
			d.DependsOn = []string{first.ID}
			second := w.create(t, d)
			if diff := differ([]string{first.ID}, second.DependsOn); diff != "" {
				t.Error(diff)
			}
			if diff := differ([]string{second.ID}, w.get(t, first.ID).Blocks); diff != "" {
				t.Error(diff)
			}
		}},
		{"a dependency that is not there", func(t *testing.T, w *World) {
			d := draft("a task")
			d.DependsOn = []string{newID()}
			_, err := w.Durable.CreateTask(t.Context(), w.Workspace, d)
			if _, missing := errors.AsType[*task.MissingError](err); !missing {
				t.Error(err)
			}
		}},
	}
}

const refused = ""

// transitions are all changes of a task in each of its states, with the status that each leaves.
func transitions() (all []Case) {
	states := []State{Pending, Assigned, Running, Paused, Completed, Failed, Backoff, Due, Cancelled, Archived}
	for _, c := range []struct {
		name   string
		change live.Change
		leaves [10]task.Status // by state
	}{
		{"rename", live.Patch{Title: new("renamed")}, [10]task.Status{"PENDING", "ASSIGNED", "RUNNING", "PAUSED", "COMPLETED", "FAILED", "ABORTED", "ABORTED", "ABORTED", "ARCHIVED"}},
		{"pause", live.Patch{Status: new(task.Paused)}, [10]task.Status{"PAUSED", "PAUSED", "PAUSED", "PAUSED"}},
		{"resume", live.Patch{Status: new(task.Pending)}, [10]task.Status{"PENDING", refused, refused, "PENDING"}},
		{"progress", live.Progress{Percent: new(10)}, [10]task.Status{1: "ASSIGNED", 2: "RUNNING"}},
		{"complete", live.Complete{Output: json.RawMessage(`{"n":1}`), Summary: "done"}, [10]task.Status{1: "COMPLETED", 2: "COMPLETED"}},
		{"fail", live.Fail{Error: "it broke"}, [10]task.Status{1: "ABORTED", 2: "ABORTED"}},
		{"fail for good", live.Fail{Error: "it broke", Final: true}, [10]task.Status{1: "FAILED", 2: "FAILED"}},
		{"cancel", live.Cancel{Reason: "enough"}, [10]task.Status{"ABORTED", "ABORTED", "ABORTED", "ABORTED", 6: "ABORTED", 7: "ABORTED"}},
		{"retry", live.Retry{}, [10]task.Status{5: "PENDING", 7: "PENDING"}},
		{"archive", live.Archive{}, [10]task.Status{4: "ARCHIVED", 5: "ARCHIVED", 6: "ARCHIVED", 7: "ARCHIVED", 8: "ARCHIVED"}},
	} {
		for i, state := range states {
			want := c.leaves[i]
			all = append(all, Case{c.name + ": a task that is " + string(state), func(t *testing.T, w *World) {
				made := w.create(t, draft("a task"))
				w.Force(t, made.ID, state)
				before := w.get(t, made.ID)
				after, err := w.Durable.UpdateTask(t.Context(), w.Workspace, task.Report{Task: made.ID, Actor: "user:ada"}, c.change)
				if want == refused {
					if e, isStatus := errors.AsType[*task.StatusError](err); !isStatus || e.Status != before.Status {
						t.Fatalf("%+v, %v; want it refused", after, err)
					}
					if diff := differ(before, w.get(t, made.ID)); diff != "" {
						t.Error("it was refused and changed:\n" + diff)
					}
					return
				}
				ok(t, err)
				if after.Status != want {
					t.Errorf("it is %s, want %s", after.Status, want)
				}
				if diff := differ(after, w.get(t, made.ID)); diff != "" {
					t.Error(diff)
				}
			}})
		}
	}
	return all
}

// reports are reports on attempts that are not the present one.
func reports() (all []Case) {
	for _, c := range []struct {
		name   string
		change live.Change
	}{
		{"progress", live.Progress{Percent: new(10)}}, {"complete", live.Complete{}}, {"fail", live.Fail{Error: "it broke"}},
	} {
		for _, attempt := range []int{2, 7} {
			all = append(all, Case{fmt.Sprintf("%s: attempt %d of 1", c.name, attempt), func(t *testing.T, w *World) {
				made := w.create(t, draft("a task"))
				w.Force(t, made.ID, Running)
				_, err := w.Durable.UpdateTask(t.Context(), w.Workspace, task.Report{Task: made.ID, Attempt: attempt, Actor: "agent:a"}, c.change)
				if e, stale := errors.AsType[*task.StaleError](err); !stale || e.Present != 1 {
					t.Error(err)
				}
				if got := w.get(t, made.ID); got.Status != task.Running || got.Progress != 0 {
					t.Errorf("%+v", got)
				}
			}})
		}
		all = append(all, Case{c.name + ": attempt 1 of 1", func(t *testing.T, w *World) {
			made := w.create(t, draft("a task"))
			w.Force(t, made.ID, Running)
			_, err := w.Durable.UpdateTask(t.Context(), w.Workspace, task.Report{Task: made.ID, Attempt: 1, Actor: "agent:a"}, c.change)
			ok(t, err)
		}}, Case{c.name + ": its attempt is over", func(t *testing.T, w *World) {
			made := w.create(t, draft("a task"))
			w.Force(t, made.ID, Completed)
			_, err := w.Durable.UpdateTask(t.Context(), w.Workspace, task.Report{Task: made.ID, Attempt: 1, Actor: "agent:a"}, c.change)
			if _, stale := errors.AsType[*task.StaleError](err); !stale {
				t.Error(err)
			}
		}})
	}
	return append(all, Case{"completed: output, summary and times", func(t *testing.T, w *World) {
		made := w.create(t, draft("a task"))
		w.Force(t, made.ID, Running)
		done, err := w.Durable.UpdateTask(t.Context(), w.Workspace, task.Report{Task: made.ID, Attempt: 1, Actor: "agent:a"},
			live.Complete{Output: json.RawMessage(`{"n":1}`), Summary: "done"})
		ok(t, err)
		if string(done.Output) != `{"n":1}` || done.Summary != "done" || done.CompletedAt == nil {
			t.Errorf("%+v", done)
		}
	}}, Case{"progress: percent, step and checkpoint", func(t *testing.T, w *World) {
		made := w.create(t, draft("a task"))
		w.Force(t, made.ID, Running)
		got, err := w.Durable.UpdateTask(t.Context(), w.Workspace, task.Report{Task: made.ID, Attempt: 1, Actor: "agent:a"},
			live.Progress{Percent: new(40), Step: new("reading"), Checkpoint: json.RawMessage(`{"page":3}`)})
		ok(t, err)
		if got.Progress != 40 || got.CurrentStep != "reading" || string(got.Checkpoint) != `{"page":3}` || got.CheckpointVersion != 1 {
			t.Errorf("%+v", got)
		}
	}}, Case{"completed by eight at once: one wins", func(t *testing.T, w *World) {
		made := w.create(t, draft("a task"))
		w.Force(t, made.ID, Running)
		results := make(chan error, 8)
		at(t.Context(), 8, func(ctx context.Context, _ int) {
			_, err := w.Durable.UpdateTask(ctx, w.Workspace, task.Report{Task: made.ID, Attempt: 1, Actor: "agent:a"}, live.Complete{})
			results <- err
		})
		won := 0
		for range 8 {
			if err := <-results; err == nil {
				won++
			} else if _, stale := errors.AsType[*task.StaleError](err); !stale {
				t.Error(err)
			}
		}
		if won != 1 {
			t.Errorf("%d won", won)
		}
	}})
}
