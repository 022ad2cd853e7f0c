package turn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

func TestATurn(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m := llmtest.Write(t, llmtest.WritesCalls("I note it.", "note", `{"what":"x"}`), llmtest.Writes("It is ", "noted."), llmtest.Writes("Still here."))
		w.think(m)
		r := w.said(t, turn.Turn{Message: "Note x."})
		if r.Status != execution.Completed || r.Answer != "It is noted." || r.Prompt != 20 || r.Completion != 10 || r.Reason != "" || r.Thread == "" {
			t.Errorf("got %+v", r)
		}
		if e := w.execution(t, r.Execution); e.Status != execution.Completed || e.Trace != r.Trace {
			t.Errorf("its execution is %+v", e)
		}
		if got := w.spoken(t, r.Thread); !slices.Equal(got, []string{"user: Note x.", "assistant: It is noted."}) {
			t.Errorf("the thread is %q", got)
		}
		if told := w.actions(t, "operate"); len(told) != 1 || told[0].Execution != r.Execution || told[0].Thread != r.Thread || told[0].Usage != nil {
			t.Errorf("the log says %+v", told)
		}
		used := int64(0)
		for _, call := range w.actions(t, activity.ModelCall) {
			used += call.Usage.TotalTokens
		}
		if used != 30 {
			t.Errorf("the log counts %d tokens of model calls", used)
		}
		w.mustBeFree(t)

		again := w.said(t, turn.Turn{Message: "And?", Thread: r.Thread})
		if again.Answer != "Still here." || again.Thread != r.Thread || again.Execution == r.Execution {
			t.Errorf("got %+v", again)
		}
		var told []string
		for _, said := range m.Request(2).Messages {
			told = append(told, string(said.Role)+": "+said.Text)
		}
		if !slices.Equal(told, []string{"user: Note x.", "assistant: It is noted.", "user: And?"}) {
			t.Errorf("the model is told %q", told)
		}
		if got := w.drain(t); got.Claimed != 0 {
			t.Errorf("something is left to do: %+v", got)
		}
	})
}

func TestOperateCountsAsHeldAfterATurn(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, llmtest.Writes("Hello."), llmtest.Writes("Again.")))
		r := w.said(t, turn.Turn{Message: "Hello."})
		look := func() lane.Info {
			t.Helper()
			return must(w.Lanes.Peek(t.Context(), w.Workspace, lane.Operate))(t)
		}
		if i := look(); i.Held() || !i.InUse() || i.Lingers() > 2*time.Minute || i.Lingers() < time.Minute {
			t.Errorf("held %v, lingers %s", i.Held(), i.Lingers())
		}
		w.said(t, turn.Turn{Message: "Hello?", Thread: r.Thread, Multitask: turn.Reject}) // gets it at once
		w.Skew.Advance(2 * time.Minute)
		if i := look(); i.InUse() {
			t.Errorf("two minutes later it lingers for %s", i.Lingers())
		}
	})
}

func TestAThreadMustBeThere(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if _, err := w.say(turn.Turn{Message: "Hello.", Thread: ids()}); !errors.Is(err, turn.ErrNoThread) {
			t.Errorf("got %v", err)
		}
	})
}

func TestATurnThatGetsNowhereStalls(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "note", `{"what":"x"}`), llmtest.WritesCalls("", "fly", `{}`), llmtest.WritesCalls("", "fly", `{}`), llmtest.WritesCalls("", "fly", `{}`)))
		r := w.said(t, turn.Turn{Message: "Fly."})
		if r.Status != execution.Stalled || !strings.Contains(r.Reason, "fly") || !strings.Contains(r.Reason, "done so far: note") {
			t.Errorf("got %+v", r)
		}
		if got := w.spoken(t, r.Thread); len(got) != 2 || !strings.HasPrefix(got[1], "assistant: (stopped: ") || !strings.Contains(got[1], "done so far: note") {
			t.Errorf("the thread is %q", got)
		}
		w.mustBeFree(t)
	})
}

