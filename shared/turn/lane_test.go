package turn_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// visits is the kind of the conversations with visitors. Each visitor has a lane.
var visits = turn.Kind{
	Surface: trace.Chat, Name: "chat", Agent: "visitor_chat", Channel: "chat", Prompt: "You are the host.", Trust: execution.Untrusted,
	Multitask: []turn.Multitask{turn.Enqueue},
}

// visiting begins a visitor's turn in a lane and does not wait for it.
func (w *world) visiting(name lane.Name, message string) *saying {
	s := &saying{begun: make(chan string, 1), ended: make(chan struct{})}
	ctx := trace.With(context.Background(), traces.New(trace.Chat))
	go func() {
		defer close(s.ended)
		s.reply, s.err = w.Runner.Talk(ctx, w.Workspace, turn.Turn{
			Surface: trace.Chat, Lane: name, Message: message, By: string(name),
			Begun: func(execution, _ string) { s.begun <- execution },
		})
	}()
	return s
}

// TestEachLaneHasItsOwnLine: turns of one lane do not wait for those of another lane.
func TestEachLaneHasItsOwnLine(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.Kinds = append(slices.Clone(w.Kinds), visits)
		h, b := newThinking(), newThinking()
		m := llmtest.Write(t, h.then("One."), b.then("Hello, bob."), llmtest.Writes("Hello, ada."), llmtest.Writes("Again, bob."),
			llmtest.Writes("Two."))
		w.think(m)
		first := w.visiting("session:web:ann", "1")
		id := <-first.begun
		<-h.asked
		second := w.visiting("session:web:ann", "2")
		<-second.begun
		bob := w.visiting("session:web:bob", "Hi.")
		<-bob.begun
		<-b.asked
		again := w.visiting("session:web:bob", "Again.")
		<-again.begun
		if got := w.said(t, turn.Turn{Message: "Hi."}); got.Answer != "Hello, ada." {
			t.Errorf("ada got %+v", got)
		}
		close(b.answer)
		if bob.end(t).Answer != "Hello, bob." || again.end(t).Answer != "Again, bob." {
			t.Errorf("bob got %+v and %+v", bob.reply, again.reply)
		}
		close(h.answer)
		if first.end(t).Answer != "One." || second.end(t).Answer != "Two." {
			t.Errorf("ann got %+v and %+v", first.reply, second.reply)
		}
		if e := w.execution(t, id); e.Agent != "visitor_chat" || e.Surface != trace.Chat || m.Request(0).System != visits.Prompt {
			t.Errorf("ann's execution is %+v, of a model that was told %q", e, m.Request(0).System)
		}
		journal := must(w.Runs.Journal(t.Context(), w.Workspace, id, 0))(t)
		if len(journal) == 0 || journal[0].Trust != execution.Untrusted {
			t.Errorf("ann's words are taken for the operator's: %+v", journal)
		}
		if got := must(w.Threads.Get(t.Context(), w.Workspace, first.reply.Thread))(t); got.Channel != "chat" {
			t.Errorf("ann's thread is %+v", got)
		}
		if told := w.actions(t, "chat"); len(told) != 4 || told[0].Agent != "visitor_chat" {
			t.Errorf("the log says %+v", told)
		}
		w.mustBeFree(t)
	})
}

// TestAKindKnowsItsStrategies: a kind accepts only its own strategies and its own threads.
func TestAKindKnowsItsStrategies(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.Kinds = append(slices.Clone(w.Kinds), visits)
		w.think(llmtest.Write(t, llmtest.Writes("Hello.")))
		visit := turn.Turn{Surface: trace.Chat, Lane: "session:web:ann", Message: "1", By: "ann", Multitask: turn.Rollback}
		if _, err := w.Runner.Talk(t.Context(), w.Workspace, visit); !errors.Is(err, turn.ErrMultitask) {
			t.Errorf("got %v", err)
		}
		mine := w.said(t, turn.Turn{Message: "Hi."})
		visit.Multitask, visit.Thread = turn.Enqueue, mine.Thread
		if _, err := w.Runner.Talk(t.Context(), w.Workspace, visit); !errors.Is(err, turn.ErrNoThread) {
			t.Errorf("in a thread of another channel got %v", err)
		}
		visit.Surface = trace.Webhook
		if _, err := w.Runner.Talk(t.Context(), w.Workspace, visit); err == nil {
			t.Error("a surface without conversations has one")
		}
	})
}
