package chat_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

const messages = "/api/v1/chat/messages"

type answered struct {
	Answer, Status string
	ExecutionID    string
	ThreadID       string
	TraceID        string
	Usage          struct{ TotalTokens int64 }
}

// TestAVisitorHasOneConversation, and reaches no other.
func TestAVisitorHasOneConversation(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(t, slices.Repeat([]llmtest.Writing{llmtest.Writes("Hello.")}, 5)...)
		var first, second, third answered
		got := w.post(t, messages, `{"message":"Hi."}`)
		if got.into(t, &first); got.status != 200 || first.Answer != "Hello." || first.Status != "completed" || first.Usage.TotalTokens != 15 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		session := got.header.Get("X-Session-Id")
		if len(session) < 20 || got.header.Get("X-Thread-Id") != first.ThreadID || got.header.Get("X-Execution-Id") != first.ExecutionID {
			t.Errorf("the headers are %v", got.header)
		}
		w.post(t, messages, `{"message":"Hi."}`, "X-Session-Id", session).into(t, &second)
		w.post(t, "/api/v1/chat/"+first.ThreadID+"/messages", `{"message":"Hi."}`, "X-Session-Id", session).into(t, &third)
		if second.ThreadID != first.ThreadID || third.ThreadID != first.ThreadID {
			t.Errorf("it goes on in %s and %s", second.ThreadID, third.ThreadID)
		}
		w.post(t, messages, `{"message":"Hi.","user":"bob"}`).into(t, &second)
		if second.ThreadID == first.ThreadID {
			t.Error("two visitors share a conversation")
		}
		operator, err := w.Threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: "operate", Address: "bob"})
		if err != nil {
			t.Fatal(err)
		}
		events := "/executions/" + first.ExecutionID + "/events"
		for _, c := range []struct{ what, method, path, session string }{
			{"another visitor's history", http.MethodGet, first.ThreadID + "/messages", "bob"},
			{"a history, named by nobody", http.MethodGet, first.ThreadID + "/messages", ""},
			{"another visitor's thread", http.MethodPost, first.ThreadID + "/messages", "bob"},
			{"another visitor's stream", http.MethodGet, first.ThreadID + events, "bob"},
			{"another visitor's stream in one's own thread", http.MethodGet, second.ThreadID + events, "bob"},
			{"a thread of another channel", http.MethodGet, operator.ID + "/messages", "bob"},
			{"no thread", http.MethodGet, ids() + "/messages", "bob"},
			{"no id", http.MethodGet, "x/messages", "bob"},
		} {
			body := ""
			if c.method == http.MethodPost {
				body = `{"message":"Hi."}`
			}
			var headers []string
			if c.session != "" {
				headers = []string{"X-Session-Id", c.session}
			}
			if got := w.call(t, c.method, "/api/v1/chat/"+c.path, site, body, headers...); got.status != 404 || !strings.Contains(got.body, `"code":"not_found"`) {
				t.Errorf("%s: %d %s", c.what, got.status, got.body)
			}
		}
		if got := w.post(t, completions, `{"messages":[{"role":"user","content":"Hi."}]}`, "X-Session-Id", "bob", "X-Thread-Id", first.ThreadID); got.status != 404 {
			t.Errorf("another visitor's thread: %d %s", got.status, got.body)
		}
		if got := w.call(t, http.MethodGet, "/api/v1/chat/"+first.ThreadID+"/messages", admin, ""); got.status != 200 {
			t.Errorf("an admin gets %d %s", got.status, got.body)
		}
		var p struct {
			Items      []struct{ Role, Body, ID string }
			NextCursor *string
		}
		var roles []string
		for cursor := ""; ; cursor = *p.NextCursor {
			p.NextCursor = nil
			w.call(t, http.MethodGet, "/api/v1/chat/"+first.ThreadID+"/messages?limit=4&cursor="+cursor, reader, "").into(t, &p)
			for _, m := range p.Items {
				roles = append(roles, m.Role)
			}
			if p.NextCursor == nil {
				break
			}
		}
		if !slices.Equal(roles, []string{"user", "assistant", "user", "assistant", "user", "assistant"}) {
			t.Errorf("the history is %q", roles)
		}
	})
}

