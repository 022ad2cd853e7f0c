package turn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

const ann lane.Name = "session:web:ann"

// visitor has ann talk in a thread of hers.
type visitor struct {
	*world
	thread string
}

// onVisits runs fn where visitors may steer turns, and have their messages collected.
func onVisits(t *testing.T, fn func(t *testing.T, v visitor)) {
	t.Helper()
	onEach(t, func(t *testing.T, w *world) {
		kind := visits
		kind.Multitask = []turn.Multitask{turn.Enqueue, turn.Steer, turn.Collect}
		w.Kinds = append(slices.Clone(w.Kinds), kind)
		th := must(w.Threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: "chat", Address: "ann"}))(t)
		fn(t, visitor{w, th.ID})
	})
}

// says is a message of hers, on its way. Its context is the process's.
func (v visitor) says(ctx context.Context, message string, how turn.Multitask) *saying {
	s := &saying{begun: make(chan string, 1), ended: make(chan struct{})}
	ctx = trace.With(ctx, traces.New(trace.Chat))
	go func() {
		defer close(s.ended)
		s.reply, s.err = v.Runner.Talk(ctx, v.Workspace, turn.Turn{
			Surface: trace.Chat, Lane: ann, Thread: v.thread, Message: message, By: "ann", Multitask: how,
			Begun: func(execution, _ string) { s.begun <- execution },
		})
	}()
	return s
}

// thinks asks for a call, once the test says so.
func (h thinking) thinks() llmtest.Writing {
	return func(ctx context.Context, req llm.Request, write func(string)) (llm.Response, error) {
		close(h.asked)
		<-h.answer
		return llmtest.WritesCalls("", "note", `{"what":"x"}`)(ctx, req, write)
	}
}

func asked(r llm.Request) (texts []string) {
	for _, m := range r.Messages {
		if m.Role == llm.RoleUser {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

// TestAMessageSteersTheRunningTurn: it comes into it at the next step, and has its answer.
func TestAMessageSteersTheRunningTurn(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		h := newThinking()
		m := llmtest.Write(t, h.thinks(), llmtest.Writes("Both."))
		v.think(m)
		first := v.says(t.Context(), "1", turn.Enqueue)
		id := <-first.begun
		<-h.asked
		second := v.says(t.Context(), "2", turn.Steer)
		joins := <-second.begun
		close(h.answer)
		if r := first.end(t); r.Answer != "Both." || r.Execution != id {
			t.Errorf("the first is %+v", r)
		}
		if r := second.end(t); r.Answer != "Both." || r.Execution != id || r.Status != execution.Completed {
			t.Errorf("the second is %+v", r)
		}
		if got := asked(m.Request(1)); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("the model is told %q", got)
		}
		if got := v.spoken(t, v.thread); !slices.Equal(got, []string{"user: 1", "user: 2", "assistant: Both."}) {
			t.Errorf("the thread is %q", got)
		}
		if e := v.execution(t, joins); e.Status != execution.Completed || e.PromptTokens != 0 {
			t.Errorf("the second's execution is %+v", e)
		}
		behind := turn.Position{Seq: 1, Part: 2, Sum: 3} // of the events of the execution that answers
		if events, next, reply, err := v.Events(t.Context(), v.Workspace, joins, behind); err != nil || len(events) > 0 || next != behind || reply.AnsweredBy != id {
			t.Errorf("of the second's execution is told %+v, up to %s, %+v, %v", events, next, reply, err)
		}
		if entries := must(v.Runs.Journal(t.Context(), v.Workspace, id, 0))(t); entries[len(entries)-2].Trust != execution.Untrusted {
			t.Errorf("the journal is %+v", entries)
		}
		v.Skew.Advance(time.Hour)
		if got := v.drain(t); got.Claimed != 0 {
			t.Errorf("something is left to do: %+v", got)
		}
		v.mustBeFree(t)
	})
}

// TestAMessageThatCameTooLateToSteer has a turn of its own, and so has one where none runs.
func TestAMessageThatCameTooLateToSteer(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		h := newThinking()
		v.think(llmtest.Write(t, llmtest.Writes("Zero."), h.then("One."), llmtest.Writes("Two.")))
		if r := v.says(t.Context(), "0", turn.Steer).end(t); r.Answer != "Zero." {
			t.Errorf("where none runs it is %+v", r)
		}
		first := v.says(t.Context(), "1", turn.Enqueue)
		<-h.asked
		second := v.says(t.Context(), "2", turn.Steer)
		<-second.begun
		close(h.answer)
		if first.end(t).Answer != "One." || second.end(t).Answer != "Two." {
			t.Errorf("got %+v and %+v", first.reply, second.reply)
		}
		v.mustBeFree(t)
	})
}

