package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// TestAComplexityIsStoredAsAllReadIt: the databases read a number with an exponent or with many digits differently.
func TestAComplexityIsStoredAsAllReadIt(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for given, stored := range map[string]string{
			`{"complexity":1e2,"n":1e2}`:                        `{"complexity":100,"n":1e2}`,
			`{"a":{"complexity":1E2},"complexity":12345678901}`: `{"a":{"complexity":1E2},"complexity":1000}`,
			`{"complexity":2.00000000001}`:                      `{"complexity":3}`,
			`{"complexity":1e-9}`:                               `{"complexity":1}`,
			`{"complexity":7.25}`:                               `{"complexity":7.25}`,
			`{"complexity":-1e2}`:                               `{"complexity":-1e2}`,
			`{"complexity":"1e2"}`:                              `{"complexity":"1e2"}`,
		} {
			d := draft("a task")
			d.Metadata = json.RawMessage(given)
			if is := w.create(t, d); string(is.Metadata) != stored {
				t.Errorf("%s is stored as %s", given, is.Metadata)
			}
		}
	})
}

func TestCreate(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		first := w.create(t, draft("first"))
		d := draft("  Write a text ")
		d.Description, d.Type, d.Priority, d.Tags, d.MaxRetries = "a\x00b", "writing", 9, []string{"b", " a ", "b"}, 1
		d.Input, d.Metadata = json.RawMessage(`{"z":1,"a":{"$secret":"key"}}`), json.RawMessage(`{"complexity":3}`)
		d.DependsOn = []string{strings.ToUpper(first.ID)}
		thread := ids()
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.AddThread, thread); err != nil {
			t.Fatal(err)
		}
		d.Thread, d.Untrusted, d.EstimatedMinutes = thread, true, 30
		is := w.create(t, d)
		if is.Title != "Write a text" || is.Description != "a\ufffdb" || is.Status != task.Pending || is.Priority != 9 || is.Type != "writing" ||
			!slices.Equal(is.Tags, []string{"a", "b"}) || string(is.Input) != `{"z":1,"a":{"$secret":"key"}}` || is.MaxRetries != 1 ||
			!slices.Equal(is.DependsOn, []string{first.ID}) || is.Thread != thread || !is.Untrusted || is.EstimatedMinutes != 30 || is.Version != 1 || is.Attempt != 0 {
			t.Errorf("created %+v", is)
		}
		if got := w.get(t, first.ID); !slices.Equal(got.Blocks, []string{is.ID}) {
			t.Errorf("it blocks %v", got.Blocks)
		}
		logs := w.logs(t, is.ID)
		if len(logs) != 1 || logs[0].Event != task.Created || logs[0].To != task.Pending || logs[0].Actor != "user:ada" {
			t.Errorf("its log: %+v", logs)
		}
		for name, c := range map[string]struct {
			with  func(*task.Task)
			field string
		}{
			"no title":         {func(d *task.Task) { d.Title = " " }, "title"},
			"a long title":     {func(d *task.Task) { d.Title = strings.Repeat("é", 256) }, "title"},
			"priority 11":      {func(d *task.Task) { d.Priority = 11 }, "priority"},
			"an array":         {func(d *task.Task) { d.Input = json.RawMessage(`[]`) }, "inputContext"},
			"much metadata":    {func(d *task.Task) { d.Metadata = json.RawMessage(`{"a":"` + strings.Repeat("x", 17<<10) + `"}`) }, "metadata"},
			"a comma in a tag": {func(d *task.Task) { d.Tags = []string{"a,b"} }, "tags"},
			"backoff 0":        {func(d *task.Task) { d.BackoffSeconds = 0 }, "retryBackoffSeconds"},
		} {
			d := draft("x")
			c.with(&d)
			_, err := w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) { return w.s.Create(ctx, tx, d) })
			if wrong, ok := errors.AsType[*problem.InvalidError](err); !ok || wrong.Fields[0].Field != c.field {
				t.Errorf("%s: %v", name, err)
			}
		}
		neighbour := newWorld(t, w.Env)
		neighbour.Workspace = dbtest.NewWorkspace(t, w.DB)
		for field, with := range map[string]func(*task.Task){
			"dependsOn":   func(d *task.Task) { d.DependsOn = []string{first.ID} },
			"blocks":      func(d *task.Task) { d.Blocks = []string{first.ID} },
			"threadId":    func(d *task.Task) { d.Thread = thread },
			"projectId":   func(d *task.Task) { d.Project = thread },
			"milestoneId": func(d *task.Task) { d.Milestone = thread },
		} {
			d := draft("foreign")
			with(&d)
			_, err := neighbour.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) { return neighbour.s.Create(ctx, tx, d) })
			if missing, ok := errors.AsType[*task.MissingError](err); !ok || missing.Field != field {
				t.Errorf("%s of another workspace: %v", field, err)
			}
		}
		if _, err := neighbour.s.Get(t.Context(), neighbour.Workspace, is.ID); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("of another workspace: %v", err)
		}
		if _, err := neighbour.cancel(t, is.ID); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("of another workspace: %v", err)
		}
		if _, err := neighbour.s.Logs(t.Context(), neighbour.Workspace, is.ID, task.LogFilter{Limit: 1}); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("of another workspace: %v", err)
		}
	})
}