// TestWhoMayChat is told by every route.
func TestWhoMayChat(t *testing.T) {
	w := onOne(t)
	routes := []struct{ method, path, body string }{
		{http.MethodGet, "/v1/models", ""},
		{http.MethodGet, "/v1/models/visitor_chat", ""},
		{http.MethodPost, completions, `{}`},
		{http.MethodPost, responses, `{}`},
		{http.MethodGet, responses + "/resp_1", ""},
		{http.MethodPost, messages, `{}`},
		{http.MethodPost, "/api/v1/chat/1/messages", `{}`},
		{http.MethodGet, "/api/v1/chat/1/messages", ""},
		{http.MethodGet, "/api/v1/chat/1/executions/1/events", ""},
	}
	for _, rt := range routes {
		for token, want := range map[string]int{"": 401, "nonsense": 401, agent: 403, other: 403, reader: 403, site: 0, key: 0, admin: 0} {
			got := w.call(t, rt.method, rt.path, token, rt.body)
			if token == reader && rt.method == http.MethodGet {
				want = 0
			}
			if want != 0 && got.status != want || want == 0 && (got.status == 401 || got.status == 403) {
				t.Errorf("%s %s by %q: %d %s", rt.method, rt.path, token, got.status, got.body)
			}
			if v1 := strings.HasPrefix(rt.path, "/v1/"); want != 0 && strings.Contains(got.body, `"error":{"message"`) != v1 {
				t.Errorf("%s %s is refused with %s", rt.method, rt.path, got.body)
			}
		}
		if got := w.call(t, rt.method, rt.path, other, rt.body, "Origin", "https://shop.example"); got.status == 403 {
			t.Errorf("%s %s of the site's own page: %d %s", rt.method, rt.path, got.status, got.body)
		}
		if got := w.call(t, http.MethodDelete, rt.path, site, ""); got.status != 405 || got.header.Get("Allow") == "" {
			t.Errorf("DELETE %s: %d %s", rt.path, got.status, got.body)
		}
		r := w.request(t, rt.method, rt.path, "", rt.body, "Cookie", "lanekeeper_session=x")
		if got, err := http.DefaultClient.Do(r); err != nil || got.StatusCode != 401 {
			t.Errorf("a cookie lets somebody in: %v", err)
		} else {
			_ = got.Body.Close()
		}
	}
	for _, path := range []string{"/v1/nothing", "/v1/", "/api/v1/chat/", "/v1//models", "/chat/widget.js"} {
		if got := w.call(t, http.MethodGet, path, site, ""); got.status != 404 {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// TestLimitsOfMessages hold for a visitor, an address without a name, and a workspace.
func TestLimitsOfMessages(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		now := time.Unix(1_800_000_000, 0)
		w := newWorld(t, e, limited(func() time.Time { return now }))
		w.think(t, slices.Repeat([]llmtest.Writing{llmtest.Writes("Hello.")}, 400)...)
		count := func(n int, path, body string, headers ...string) (served int) {
			for range n {
				switch got := w.post(t, path, body, headers...); got.status {
				case 200:
					served++
				case 429:
					if got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "rate_limit") {
						t.Fatalf("%v %s", got.header, got.body)
					}
				default:
					t.Fatalf("%d %s", got.status, got.body)
				}
			}
			return served
		}
		const hi = `{"messages":[{"role":"user","content":"Hi."}]}`
		within := func(n, burst int, since time.Time) bool { // some come back meanwhile
			return n >= burst && n <= burst+1+int(time.Since(since).Minutes()*float64(burst))
		}
		begun := time.Now()
		if n := count(25, completions, hi, "X-Session-Id", "ann"); !within(n, 20, begun) {
			t.Errorf("a visitor sent %d messages", n)
		}
		begun = time.Now()
		if n := count(25, messages, `{"message":"Hi.","user":"bob"}`); !within(n, 20, begun) {
			t.Errorf("another visitor sent %d messages", n)
		}
		begun = time.Now()
		if n := count(25, responses, `{"input":"Hi."}`); !within(n, 20, begun) {
			t.Errorf("visitors without a name sent %d messages from one address", n)
		}
		count(1, completions, hi, "X-Session-Id", "ann")
		before := e.DB.Stats().Statements
		count(20, completions, hi, "X-Session-Id", "bob") // who is still told to wait is not asked about
		if cost := e.DB.Stats().Statements - before; cost > 10 {
			t.Errorf("20 messages that were refused cost %d statements", cost)
		}
	})
}

