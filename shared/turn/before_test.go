package turn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// visit begins a turn of bob with all fields of the message, and does not wait for it.
func (v visitor) visit(ctx context.Context, message turn.Turn) *saying {
	s := &saying{begun: make(chan string, 1), ended: make(chan struct{})}
	ctx = trace.With(ctx, traces.New(trace.Chat))
	message.Surface, message.Lane, message.By = trace.Chat, "session:chat:bob", "bob"
	message.Begun = func(execution, _ string) { s.begun <- execution }
	go func() {
		defer close(s.ended)
		s.reply, s.err = v.Runner.Talk(ctx, v.Workspace, message)
	}()
	return s
}

func before(lines ...string) []turn.Said {
	out := []turn.Said{}
	for _, l := range lines {
		role, body, _ := strings.Cut(l, ": ")
		out = append(out, turn.Said{Role: thread.Role(role), Body: body})
	}
	return out
}

// TestTheThreadOfAnAddressIsOne: a turn without a thread uses the thread of its address.
func TestTheThreadOfAnAddressIsOne(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.think(llmtest.Write(t, llmtest.Writes("One."), llmtest.Writes("Two."), llmtest.Writes("Three.")))
		first := v.visit(t.Context(), turn.Turn{Message: "1", Address: "bob"}).end(t)
		second := v.visit(t.Context(), turn.Turn{Message: "2", Address: "bob"}).end(t)
		other := v.visit(t.Context(), turn.Turn{Message: "3", Address: "bob's friend"}).end(t)
		if first.Thread != second.Thread || other.Thread == first.Thread {
			t.Errorf("the threads are %s, %s and %s", first.Thread, second.Thread, other.Thread)
		}
		if th := must(v.Threads.Get(t.Context(), v.Workspace, first.Thread))(t); th.Address != "bob" || th.Channel != "chat" {
			t.Errorf("the thread is %+v", th)
		}
		if got := v.spoken(t, first.Thread); !slices.Equal(got, []string{"user: 1", "assistant: One.", "user: 2", "assistant: Two."}) {
			t.Errorf("it has %q", got)
		}
		bad := v.visit(t.Context(), turn.Turn{Message: "4", Address: strings.Repeat("b", 513)})
		if <-bad.ended; bad.err == nil {
			t.Error("an address of any length has a thread")
		} else if _, ok := errors.AsType[*problem.InvalidError](bad.err); !ok {
			t.Errorf("got %v", bad.err)
		}
	})
}

// TestWhatWasSpokenBeforeIsTheContext: the model gets the messages that the caller names. The
// thread stores each of them once, whatever the caller names the next time.
func TestWhatWasSpokenBeforeIsTheContext(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		m := llmtest.Write(t, llmtest.Writes("One."), llmtest.WritesCalls("I look. ", "note", `{"what":"x"}`), llmtest.Writes("Two."), llmtest.Writes("Three."), llmtest.Writes("Four."))
		v.think(m)
		says := func(message string, lines []turn.Said) turn.Reply {
			t.Helper()
			return v.visit(t.Context(), turn.Turn{Message: message, Address: "bob", Before: lines}).end(t)
		}
		told := func(call int) (lines []string) {
			for _, m := range m.Request(call).Messages {
				lines = append(lines, string(m.Role)+": "+m.Text)
			}
			return lines
		}
		r := says("1", before("user: Hi.", "assistant: Hello."))
		says("2", before("user: Hi.", "assistant: Hello.", "user: 1", "assistant: One."))
		says("3", before("user: Hi!", "assistant: Hello.", "user: 1", "assistant: One.", "user: 2", "assistant: I look. Two."))
		says("4", before())
		want := []string{
			"user: Hi.", "assistant: Hello.", "user: 1", "assistant: One.", "user: 2", "assistant: Two.",
			"user: Hi!", "user: 3", "assistant: Three.", "user: 4", "assistant: Four.",
		}
		if got := v.spoken(t, r.Thread); !slices.Equal(got, want) {
			t.Errorf("the thread has %q", got)
		}
		if got := told(3); !slices.Equal(got, []string{
			"user: Hi!", "assistant: Hello.", "user: 1", "assistant: One.", "user: 2", "assistant: I look. Two.", "user: 3",
		}) {
			t.Errorf("the model is told %q", got)
		}
		if got := told(4); !slices.Equal(got, []string{"user: 4"}) {
			t.Errorf("of nothing said before it is told %q", got)
		}
		for _, m := range must(v.Threads.Lately(t.Context(), v.Workspace, r.Thread, 100))(t) {
			if m.Body == "Hello." && !strings.Contains(string(m.Data), string(execution.Untrusted)) {
				t.Errorf("the caller's words are taken for the agent's: %s", m.Data)
			}
		}
	})
}

// TestManyMessagesOfBeforeCostNoRoundTripEach: a caller who comes with a long history waits for one, as with a short one.
func TestManyMessagesOfBeforeCostNoRoundTripEach(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.think(llmtest.Write(t, llmtest.Writes("One."), llmtest.Writes("Two.")))
		costs := func(message string, lines []turn.Said) int64 {
			t.Helper()
			had := v.DB.Stats()
			v.visit(t.Context(), turn.Turn{Message: message, Address: "bob", Before: lines}).end(t)
			return v.DB.Stats().Sub(had).RoundTrips
		}
		var many []string
		for i := range 150 {
			many = append(many, fmt.Sprintf("user: %d?", i))
		}
		if few, all := costs("1", before("user: Hi.")), costs("2", before(many...)); all > few+5 {
			t.Errorf("150 messages take %d round trips, and one takes %d", all, few)
		}
	})
}