// TestSecretsAreNotStored: an input with a secret is refused, and what is reported loses it.
func TestSecretsAreNotStored(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		known := redact.New(nil)
		known.Add(secret.NewValue("hunter2-hunter2"))
		said := func(fn func(context.Context, *db.Tx) (task.Task, error)) (is task.Task, err error) {
			err = w.DB.Tx(redact.With(t.Context(), known), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
				is, err = fn(ctx, tx)
				return err
			})
			return is, err
		}
		d := draft("with hunter2-hunter2")
		d.Input = json.RawMessage(`{"password":"hunter2-hunter2"}`)
		_, err := said(func(ctx context.Context, tx *db.Tx) (task.Task, error) { return w.s.Create(ctx, tx, d) })
		if wrong, ok := errors.AsType[*problem.InvalidError](err); !ok || wrong.Fields[0].Field != "inputContext" {
			t.Errorf("an input with a secret: %v", err)
		}
		d.Input = nil
		is, err := said(func(ctx context.Context, tx *db.Tx) (task.Task, error) { return w.s.Create(ctx, tx, d) })
		if err != nil || strings.Contains(is.Title, "hunter2") {
			t.Fatalf("%+v, %v", is, err)
		}
		w.assign(t, is.ID)
		is, err = said(func(ctx context.Context, tx *db.Tx) (task.Task, error) {
			return w.s.Complete(ctx, tx, task.Report{Task: is.ID, Actor: "agent:a"}, []byte(`{"a":"hunter2-hunter2"}`), "hunter2-hunter2")
		})
		if err != nil || strings.Contains(string(is.Output)+is.Summary, "hunter2") {
			t.Errorf("%s %s, %v", is.Output, is.Summary, err)
		}
	})
}

