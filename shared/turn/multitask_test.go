package turn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// thinking is a model's answer that waits for the test.
type thinking struct{ asked, answer chan struct{} }

func newThinking() thinking { return thinking{make(chan struct{}), make(chan struct{})} }

// then returns an answer that is given when the test permits it.
func (h thinking) then(said string) llmtest.Writing {
	return func(context.Context, llm.Request, func(string)) (llm.Response, error) {
		close(h.asked)
		<-h.answer
		return llmtest.Written(said), nil
	}
}

func TestMessagesWaitForTheirTurnInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := newThinking()
		w.think(llmtest.Write(t, llmtest.Writes("Zero."), h.then("One."), llmtest.Writes("Two."), llmtest.Writes("Three.")))
		th := w.said(t, turn.Turn{Message: "0"}).Thread
		first := w.saying(turn.Turn{Message: "1", Thread: th})
		<-h.asked
		second := w.saying(turn.Turn{Message: "2", Thread: th})
		waits := <-second.begun // it waits in line
		third := w.saying(turn.Turn{Message: "3", Thread: th})
		<-third.begun
		if e := w.execution(t, waits); e.Status != execution.Running {
			t.Errorf("in line it is %s", e.Status)
		}
		close(h.answer)
		if first.end(t).Answer != "One." || second.end(t).Answer != "Two." || third.end(t).Answer != "Three." {
			t.Errorf("got %q, %q, %q", first.reply.Answer, second.reply.Answer, third.reply.Answer)
		}
		want := []string{"user: 0", "assistant: Zero.", "user: 1", "assistant: One.", "user: 2", "assistant: Two.", "user: 3", "assistant: Three."}
		if got := w.spoken(t, th); !slices.Equal(got, want) {
			t.Errorf("the thread is %q", got)
		}
		w.mustBeFree(t)
	})
}

func TestAMessageMayBeRejected(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := newThinking()
		w.think(llmtest.Write(t, h.then("One.")))
		first := w.saying(turn.Turn{Message: "1"})
		id := <-first.begun
		<-h.asked
		_, err := w.say(turn.Turn{Message: "2", Multitask: turn.Reject})
		busy, ok := errors.AsType[*lane.BusyError](err)
		if !ok || busy.Lane != lane.Operate || busy.Execution != id || !strings.HasPrefix(string(busy.Holder), "operate/test/op_") {
			t.Errorf("got %v", err)
		}
		close(h.answer)
		first.end(t)
		w.mustBeFree(t)
	})
}

// interrupted ends a turn that has noted something by another turn, while the model writes. It
// returns both replies.
func interrupted(t *testing.T, w *world, mode turn.Multitask) (first, second turn.Reply) {
	t.Helper()
	writing, ended := make(chan struct{}), make(chan struct{})
	m := llmtest.Write(t, llmtest.WritesCalls("I note it.", "note", `{"what":"x"}`), func(ctx context.Context, _ llm.Request, write func(string)) (llm.Response, error) {
		write("I am about ")
		close(writing)
		<-ended
		w.clock.Advance(2 * time.Second)
		write("to say ")
		<-ctx.Done() // the turn has noticed that it was ended
		return llm.Response{}, llm.Interrupted(ctx, "script")
	}, llmtest.Writes("Instead."))
	w.think(m)
	begun := w.saying(turn.Turn{Message: "Note x."})
	<-begun.begun
	<-writing
	second = w.said(t, turn.Turn{Message: "Never mind.", Multitask: mode})
	w.mustBeFree(t)
	close(ended)
	first = begun.end(t)
	if first.Status != execution.Cancelled || first.Reason != string(mode)+" by user:ada" || w.execution(t, first.Execution).Status != execution.Cancelled {
		t.Errorf("the first ended as %+v", first)
	}
	if second.Status != execution.Completed || second.Answer != "Instead." {
		t.Errorf("the second ended as %+v", second)
	}
	w.mustBeFree(t)
	if len(w.noted) != 1 {
		t.Errorf("noted %q", w.noted)
	}
	w.Skew.Advance(time.Hour)
	if got := w.drain(t); got.Claimed != 0 { // nothing continues the first turn
		t.Errorf("something is left to do: %+v", got)
	}
	return first, second
}

