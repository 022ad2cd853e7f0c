package turn_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// TestAnAnswerStaysInAFullThread: where as many messages as may wait to be sent, an answer can't leave. The
// turn ends, and its answer stands in the thread.
func TestAnAnswerStaysInAFullThread(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		leaving := visits
		leaving.Deliverable = func(_, _, _ string) error { return nil }
		w.Kinds = append(slices.Clone(w.Kinds), leaving)
		w.think(llmtest.Write(t, llmtest.Writes("Hello, ann.")))
		in := must(w.Threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: leaving.Channel, Address: "ann"}))(t)
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			for i := range 1000 {
				if err := w.Threads.Answer(ctx, tx, in, thread.Outgoing{Thread: in.ID, Body: "wait", Key: fmt.Sprint(i)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx := trace.With(t.Context(), traces.New(trace.Chat))
		r, err := w.Runner.Talk(ctx, w.Workspace, turn.Turn{
			Surface: trace.Chat, Lane: lane.Name("session:web:ann"), Message: "Hi.", Thread: in.ID, By: "ann",
		})
		if err != nil || r.Status != execution.Completed || r.Answer != "Hello, ann." {
			t.Errorf("got %+v, %v", r, err)
		}
		if got := w.spoken(t, in.ID); !slices.Equal(got, []string{"user: Hi.", "assistant: Hello, ann."}) {
			t.Errorf("in the thread stands %q", got)
		}
		w.mustBeFree(t)
	})
}

// taking is a channel that takes everything.
type taking string

// Name implements [thread.Channel].
func (c taking) Name() string { return string(c) }

// Send implements [thread.Channel].
func (taking) Send(context.Context, thread.Message) error { return nil }

// TestATurnKnowsWhatWasAnsweredAndNotSent: the channel may take its time, or be away. Without the answer to the message
// before, the model would answer that too, and make its calls again.
func TestATurnKnowsWhatWasAnsweredAndNotSent(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		leaving := visits
		leaving.Deliverable = func(_, _, _ string) error { return nil }
		w.Kinds = append(slices.Clone(w.Kinds), leaving)
		m := llmtest.Write(t, llmtest.Writes("Your order is seven."), llmtest.Writes("It is cancelled."), llmtest.Writes("It was."))
		w.think(m)
		in := must(w.Threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: leaving.Channel, Address: "ann"}))(t)
		want := []string{"user: My order?"}
		for i, c := range []struct{ says, answer string }{
			{"My order?", "Your order is seven."}, {"Cancel it.", "It is cancelled."}, {"Was it?", "It was."},
		} {
			ctx := trace.With(t.Context(), traces.New(trace.Chat))
			r, err := w.Runner.Talk(ctx, w.Workspace, turn.Turn{
				Surface: trace.Chat, Lane: lane.Name("session:web:ann"), Message: c.says, Thread: in.ID, By: "ann",
			})
			if err != nil || r.Answer != c.answer {
				t.Fatalf("got %+v, %v", r, err)
			}
			var told []string
			for _, one := range m.Request(i).Messages {
				told = append(told, fmt.Sprintf("%s: %s", one.Role, one.Text))
			}
			if !slices.Equal(told, want) {
				t.Errorf("message %d: the model is told %q, want %q", i, told, want)
			}
			if i == 0 { // it is sent before the next message comes
				s := outbox.Sender{Store: w.Outbox, Handlers: w.Threads.Handlers(taking(leaving.Channel)), Log: w.Log}
				if got, err := s.Drain(t.Context(), w.Workspace, 20); err != nil || got.Sent != 1 {
					t.Fatalf("sent %+v, %v", got, err)
				}
			}
			want = append(want, "assistant: "+c.answer, "user: "+[]string{"Cancel it.", "Was it?", ""}[i])
		}
		if got := w.spoken(t, in.ID); len(got) != 4 {
			t.Errorf("in the thread stands %q", got)
		}
	})
}