func TestList(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var made []string
		for i := range 6 {
			d := draft(fmt.Sprintf("No. %d_", i))
			d.Priority, d.Tags, d.Type = 5+i%3, []string{"all", []string{"even", "odd"}[i%2]}, "kind"
			d.Description = strings.Repeat("100% ", i%2)
			made = append(made, w.create(t, d).ID)
		}
		if _, err := w.cancel(t, made[0]); err != nil {
			t.Fatal(err)
		}
		third := w.get(t, made[3])
		for name, c := range map[string]struct {
			f    task.Filter
			want []int
		}{
			"all, newest first": {task.Filter{}, []int{5, 4, 3, 2, 1, 0}},
			"oldest first":      {task.Filter{Order: task.Oldest}, []int{0, 1, 2, 3, 4, 5}},
			"urgent first":      {task.Filter{Order: task.Urgent}, []int{2, 5, 1, 4, 0, 3}},
			"status":            {task.Filter{Status: task.Aborted}, []int{0}},
			"priority from":     {task.Filter{MinPriority: 6}, []int{5, 4, 2, 1}},
			"priority to":       {task.Filter{MaxPriority: 5}, []int{3, 0}},
			"a tag":             {task.Filter{Tags: []string{"even"}}, []int{4, 2, 0}},
			"two tags":          {task.Filter{Tags: []string{"odd", "all"}}, []int{5, 3, 1}},
			"no such tags":      {task.Filter{Tags: []string{"odd", "even"}}, nil},
			"half a tag":        {task.Filter{Tags: []string{"all", "eve"}}, nil},
			"type":              {task.Filter{Type: "kind"}, []int{5, 4, 3, 2, 1, 0}},
			"no type":           {task.Filter{Type: "other"}, nil},
			"text":              {task.Filter{Text: "NO. 3_"}, []int{3}},
			"text with %":       {task.Filter{Text: "0%"}, []int{5, 3, 1}},
			"no wildcard":       {task.Filter{Text: "N%"}, nil},
			"agent":             {task.Filter{Agent: ids()}, nil},
			"thread":            {task.Filter{Thread: ids()}, nil},
			"after":             {task.Filter{CreatedAfter: third.CreatedAt}, []int{5, 4}},
			"before":            {task.Filter{CreatedBefore: third.CreatedAt}, []int{2, 1, 0}},
		} {
			var got []int
			for {
				c.f.Limit = 2
				page, err := w.s.List(t.Context(), w.Workspace, c.f)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				for _, is := range page {
					got = append(got, slices.Index(made, is.ID))
					c.f.After = task.Place{Priority: is.Priority, At: is.CreatedAt, ID: is.ID}
				}
				if len(page) < 2 {
					break
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
	})
}

func TestPatch(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		is := w.create(t, draft("a"))
		title, priority, tags, retries := "b", 7, []string{"x"}, 9
		when := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
		at := &when
		is, err := w.patch(t, is.ID, task.Patch{Title: &title, Priority: &priority, Tags: &tags, MaxRetries: &retries, EstimatedAt: &at})
		if err != nil || is.Title != "b" || is.Priority != 7 || !slices.Equal(is.Tags, tags) || is.MaxRetries != 9 || !is.EstimatedAt.Equal(when) || is.Version != 2 {
			t.Errorf("%+v, %v", is, err)
		}
		found, err := w.s.List(t.Context(), w.Workspace, task.Filter{Tags: tags, Limit: 5})
		if err != nil || len(found) != 1 {
			t.Errorf("by its new tag: %d, %v", len(found), err)
		}
		refused := errors.New("another version")
		_, err = w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
			return w.s.Patch(ctx, tx, is.ID, "user:ada", func(task.Task) error { return refused }, task.Patch{Title: &title})
		})
		if !errors.Is(err, refused) {
			t.Errorf("a refused match: %v", err)
		}
		for _, to := range []task.Status{task.Completed, task.Running, "nonsense"} {
			if _, err := w.become(t, is.ID, to); err == nil {
				t.Errorf("a patch makes it %s", to)
			}
		}
		if got := w.get(t, is.ID); got.Version != 2 {
			t.Errorf("what was refused has changed it: %+v", got)
		}
	})
}

