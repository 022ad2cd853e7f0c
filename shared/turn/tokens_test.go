package turn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// hasTokens lets a conversation use so many tokens. An answer uses 15.
func (v visitor) hasTokens(n int64) {
	kind := &v.Kinds[len(v.Kinds)-1]
	kind.ThreadTokens = func(workspace.Settings) int64 { return n }
	kind.Multitask = append(slices.Clone(kind.Multitask), turn.Interrupt, turn.Rollback)
}

// TestAConversationHasItsTokens: the call by which they are reached is the last, and what comes then
// is refused before anything is written.
func TestAConversationHasItsTokens(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.hasTokens(40)
		m := llmtest.Write(t, llmtest.Writes("One."), llmtest.Writes("Two."), llmtest.Writes("Three."))
		v.think(m)
		var thread string
		for i, want := range []int{40, 25, 10} {
			thread = v.visit(t.Context(), turn.Turn{Message: "Hi.", Address: "bob"}).end(t).Thread
			if got := m.Request(i).MaxTokens; got != want {
				t.Errorf("call %d may have %d tokens, want %d", i+1, got, want)
			}
		}
		said := v.spoken(t, thread)
		for _, again := range []turn.Turn{{Address: "bob"}, {Thread: thread}} {
			again.Message = "Hi."
			if s := v.visit(t.Context(), again); !errors.Is(s.failed(), turn.ErrSpent) {
				t.Errorf("what comes then is %+v, %v", s.reply, s.err)
			}
		}
		if got := v.spoken(t, thread); !slices.Equal(got, said) {
			t.Errorf("the thread has %q", got)
		}
		if told := v.actions(t, "chat"); len(told) != 3 {
			t.Errorf("the log says %+v", told)
		}
		v.think(llmtest.Write(t, llmtest.Writes("Zero.")))
		if r := v.visit(t.Context(), turn.Turn{Message: "Hi.", Address: "another"}).end(t); r.Answer != "Zero." {
			t.Errorf("another conversation got %+v", r)
		}
	})
}

// TestARunEndsWithTheTokensOfItsConversation, and so does a turn in line whose conversation another
// has used up.
func TestARunEndsWithTheTokensOfItsConversation(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.hasTokens(29)
		h := newThinking()
		m := llmtest.Write(t, h.thinks(), llmtest.WritesCalls("I noted it.", "note", `{"what":"x"}`))
		v.think(m)
		first := v.visit(t.Context(), turn.Turn{Message: "1", Address: "bob"})
		<-h.asked
		second := v.visit(t.Context(), turn.Turn{Message: "2", Address: "bob"})
		<-second.begun
		close(h.answer)
		for _, s := range []*saying{first, second} {
			if r := s.end(t); r.Status != execution.Stalled || !strings.HasPrefix(r.Reason, "the tokens of the conversation are used up") {
				t.Errorf("got %+v", r)
			}
		}
		if got := m.Request(1).MaxTokens; got != 14 {
			t.Errorf("the second call may have %d tokens", got)
		}
		got := v.spoken(t, first.reply.Thread)
		if len(got) != 4 || !strings.HasPrefix(got[1], "assistant: I noted it.\n\n(stopped: the tokens of the conversation are used up") ||
			!strings.HasPrefix(got[3], "assistant: (stopped: the tokens of the conversation are used up") {
			t.Errorf("the thread has %q", got)
		}
		v.mustBeFree(t)
	})
}