func TestAnInterruptKeepsWhatWasDone(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		first, second := interrupted(t, w, turn.Interrupt)
		if got := w.spoken(t, first.Thread); !slices.Equal(got, []string{"user: Note x.", "assistant: I note it.\n\n(interrupted) done so far: note"}) {
			t.Errorf("the thread is %q", got)
		}
		if got := w.actions(t, "operate.interrupt"); len(got) != 1 || got[0].Execution != first.Execution || !strings.Contains(string(got[0].Output), `"note"`) {
			t.Errorf("the log says %+v", got)
		}
		if entries := must(w.Runs.Journal(t.Context(), w.Workspace, first.Execution, 0))(t); len(entries) != 3 {
			t.Errorf("its journal has %d entries", len(entries))
		}
		if len(second.NotUndone) != 1 {
			t.Errorf("the reply lists %+v", second.NotUndone)
		}
	})
}

func TestARollbackTakesBackWhatWasSaid(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		first, second := interrupted(t, w, turn.Rollback)
		if got := w.spoken(t, first.Thread); len(got) != 0 {
			t.Errorf("the thread is %q", got)
		}
		if got := w.spoken(t, second.Thread); !slices.Equal(got, []string{"user: Never mind.", "assistant: Instead."}) {
			t.Errorf("the other thread is %q", got)
		}
		if got := w.actions(t, "operate.rollback"); len(got) != 1 || got[0].Execution != first.Execution || !strings.Contains(string(got[0].Output), `"note"`) {
			t.Errorf("the log says %+v", got)
		}
		if len(second.NotUndone) != 1 || second.NotUndone[0] != (turn.Effect{Call: "1.1", Skill: "note", Status: "succeeded"}) {
			t.Errorf("what stays is %+v", second.NotUndone)
		}
	})
}

// TestARollbackDeniesWhatWaits: a turn is rolled back before a person has decided on its call.
func TestARollbackDeniesWhatWaits(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := newThinking()
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "pay", `{}`), h.then("It waits."), llmtest.Writes("Instead.")))
		first := w.saying(turn.Turn{Message: "Pay."})
		<-h.asked
		w.said(t, turn.Turn{Message: "Don't.", Multitask: turn.Rollback})
		close(h.answer)
		first.end(t)
		waited, _, err := w.Approvals.List(t.Context(), w.Workspace, all)
		if err != nil || len(waited) != 1 || waited[0].Status != approval.Rejected || waited[0].Reason != "its turn was rolled back" {
			t.Errorf("got %+v, %v", waited, err)
		}
		w.drain(t)
		if e := w.execution(t, first.reply.Execution); e.Status != execution.Cancelled || w.paid != 0 {
			t.Errorf("it is %s, paid %d times", e.Status, w.paid)
		}
	})
}

// TestATurnThatWasCutOffIsEndedByTheNext: the process of a turn froze until its holds had expired.
func TestATurnThatWasCutOffIsEndedByTheNext(t *testing.T) {
	for mode, want := range map[turn.Multitask][]string{
		turn.Interrupt: {"user: Hi.", "assistant: (interrupted)", "user: Wait.", "assistant: Yes?"},
		turn.Rollback:  {"user: Wait.", "assistant: Yes?"},
	} {
		t.Run(string(mode), func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				h := newThinking()
				w.think(llmtest.Write(t, h.then("Too late.")))
				first := w.saying(turn.Turn{Message: "Hi."})
				id := <-first.begun
				<-h.asked
				w.Skew.Advance(10 * time.Minute)
				in, _, _ := w.AskedOf(w.execution(t, id))
				other := w.another(t, llmtest.Write(t, llmtest.Writes("Yes?")))
				if got := other.said(t, turn.Turn{Message: "Wait.", Thread: in, Multitask: mode}); got.Answer != "Yes?" {
					t.Errorf("the next message is answered with %+v", got)
				}
				close(h.answer)
				first.end(t)
				if got := w.drain(t); got.Claimed != 0 || w.execution(t, id).Status != execution.Cancelled {
					t.Errorf("the turn that was cut off is %s: %+v", w.execution(t, id).Status, got)
				}
				if got := w.spoken(t, in); !slices.Equal(got, want) {
					t.Errorf("it was said: %q", got)
				}
				w.mustBeFree(t)
			})
		})
	}
}

// TestAnInterruptStandsBeforeTheLine: a message waits while another one interrupts the running
// turn.
func TestAnInterruptStandsBeforeTheLine(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := newThinking()
		w.think(llmtest.Write(t, h.then("One."), llmtest.Writes("Three."), llmtest.Writes("Two.")))
		first := w.saying(turn.Turn{Message: "1"})
		<-h.asked
		second := w.saying(turn.Turn{Message: "2"})
		<-second.begun
		if third := w.said(t, turn.Turn{Message: "3", Multitask: turn.Interrupt}); third.Answer != "Three." {
			t.Errorf("got %+v", third)
		}
		close(h.answer)
		if first.end(t).Status != execution.Cancelled || second.end(t).Answer != "Two." {
			t.Errorf("got %+v and %+v", first.reply, second.reply)
		}
		w.mustBeFree(t)
	})
}