// TestFencesOfAttempts: an attempt that is over can't report any more.
func TestFencesOfAttempts(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d := draft("fenced")
		d.MaxRetries = 1
		is := w.running(t, d)
		step, half := "reads", 50
		is, err := w.advance(t, is.ID, 1, task.Progress{Percent: &half, Step: &step, Checkpoint: []byte(`{"at":1}`)})
		if err != nil || is.Progress != 50 || is.CurrentStep != "reads" || string(is.Checkpoint) != `{"at":1}` || is.CheckpointVersion != 1 {
			t.Fatalf("%+v, %v", is, err)
		}
		is, err = w.fail(t, is.ID, 1, false)
		if err != nil || is.Status != task.Aborted || is.Retries != 1 || is.Agent != "" || is.LastError != "it broke" || is.NextAttemptAt == nil ||
			is.NextAttemptAt.Sub(is.UpdatedAt).Round(time.Second) != 300*time.Second {
			t.Fatalf("%+v, %v", is, err)
		}
		if _, err := w.retry(t, is.ID); err == nil {
			t.Error("it was retried before its backoff was over")
		}
		w.Skew.Advance(301 * time.Second)
		if is, err = w.retry(t, is.ID); err != nil || is.Status != task.Pending || is.NextAttemptAt != nil || string(is.Checkpoint) != `{"at":1}` {
			t.Fatalf("%+v, %v", is, err)
		}
		w.assign(t, is.ID)
		stale := func(err error) {
			t.Helper()
			if e, ok := errors.AsType[*task.StaleError](err); !ok || e.Attempt != 1 || e.Present != 2 {
				t.Errorf("a report on attempt 1: %v", err)
			}
		}
		_, err = w.complete(t, is.ID, 1)
		stale(err)
		_, err = w.fail(t, is.ID, 1, true)
		stale(err)
		_, err = w.advance(t, is.ID, 1, task.Progress{Percent: &half})
		stale(err)
		if is, err = w.complete(t, is.ID, 2); err != nil || is.Status != task.Completed || is.Progress != 100 || string(is.Output) != `{"n":1}` || is.Agent == "" {
			t.Errorf("%+v, %v", is, err)
		}
		if _, err := w.complete(t, is.ID, 2); err == nil {
			t.Error("it was completed twice")
		}
		var attempts []string
		err = w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
			var n, version int
			var outcome string
			err := scan(&n, &outcome, &version)
			attempts = append(attempts, fmt.Sprint(n, outcome, version))
			return err
		}, w.q.Attempts, is.ID)
		if want := []string{"1failed1", "2completed0"}; err != nil || !slices.Equal(attempts, want) && !slices.Equal(attempts, []string{"1 failed 1", "2 completed 0"}) {
			t.Errorf("the attempts are %q, want %q: %v", attempts, want, err)
		}
	})
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		base, number int
		random       float64
		want         time.Duration
	}{
		{300, 0, 0.5, 300 * time.Second}, {300, 1, 0.5, 600 * time.Second}, {300, 2, 0, 960 * time.Second}, {300, 0, 1, 360 * time.Second},
		{300, 50, 0.5, 6 * time.Hour}, {21600, 100, 1, 6 * time.Hour},
	} {
		if got := task.Backoff(c.base, c.number, c.random).Round(time.Millisecond); got != c.want {
			t.Errorf("Backoff(%d, %d, %g) = %s, want %s", c.base, c.number, c.random, got, c.want)
		}
	}
}

// TestTheLogIsAppendOnly: the database refuses to change or delete its rows, and to delete a task
// that has some.
func TestTheLogIsAppendOnly(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, draft("kept")).ID
		for name, q := range map[string]db.Query{"a change": w.q.EditLog, "a deletion": w.q.ClearLog, "the deletion of its task": w.q.Remove} {
			if _, err := w.DB.Exec(t.Context(), w.Workspace, q, id); err == nil {
				t.Errorf("%s is taken", name)
			}
		}
		if logs := w.logs(t, id); len(logs) != 1 || logs[0].Message != "the task was created" {
			t.Errorf("the log is %+v", logs)
		}
	})
}

// TestEachChangeHasItsEvent in the transaction that makes it.
func TestEachChangeHasItsEvent(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		is := w.running(t, draft("told"))
		if _, err := w.fail(t, is.ID, 1, false); err != nil {
			t.Fatal(err)
		}
		if _, err := w.cancel(t, is.ID); err != nil { // in its backoff: the status stays
			t.Fatal(err)
		}
		var kinds []string
		err := w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
			var kind, data string
			var of struct {
				Status         string `json:"status"`
				PreviousStatus string `json:"previous_status"`
				Cancelled      bool   `json:"cancelled"`
			}
			err := scan(&kind, &data)
			if err == nil {
				err = json.Unmarshal([]byte(data), &of)
			}
			kinds = append(kinds, strings.TrimSpace(fmt.Sprintln(kind, of.PreviousStatus, of.Status, of.Cancelled)))
			return err
		}, w.q.Happened, is.ID)
		want := []string{
			"task.created  PENDING false", "task.status_changed PENDING ASSIGNED false", "task.status_changed ASSIGNED RUNNING false",
			"task.status_changed RUNNING ABORTED false", "task.status_changed ABORTED ABORTED true",
		}
		if err != nil || !slices.Equal(kinds, want) {
			t.Errorf("the events are %q, %v", kinds, err)
		}
	})
}

