package chat_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat"
	"github.com/lanekeeper/lanekeeper/shared/turn/telling"
)

// TestWhatAVisitorIsToldOfATurn that did not end with an answer: a plain sentence, and nothing of what
// went on inside.
func TestWhatAVisitorIsToldOfATurn(t *testing.T) {
	fails := func(context.Context, llm.Request, func(string)) (llm.Response, error) {
		return llm.Response{}, &llm.Error{Class: llm.ClassBadRequest, Provider: "the-inner-provider", Err: context.Canceled}
	}
	cut := func(_ context.Context, _ llm.Request, write func(string)) (llm.Response, error) {
		write("It is very")
		r := llmtest.Written("It is very")
		r.StopReason = llm.StopMaxTokens
		return r, nil
	}
	silent := func(context.Context, llm.Request, func(string)) (llm.Response, error) {
		return llm.Response{Message: llm.Message{Role: llm.RoleAssistant}, StopReason: llm.StopMaxTokens}, nil
	}
	const sorry = "Sorry, this could not be answered. Please try again later, or in other words."
	onEach(t, func(t *testing.T, w *world) {
		for _, c := range []struct {
			name, said, finish, status string
			steps                      []llmtest.Writing
		}{
			{"failed", sorry, "stop", "failed", []llmtest.Writing{fails}},
			{"stalled", sorry, "stop", "failed", slices.Repeat([]llmtest.Writing{llmtest.WritesCalls("", "unknown_tool", `{}`)}, 3)},
			{"waiting", "Somebody looks at it.", "stop", "incomplete", []llmtest.Writing{llmtest.WritesCalls("", "pay", `{}`), llmtest.Writes("Somebody looks at it.")}},
			{"cut off", "It is very", "length", "incomplete", []llmtest.Writing{cut}},
			{"cut off before a word", sorry, "length", "incomplete", []llmtest.Writing{silent}},
		} {
			t.Run(c.name, func(t *testing.T) {
				w.think(t, slices.Concat(c.steps, c.steps, c.steps, c.steps)...)
				user := `"user":"` + c.name + `"`
				var whole completed
				w.post(t, completions, `{"messages":[{"role":"user","content":"Hi."}],`+user+`}`).into(t, &whole)
				if got := whole.Choices[0]; got.Message.Content != c.said || got.FinishReason != c.finish {
					t.Errorf("a completion is %+v", got)
				}
				s := w.stream(t, http.MethodPost, completions, `{"stream":true,"messages":[{"role":"user","content":"Hi."}],`+user+`}`)
				all := s.rest()
				if said, finish := text(t, all); said != c.said || finish != c.finish || all[len(all)-1].data != "[DONE]" {
					t.Errorf("a stream says %q, and ends with %q", said, finish)
				}
				var r responded
				got := w.post(t, responses, `{"input":"Hi.",`+user+`}`)
				if got.into(t, &r); r.said() != c.said || r.Status != c.status || (r.Status == "failed") != (r.Error != nil) {
					t.Errorf("a response is %s", got.body)
				}
				events := w.stream(t, http.MethodPost, responses, `{"stream":true,"input":"Hi.",`+user+`}`).rest()
				if last := events[len(events)-1]; last.kind != "response."+c.status || !strings.Contains(last.data, c.said) {
					t.Errorf("a streamed response ends with %v", last)
				}
				history := w.call(t, http.MethodGet, "/api/v1/chat/"+s.Header.Get("X-Thread-Id")+"/messages", site, "", "X-Session-Id", c.name)
				for _, body := range []string{got.body, history.body} {
					for _, inner := range []string{"inner-provider", "unknown_tool", "bad_request", "stopped:", `"pay"`, "limit of its length"} {
						if strings.Contains(body, inner) {
							t.Errorf("a visitor learns %s: %s", inner, body)
						}
					}
				}
			})
		}
	})
}

// TestAModelThatHangs keeps no visitor longer than the function would: the turn goes on by itself, and
// the visitor is told so.
func TestAModelThatHangs(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite), func(h *chat.Handler) { h.Longest = 7 * time.Second })
	w.think(t, func(ctx context.Context, _ llm.Request, _ func(string)) (llm.Response, error) {
		<-ctx.Done()
		return llm.Response{}, llm.Interrupted(ctx, "script")
	})
	begun := time.Now()
	got := w.post(t, completions, `{"messages":[{"role":"user","content":"Hi."}]}`)
	if got.status != http.StatusOK || !strings.Contains(got.body, "This takes longer than usual.") || time.Since(begun) > telling.Longest {
		t.Errorf("after %s: %d %s", time.Since(begun), got.status, got.body)
	}
}
