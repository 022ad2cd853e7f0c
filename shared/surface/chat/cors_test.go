package chat_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// list splits a header with a list.
func list(header string) (names []string) {
	for name := range strings.SplitSeq(header, ",") {
		names = append(names, strings.ToLower(strings.TrimSpace(name)))
	}
	return names
}

// TestPreflight: a browser learns what a page may send, whichever page it is, and that no cookie goes
// along.
func TestPreflight(t *testing.T) {
	w := onOne(t)
	for _, path := range []string{"/v1/chat/completions", "/v1/models", "/v1/responses", "/api/v1/chat/messages", "/api/v1/chat/" + ids() + "/messages"} {
		for _, origin := range []string{siteOrigin, "https://evil.example", "http://localhost:3000"} {
			got := w.call(t, http.MethodOptions, path, "", "", "Origin", origin, "Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "authorization,content-type,x-stainless-os, X-Stainless-Retry-Count,x-evil,x-stainless-;drop")
			if got.status != 204 || got.header.Get("Access-Control-Allow-Origin") != origin || got.header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s from %s: %d %v", path, origin, got.status, got.header)
			}
			allowed := list(got.header.Get("Access-Control-Allow-Headers"))
			for _, name := range []string{
				"authorization", "content-type", "x-session-id", "x-thread-id", "x-multitask", "idempotency-key", "last-event-id", "x-stainless-os", "x-stainless-retry-count",
			} {
				if !slices.Contains(allowed, name) {
					t.Errorf("%s is not allowed among %q", name, allowed)
				}
			}
			if slices.Contains(allowed, "x-evil") || slices.Contains(allowed, "cookie") || slices.Contains(allowed, "*") || strings.Contains(got.header.Get("Access-Control-Allow-Headers"), ";") {
				t.Errorf("allowed are %q", allowed)
			}
			if got := list(got.header.Get("Access-Control-Allow-Methods")); !slices.Equal(got, []string{"get", "post"}) {
				t.Errorf("the methods are %q", got)
			}
			if vary := list(strings.Join(got.header.Values("Vary"), ",")); !slices.Contains(vary, "origin") || !slices.Contains(vary, "access-control-request-headers") {
				t.Errorf("it varies with %q", vary)
			}
		}
	}
	for name, headers := range map[string][]string{"without an origin": {"Origin", "", "Access-Control-Request-Method", "POST"}, "without a method": {"Origin", siteOrigin}} {
		if got := w.call(t, http.MethodOptions, "/v1/models", "", "", headers...); got.status == 204 || got.header.Get("Access-Control-Allow-Methods") != "" {
			t.Errorf("%s: %d %v", name, got.status, got.header)
		}
	}
}

// TestAnswersAreReadByThePagesOfTheKeysSite, errors too, and by no other page.
func TestAnswersAreReadByThePagesOfTheKeysSite(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(t, llmtest.Writes("Hello."))
		const say = `{"model":"visitor_chat","user":"ada","messages":[{"role":"user","content":"Hi."}]}`
		for _, c := range []struct {
			name, method, path, token, body, origin string
			status                                  int
			readable                                bool
		}{
			{"an answer", "POST", "/v1/chat/completions", site, say, siteOrigin, 200, true},
			{"a bad request", "POST", "/v1/chat/completions", site, `{}`, siteOrigin, 400, true},
			{"no such model", "POST", "/v1/chat/completions", site, strings.Replace(say, "visitor_chat", "nobody", 1), siteOrigin, 404, true},
			{"the models", "GET", "/v1/models", site, "", siteOrigin, 200, true},
			{"no such path", "GET", "/v1/nothing", site, "", siteOrigin, 404, true},
			{"another method", "PUT", "/v1/models", site, "{}", siteOrigin, 405, true},
			{"a bad key", "GET", "/v1/models", "nobody's", "", siteOrigin, 401, true},
			{"no key", "GET", "/v1/models", "", "", siteOrigin, 401, true},
			{"the key of another's site", "POST", "/v1/chat/completions", site, say, "https://shop.example", 403, false},
			{"the key from no page", "POST", "/v1/chat/completions", site, say, "", 403, false},
			{"an unreadable origin", "POST", "/v1/chat/completions", site, say, "null", 403, false},
			{"an admin's token on a page elsewhere", "GET", "/v1/models", admin, "", siteOrigin, 200, false},
			{"a program's key on a page elsewhere", "GET", "/v1/models", key, "", siteOrigin, 200, false},
			{"an agent's token", "GET", "/v1/models", agent, "", siteOrigin, 403, false},
		} {
			got := w.call(t, c.method, c.path, c.token, c.body, "Origin", c.origin)
			if got.status != c.status {
				t.Errorf("%s: %d %s", c.name, got.status, got.body)
			}
			want := ""
			if c.readable {
				want = c.origin
			}
			if got := got.header.Get("Access-Control-Allow-Origin"); got != want {
				t.Errorf("%s: pages of %q may read it", c.name, got)
			}
			if exposed := list(got.header.Get("Access-Control-Expose-Headers")); c.readable && (!slices.Contains(exposed, "x-thread-id") ||
				!slices.Contains(exposed, "x-session-id") || !slices.Contains(exposed, "x-trace-id") || !slices.Contains(exposed, "retry-after")) {
				t.Errorf("%s: exposed are %q", c.name, exposed)
			}
			if vary := list(strings.Join(got.header.Values("Vary"), ",")); !slices.Contains(vary, "origin") {
				t.Errorf("%s: it varies with %q", c.name, vary)
			}
			if got.header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s: cookies may go along", c.name)
			}
		}
	})
}

// TestAForeignPageLeavesNothing: a request with the key of another's site writes no row, and under /v1
// the refusal has the shape of other chat APIs.
func TestAForeignPageLeavesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const say = `{"model":"visitor_chat","user":"ada","messages":[{"role":"user","content":"Hi."}]}`
		got := w.call(t, http.MethodPost, "/v1/chat/completions", site, say, "Origin", "https://evil.example")
		if got.status != 403 || !strings.Contains(got.body, `"error":{"message":`) || !strings.Contains(got.body, `"code":"cross_origin"`) {
			t.Errorf("%d %s", got.status, got.body)
		}
		threads, _, err1 := w.Threads.List(t.Context(), w.Workspace, thread.Filter{Limit: 10})
		runs, _, err2 := w.Runs.List(t.Context(), w.Workspace, execution.Filter{Limit: 10})
		if err := errors.Join(err1, err2); err != nil || len(threads)+len(runs) != 0 {
			t.Errorf("there are %+v and %+v, %v", threads, runs, err)
		}
	})
}

// TestAnOutageIsReadable: a page learns that the database is away, and when to come back.
func TestAnOutageIsReadable(t *testing.T) {
	h := &chat.Handler{Runner: onOne(t).Runner, Auth: auth.New(func(context.Context, string) (auth.Principal, error) {
		return auth.Principal{}, context.DeadlineExceeded
	})}
	r := httptest.NewRequest(http.MethodGet, "/v1/models", http.NoBody)
	r.Header.Set("Authorization", "Bearer x")
	r.Header.Set("Origin", siteOrigin)
	got := httptest.NewRecorder()
	h.ServeHTTP(got, r)
	if got.Code != 503 || got.Header().Get("Access-Control-Allow-Origin") != siteOrigin || got.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", got.Code, got.Header())
	}
}