func TestWhy(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		why := func(id string, want ...task.Code) string {
			t.Helper()
			summary, reasons, err := w.s.Why(t.Context(), w.Workspace, id)
			var codes []task.Code
			for _, r := range reasons {
				codes = append(codes, r.Code)
			}
			if err != nil || !slices.Equal(codes, want) {
				t.Errorf("%q, %+v, %v; want %v", summary, reasons, err, want)
			}
			return summary
		}
		thread := ids()
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.AddThread, thread); err != nil {
			t.Fatal(err)
		}
		const title = `Say "hi" to 👩‍🍳`
		d := draft(title)
		d.Thread = thread
		one := w.create(t, d)
		if s := why(one.ID, task.WaitsForAgent); s != "it could begin, and no agent has it yet" {
			t.Error(s)
		}
		w.assign(t, one.ID)
		why(one.ID, task.IsAssigned)
		w.start(t, one.ID)
		if s := why(one.ID, task.IsRunning); s != "it is running, in attempt 1" {
			t.Error(s)
		}
		if _, err := w.advance(t, one.ID, 1, task.Progress{Step: new("waits for a person's approval")}); err != nil {
			t.Fatal(err)
		}
		if s := why(one.ID, task.IsRunning); s != "it is running, in attempt 1: waits for a person's approval" {
			t.Error(s)
		}
		d = draft("two")
		d.DependsOn, d.Thread = []string{one.ID}, thread
		two := w.create(t, d)
		if s := why(two.ID, task.WaitsForDependency, task.WaitsForThread); s != `it waits for task "`+title+`" (`+one.ID+`), which is RUNNING` {
			t.Error(s)
		}
		if _, err := w.complete(t, one.ID, 1); err != nil {
			t.Fatal(err)
		}
		why(two.ID, task.WaitsForAgent)
		if _, err := w.archive(t, one.ID); err != nil { // still done
			t.Fatal(err)
		}
		why(two.ID, task.WaitsForAgent)
		why(one.ID, task.HasEnded)
		three, four := w.create(t, draft("three")), w.create(t, draft("four"))
		if _, err := w.depend(t, two.ID, three.ID, four.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := w.cancel(t, four.ID); err != nil {
			t.Fatal(err)
		}
		if s := why(two.ID, task.DependencyFailed, task.WaitsForDependency); s != `it can't begin: it depends on task "four" (`+four.ID+`), which was cancelled, and for 1 more` &&
			!strings.HasPrefix(s, `it can't begin: it depends on task "four"`) {
			t.Error(s)
		}
		if s := why(four.ID, task.IsCancelled); s != "it was cancelled: enough" {
			t.Error(s)
		}
		if _, err := w.become(t, two.ID, task.Paused); err != nil {
			t.Fatal(err)
		}
		why(two.ID, task.IsPaused)
		w.assign(t, three.ID)
		aborted, err := w.fail(t, three.ID, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		if s := why(three.ID, task.WaitsForBackoff); s != "it waits until "+aborted.NextAttemptAt.UTC().Format(time.RFC3339)+", because its last attempt failed: it broke" {
			t.Error(s)
		}
		if _, _, err := w.s.Why(t.Context(), w.Workspace, ids()); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("of nothing: %v", err)
		}
	})
}

// TestOneActiveTaskPerThread: the database refuses a second one.
func TestOneActiveTaskPerThread(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d := draft("in a thread")
		d.Thread = ids()
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.AddThread, d.Thread); err != nil {
			t.Fatal(err)
		}
		w.running(t, d)
		second := w.create(t, d)
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Assign, second.ID, ids()); !errors.Is(err, db.ErrUnique) {
			t.Errorf("a second active task: %v", err)
		}
	})
}