func TestOthersTurnsAreEndedByAdminsAlone(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := newThinking()
		w.think(llmtest.Write(t, h.then("One.")))
		first := w.saying(turn.Turn{Message: "1"})
		<-h.asked
		_, err := w.say(turn.Turn{Message: "2", Multitask: turn.Interrupt, By: "user:bob", Limited: true})
		if !errors.Is(err, turn.ErrNotYours) {
			t.Errorf("got %v", err)
		}
		close(h.answer)
		if got := first.end(t); got.Answer != "One." {
			t.Errorf("the first is %+v", got)
		}
	})
}

func TestAHoldThatIsNoTurnIsNotInterrupted(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := must(w.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: lane.Operate, Holder: "ada at her console"}))(t)
		for _, mode := range []turn.Multitask{turn.Interrupt, turn.Rollback, turn.Reject} {
			_, err := w.say(turn.Turn{Message: "1", Multitask: mode})
			if busy, ok := errors.AsType[*lane.BusyError](err); !ok || busy.Holder != "ada at her console" {
				t.Errorf("%s: %v", mode, err)
			}
		}
		if err := w.Lanes.Release(t.Context(), h); err != nil {
			t.Error(err)
		}
	})
}

// TestAnInterruptEndsWhatHasNotBegun interrupts a turn with many calls. Those that were being made are
// cut off, and the others are known not to be made.
func TestAnInterruptEndsWhatHasNotBegun(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const asked, atOnce = 12, 4 // as reason.CallQueue has it
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "knock", slices.Repeat([]string{`{}`}, asked)...), llmtest.Writes("Stopped.")))
		first := w.saying(turn.Turn{Message: "Knock."})
		<-w.knocking
		second := w.said(t, turn.Turn{Message: "Stop.", Multitask: turn.Interrupt})
		if first.end(t).Status != execution.Cancelled {
			t.Errorf("the first is %+v", first.reply)
		}
		if n := 1 + len(w.knocking); n > atOnce || len(second.NotUndone) != n ||
			second.NotUndone[0].Skill != "knock" || second.NotUndone[0].Status != "uncertain" {
			t.Errorf("%d calls were made, and what stays is %+v", n, second.NotUndone)
		}
		w.mustBeFree(t)
	})
}

// TestATurnThatNeverBeganIsTakenOver: a process dies after acquiring the lane and before storing
// the turn.
func TestATurnThatNeverBeganIsTakenOver(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, llmtest.Writes("Here.")))
		must(w.Lanes.Acquire(trace.WithExecution(t.Context(), ids()), lane.Request{Workspace: w.Workspace, Lane: lane.Operate, Holder: "operate/gone"}))(t)
		if got := w.said(t, turn.Turn{Message: "Hello?", Multitask: turn.Interrupt}); got.Answer != "Here." {
			t.Errorf("got %+v", got)
		}
		w.mustBeFree(t)
	})
}

func TestTheLineHasAnEnd(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		here := must(w.Workspaces.Get(t.Context(), w.Workspace))(t)
		err := w.Runner.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.Workspaces.Patch(ctx, tx, here, workspace.Patch{Settings: map[string]*int64{"sessionQueue": new(int64(1))}})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		h := newThinking()
		w.think(llmtest.Write(t, h.then("One."), llmtest.Writes("Two.")))
		first := w.saying(turn.Turn{Message: "1"})
		<-h.asked
		second := w.saying(turn.Turn{Message: "2"})
		<-second.begun
		if _, err := w.say(turn.Turn{Message: "3"}); !errors.Is(err, turn.ErrLine) {
			t.Errorf("the third got %v", err)
		}
		close(h.answer)
		if first.end(t).Answer != "One." || second.end(t).Answer != "Two." {
			t.Errorf("got %+v and %+v", first.reply, second.reply)
		}
		w.mustBeFree(t)
	})
}