func TestAModelThatFailsEndsTheTurn(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, func(context.Context, llm.Request, func(string)) (llm.Response, error) {
			return llm.Response{}, &llm.Error{Class: llm.ClassAuthentication, Provider: "script", Err: errors.New("a secret of theirs")}
		}))
		r := w.said(t, turn.Turn{Message: "Hello."})
		if r.Status != execution.Failed || !strings.Contains(r.Reason, "authentication") || strings.Contains(r.Reason, "theirs") || w.execution(t, r.Execution).Status != execution.Failed {
			t.Errorf("got %+v", r)
		}
		w.mustBeFree(t)
	})
}

// TestATurnIsNeverWithoutAWord: the reply always explains a missing answer.
func TestATurnIsNeverWithoutAWord(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, c := range []struct {
			stop         llm.StopReason
			text         string
			want         execution.Status
			reply, spoke string
		}{
			{llm.StopEndTurn, "", execution.Stalled, "without a word", "(stopped: the model ended its answer without a word"},
			{llm.StopRefusal, "", execution.Failed, "declined", "(stopped: the model declined"},
			{llm.StopOther, "", execution.Failed, "broke off", "(stopped: the model broke off"},
			{llm.StopMaxTokens, "", execution.Stalled, "before it had said anything", "(stopped: the model reached the limit"},
			{llm.StopMaxTokens, "It was", execution.Completed, "cut off", "It was\n\n(the answer was cut off"},
		} {
			answer := func(context.Context, llm.Request, func(string)) (llm.Response, error) {
				r := llmtest.Written(c.text)
				r.StopReason = c.stop
				return r, nil
			}
			w.think(llmtest.Write(t, answer, answer)) // a model that says nothing is called again
			r := w.said(t, turn.Turn{Message: "Hello."})
			if r.Status != c.want || !strings.Contains(r.Answer+r.Reason, c.reply) {
				t.Errorf("%s, %q: got %+v", c.stop, c.text, r)
			}
			if got := w.spoken(t, r.Thread); len(got) != 2 || !strings.Contains(got[1], c.spoke) {
				t.Errorf("%s, %q: the thread is %q", c.stop, c.text, got)
			}
			logged := slices.ContainsFunc(w.actions(t, "operate"), func(e activity.Entry) bool { return e.Execution == r.Execution })
			if logged != (c.want == execution.Completed) {
				t.Errorf("%s, %q: logged as done: %v", c.stop, c.text, logged)
			}
		}
	})
}

// If nobody listens to the pieces, an interrupted model call can be retried.
func TestATurnThatNobodyHearsIsNotTold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m := heard{heard: make(chan bool, 2)}
		w.think(m)
		w.said(t, turn.Turn{Message: "Hello."})
		w.said(t, turn.Turn{Message: "Hello.", Tell: func(turn.Event) {}})
		if first, second := <-m.heard, <-m.heard; first || !second {
			t.Errorf("pieces were asked for: %t by one nobody hears, %t by one that is told", first, second)
		}
	})
}

// heard is a model that reports whether its pieces have a listener.
type heard struct{ heard chan bool }

func (heard) Name() string { return "heard" }

func (m heard) Generate(_ context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	m.heard <- onDelta != nil
	return llmtest.Written("Hello."), nil
}

func TestThoseWhoMayNotApproveGetNoSkillThatNeedsIt(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m := llmtest.Write(t, llmtest.WritesCalls("", "pay", `{}`), llmtest.Writes("I can't."))
		w.think(m)
		r := w.said(t, turn.Turn{Message: "Pay.", By: "user:bob", Limited: true})
		var offered []string
		for _, tool := range m.Request(0).Tools {
			offered = append(offered, tool.Name)
		}
		if r.Status != execution.Completed || slices.Contains(offered, "pay") || !slices.Contains(offered, "note") {
			t.Errorf("got %+v with %q", r, offered)
		}
		if waits, _, err := w.Approvals.List(t.Context(), w.Workspace, all); err != nil || len(waits) != 0 || w.paid != 0 {
			t.Errorf("paid %d, waiting %+v, %v", w.paid, waits, err)
		}
	})
}