// TestWhatItCosts: none of these grows with the number of rows.
func TestWhatItCosts(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		cost := func(fn func()) db.Stats {
			before := w.DB.Stats()
			fn()
			return w.DB.Stats().Sub(before)
		}
		var on []string
		for n, many := range []int{1, 60} {
			for len(on) < many {
				on = append(on, w.create(t, draft("one of many")).ID)
			}
			d := draft("costs")
			d.DependsOn, d.Tags = on, []string{"a", "b", "c"}[:1+2*n]
			var is task.Task
			works := w.running(t, draft("works"))
			checkpoint := func() {
				if _, err := w.advance(t, works.ID, 1, task.Progress{Checkpoint: json.RawMessage(`{"page":1}`)}); err != nil {
					t.Error(err)
				}
			}
			for _, c := range []struct {
				what       string
				statements int64
				trips      int64 // at most
				fn         func()
			}{
				{"create", 7, 3, func() { is = w.create(t, d) }},
				{"get", 1, 1, func() { w.get(t, is.ID) }},
				{"list", 1, 1, func() {
					if _, err := w.s.List(t.Context(), w.Workspace, task.Filter{Limit: 200}); err != nil {
						t.Error(err)
					}
				}},
				{"why", 3, 1, func() {
					if _, _, err := w.s.Why(t.Context(), w.Workspace, is.ID); err != nil {
						t.Error(err)
					}
				}},
				{"dependencies", 9, 4, func() {
					if _, err := w.depend(t, is.ID, on...); err != nil {
						t.Error(err)
					}
				}},
				{"checkpoint", 6, 3, checkpoint},
				{"the same checkpoint", 2, 2, checkpoint},
				{"complete", 6, 3, func() {
					if _, err := w.complete(t, works.ID, 1); err != nil {
						t.Error(err)
					}
				}},
				{"pause", 5, 3, func() {
					if _, err := w.become(t, is.ID, task.Paused); err != nil {
						t.Error(err)
					}
				}},
				{"cancel", 5, 3, func() {
					if _, err := w.cancel(t, is.ID); err != nil {
						t.Error(err)
					}
				}},
			} {
				if got := cost(c.fn); got.Statements != c.statements || got.RoundTrips > c.trips {
					t.Errorf("%s with %d tasks: %+v, want %d statements in %d round trips", c.what, many, got, c.statements, c.trips)
				}
			}
		}
	})
}