// TestAMessageSteersNoOtherThread, nor another person's turn, nor one with other rights, or another
// persona.
func TestAMessageSteersNoOtherThread(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := v.Personas.Put(ctx, tx, persona.Persona{Name: "shop", CreatedBy: "user:ada"})
			return err
		})
		for _, other := range []turn.Turn{
			{Thread: must(v.Threads.Open(t.Context(), v.Workspace, thread.Thread{Channel: "chat", Address: "ann too"}))(t).ID, By: "ann"},
			{Thread: v.thread, By: "bob"},
			{Thread: v.thread, By: "ann", Limited: true},
			{Thread: v.thread, By: "ann", Persona: "shop"},
		} {
			h := newThinking()
			v.think(llmtest.Write(t, h.thinks(), llmtest.Writes("One."), llmtest.Writes("Two.")))
			first := v.says(t.Context(), "1", turn.Enqueue)
			<-h.asked
			other.Surface, other.Lane, other.Message, other.Multitask = trace.Chat, ann, "2", turn.Steer
			begun := make(chan struct{})
			other.Begun = func(string, string) { close(begun) }
			ended := make(chan turn.Reply, 1)
			go func() {
				r, err := v.Runner.Talk(trace.With(context.Background(), traces.New(trace.Chat)), v.Workspace, other)
				if err != nil {
					t.Error(err)
				}
				ended <- r
			}()
			<-begun
			close(h.answer)
			if r := first.end(t); r.Answer != "One." {
				t.Errorf("the first is %+v", r)
			}
			if r := <-ended; r.Answer != "Two." {
				t.Errorf("the second is %+v", r)
			}
		}
	})
}

// TestASteeredTurnThatIsKilledKnowsWhatWasSaid, and a message whose process is gone steers
// all the same.
func TestASteeredTurnThatIsKilledKnowsWhatWasSaid(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		h := newThinking()
		m := llmtest.Write(t, h.thinks(), v.dies(t), llmtest.Writes("Both."))
		v.think(m)
		first := v.says(t.Context(), "1", turn.Enqueue)
		id := <-first.begun
		<-h.asked
		ctx, stop := context.WithCancel(t.Context())
		second := v.says(ctx, "2", turn.Steer)
		joins := <-second.begun
		stop()
		if r := second.end(t); r.Status != execution.Parked {
			t.Fatalf("the second is %+v", r)
		}
		close(h.answer)
		if r := first.end(t); r.Status != execution.Parked {
			t.Fatalf("cut off, the first is %+v", r)
		}
		for until := time.Now().Add(time.Minute); v.execution(t, id).Status != execution.Completed; v.Skew.Advance(time.Minute) {
			if v.drain(t); time.Now().After(until) {
				t.Fatalf("the first is %+v", v.execution(t, id))
			}
		}
		if got := asked(m.Request(2)); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("the model is told %q", got)
		}
		if got := v.spoken(t, v.thread); !slices.Equal(got, []string{"user: 1", "user: 2", "assistant: Both."}) {
			t.Errorf("the thread is %q", got)
		}
		if e := v.execution(t, joins); e.Status != execution.Completed {
			t.Errorf("the second's execution is %+v", e)
		}
	})
}

// TestMessagesAreAnsweredAsOne: those that stand in line behind one that collects.
func TestMessagesAreAnsweredAsOne(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.Collects = time.Nanosecond // they have come before
		h := newThinking()
		m := llmtest.Write(t, h.then("Zero."), llmtest.Writes("All."), llmtest.Writes("Five."))
		v.think(m)
		zero := v.says(t.Context(), "0", turn.Enqueue)
		<-h.asked
		var line []*saying
		for _, text := range []string{"1", "2", "3"} {
			s := v.says(t.Context(), text, turn.Collect)
			<-s.begun
			line = append(line, s)
		}
		alone := v.says(t.Context(), "5", turn.Enqueue)
		<-alone.begun
		close(h.answer)
		zero.end(t)
		for i, s := range line {
			if r := s.end(t); r.Answer != "All." || r.Execution != line[0].reply.Execution {
				t.Errorf("message %d got %+v", i+1, r)
			}
		}
		if r := alone.end(t); r.Answer != "Five." {
			t.Errorf("the last got %+v", r)
		}
		if got := asked(m.Request(1)); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
			t.Errorf("the model is told %q", got)
		}
		want := []string{"user: 0", "assistant: Zero.", "user: 1", "user: 2", "user: 3", "assistant: All.", "user: 5", "assistant: Five."}
		if got := v.spoken(t, v.thread); !slices.Equal(got, want) {
			t.Errorf("the thread is %q", got)
		}
		v.mustBeFree(t)
	})
}

// TestAMessageIsWaitedForThatMayBeAnsweredToo.
func TestAMessageIsWaitedForThatMayBeAnsweredToo(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.Collects = time.Hour
		m := llmtest.Write(t, llmtest.Writes("Both."))
		v.think(m)
		ctx, stop := context.WithCancel(t.Context())
		first := v.says(ctx, "1", turn.Collect)
		id := <-first.begun
		second := v.says(t.Context(), "2", turn.Collect)
		<-second.begun
		stop() // its process: the next one does not wait once more
		if r := first.end(t); r.Status != execution.Parked || len(m.Requests()) != 0 {
			t.Errorf("while messages are collected the first is %+v", r)
		}
		if got := v.drain(t); got.Sent == 0 || v.execution(t, id).Status != execution.Completed {
			t.Errorf("sent %+v", got)
		}
		if r := second.end(t); r.Answer != "Both." || r.Execution != id {
			t.Errorf("the second got %+v", r)
		}
		if got := asked(m.Request(0)); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("the model is told %q", got)
		}
		v.mustBeFree(t)
	})
}

