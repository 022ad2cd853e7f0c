package turn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// lines describes events in short. It joins consecutive pieces of text.
func lines(events []turn.Event) string {
	var b strings.Builder
	for _, e := range events {
		switch {
		case e.Restart:
			b.WriteString("[restart]")
		case e.Text != "":
			b.WriteString(e.Text)
		default:
			fmt.Fprintf(&b, "[%s %s %s]", e.Call.ID, e.Call.Skill, e.Call.Status)
		}
	}
	return b.String()
}

const whole = "I note it.[1.1 note started][1.2 note started][1.1 note succeeded][1.2 note succeeded]It is noted."

func talkative(t testing.TB) *llmtest.Writer {
	return llmtest.Write(t, llmtest.WritesCalls("I note it.", "note", `{"what":"x"}`, `{"what":"y"}`), llmtest.Writes("It ", "is ", "noted."))
}

// TestTheFirstWordComesBeforeTheLast: the model continues only after its first word has reached the
// listener.
func TestTheFirstWordComesBeforeTheLast(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		told := make(chan string, 10)
		w.think(llmtest.Write(t, func(_ context.Context, _ llm.Request, write func(string)) (llm.Response, error) {
			for _, word := range []string{"One ", "two ", "three"} {
				write(word)
				if got := <-told; got != word {
					t.Errorf("told %q, not %q", got, word)
				}
			}
			return llmtest.Written("One two three"), nil
		}))
		w.said(t, turn.Turn{Message: "Count.", Tell: func(e turn.Event) { told <- e.Text }})
		if len(told) != 0 {
			t.Errorf("the end is told again: %q", <-told)
		}
	})
}

// TestWhoComesBackLosesNothing: a client that resumes after any event gets the remaining events,
// from the journal.
func TestWhoComesBackLosesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(talkative(t))
		var events []turn.Event
		r := w.said(t, turn.Turn{Message: "Note x and y.", Tell: func(e turn.Event) { events = append(events, e) }})
		if got := lines(events); got != whole {
			t.Fatalf("told %q", got)
		}
		for i := range len(events) + 1 {
			var after turn.Position
			if i > 0 {
				after = events[i-1].After
			}
			back, err := turn.ParsePosition(after.String())
			if err != nil || back != after {
				t.Fatalf("%s is read as %v, %v", after, back, err)
			}
			rest, _, reply, err := w.Events(t.Context(), w.Workspace, r.Execution, after)
			if err != nil || reply == nil || reply.Answer != r.Answer || reply.Status != execution.Completed {
				t.Fatalf("behind %s: %+v, %v", after, reply, err)
			}
			if got := lines(events[:i]) + lines(rest); got != whole {
				t.Errorf("behind %s there is %q", after, lines(rest))
			}
		}
	})
}

// TestARunIsFollowedWhileItWorks reads the journal of a turn in the middle of an answer.
func TestARunIsFollowedWhileItWorks(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := newThinking()
		w.think(llmtest.Write(t, llmtest.WritesCalls("I note it.", "note", `{"what":"x"}`, `{"what":"y"}`), h.then("It is noted.")))
		first := w.saying(turn.Turn{Message: "Note x and y."})
		id := <-first.begun
		<-h.asked
		before, next, reply, err := w.Events(t.Context(), w.Workspace, id, turn.Position{})
		if err != nil || reply != nil {
			t.Fatalf("%+v, %v", reply, err)
		}
		close(h.answer)
		first.end(t)
		after, _, reply, err := w.Events(t.Context(), w.Workspace, id, next)
		if err != nil || reply == nil || lines(before)+lines(after) != whole {
			t.Errorf("told %q and %q, %+v, %v", lines(before), lines(after), reply, err)
		}
		if _, _, _, err := w.Events(t.Context(), w.Workspace, ids(), turn.Position{}); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("of none: %v", err)
		}
	})
}

// TestAnotherAnswerIsToldWhole: a model begins an answer and then gives another one, like a model
// that was cut off and is called again.
func TestAnotherAnswerIsToldWhole(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, func(_ context.Context, _ llm.Request, write func(string)) (llm.Response, error) {
			write("Let me see, ")
			return llmtest.Written("Seven."), nil
		}))
		var events []turn.Event
		r := w.said(t, turn.Turn{Message: "How many?", Tell: func(e turn.Event) { events = append(events, e) }})
		if got := lines(events); got != "Let me see, [restart]Seven." {
			t.Errorf("told %q", got)
		}
		for i, want := range []string{"[restart]Seven.", "Seven."} {
			rest, _, _, err := w.Events(t.Context(), w.Workspace, r.Execution, events[i].After)
			if err != nil || lines(rest) != want {
				t.Errorf("behind event %d: %q, %v", i, lines(rest), err)
			}
		}
	})
}

// TestWordsOfNoAnswerAreTakenBack: the model fails for good in the middle of an answer. The pieces
// of that answer are withdrawn, also for a client that resumes after them.
func TestWordsOfNoAnswerAreTakenBack(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, func(_ context.Context, _ llm.Request, write func(string)) (llm.Response, error) {
			write("Let me see, ")
			return llm.Response{}, &llm.Error{Class: llm.ClassBadRequest, Provider: "script"}
		}))
		var events []turn.Event
		r := w.said(t, turn.Turn{Message: "How many?", Tell: func(e turn.Event) { events = append(events, e) }})
		if got := lines(events); got != "Let me see, [restart]" {
			t.Errorf("told %q", got)
		}
		for i, want := range []string{"[restart]", ""} {
			rest, _, _, err := w.Events(t.Context(), w.Workspace, r.Execution, events[i].After)
			if err != nil || lines(rest) != want {
				t.Errorf("behind event %d: %q, %v", i, lines(rest), err)
			}
		}
	})
}

func TestParsePosition(t *testing.T) {
	for _, id := range []string{
		"", "1", "1.1", "..", "1.1.", "1..1", ".1.1", "-1.0.0", "1.-1.0", "1.1.1.1", "a.b.c", "99999999999.0.0", "+1.1.0", "1.0x.0", "1.1.fffffffff",
	} {
		if p, err := turn.ParsePosition(id); !errors.Is(err, turn.ErrPosition) {
			t.Errorf("%q is read as %v", id, p)
		}
	}
}

func FuzzParsePosition(f *testing.F) {
	f.Add("3.17.cafe")
	f.Add("x")
	f.Fuzz(func(t *testing.T, id string) {
		p, err := turn.ParsePosition(id)
		if err != nil {
			return
		}
		if again, err := turn.ParsePosition(p.String()); err != nil || again != p {
			t.Errorf("%q is %v, then %v", id, p, again)
		}
	})
}