// TestATurnWhoseTimeEndsGoesOnByItself: the process ends in the middle of a turn.
func TestATurnWhoseTimeEndsGoesOnByItself(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx, end := context.WithCancel(t.Context())
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "note", `{"what":"x"}`), func(ctx context.Context, _ llm.Request, _ func(string)) (llm.Response, error) {
			end()
			<-ctx.Done()
			return llm.Response{}, llm.Interrupted(ctx, "script")
		}, llmtest.Writes("Done.")))
		r, err := w.Talk(ctx, w.Workspace, turn.Turn{Message: "Note x.", By: "user:ada"})
		if err != nil || r.Status != execution.Parked || w.execution(t, r.Execution).Status != execution.Parked {
			t.Fatalf("got %+v, %v", r, err)
		}
		w.mustBeFree(t)
		if got := w.drain(t); got.Sent != 1 {
			t.Errorf("at once it sent %+v", got)
		}
		if e := w.execution(t, r.Execution); e.Status != execution.Completed || e.Attempt != 2 || len(w.noted) != 1 {
			t.Errorf("it is %+v, noted %q", e, w.noted)
		}
		if got := w.spoken(t, r.Thread); !slices.Equal(got, []string{"user: Note x.", "assistant: Done."}) {
			t.Errorf("the thread is %q", got)
		}
		w.mustBeFree(t)
	})
}

// TestATurnThatWasCutOffGoesOnBeforeALaterMessage: a message arrives before a turn continues whose
// process has ended. The message waits in line after that turn.
func TestATurnThatWasCutOffGoesOnBeforeALaterMessage(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx, end := context.WithCancel(t.Context())
		w.think(llmtest.Write(t, func(ctx context.Context, _ llm.Request, _ func(string)) (llm.Response, error) {
			end()
			<-ctx.Done()
			return llm.Response{}, llm.Interrupted(ctx, "script")
		}, llmtest.Writes("One."), llmtest.Writes("Two.")))
		first, err := w.Talk(ctx, w.Workspace, turn.Turn{Message: "1", By: "user:ada"})
		if err != nil {
			t.Fatal(err)
		}
		second := w.saying(turn.Turn{Message: "2", Thread: first.Thread})
		<-second.begun // it waits in line
		if got := w.drain(t); got.Sent != 1 {
			t.Errorf("sent %+v", got)
		}
		if got := second.end(t); got.Answer != "Two." {
			t.Errorf("the second got %+v", got)
		}
		want := []string{"user: 1", "assistant: One.", "user: 2", "assistant: Two."}
		if got := w.spoken(t, first.Thread); !slices.Equal(got, want) {
			t.Errorf("the thread is %q", got)
		}
		w.mustBeFree(t)
	})
}

// TestALaterMessageDoesNotWaitForATurnThatNobodyTakesUp: a turn that was cut off keeps its place in
// line for a limited time only.
func TestALaterMessageDoesNotWaitForATurnThatNobodyTakesUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx, end := context.WithCancel(t.Context())
		w.think(llmtest.Write(t, func(ctx context.Context, _ llm.Request, _ func(string)) (llm.Response, error) {
			end()
			<-ctx.Done()
			return llm.Response{}, llm.Interrupted(ctx, "script")
		}, llmtest.Writes("Two."), llmtest.Writes("One.")))
		first, err := w.Talk(ctx, w.Workspace, turn.Turn{Message: "1", By: "user:ada"})
		if err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(execution.Place + time.Second)
		if got := w.said(t, turn.Turn{Message: "2"}); got.Answer != "Two." {
			t.Errorf("the second got %+v", got)
		}
		if got := w.drain(t); got.Sent != 1 || w.execution(t, first.Execution).Status != execution.Completed {
			t.Errorf("sent %+v", got)
		}
		w.mustBeFree(t)
	})
}

