package chat_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

// TestReadsAreLimited: what a visitor reads is bounded too, beside what it sends.
func TestReadsAreLimited(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		limited(time.Now)(w.Handler)
		w.set(t, "chatVisitorMessages", 1)
		w.set(t, "chatMessages", 2)
		w.Reason.Model = greeter{}
		first := w.post(t, messages, `{"message":"Hi."}`, "X-Session-Id", "ann")
		in := "/api/v1/chat/" + first.header.Get("X-Thread-Id")
		execution := first.header.Get("X-Execution-Id")
		read := func(path, token, visitor string) (served int) {
			for range 30 {
				switch got := w.call(t, http.MethodGet, path, token, "", "X-Session-Id", visitor); got.status {
				case http.StatusOK:
					served++
				case http.StatusTooManyRequests:
					if got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "rate_limit") {
						t.Fatalf("%v %s", got.header, got.body)
					}
				default:
					t.Fatalf("%s: %d %s", path, got.status, got.body)
				}
			}
			return served
		}
		within := func(n, burst int, since time.Time) bool { // the first ones before the limit is known
			return n >= burst && n <= burst+3+int(time.Since(since).Minutes()*float64(burst))
		}
		begun := time.Now()
		if n := read(in+"/messages", site, "ann"); !within(n, 10, begun) {
			t.Errorf("a visitor read the history %d times", n)
		}
		back := func() int { return 3 + int(time.Since(begun).Minutes()*10) } // as many may come back meanwhile
		if n := read(in+"/executions/"+execution+"/events", site, "ann"); n > back() {
			t.Errorf("then it read a stream %d times", n)
		}
		if n := read(responses+"/resp_"+execution, site, "ann"); n > back() {
			t.Errorf("then it read a response %d times", n)
		}
		begun = time.Now()
		if n := read(responses+"/resp_"+execution, reader, ""); !within(n, 20, begun) {
			t.Errorf("a program read a response %d times", n)
		}
	})
}

// TestLooksForResponsesAreLimited: a message that names the response before it is read for before it counts.
func TestLooksForResponsesAreLimited(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		limited(time.Now)(w.Handler)
		w.set(t, "chatVisitorMessages", 1)
		w.set(t, "chatMessages", 2)
		body := `{"input":"Hi.","previous_response_id":"resp_` + ids() + `"}`
		for token, burst := range map[string]int{site: 100, key: 20} {
			begun, looked := time.Now(), 0
			for range burst + 20 {
				switch got := w.call(t, http.MethodPost, responses, token, body); got.status {
				case http.StatusNotFound:
					looked++
				case http.StatusTooManyRequests:
				default:
					t.Fatalf("%d %s", got.status, got.body)
				}
			}
			// the first ones before the limit is known
			if most := burst + 3 + int(time.Since(begun).Minutes()*float64(burst)); looked > most {
				t.Errorf("by %s as many as %d responses were looked for", token, looked)
			}
		}
	})
}

// TestAPageOfAHistoryIsBounded in bytes, and the next one goes on behind it.
func TestAPageOfAHistoryIsBounded(t *testing.T) {
	w := onOne(t)
	long := strings.Repeat("a", 60_000)
	var id string
	for range 24 {
		w.think(t, llmtest.Writes(long))
		got := w.post(t, messages, `{"message":"Hi."}`, "X-Session-Id", "ann")
		if id = got.header.Get("X-Thread-Id"); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	seen, pages := map[string]bool{}, 0
	for cursor := ""; ; pages++ {
		var p struct {
			Items      []struct{ ID string }
			NextCursor *string
		}
		got := w.call(t, http.MethodGet, "/api/v1/chat/"+id+"/messages?limit=200&cursor="+url.QueryEscape(cursor), site, "", "X-Session-Id", "ann")
		if got.into(t, &p); len(got.body) > 1<<20+64<<10 || len(p.Items) == 0 {
			t.Fatalf("a page has %d items and %d bytes", len(p.Items), len(got.body))
		}
		for _, m := range p.Items {
			if seen[m.ID] {
				t.Errorf("%s is listed twice", m.ID)
			}
			seen[m.ID] = true
		}
		if p.NextCursor == nil {
			break
		}
		cursor = *p.NextCursor
	}
	if len(seen) != 48 || pages != 1 {
		t.Errorf("%d messages on %d pages", len(seen), pages+1)
	}
}

// A parameter that a listing or a stream does not know, or has twice, is refused: the caller would get something else than
// what it asks for.
func TestUnknownParametersAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, query := range []string{"?user=ann&since=1", "?user=ann&user=bob", "?user=ann&%3Cb%3E=1"} {
			for _, path := range []string{"/messages", "/executions/" + ids() + "/events"} {
				got := w.call(t, http.MethodGet, "/api/v1/chat/"+ids()+path+query, site, "")
				if got.status != 422 || !strings.Contains(got.body, `"location":"query`) || strings.Contains(got.body, "bob") {
					t.Errorf("%s: %d %s", path+query, got.status, got.body)
				}
			}
		}
	})
}

// The id of an event may stand in a parameter and in a header, which counts before it. A refusal names the one that it is about.
func TestAnEventsIDIsRefusedWhereItStands(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(t, llmtest.Writes("Hello."))
		said := w.post(t, messages, `{"message":"Hi."}`, "X-Session-Id", "ann")
		thread, execution := said.header.Get("X-Thread-Id"), said.header.Get("X-Execution-Id")
		events := "/api/v1/chat/" + thread + "/executions/" + execution + "/events?user=ann&after="
		response := "/v1/responses/resp_" + execution + "?stream=true&user=ann&starting_after="
		for path, at := range map[string]string{events: "query.after", response: "query.starting_after"} {
			for last, at := range map[string]string{"": at, "soon": "header.Last-Event-ID"} {
				got := w.call(t, http.MethodGet, path+"soon", site, "", "Last-Event-ID", last)
				if got.status/100 != 4 || !strings.Contains(got.body, `"`+at+`"`) {
					t.Errorf("%s with Last-Event-ID %q: %d %s, want %s", path, last, got.status, got.body, at)
				}
			}
		}
	})
}

// A request with two names of its visitor is refused: the one that counts is not to be a matter of order.
func TestARequestHasOneVisitor(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(t, llmtest.Writes("Hello."), llmtest.Writes("Hello."))
		for path, body := range map[string]string{
			"/api/v1/chat/messages": `{"message":"Hi."}`, "/v1/chat/completions": `{"messages":[{"role":"user","content":"Hi."}]}`,
		} {
			r := w.request(t, http.MethodPost, path, site, body, "X-Session-Id", "ann")
			r.Header.Add("X-Session-Id", "bob")
			got := must(http.DefaultClient.Do(r))(t)
			text := must(io.ReadAll(got.Body))(t)
			_ = got.Body.Close()
			if got.StatusCode != 400 || !strings.Contains(string(text), "X-Session-Id") {
				t.Errorf("%s: %d %s", path, got.StatusCode, text)
			}
		}
	})
}