// TestManyAtOnce are created and completed all or none, in a number of statements that does not grow.
func TestManyAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		before := w.create(t, draft("before"))
		blocked := w.create(t, draft("blocked"))
		many := func(n int) []task.Task {
			drafts := make([]task.Task, n)
			for i := range drafts {
				d := draft(fmt.Sprintf("No. %d", i))
				d.ID, d.Tags, d.Input, d.DependsOn = ids(), []string{"all"}, json.RawMessage(`{"n": "<é"}`), []string{before.ID}
				if i > 0 {
					d.DependsOn = append(d.DependsOn, drafts[i-1].ID)
				}
				drafts[i] = d
			}
			drafts[0].Blocks = []string{blocked.ID}
			return drafts
		}
		all := func(drafts []task.Task) (made []task.Task, err error) {
			err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
				made, err = w.s.CreateAll(ctx, tx, drafts)
				return err
			})
			return made, err
		}
		for _, n := range []int{2, 40} {
			stats := w.DB.Stats()
			made, err := all(many(n))
			if cost := w.DB.Stats().Sub(stats); err != nil || cost.Statements != 10 || cost.RoundTrips > 3 {
				t.Fatalf("%d at once: %+v, %v", n, cost, err)
			}
			last := made[n-1]
			if len(made) != n || last.Title != fmt.Sprintf("No. %d", n-1) || string(last.Input) != `{"n": "<é"}` || !slices.Contains(last.DependsOn, made[n-2].ID) ||
				!slices.Equal(last.Tags, []string{"all"}) || !slices.Contains(made[0].Blocks, blocked.ID) {
				t.Errorf("created %+v", last)
			}
			if logs := w.logs(t, last.ID); len(logs) != 1 || logs[0].Event != task.Created || logs[0].Actor != "user:ada" {
				t.Errorf("its log: %+v", logs)
			}
			reports := make([]task.Completion, n)
			for i, m := range made {
				w.assign(t, m.ID)
				reports[i] = task.Completion{Report: task.Report{Task: m.ID, Attempt: 1, Actor: "agent:a"}, Output: []byte(`[1]`), Summary: "done"}
			}
			complete := func(reports []task.Completion) (done []task.Task, err error) {
				err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
					done, err = w.s.CompleteAll(ctx, tx, reports)
					return err
				})
				return done, err
			}
			late := slices.Clone(reports)
			late[1].Attempt = 2
			if _, err := complete(late); !errors.As(err, new(*task.StaleError)) || w.get(t, made[0].ID).Status != task.Assigned {
				t.Errorf("one with an old attempt: %v", err)
			}
			if _, err := complete(append(late[:1:1], late[0])); err == nil {
				t.Error("one task twice is taken")
			}
			late[1].Task = ids()
			if _, err := complete(late); !errors.Is(err, db.ErrNoRows) {
				t.Errorf("one that is not there: %v", err)
			}
			stats = w.DB.Stats()
			done, err := complete(reports)
			if cost := w.DB.Stats().Sub(stats); err != nil || cost.Statements != 6 || cost.RoundTrips > 3 {
				t.Fatalf("%d at once: %+v, %v", n, cost, err)
			}
			for i, is := range done {
				if is.ID != made[i].ID || is.Status != task.Completed || string(is.Output) != `[1]` || is.Summary != "done" || is.CompletedAt == nil {
					t.Errorf("completed %+v", is)
				}
			}
			if logs := w.logs(t, done[1].ID); logs[0].From != task.Assigned || logs[0].To != task.Completed || logs[0].Attempt != 1 || logs[0].Agent == "" {
				t.Errorf("its log: %+v", logs[0])
			}
		}
		for _, c := range []struct {
			name  string
			with  func(drafts []task.Task)
			wrong func(error) bool
		}{
			{"no title", func(d []task.Task) { d[2].Title = "" }, func(err error) bool { return errors.As(err, new(*problem.InvalidError)) }},
			{"no such task", func(d []task.Task) { d[2].DependsOn = []string{ids()} }, func(err error) bool { return errors.As(err, new(*task.MissingError)) }},
			{"no such thread", func(d []task.Task) { d[2].Thread = ids() }, func(err error) bool { return errors.As(err, new(*task.MissingError)) }},
			{"a cycle inside", func(d []task.Task) { d[0].DependsOn, d[0].Blocks = []string{d[2].ID}, nil }, func(err error) bool {
				cycle, ok := errors.AsType[*task.CycleError](err)
				return ok && len(cycle.Path) == 4 && cycle.Path[0] == cycle.Path[3]
			}},
			{"itself", func(d []task.Task) { d[1].DependsOn = []string{d[1].ID} }, func(err error) bool { return errors.As(err, new(*task.CycleError)) }},
		} {
			drafts := many(3)
			c.with(drafts)
			_, err := all(drafts)
			if !c.wrong(err) {
				t.Errorf("%s: %v", c.name, err)
			}
			if _, err := w.s.Get(t.Context(), w.Workspace, drafts[0].ID); !errors.Is(err, db.ErrNoRows) {
				t.Errorf("%s: some were created", c.name)
			}
		}
		// A chain through a task that was there: it depends on the last, and the first on it.
		drafts := many(3)
		drafts[2].Blocks, drafts[0].Blocks, drafts[0].DependsOn = []string{blocked.ID}, nil, []string{blocked.ID}
		if _, err := all(drafts); !errors.As(err, new(*task.CycleError)) {
			t.Errorf("a cycle through a task that was there: %v", err)
		}
	})
}
