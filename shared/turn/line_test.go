package turn_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// until returns an answer that lasts until the context of its caller ends.
func until(asked chan struct{}) llmtest.Writing {
	return func(ctx context.Context, _ llm.Request, _ func(string)) (llm.Response, error) {
		close(asked)
		<-ctx.Done()
		return llm.Response{}, llm.Interrupted(ctx, "script")
	}
}

// sayingIn begins a turn under a context.
func (w *world) sayingIn(ctx context.Context, message turn.Turn) *saying {
	s := &saying{begun: make(chan string, 1), ended: make(chan struct{})}
	message.By, message.Begun = "user:ada", func(execution, _ string) { s.begun <- execution }
	go func() {
		defer close(s.ended)
		s.reply, s.err = w.Talk(ctx, w.Workspace, message)
	}()
	return s
}

// TestParkedTurnsGoOnInOrder: a process stops in which one turn works and five wait. The working
// turn parks last, so its row is due last. One drain continues all turns in their original order.
func TestParkedTurnsGoOnInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const turns = 6
		asked := make(chan struct{})
		steps := []llmtest.Writing{llmtest.Writes("Zero."), until(asked)}
		want := []string{"user: 0", "assistant: Zero."}
		for i := range turns {
			n := strconv.Itoa(i + 1)
			steps = append(steps, llmtest.Writes("Answer "+n+"."))
			want = append(want, "user: "+n, "assistant: Answer "+n+".")
		}
		w.think(llmtest.Write(t, steps...))
		th := w.said(t, turn.Turn{Message: "0"}).Thread
		var all []*saying
		var stops []context.CancelFunc
		for i := range turns {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			stops = append(stops, stop)
			all = append(all, w.sayingIn(ctx, turn.Turn{Message: strconv.Itoa(i + 1), Thread: th}))
			if <-all[i].begun; i == 0 {
				<-asked
			}
		}
		for i, stop := range slices.Backward(stops) {
			stop()
			if r := all[i].end(t); r.Status != execution.Parked {
				t.Fatalf("turn %d is %+v", i+1, r)
			}
		}
		begun := time.Now()
		// a row that was made due while it was handled is handled again, and finds its turn ended
		if got := must(w.Sender.Drain(t.Context(), w.Workspace, 1000))(t); got.Sent < turns || got.Failed > 0 || got.More {
			t.Errorf("sent %+v", got)
		}
		t.Logf("%d turns in %s", turns, time.Since(begun).Round(time.Millisecond))
		if got := w.spoken(t, th); !slices.Equal(got, want) {
			t.Errorf("the thread is %q", got)
		}
		w.mustBeFree(t)
	})
}

// TestTheEndOfATurnWakesTheNext: this concerns the next turn in the same process, which would not
// poll for hours.
func TestTheEndOfATurnWakesTheNext(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.Poll = 100 * time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // otherwise they would park
		defer cancel()
		h := newThinking()
		var begins time.Time
		second := func(context.Context, llm.Request, func(string)) (llm.Response, error) {
			begins = time.Now()
			return llmtest.Written("Two."), nil
		}
		w.think(llmtest.Write(t, h.then("One."), second, llmtest.Writes("Three.")))
		first := w.saying(turn.Turn{Message: "1"})
		<-h.asked
		var line [2]*saying
		for i, m := range []string{"2", "3"} {
			line[i] = w.sayingIn(ctx, turn.Turn{Message: m})
			<-line[i].begun
		}
		answers := time.Now()
		close(h.answer)
		first.end(t)
		if line[0].end(t).Answer != "Two." || line[1].end(t).Answer != "Three." {
			t.Errorf("got %+v and %+v", line[0].reply, line[1].reply)
		}
		t.Logf("%s from one turn's answer to the next turn's question", begins.Sub(answers).Round(time.Millisecond))
		w.mustBeFree(t)
	})
}

// TestThoseWhoWaitDoNotAllLook each time that a turn ends: in a long line they would occupy the
// database.
func TestThoseWhoWaitDoNotAllLook(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const waiting = 20 // a look of each at each end is 190 looks more than one at the own turn
		w.Poll = 100 * time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // otherwise they would park
		defer cancel()
		h := newThinking()
		steps := []llmtest.Writing{llmtest.Writes("Alone."), h.then("One.")}
		for range waiting {
			steps = append(steps, llmtest.Writes("Another."))
		}
		w.think(llmtest.Write(t, steps...))
		before := w.DB.Stats()
		w.said(t, turn.Turn{Message: "0"})
		alone := w.DB.Stats().Sub(before).RoundTrips
		first := w.saying(turn.Turn{Message: "1"})
		<-h.asked
		var line [waiting]*saying
		for i := range line {
			line[i] = w.sayingIn(ctx, turn.Turn{Message: strconv.Itoa(i + 2)})
			<-line[i].begun
		}
		before, begun := w.DB.Stats(), time.Now()
		close(h.answer)
		first.end(t)
		for _, s := range line {
			if got := s.end(t); got.Status != execution.Completed {
				t.Errorf("got %+v", got)
			}
		}
		checks := waiting * int64(time.Since(begun)/time.Second) // each looks at its lane once a second
		if trips := w.DB.Stats().Sub(before).RoundTrips; trips > waiting*alone+100+checks {
			t.Errorf("%d turns in line cost %d round trips, and one alone costs %d", waiting, trips, alone)
		}
		w.mustBeFree(t)
	})
}