// TestTokensCountWhateverBecomesOfTheTurn: of one that fails, is interrupted or rolled back in the
// middle of a call.
func TestTokensCountWhateverBecomesOfTheTurn(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.hasTokens(46)
		h, again := newThinking(), newThinking()
		m := llmtest.Write(t, h.then("One."), again.then("Two."), func(context.Context, llm.Request, func(string)) (llm.Response, error) {
			r := llmtest.Written("")
			r.StopReason = llm.StopRefusal
			return r, nil
		}, llmtest.Writes("Four."))
		v.think(m)
		first := v.visit(t.Context(), turn.Turn{Message: "1", Address: "bob"})
		<-h.asked
		second := v.visit(t.Context(), turn.Turn{Message: "2", Address: "bob", Multitask: turn.Interrupt})
		<-again.asked
		close(h.answer)
		first.end(t)
		third := v.visit(t.Context(), turn.Turn{Message: "3", Address: "bob", Multitask: turn.Rollback})
		third.end(t)
		close(again.answer)
		second.end(t)
		if r := third.reply; r.Status != execution.Failed {
			t.Errorf("the third is %+v", r)
		}
		r := v.visit(t.Context(), turn.Turn{Message: "4", Address: "bob"}).end(t)
		if got := m.Request(3).MaxTokens; got != 1 {
			t.Errorf("the fourth may have %d tokens, of %d", got, v.execution(t, first.reply.Execution).PromptTokens)
		}
		if r.Answer != "Four." {
			t.Errorf("the fourth is %+v", r)
		}
		if s := v.visit(t.Context(), turn.Turn{Message: "5", Address: "bob"}); !errors.Is(s.failed(), turn.ErrSpent) {
			t.Errorf("the fifth is %+v, %v", s.reply, s.err)
		}
	})
}

// TestTheTokensOfAnInterruptedCallCount: the model obeys its context and says what it used until then.
func TestTheTokensOfAnInterruptedCallCount(t *testing.T) {
	for _, mode := range []turn.Multitask{turn.Interrupt, turn.Rollback} {
		t.Run(string(mode), func(t *testing.T) {
			onVisits(t, func(t *testing.T, v visitor) {
				v.hasTokens(30)
				asked := make(chan struct{})
				v.think(llmtest.Write(t, func(ctx context.Context, _ llm.Request, _ func(string)) (llm.Response, error) {
					close(asked)
					<-ctx.Done()
					return llm.Response{Lost: llm.Usage{PromptTokens: 10, CompletionTokens: 5, Estimated: true}}, llm.Interrupted(ctx, "script")
				}, llmtest.Writes("Two.")))
				first := v.visit(t.Context(), turn.Turn{Message: "1", Address: "bob"})
				<-asked
				second := v.visit(t.Context(), turn.Turn{Message: "2", Address: "bob", Multitask: mode}).end(t)
				first.end(t)
				if e := v.execution(t, first.reply.Execution); e.PromptTokens != 10 || e.CompletionTokens != 5 {
					t.Errorf("the interrupted turn has used %d and %d tokens", e.PromptTokens, e.CompletionTokens)
				}
				if second.Answer != "Two." {
					t.Errorf("the second is %+v", second)
				}
				if s := v.visit(t.Context(), turn.Turn{Message: "3", Address: "bob"}); !errors.Is(s.failed(), turn.ErrSpent) {
					t.Errorf("the third is %+v, %v", s.reply, s.err)
				}
			})
		})
	}
}

// TestTokensOfAnotherDayDoNotCount: a visitor who has used them up may go on a day later.
func TestTokensOfAnotherDayDoNotCount(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.hasTokens(15)
		m := llmtest.Write(t, llmtest.Writes("One."), llmtest.Writes("Two."))
		v.think(m)
		first := v.visit(t.Context(), turn.Turn{Message: "1", Address: "bob"}).end(t)
		v.Skew.Advance(23 * time.Hour)
		if s := v.visit(t.Context(), turn.Turn{Message: "2", Address: "bob"}); !errors.Is(s.failed(), turn.ErrSpent) {
			t.Fatalf("on the same day it is %+v, %v", s.reply, s.err)
		}
		v.Skew.Advance(time.Hour)
		second := v.visit(t.Context(), turn.Turn{Message: "2", Address: "bob"}).end(t)
		if second.Answer != "Two." || second.Thread != first.Thread || m.Request(1).MaxTokens != 15 {
			t.Errorf("a day later it is %+v, of at most %d tokens", second, m.Request(1).MaxTokens)
		}
	})
}
