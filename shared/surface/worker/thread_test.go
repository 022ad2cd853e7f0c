package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

const answers = `[{"then":{"task":{"title":"Answer {{body.from}}",
	"thread":{"channel":"log","address":"{{body.from}}","message":"{{body.text}}"}}}}]`

// TestFromAWebhookToItsAnswer in one thread: each delivery appends its message and creates a task. One
// task of the thread is worked on at a time, under the lock of the thread, and its end has the next one
// begin. The answers stand in the thread, and all is in the trace of its delivery.
func TestFromAWebhookToItsAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		n := inbox.Source{Name: "shop", Kind: inbox.GitHub, Enabled: true, CreatedBy: "user:ada"}
		if err := json.Unmarshal([]byte(answers), &n.Rules); err != nil {
			t.Fatal(err)
		}
		draft := must(w.Inbox.Seal(t.Context(), w.Workspace, n, secret.NewValue("a secret of the sender")))(t)
		w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.Inbox.Create(ctx, tx, draft); return err })
		slug := must(w.Workspaces.List(t.Context(), []db.Workspace{w.Workspace}))(t)[0].Slug
		traces := map[string]trace.ID{}
		for i, text := range []string{"When do you open?", "And on Sundays?"} {
			f, id := must(w.Inbox.Find(t.Context(), slug, "shop"))(t), w.Traces.New(trace.Webhook)
			body := fmt.Sprintf(`{"from":"ada","text":%q}`, text)
			c := inbox.Content{ID: fmt.Sprint(i), Event: "message", Digest: fmt.Sprintf("%064x", i), Headers: map[string]string{"content-type": "application/json"}}
			must(w.Inbox.Receive(trace.With(t.Context(), id), f, c, []byte(body)))(t)
			w.drain(t)
			traces[string(id)] = id
		}
		var said []thread.Spoken
		look := func() (is thread.Thread) {
			all, _, err := w.Threads.List(t.Context(), w.Workspace, thread.Filter{Channel: "log", Address: "ada"})
			if err != nil || len(all) != 1 {
				t.Fatalf("threads: %+v, %v", all, err)
			}
			said = must(w.Threads.Lately(t.Context(), w.Workspace, all[0].ID, 10))(t)
			return all[0]
		}
		in := look().ID
		w.answers(func(_ context.Context, r llm.Request) (llm.Response, error) {
			if l := look().Lock; l.State != thread.Active {
				t.Errorf("while it works the thread is %+v", l)
			}
			return says(fmt.Sprintf("Of %d messages.", strings.Count(r.Messages[0].Text, `"role":`))), nil
		})
		for turn := range 2 {
			w.cycle(t)
			ticks := w.next()
			if len(ticks) != 1 {
				t.Fatalf("turn %d: invoked %+v", turn, ticks)
			}
			is := w.get(t, ticks[0].Task)
			if is.Thread != in || !is.Untrusted {
				t.Errorf("the task: %+v", is)
			}
			must(w.Work.Run(t.Context(), ticks[0]))(t)
			all := w.executions(t, is.ID)
			if !slices.ContainsFunc(all, func(e execution.Execution) bool {
				return e.Surface == trace.Worker && e.Trace == traces[string(e.Trace)]
			}) {
				t.Errorf("in the trace of the delivery: %+v", all)
			}
			w.Skew.Advance(time.Minute)
		}
		w.drain(t) // what leaves by a channel stands in the thread once it was sent
		look()
		var bodies []string
		for _, m := range said {
			bodies = append(bodies, string(m.Role)+": "+m.Body)
		}
		want := []string{"user: When do you open?", "user: And on Sundays?", "assistant: Of 2 messages.", "assistant: Of 3 messages."}
		if !slices.Equal(bodies, want) || look().Lock.State != thread.Free {
			t.Errorf("the thread: %q, %+v", bodies, look().Lock)
		}
	})
}

// TestTheAnswerOfATaskKeepsItsTrust in the thread, for the turns that read it there.
func TestTheAnswerOfATaskKeepsItsTrust(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.answers(func(context.Context, llm.Request) (llm.Response, error) { return says("Done."), nil })
		for _, outside := range []bool{false, true} {
			in := must(w.Threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: "operate", Address: w.IDs()}))(t)
			w.create(t, task.Task{Title: "Tell", Thread: in.ID, Untrusted: outside})
			w.cycle(t)
			w.run(t)
			said := must(w.Threads.Lately(t.Context(), w.Workspace, in.ID, 10))(t)
			if len(said) != 1 || said[0].Body != "Done." || (said[0].Trust() == execution.Untrusted) != outside {
				t.Errorf("untrusted %v: the thread is %+v", outside, said)
			}
		}
	})
}

// TestAModelChoosesNoThread after it has read untrusted text: the result would be told there.
func TestAModelChoosesNoThread(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.answers(func(_ context.Context, r llm.Request) (llm.Response, error) {
			if results(r) == 0 {
				return says("", llm.ToolCall{ID: "a", Name: task.CreateSkill, Arguments: `{"title":"Leak","thread":{"channel":"log","address":"mallory"}}`}), nil
			}
			return says("Done."), nil
		})
		id := w.create(t, task.Task{Title: "Outside", Untrusted: true})
		w.cycle(t)
		w.run(t)
		all, _, err := w.Threads.List(t.Context(), w.Workspace, thread.Filter{})
		made := must(w.Tasks.List(t.Context(), w.Workspace, task.Filter{Limit: 10}))(t)
		if err != nil || len(all) != 0 || len(made) != 1 || w.get(t, id).Status != task.Completed {
			t.Errorf("threads %+v, tasks %+v, %v", all, made, err)
		}
	})
}
