package action_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

const messages = `[{"then":{"message":{"thread":{"channel":"http","address":"https://example.com/{{body.number}}"},"body":"Look at: {{body.title}}"}}}]`

func (w *world) sayings() []thread.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]thread.Message{}, w.said...)
}

// TestAnswersLeaveByTheChannelOfTheirThread once, under one key, and stand in the thread then; and so
// does that of a turn that waits for a person, which does not keep others from speaking.
func TestAnswersLeaveByTheChannelOfTheirThread(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.source(t, "gh", messages)
		w.answers = []llm.Response{
			says("", llm.ToolCall{ID: "c1", Name: "notify", Arguments: `{"text":"x"}`}), says("I have asked."), says("The second."),
		}
		w.unsaid = errors.New("it is away")
		w.receive(t, "gh", "d1", `{"number":7,"title":"one"}`)
		w.drain(t)
		if got := w.sayings(); len(got) != 0 {
			t.Fatalf("said: %+v", got)
		}
		w.mu.Lock()
		w.unsaid = nil
		w.mu.Unlock()
		w.receive(t, "gh", "d2", `{"number":7,"title":"two"}`)
		w.drain(t)
		w.Skew.Advance(time.Hour)
		w.drain(t)
		got := w.sayings()
		if len(got) != 2 || got[0].Body != "I have asked." || got[1].Body != "The second." || got[0].Key == got[1].Key || got[0].Address != "https://example.com/7" {
			t.Fatalf("said: %+v", got)
		}
		for _, m := range must(w.Threads.Lately(t.Context(), w.Workspace, got[0].Thread, 10))(t) {
			if m.Role == thread.Assistant && m.Body != got[0].Body && m.Body != got[1].Body {
				t.Errorf("the thread has %q", m.Body)
			}
		}
		rows, _, err := w.Outbox.List(t.Context(), w.Workspace, outbox.Filter{Topic: thread.Topic("http"), Limit: 10})
		if err != nil || len(rows) != 2 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for _, row := range rows {
			if row.Status != outbox.Sent || row.Trace == "" || row.Execution == "" {
				t.Errorf("a row of the outbox is %+v", row)
			}
		}
		w.mustBeFree(t)
	})
}

// TestWhyThereIsNoAnswerStaysInTheThread: it names skills and errors, which are nobody's outside.
func TestWhyThereIsNoAnswerStaysInTheThread(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.source(t, "gh", messages)
		w.answers = []llm.Response{says("I notify.", llm.ToolCall{ID: "c1", Name: "list_skills", Arguments: `{}`})} // then the model fails
		w.receive(t, "gh", "d1", `{"number":7,"title":"one"}`)
		w.drain(t)
		w.Skew.Advance(time.Hour)
		w.drain(t)
		if got := w.sayings(); len(got) != 0 {
			t.Errorf("said: %+v", got)
		}
		all, _, err := w.Threads.List(t.Context(), w.Workspace, thread.Filter{Channel: "http"})
		if err != nil || len(all) != 1 {
			t.Fatalf("threads: %+v, %v", all, err)
		}
		said := must(w.Threads.Lately(t.Context(), w.Workspace, all[0].ID, 10))(t)
		if len(said) != 2 || !strings.Contains(said[1].Body, "(stopped: the model failed: bad_request; done so far: list_skills)") {
			t.Errorf("the thread has %+v", said)
		}
	})
}

// TestAMessageOutlivesAnOutage of the model: its turn is tried again, because nobody who waits would send it again.
func TestAMessageOutlivesAnOutage(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.source(t, "gh", messages)
		w.answers = []llm.Response{says("Here I am.")}
		w.away = &llm.Error{Class: llm.ClassOverloaded, Provider: "script"}
		id := w.receive(t, "gh", "d1", `{"number":7,"title":"one"}`)
		for range 25 { // more often than the outbox tries at short intervals
			w.drain(t)
			w.Skew.Advance(time.Hour)
		}
		e := must(w.Runs.Get(t.Context(), w.Workspace, w.delivery(t, id).Execution))(t)
		if e.Status != execution.Parked || len(w.sayings()) != 0 {
			t.Errorf("while the model is away it is %s, said %+v", e.Status, w.sayings())
		}
		w.mu.Lock()
		w.away = nil
		w.mu.Unlock()
		w.Skew.Advance(time.Hour)
		w.drain(t)
		if got := w.sayings(); len(got) != 1 || got[0].Body != "Here I am." {
			t.Errorf("afterwards said: %+v", got)
		}
		w.mustBeFree(t)
	})
}