// TestTheEndOfATurnWakesTheNextOneThatIsParked: its row, which was tried too early and postponed,
// is due at once.
func TestTheEndOfATurnWakesTheNextOneThatIsParked(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := newThinking()
		w.think(llmtest.Write(t, h.then("One."), llmtest.Writes("Two."), llmtest.Writes("Three.")))
		first := w.saying(turn.Turn{Message: "1"})
		<-h.asked
		var parked [2]*saying
		for i, m := range []string{"2", "3"} {
			ctx, stop := context.WithCancel(t.Context())
			parked[i] = w.sayingIn(ctx, turn.Turn{Message: m})
			<-parked[i].begun
			stop()
			parked[i].end(t)
		}
		if got := w.drain(t); got.Retried < 2 || got.Retried != got.Claimed {
			t.Errorf("while another works: %+v", got)
		}
		close(h.answer)
		first.end(t)
		if got := w.drain(t); got.Sent != 2 {
			t.Errorf("then %+v", got)
		}
		for i, s := range []string{"assistant: Two.", "assistant: Three."} {
			if got := w.spoken(t, parked[i].reply.Thread); len(got) != 2 || got[1] != s {
				t.Errorf("thread %d is %q", i, got)
			}
		}
		w.mustBeFree(t)
	})
}

// TestATurnThatAPersonHadGoOnKeepsItsPlace: the turn is cut off again, and a later message arrives
// before the turn continues.
func TestATurnThatAPersonHadGoOnKeepsItsPlace(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		asked := make(chan struct{})
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "pay", `{}`), llmtest.Writes("It waits."), until(asked), llmtest.Writes("Paid."), llmtest.Writes("Two.")))
		first := w.said(t, turn.Turn{Message: "Pay."})
		must(w.Approvals.Approve(t.Context(), w.Workspace, first.Approvals[0], "user:ada", nil))(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := w.Sender.Drain(ctx, w.Workspace, 20)
			ended <- err
		}()
		<-asked
		stop()
		if err := <-ended; err == nil {
			t.Error("the drain was not cut off")
		}
		if e := w.execution(t, first.Execution); e.Status != execution.Parked || w.paid != 1 {
			t.Fatalf("it is %s, paid %d times", e.Status, w.paid)
		}
		second := w.saying(turn.Turn{Message: "2", Thread: first.Thread})
		<-second.begun
		if got := w.drain(t); got.Sent == 0 { // by its kick, or by the row of the person's decision
			t.Errorf("sent %+v", got)
		}
		second.end(t)
		want := []string{"user: Pay.", "assistant: It waits.", "assistant: Paid.", "user: 2", "assistant: Two."}
		if got := w.spoken(t, first.Thread); !slices.Equal(got, want) {
			t.Errorf("the thread is %q", got)
		}
		w.mustBeFree(t)
	})
}

// TestATurnThatAPersonDecidedForKeepsItsPlace: nothing but the row of the decision says that it continues,
// and a later message arrives before that.
func TestATurnThatAPersonDecidedForKeepsItsPlace(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "pay", `{}`), llmtest.Writes("It waits."), llmtest.Writes("Then not."), llmtest.Writes("Two.")))
		first := w.said(t, turn.Turn{Message: "Pay."})
		must(w.Approvals.Reject(t.Context(), w.Workspace, first.Approvals[0], "user:ada", "too dear"))(t)
		second := w.saying(turn.Turn{Message: "2", Thread: first.Thread})
		<-second.begun
		if got := w.drain(t); got.Sent == 0 {
			t.Errorf("sent %+v", got)
		}
		second.end(t)
		want := []string{"user: Pay.", "assistant: It waits.", "assistant: Then not.", "user: 2", "assistant: Two."}
		if got := w.spoken(t, first.Thread); !slices.Equal(got, want) {
			t.Errorf("the thread is %q", got)
		}
		w.mustBeFree(t)
	})
}

// TestATurnThatIsStoppedInLineIsDueAtOnce: this holds even if the turn was to continue and another
// turn has the lane.
func TestATurnThatIsStoppedInLineIsDueAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		asked := make(chan struct{})
		w.think(llmtest.Write(t, until(asked), llmtest.Writes("One.")))
		talking, stopTurn := context.WithCancel(t.Context())
		s := w.sayingIn(talking, turn.Turn{Message: "1"})
		<-asked
		stopTurn()
		s.end(t)
		h := must(w.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: lane.Operate, Holder: "ada at her console"}))(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := w.Sender.Drain(ctx, w.Workspace, 20)
			ended <- err
		}()
		for must(w.Lanes.Peek(t.Context(), w.Workspace, lane.Operate))(t).WantedAt == nil { // it waits in line
			time.Sleep(time.Millisecond)
		}
		stop()
		if err := <-ended; err == nil {
			t.Error("the drain was not cut off")
		}
		if err := w.Lanes.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(2 * time.Millisecond) // a delay has one at least
		if got := w.drain(t); got.Sent != 1 || w.execution(t, s.reply.Execution).Status != execution.Completed {
			t.Errorf("sent %+v", got)
		}
		w.mustBeFree(t)
	})
}