// TestAVisitorWithManyNames is bounded by the address, whichever names it takes.
func TestAVisitorWithManyNames(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		limited(time.Now)(w.Handler)
		w.set(t, "chatVisitorMessages", 1)
		w.Reason.Model = greeter{}
		send := func(token string) (served int) {
			for range 30 {
				got := w.call(t, http.MethodPost, messages, token, `{"message":"Hi."}`, "X-Session-Id", ids())
				switch got.status {
				case http.StatusOK:
					served++
				case http.StatusTooManyRequests:
				default:
					t.Fatalf("%d %s", got.status, got.body)
				}
			}
			return served
		}
		begun := time.Now()
		n := send(site)
		if most := 13 + int(time.Since(begun).Minutes()*10); n < 10 || n > most { // the first ones before the limit is known
			t.Errorf("%d messages of one address were answered", n)
		}
		if n := send(key); n != 30 {
			t.Errorf("a program sent %d messages of as many visitors", n)
		}
	})
}

// TestWhoHasLeftIsLimitedToo: the turn goes on without its caller, so the limits hold without one.
func TestWhoHasLeftIsLimitedToo(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		limited(time.Now)(w.Handler)
		w.set(t, "chatVisitorMessages", 2)
		w.think(t, slices.Repeat([]llmtest.Writing{llmtest.Writes("Hello.")}, 20)...)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		served, refused := 0, 0
		for range 10 {
			out := httptest.NewRecorder()
			r := w.request(t, http.MethodPost, messages, site, `{"message":"Hi."}`, "X-Session-Id", "ann").WithContext(gone)
			switch w.ServeHTTP(out, r); out.Code {
			case http.StatusOK:
				served++
			case http.StatusTooManyRequests:
				refused++
			default:
				t.Fatalf("%d %s", out.Code, out.Body)
			}
		}
		if served > 4 || refused < 6 { // the first one before the limit is known, one may come back meanwhile
			t.Errorf("%d were answered, %d refused", served, refused)
		}
	})
}

// TestAWorkspaceTakesSoManyMessages of all its visitors.
func TestAWorkspaceTakesSoManyMessages(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		limited(time.Now)(w.Handler)
		w.think(t, slices.Repeat([]llmtest.Writing{llmtest.Writes("Hello.")}, 100)...)
		w.set(t, "chatMessages", 10)
		begun, n := time.Now(), 0
		for i := range 50 { // each of a new visitor
			got := w.call(t, http.MethodPost, messages, key, fmt.Sprintf(`{"message":"Hi.","user":"v%d"}`, i))
			if got.status == 200 {
				n++
			} else if got.status != 429 {
				t.Fatalf("%d %s", got.status, got.body)
			}
		}
		if most := 13 + int(time.Since(begun).Minutes()*10); n < 10 || n > most { // the first ones before the limit is known
			t.Errorf("it took %d messages", n)
		}
	})
}