// TestMessagesKeepTheirOrderInAnOutage: a turn that waits for the model keeps its place in its conversation, and a
// message that comes later has it tried at once, before its own.
func TestMessagesKeepTheirOrderInAnOutage(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.source(t, "gh", messages)
		w.answers = []llm.Response{says("First."), says("Second."), says("Third.")}
		w.away = &llm.Error{Class: llm.ClassOverloaded, Provider: "script"}
		w.receive(t, "gh", "d1", `{"number":7,"title":"one"}`)
		for range 25 { // until it is tried seldom
			w.drain(t)
			w.Skew.Advance(time.Hour)
		}
		w.drain(t)
		w.mu.Lock()
		w.away = nil
		w.mu.Unlock()
		for _, d := range []string{"two", "three"} {
			w.receive(t, "gh", d, `{"number":7,"title":"`+d+`"}`)
			for range 3 {
				w.drain(t)
				w.Skew.Advance(15 * time.Second)
			}
		}
		var said, told []string
		for _, m := range w.sayings() {
			said = append(said, m.Body)
		}
		w.mu.Lock()
		for _, m := range w.asked[len(w.asked)-1].Messages {
			told = append(told, m.Text)
		}
		w.mu.Unlock()
		if want := []string{"First.", "Second.", "Third."}; !slices.Equal(said, want) {
			t.Errorf("within 45 s each was answered %q, want %q", said, want)
		}
		if want := []string{"Look at: one", "First.", "Look at: two", "Second.", "Look at: three"}; !slices.Equal(told, want) {
			t.Errorf("the model is told %q, want %q", told, want)
		}
		w.mustBeFree(t)
	})
}

// TestFullQueuesKeepDeliveriesInTheInbox: as many turns wait in a conversation as the settings allow,
// and ten times as many in the workspace; what comes then waits, and no try is counted.
func TestFullQueuesKeepDeliveriesInTheInbox(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		queue := must(w.Turns.Settings(t.Context(), w.Workspace))(t).SessionQueue
		opened := must(w.Threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: "http", Address: "https://example.com/7"}))(t)
		wait := func(of lane.Name, n int) (all []string) {
			for range n {
				id := ids()
				e, kick, err := w.Turns.Written(turn.Turn{Surface: trace.Webhook, Lane: of, Thread: opened.ID, Message: "x", By: "test"}, id, traces.New(trace.Webhook))
				if err != nil {
					t.Fatal(err)
				}
				h := must(w.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: e.Subject, Holder: "test"}))(t)
				err = w.Lanes.InHold(t.Context(), lane.Holds{h}, func(ctx context.Context, tx lane.Tx) error {
					kick.Execution = id
					w.Outbox.Enqueue(ctx, tx.Later(), kick)
					tx.Release(w.Lanes, h)
					return w.Runs.Start(tx, e)
				})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, id)
			}
			return all
		}
		end := func(all []string) {
			for _, id := range all {
				e := must(w.Runs.Get(t.Context(), w.Workspace, id))(t)
				h := must(w.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: e.Subject, Holder: "test"}))(t)
				err := w.Lanes.InHold(t.Context(), lane.Holds{h}, func(_ context.Context, tx lane.Tx) error {
					w.Outbox.Withdraw(tx.Later(), "execution:"+id)
					tx.Release(w.Lanes, h)
					return w.Runs.Leave(tx, e, execution.Failed, nil, "")
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		w.source(t, "gh", messages)
		for name, filled := range map[string]func() []string{
			"conversation": func() []string { return wait(lane.Name("session:"+opened.ID), queue+1) },
			"workspace": func() (all []string) {
				for i := range 10 {
					all = append(all, wait(lane.Name(fmt.Sprintf("session:other-%d", i)), queue)...)
				}
				return all
			},
		} {
			all := filled()
			id := w.receive(t, "gh", name, `{"number":7,"title":"x"}`)
			handle := func() error {
				for _, row := range must(w.Outbox.Claim(t.Context(), outbox.Request{Workspace: w.Workspace, Topics: []string{inbox.Topic}, Holder: "test", Limit: 10, Lease: time.Second}))(t) {
					if about, _ := inbox.DeliveryOf(row.Payload); about == id {
						return w.Handle(t.Context(), row)
					}
				}
				t.Fatalf("%s: its row is not due", name)
				return nil
			}
			if err := handle(); err == nil {
				t.Errorf("%s: the turn begins", name)
			} else if _, later := errors.AsType[*outbox.LaterError](err); !later {
				t.Errorf("%s: %v", name, err)
			}
			if d := w.delivery(t, id); d.Status != inbox.Received || d.Attempts != 0 {
				t.Errorf("%s, full: %+v", name, d)
			}
			end(all)
			w.Skew.Advance(2 * time.Second)
			if err := handle(); err != nil {
				t.Errorf("%s, with room: %v", name, err)
			}
			if d := w.delivery(t, id); d.Status != inbox.Done {
				t.Errorf("%s, with room: %+v", name, d)
			}
			end([]string{id})
		}
	})
}