// TestAnAnswerIsKnownByAllOfIt: a caller who knows an answer with what came before it means no shorter answer that
// ends in the same way.
func TestAnAnswerIsKnownByAllOfIt(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.think(llmtest.Write(t, llmtest.Writes("One."), llmtest.Writes("Two.")))
		var there, known []string
		for i := range 10 {
			there = append(there, fmt.Sprintf("assistant: All is well %d.", i), fmt.Sprintf("assistant: well %d.", i))
			known = append(known, fmt.Sprintf("assistant: I look. All is well %d.", i), fmt.Sprintf("assistant: well %d.", i))
		}
		v.visit(t.Context(), turn.Turn{Message: "1", Address: "bob", Before: before(there...)}).end(t)
		r := v.visit(t.Context(), turn.Turn{Message: "2", Address: "bob", Before: before(known...)}).end(t)
		if got := v.spoken(t, r.Thread); !slices.Equal(got, append(there, "user: 1", "assistant: One.", "user: 2", "assistant: Two.")) {
			t.Errorf("the thread has %q", got)
		}
	})
}

// TestWhatWasSpokenBeforeIsStoredOnce: this holds for a turn that waited in line and continues in
// another process, and for one that was cut off.
func TestWhatWasSpokenBeforeIsStoredOnce(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		h := newThinking()
		ctx, leave := context.WithCancel(t.Context())
		cut := func(ctx context.Context, _ llm.Request, _ func(string)) (llm.Response, error) {
			leave()
			<-ctx.Done()
			return llm.Response{}, ctx.Err()
		}
		m := llmtest.Write(t, h.then("One."), cut, llmtest.Writes("Two."))
		v.think(m)
		first := v.visit(t.Context(), turn.Turn{Message: "1", Address: "bob"})
		<-h.asked
		gone, left := context.WithCancel(t.Context())
		second := v.visit(gone, turn.Turn{Message: "Hi.", Address: "bob", Before: before("user: Hi.", "user: Hi.", "assistant: Hello.")})
		id := <-second.begun
		left() // its process ends while it waits in line
		if r := second.end(t); r.Status != execution.Parked {
			t.Errorf("the second is %+v", r)
		}
		close(h.answer)
		thread := first.end(t).Thread
		if _, err := v.Sender.Drain(ctx, v.Workspace, 20); !errors.Is(err, context.Canceled) {
			t.Errorf("its next process ended with %v", err)
		}
		v.Skew.Advance(time.Hour)
		v.drain(t)
		if e := v.execution(t, id); e.Status != execution.Completed {
			t.Errorf("its execution is %+v", e)
		}
		want := []string{"user: 1", "assistant: One.", "user: Hi.", "user: Hi.", "assistant: Hello.", "user: Hi.", "assistant: Two."}
		if got := v.spoken(t, thread); !slices.Equal(got, want) {
			t.Errorf("the thread has %q", got)
		}
		if got := asked(m.Request(2)); !slices.Equal(got, []string{"Hi.\n\nHi.", "Hi."}) {
			t.Errorf("the model is told %q", got)
		}
	})
}

// TestWhatACallerMayNotSay: such a turn is refused before anything is stored.
func TestWhatACallerMayNotSay(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		for _, lines := range [][]turn.Said{before("tool: x"), before("user: \x00"), before("user: " + strings.Repeat("x", 1<<16+1))} {
			s := v.visit(t.Context(), turn.Turn{Message: "1", Address: "bob", Before: lines})
			<-s.ended
			if _, ok := errors.AsType[*problem.InvalidError](s.err); !ok {
				t.Errorf("%.20q: %v", lines, s.err)
			}
		}
		if all, _, err := v.Threads.List(t.Context(), v.Workspace, thread.Filter{Channel: "chat", Address: "bob"}); err != nil || len(all) > 0 {
			t.Errorf("there are %+v, %v", all, err)
		}
	})
}

// TestAPersonaThatServesTheSurface: the turn has the persona's instructions. A persona of another
// surface is refused.
func TestAPersonaThatServesTheSurface(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		kind := &v.Kinds[len(v.Kinds)-1]
		kind.Persona, kind.AnswerTokens = persona.VisitorChat, func(s workspace.Settings) int { return s.ChatOutputTokens }
		m := llmtest.Write(t, llmtest.Writes("One."))
		v.think(m)
		must(persona.Persona{}, v.DB.Tx(t.Context(), v.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := v.Personas.Put(ctx, tx, persona.Persona{Name: "shop", Instructions: "Sell.", CreatedBy: "user:ada"})
			return err
		}))(t)
		for _, name := range []string{"nobody", persona.Flowpilot} {
			if s := v.visit(t.Context(), turn.Turn{Message: "1", Address: "bob", Persona: name}); !errors.Is(s.failed(), turn.ErrNoPersona) {
				t.Errorf("by %s: %+v, %v", name, s.reply, s.err)
			}
		}
		r := v.visit(t.Context(), turn.Turn{Message: "1", Address: "bob", Persona: "shop"}).end(t)
		if e := v.execution(t, r.Execution); e.Persona != "shop" || e.PersonaVersion == nil || *e.PersonaVersion != 1 {
			t.Errorf("the execution is %+v", e)
		}
		if asked := m.Request(0); !strings.Contains(asked.System, "Sell.") || asked.MaxTokens != 1024 {
			t.Errorf("the model is asked %+v", asked)
		}
	})
}

// failed returns the error of a turn that has ended.
func (s *saying) failed() error {
	<-s.ended
	return s.err
}