// TestAWorkspaceMayTakeNoMessages at all.
func TestAWorkspaceMayTakeNoMessages(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		limited(time.Now)(w.Handler)
		w.set(t, "chatMessages", 0)
		for range 3 {
			if got := w.post(t, messages, `{"message":"Hi."}`); got.status != 429 {
				t.Errorf("%d %s", got.status, got.body)
			}
		}
	})
}

// TestAConversationHasItsTokens: a message to one that has used them up is refused under each path; a
// new conversation begins.
func TestAConversationHasItsTokens(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.set(t, "chatTokens", 15) // those of one answer
		w.think(t, llmtest.Writes("Hello."), llmtest.Writes("Hello, bob."))
		if got := w.post(t, messages, `{"message":"Hi."}`, "X-Session-Id", "ann"); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		for path, body := range map[string]string{
			messages: `{"message":"Hi.","stream":true}`, responses: `{"input":"Hi."}`, completions: `{"messages":[{"role":"user","content":"Hi."}]}`,
		} {
			code := `"insufficient_quota"`
			if path == messages { // where a client begins another conversation, which would not help against a budget
				code = `"spent"`
			}
			got := w.post(t, path, body, "X-Session-Id", "ann")
			if got.status != 429 || !strings.Contains(got.body, `"code":`+code) || got.header.Get("Retry-After") == "" {
				t.Errorf("%s: %d %s", path, got.status, got.body)
			}
		}
		if got := w.post(t, messages, `{"message":"Hi."}`, "X-Session-Id", "bob"); got.status != 200 {
			t.Errorf("another visitor: %d %s", got.status, got.body)
		}
	})
}

// TestStreamsAreBounded for each visitor of a site.
func TestStreamsAreBounded(t *testing.T) {
	w := onOne(t)
	w.Handler.Streams.Most = 2
	h := newHeld()
	w.think(t, h.then("1"), llmtest.Writes("2"), llmtest.Writes("3"))
	const hi = `{"message":"Hi.","stream":true}`
	first := w.stream(t, http.MethodPost, messages, hi, "X-Session-Id", "ann")
	second := w.stream(t, http.MethodPost, messages, hi, "X-Session-Id", "ann") // it waits in line
	if got := w.post(t, messages, hi, "X-Session-Id", "ann"); got.status != 429 || !strings.Contains(got.body, "too_many_streams") {
		t.Errorf("a third stream: %d %s", got.status, got.body)
	}
	if got := w.stream(t, http.MethodPost, messages, hi, "X-Session-Id", "bob").rest(); got[len(got)-1].kind != "done" {
		t.Errorf("another visitor gets %v", got)
	}
	close(h.answer)
	first.rest()
	second.rest()
}

// set changes a setting of the workspace.
func (w *world) set(t testing.TB, name string, v int64) {
	t.Helper()
	here := must(w.Workspaces.Get(t.Context(), w.Workspace))(t)
	err := w.Env.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := w.Workspaces.Patch(ctx, tx, here, workspace.Patch{Settings: map[string]*int64{name: &v}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestABlankAroundANameIsNoPartOfIt: no header carries it, so the visitor could not come back under the name that the
// answer tells. A name of blanks is none.
func TestABlankAroundANameIsNoPartOfIt(t *testing.T) {
	w := onOne(t)
	w.think(t, slices.Repeat([]llmtest.Writing{llmtest.Writes("Hello.")}, 4)...)
	for user, want := range map[string]string{" ann ": "ann", "   ": ""} {
		var first, second answered
		got := w.post(t, messages, `{"message":"Hi.","user":"`+user+`"}`)
		got.into(t, &first)
		name := got.header.Get("X-Session-Id")
		if want != "" && name != want || name == "" {
			t.Errorf("%q is called %q", user, name)
		}
		w.post(t, messages, `{"message":"Hi."}`, "X-Session-Id", name).into(t, &second)
		if first.ThreadID == "" || second.ThreadID != first.ThreadID {
			t.Errorf("%q goes on in %q, not in %q", user, second.ThreadID, first.ThreadID)
		}
	}
}
