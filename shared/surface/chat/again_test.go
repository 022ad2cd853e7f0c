package chat_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/lane"
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

// TestAMessageWithAKeyComesTwiceAtOnce: a request that finds the lane of its execution held, and no execution
// yet, came together with another one of the same key, and is told so.
func TestAMessageWithAKeyComesTwiceAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(t, llmtest.Writes("Hello."))
		id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(string(w.Workspace)+"\x00key:3\x00ann\x00k-1")).String()
		its := lane.Request{Workspace: w.Workspace, Lane: lane.Execution(id), Holder: "other"}
		held := must(w.Lanes.Acquire(t.Context(), its))(t)
		say := func() reply {
			return w.call(t, http.MethodPost, messages, key, `{"message":"Hi."}`, "X-Session-Id", "ann", "Idempotency-Key", "k-1")
		}
		got := say()
		if got.status != 409 || got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, "the same Idempotency-Key") {
			t.Errorf("the second: %d, again in %s s: %s", got.status, got.header.Get("Retry-After"), got.body)
		}
		if err := w.Lanes.Release(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		if got := say(); got.status != 200 || got.header.Get("X-Execution-Id") != id {
			t.Errorf("then: %d %s", got.status, got.body)
		}
	})
}

// TestAKeyOfANamelessVisitor is the program's own; a site's page has to name its visitor.
func TestAKeyOfANamelessVisitor(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m := w.think(t, llmtest.Writes("Hello."), llmtest.Writes("Hello again."))
		send := func(path, token, body string, headers ...string) reply {
			return w.call(t, http.MethodPost, path, token, body, append(headers, "Idempotency-Key", "k-1")...)
		}
		const hi = `{"message":"Hi."}`
		first, second := send(messages, key, hi), send(messages, key, hi)
		for _, name := range []string{"X-Execution-Id", "X-Thread-Id", "X-Session-Id"} {
			if at := first.header.Get(name); at == "" || second.header.Get(name) != at {
				t.Errorf("%s is %q, and again %q", name, at, second.header.Get(name))
			}
		}
		if first.status != 200 || second.status != 200 || second.body != first.body || second.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("again comes %d %s, not %s", second.status, second.body, first.body)
		}
		stream := send(messages, key, `{"message":"Hi.","stream":true}`)
		if stream.header.Get("X-Session-Id") != first.header.Get("X-Session-Id") ||
			stream.header.Get("X-Thread-Id") != first.header.Get("X-Thread-Id") || !strings.Contains(stream.body, `"answer":"Hello."`) {
			t.Errorf("again comes %v %s", stream.header, stream.body)
		}
		on := "/api/v1/chat/" + first.header.Get("X-Thread-Id") + "/messages"
		if got := send(on, key, hi); !strings.Contains(got.body, "Hello again.") {
			t.Errorf("the message of a conversation is taken for one that began another: %d %s", got.status, got.body)
		}
		for path, want := range map[string]int{messages: 422, completions: 400, responses: 400} {
			body := `{"messages":[{"role":"user","content":"Hi."}]}`
			switch path {
			case messages:
				body = hi
			case responses:
				body = `{"input":"Hi."}`
			}
			if got := send(path, site, body); got.status != want || !strings.Contains(got.body, "X-Session-Id") {
				t.Errorf("%s of a site: %d %s", path, got.status, got.body)
			}
			for _, token := range []string{site, key} {
				got := w.call(t, http.MethodPost, path, token, body, "X-Session-Id", "ann", "Idempotency-Key", strings.Repeat("k", 257))
				if got.status != want || !strings.Contains(got.body, "256 bytes") {
					t.Errorf("%s with a long key: %d %s", path, got.status, got.body)
				}
			}
		}
		if n := len(m.Requests()); n != 2 {
			t.Errorf("the model was asked %d times", n)
		}
	})
}

// TestAMessageHasOneKey: a message with several keys is refused, because each key would name another
// execution.
func TestAMessageHasOneKey(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m := w.think(t, llmtest.Writes("Hello."))
		for path, body := range map[string]string{
			messages:    `{"message":"Hi."}`,
			completions: `{"messages":[{"role":"user","content":"Hi."}]}`,
			responses:   `{"input":"Hi."}`,
		} {
			for _, second := range []string{"k-2", "k-1", ""} {
				for _, token := range []string{site, key} {
					r := w.request(t, http.MethodPost, path, token, body, "X-Session-Id", "ann", "Idempotency-Key", "k-1")
					r.Header.Add("Idempotency-Key", second)
					answer := must(http.DefaultClient.Do(r))(t)
					text := must(io.ReadAll(answer.Body))(t)
					_ = answer.Body.Close()
					got := reply{answer.StatusCode, answer.Header, string(text)}
					if got.status != 400 || !strings.Contains(got.body, "header.Idempotency-Key") {
						t.Errorf("%s with the keys k-1 and %q: %d %s", path, second, got.status, got.body)
					}
				}
			}
		}
		if n := len(m.Requests()); n != 0 {
			t.Errorf("the model was asked %d times", n)
		}
	})
}
