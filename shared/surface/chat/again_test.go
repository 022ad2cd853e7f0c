package chat_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

// TestAMessageWithAKeyIsAnsweredOnce, however often it comes.
func TestAMessageWithAKeyIsAnsweredOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := newHeld()
		m := w.think(t, h.then("Hel", "lo."))
		const hi = `{"message":"Hi.","stream":true}`
		named := []string{"X-Session-Id", "ann", "Idempotency-Key", "k-1"}
		first := w.stream(t, http.MethodPost, messages, hi, named...)
		<-h.asked
		if got := w.post(t, messages, `{"message":"Hi."}`, named...); got.status != 409 || got.header.Get("Retry-After") == "" {
			t.Errorf("while it is answered: %d %s", got.status, got.body)
		}
		close(h.answer)
		first.rest()
		again := w.stream(t, http.MethodPost, messages, hi, named...)
		all := again.rest()
		if again.Header.Get("X-Execution-Id") != first.Header.Get("X-Execution-Id") || again.Header.Get("Idempotency-Replayed") != "true" ||
			len(all) != 2 || !strings.Contains(all[1].data, `"answer":"Hello."`) {
			t.Errorf("again comes %v, with %v", all, again.Header)
		}
		if got := w.post(t, messages, `{"message":"Hi."}`, named...); got.status != 200 || !strings.Contains(got.body, `"answer":"Hello."`) {
			t.Errorf("again comes %d %s", got.status, got.body)
		}
		if got := w.post(t, messages, `{"message":"Bye."}`, named...); got.status != 422 {
			t.Errorf("another message: %d %s", got.status, got.body)
		}
		if n := len(m.Requests()); n != 1 {
			t.Errorf("the model was asked %d times", n)
		}
		w.think(t, llmtest.Writes("Hello, bob."))
		if got := w.post(t, messages, `{"message":"Hi."}`, "X-Session-Id", "bob", "Idempotency-Key", "k-1"); !strings.Contains(got.body, "Hello, bob.") {
			t.Errorf("another visitor gets %d %s", got.status, got.body)
		}
	})
}