// TestATurnThatIsWorkedOnIsLeftToWhoDoes: a sender that finds the row of a running turn retries
// later, as often as needed, and no attempt counts.
func TestATurnThatIsWorkedOnIsLeftToWhoDoes(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := newThinking()
		w.think(llmtest.Write(t, h.then("One.")))
		first := w.saying(turn.Turn{Message: "1"})
		<-h.asked
		for range 30 {
			w.Skew.Advance(31 * time.Second / 4)
			if got := w.drain(t); got.Sent+got.Failed > 0 {
				t.Fatalf("sent %+v", got)
			}
		}
		close(h.answer)
		if got := first.end(t); got.Answer != "One." {
			t.Errorf("got %+v", got)
		}
		w.Skew.Advance(time.Minute)
		if got := w.drain(t); got != (outbox.Report{}) {
			t.Errorf("then %+v", got)
		}
		w.mustBeFree(t)
	})
}

// TestAKilledTurnIsTakenUp: a process freezes until its holds have expired, and another process
// continues the turn. The first process writes nothing when it resumes.
func TestAKilledTurnIsTakenUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		asleep, awake := make(chan struct{}), make(chan struct{})
		w.think(llmtest.Write(t, llmtest.WritesCalls("I note it.", "note", `{"what":"x"}`), func(context.Context, llm.Request, func(string)) (llm.Response, error) {
			close(asleep)
			<-awake
			return llmtest.Written("Too late."), nil
		}))
		first := w.saying(turn.Turn{Message: "Note x."})
		id := <-first.begun
		<-asleep
		w.Skew.Advance(10 * time.Minute)
		other := w.another(t, llmtest.Write(t, llmtest.Writes("Done.")))
		if got := other.drain(t); got.Sent != 1 {
			t.Fatalf("sent %+v", got)
		}
		close(awake)
		<-first.ended
		if first.err != nil || first.reply.Status != execution.Completed || first.reply.Answer != "Done." {
			t.Errorf("the first is told %+v, %v", first.reply, first.err)
		}
		e := w.execution(t, id)
		if e.Status != execution.Completed || e.Attempt != 2 || len(w.noted)+len(other.noted) != 1 {
			t.Errorf("it is %+v, noted %q and %q", e, w.noted, other.noted)
		}
		_, _, reply, err := w.Events(t.Context(), w.Workspace, id, turn.Position{})
		if err != nil || reply == nil {
			t.Fatal(reply, err)
		}
		if got := w.spoken(t, reply.Thread); !slices.Equal(got, []string{"user: Note x.", "assistant: Done."}) {
			t.Errorf("the thread is %q", got)
		}
		w.mustBeFree(t)
	})
}

// A turn whose time ends while it waits in line continues as soon as possible.
func TestATurnThatIsCutOffInLineGoesOnAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, llmtest.Writes("Here I am.")))
		other := must(w.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: lane.Operate, Holder: "a person"}))(t)
		ctx, leave := context.WithCancel(trace.With(t.Context(), traces.New(trace.Operate)))
		defer leave()
		r := must(w.Talk(ctx, w.Workspace, turn.Turn{Message: "Where are you?", By: "user:ada", Begun: func(string, string) { leave() }}))(t)
		if r.Status != execution.Parked {
			t.Fatalf("cut off, it is %+v", r)
		}
		if err := w.Lanes.Release(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if sent := w.drain(t); sent.Sent != 1 || w.execution(t, r.Execution).Status != execution.Completed {
			t.Errorf("%+v was due, and the turn is %s", sent, w.execution(t, r.Execution).Status)
		}
	})
}
