package livetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// listings are filters over one set of tasks, beside a filter in Go. The set is made once, in the
// workspace Other, for all of them.
func listings() (all []Case) {
	var made []task.Task
	var once sync.Once
	set := func(t *testing.T, w *World) []task.Task {
		t.Helper()
		once.Do(func() { made = w.listed(t) })
		return slices.Clone(made)
	}
	add := func(name string, f task.Filter, matches func(task.Task) bool) {
		for _, order := range []task.Order{task.Newest, task.Oldest, task.Urgent} {
			f := f
			f.Order = order
			all = append(all, Case{fmt.Sprintf("list by %s: %s", order, name), func(t *testing.T, w *World) {
				want := slices.DeleteFunc(set(t, w), func(x task.Task) bool { return !matches(x) })
				w.lists(t, f, ordered(want, order))
			}})
		}
	}
	anything := func(task.Task) bool { return true }
	add("all", task.Filter{}, anything)
	for _, s := range []task.Status{task.Pending, task.Assigned, task.Running, task.Paused, task.Completed, task.Failed, task.Aborted, task.Archived} {
		add(string(s), task.Filter{Status: s}, func(x task.Task) bool { return x.Status == s })
	}
	for _, p := range []int{1, 5, 9, 10} {
		add(fmt.Sprintf("priority of %d or more", p), task.Filter{MinPriority: p}, func(x task.Task) bool { return x.Priority >= p })
		add(fmt.Sprintf("priority of %d or less", p), task.Filter{MaxPriority: p}, func(x task.Task) bool { return x.Priority <= p })
	}
	for _, tags := range [][]string{{"even"}, {"odd"}, {"even", "third"}, {"third", "even", "even"}, {"nobody"}} {
		add(fmt.Sprintf("tags %v", tags), task.Filter{Tags: tags}, func(x task.Task) bool {
			return !slices.ContainsFunc(tags, func(tag string) bool { return !slices.Contains(x.Tags, tag) })
		})
	}
	for _, kind := range []string{"write", "read", "nothing"} {
		add("type "+kind, task.Filter{Type: kind}, func(x task.Task) bool { return x.Type == kind })
	}
	for _, text := range []string{"task 1", "TASK", "%", "_", `\`, "nowhere"} {
		add(fmt.Sprintf("text %q", text), task.Filter{Text: text}, func(x task.Task) bool {
			return strings.Contains(strings.ToLower(x.Title+" "+x.Description), strings.ToLower(text))
		})
	}
	add("two conditions", task.Filter{Status: task.Pending, MinPriority: 5}, func(x task.Task) bool { return x.Status == task.Pending && x.Priority >= 5 })
	add("of no agent that is there", task.Filter{Agent: newID()}, func(task.Task) bool { return false })
	add("before all", task.Filter{CreatedBefore: time.Unix(1, 0)}, func(task.Task) bool { return false })
	add("after all", task.Filter{CreatedAfter: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)}, func(task.Task) bool { return false })
	for _, limit := range []int{1, 2, 7, 23, 24, 200, 500} {
		all = append(all, Case{fmt.Sprintf("list at most %d", limit), func(t *testing.T, w *World) {
			want := ordered(set(t, w), task.Newest)
			w.lists(t, task.Filter{Limit: limit}, want[:min(limit, len(want))])
		}})
	}
	for _, order := range []task.Order{task.Newest, task.Oldest, task.Urgent} {
		all = append(all, Case{fmt.Sprintf("list by %s: page by page", order), func(t *testing.T, w *World) {
			want := ordered(set(t, w), order)
			f := task.Filter{Order: order, Limit: 5}
			var got []task.Task
			for {
				page, err := w.Durable.ListTasks(t.Context(), w.Other, f)
				ok(t, err)
				got = append(got, page...)
				if len(page) < f.Limit || len(got) > len(want) {
					break
				}
				last := page[len(page)-1]
				f.After = task.Place{Priority: last.Priority, At: last.CreatedAt, ID: last.ID}
			}
			same(t, got, want)
		}})
	}
	return append(all, Case{"list another workspace", func(t *testing.T, w *World) {
		set(t, w)
		found, err := w.Durable.ListTasks(t.Context(), db.Workspace(newID()), task.Filter{})
		ok(t, err)
		if len(found) > 0 {
			t.Errorf("%d tasks", len(found))
		}
	}})
}

// listed makes the tasks to list.
func (w *World) listed(t testing.TB) (made []task.Task) {
	t.Helper()
	states := []State{Pending, Assigned, Running, Paused, Completed, Failed, Backoff, Cancelled, Archived, Pending}
	for i := range 24 {
		d := draft(fmt.Sprintf("task %d", i))
		d.Priority = 1 + i%10
		d.Type = []string{"write", "read", ""}[i%3]
		d.Description = []string{"", "100 % sure", `a_b\c`}[i%3]
		d.Tags = []string{[]string{"even", "odd"}[i%2]}
		if i%3 == 0 {
			d.Tags = append(d.Tags, "third")
		}
		x, err := w.Durable.CreateTask(t.Context(), w.Other, d)
		ok(t, err)
		in := *w
		in.Workspace = w.Other
		in.Force(t, x.ID, states[i%len(states)])
		x, err = w.Durable.GetTask(t.Context(), w.Other, x.ID)
		ok(t, err)
		made = append(made, x)
	}
	return made
}

// ordered sorts tasks as a listing does.
func ordered(tasks []task.Task, order task.Order) []task.Task {
	slices.SortFunc(tasks, func(a, b task.Task) int {
		older := a.CreatedAt.Compare(b.CreatedAt)
		if older == 0 {
			older = strings.Compare(a.ID, b.ID)
		}
		switch {
		case order == task.Newest:
			return -older
		case order == task.Urgent && a.Priority != b.Priority:
			return b.Priority - a.Priority
		}
		return older
	})
	return tasks
}

func (w *World) lists(t testing.TB, f task.Filter, want []task.Task) {
	t.Helper()
	got, err := w.Durable.ListTasks(t.Context(), w.Other, f)
	ok(t, err)
	same(t, got, want)
}

func same(t testing.TB, got, want []task.Task) {
	t.Helper()
	if diff := differ(titles(want), titles(got)); diff != "" {
		t.Error(diff)
	}
}

func titles(tasks []task.Task) []string {
	out := []string{}
	for _, x := range tasks {
		out = append(out, x.Title)
	}
	return out
}