// TestAMessageThatSteersBringsWhatWasSpokenBefore, as far as the thread does not have it.
func TestAMessageThatSteersBringsWhatWasSpokenBefore(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.locks()
		h := newThinking()
		m := llmtest.Write(t, h.thinks(), llmtest.Writes("All."))
		v.think(m)
		first := v.visit(t.Context(), turn.Turn{Message: "1", Address: "bob"})
		<-h.asked
		var steering []*saying
		for _, message := range []turn.Turn{
			{Message: "2", Before: before("user: 1", "user: Wait.", "assistant: I wait.")},
			{Message: "3", Before: before("user: 1", "user: Wait.", "assistant: I wait.", "user: 2")},
		} {
			message.Address, message.Multitask = "bob", turn.Steer
			s := v.visit(t.Context(), message)
			<-s.begun
			steering = append(steering, s)
		}
		close(h.answer)
		r := first.end(t)
		for _, s := range steering {
			if s.end(t).Execution != r.Execution {
				t.Errorf("it got %+v", s.reply)
			}
		}
		if got := asked(m.Request(1)); !slices.Equal(got, []string{"1", "Wait.", "2", "3"}) {
			t.Errorf("the model is told %q", got)
		}
		want := []string{"user: 1", "user: Wait.", "assistant: I wait.", "user: 2", "user: 3", "assistant: All."}
		if got := v.spoken(t, r.Thread); !slices.Equal(got, want) {
			t.Errorf("the thread has %q", got)
		}
		v.mustBeFree(t)
	})
}

// TestAMessageThatSteersALongThread: what the thread has is read up to a number of bytes. The first
// message pushes out of it what the second names.
func TestAMessageThatSteersALongThread(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		h := newThinking()
		v.think(llmtest.Write(t, h.thinks(), llmtest.Writes("All.")))
		v.tx(t, func(ctx context.Context, tx *db.Tx) error {
			for i := range 65 { // 4 MiB with the first message
				body := strings.Repeat("x", 64<<10)
				switch i {
				case 0:
					body = "Long ago."
				case 64:
					body = body[len("Long ago.")+len("1"):]
				}
				if _, _, err := v.Threads.Append(ctx, tx, v.thread, thread.Spoken{Role: thread.Assistant, Body: body, First: true}); err != nil {
					return err
				}
			}
			return nil
		})
		first := v.visit(t.Context(), turn.Turn{Message: "1", Thread: v.thread})
		<-h.asked
		second := v.visit(t.Context(), turn.Turn{Message: "2", Thread: v.thread, Multitask: turn.Steer})
		<-second.begun
		third := v.visit(t.Context(), turn.Turn{Message: "3", Thread: v.thread, Multitask: turn.Steer, Before: before("assistant: Long ago.")})
		<-third.begun
		close(h.answer)
		for _, s := range []*saying{first, second, third} {
			if r := s.end(t); r.Answer != "All." {
				t.Errorf("it got %+v", r)
			}
		}
		got := v.spoken(t, v.thread)
		if got = got[len(got)-5:]; !slices.Equal(got, []string{"user: 1", "user: 2", "assistant: Long ago.", "user: 3", "assistant: All."}) {
			t.Errorf("the thread has %.20q", got)
		}
		v.mustBeFree(t)
	})
}

// TestALineIsNoLongerThanItMayBe.
func TestALineIsNoLongerThanItMayBe(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		here := must(v.Workspaces.Get(t.Context(), v.Workspace))(t)
		v.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := v.Workspaces.Patch(ctx, tx, here, workspace.Patch{Settings: map[string]*int64{"sessionQueue": new(int64(2))}})
			return err
		})
		v.Collects = time.Nanosecond
		h := newThinking()
		v.think(llmtest.Write(t, h.then("One."), llmtest.Writes("Two."), llmtest.Writes("Three.")))
		first := v.says(t.Context(), "1", turn.Collect)
		<-h.asked
		second := v.says(t.Context(), "2", turn.Enqueue)
		<-second.begun
		third := v.says(t.Context(), "3", turn.Steer)
		<-third.begun
		for _, how := range []turn.Multitask{turn.Enqueue, turn.Steer, turn.Collect} {
			if s := v.says(t.Context(), "4", how); !errors.Is(s.failed(), turn.ErrLine) {
				t.Errorf("%s: %+v, %v", how, s.reply, s.err)
			}
		}
		close(h.answer)
		first.end(t)
		second.end(t)
		third.end(t)
	})
}