// TestTheLineHasAnEndForThoseWhoComeAtOnce: of many messages that come in the same moment, as many wait as there
// are places.
func TestTheLineHasAnEndForThoseWhoComeAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const places, many = 3, 16
		here := must(w.Workspaces.Get(t.Context(), w.Workspace))(t)
		err := w.Runner.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.Workspaces.Patch(ctx, tx, here, workspace.Patch{Settings: map[string]*int64{"sessionQueue": new(int64(places))}})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		h := newThinking()
		w.think(llmtest.Write(t, append([]llmtest.Writing{h.then("One.")}, slices.Repeat([]llmtest.Writing{llmtest.Writes("More.")}, places)...)...))
		first := w.saying(turn.Turn{Message: "1"})
		<-h.asked
		var all, waiting []*saying
		for range many {
			all = append(all, w.saying(turn.Turn{Message: "more"}))
		}
		for _, s := range all {
			select {
			case <-s.begun:
				waiting = append(waiting, s)
			case <-s.ended:
				if !errors.Is(s.err, turn.ErrLine) {
					t.Errorf("got %+v, %v", s.reply, s.err)
				}
			}
		}
		if len(waiting) != places {
			t.Errorf("%d messages wait, want %d", len(waiting), places)
		}
		close(h.answer)
		for _, s := range append(waiting, first) {
			s.end(t)
		}
		w.mustBeFree(t)
	})
}

// TestATurnCanBeGivenUp cancels a working turn, a turn that waits in line after it, and a turn that
// waits for a person.
func TestATurnCanBeGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := newThinking()
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "pay", `{}`), llmtest.Writes("It waits."), h.then("One.")))
		waits := w.said(t, turn.Turn{Message: "Pay."})
		works := w.saying(turn.Turn{Message: "1"})
		<-h.asked
		stands := w.saying(turn.Turn{Message: "2"})
		second := <-stands.begun
		if err := w.Cancel(t.Context(), w.Workspace, second, "user:bob", true); !errors.Is(err, turn.ErrNotYours) {
			t.Errorf("another got %v", err)
		}
		first := <-works.begun
		for _, id := range []string{waits.Execution, second, first} {
			if err := w.Cancel(t.Context(), w.Workspace, id, "user:ada", false); err != nil {
				t.Error(err)
			}
			if err := w.Cancel(t.Context(), w.Workspace, id, "user:ada", false); !errors.Is(err, turn.ErrNoTurn) {
				t.Errorf("again got %v", err)
			}
		}
		close(h.answer)
		works.end(t)
		in := stands.end(t).Thread
		if got := w.spoken(t, in); !slices.Equal(got, []string{"user: 2", "assistant: (interrupted)"}) {
			t.Errorf("the thread of the turn that waited in line has %q", got)
		}
		for _, id := range []string{waits.Execution, second, first} {
			if e := w.execution(t, id); e.Status != execution.Cancelled || e.Error != "cancel by user:ada" {
				t.Errorf("it is %s: %s", e.Status, e.Error)
			}
		}
		w.Skew.Advance(time.Hour)
		if got := w.drain(t); got.Retried+got.Failed != 0 || w.paid != 0 {
			t.Errorf("went on: %+v, paid %d times", got, w.paid)
		}
		denied, _, err := w.Approvals.List(t.Context(), w.Workspace, all)
		if err != nil || len(denied) != 1 || denied[0].Status != approval.Rejected || denied[0].Reason != "its turn was given up" {
			t.Errorf("approvals %+v, %v", denied, err)
		}
		w.mustBeFree(t)
	})
}

// TestTheNoteOfAnInterruptedTurnTellsWhatIsKnown interrupts a turn with three calls: one made, one
// approved and not made yet, and one in progress.
func TestTheNoteOfAnInterruptedTurnTellsWhatIsKnown(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "note", `{"what":"x"}`), llmtest.WritesCalls("", "pay", `{}`), llmtest.WritesCalls("", "knock", `{}`), llmtest.Writes("Stopped.")))
		first := w.saying(turn.Turn{Message: "Do it."})
		<-w.knocking
		pending, _, err := w.Approvals.List(t.Context(), w.Workspace, all)
		if err != nil || len(pending) != 1 {
			t.Fatal(pending, err)
		}
		must(w.Approvals.Approve(t.Context(), w.Workspace, pending[0].ID, "user:ada", nil))(t)
		w.said(t, turn.Turn{Message: "Stop.", Multitask: turn.Interrupt})
		if got := first.end(t); got.Status != execution.Cancelled {
			t.Errorf("the first is %+v", got)
		}
		want := "assistant: (interrupted) done so far: note; not known whether done: knock; approved, not made yet: pay"
		if got := w.spoken(t, first.reply.Thread); len(got) != 2 || got[1] != want {
			t.Errorf("the thread is %q", got)
		}
	})
}
