package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/sse"
)

// An address that sends bad credentials too often is told to wait. A good credential from the same
// address is accepted.
func TestBadCredentialsAreBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	public := func(token string) *http.Request { return request(http.MethodGet, "/health", token, "") }
	for name, ask := range map[string]func(token string) *http.Request{
		"a public route": public,
		"a token":        func(token string) *http.Request { return request(http.MethodGet, "/api/v1/me", token, "") },
		"a session": func(token string) *http.Request {
			return request(http.MethodPost, "/api/v1/session", "", `{"token":"`+token+`"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := onOne(t, func(d *api.Deps) {
				d.Failures = ratelimit.NewFailures(ratelimit.BadCredentials, func() time.Time { return now })
			})
			count := map[int]int{}
			for range 305 {
				rec := httptestCall(w, ask(nobody))
				if count[rec.Code]++; rec.Code == http.StatusTooManyRequests && rec.Header().Get("Retry-After") == "" {
					t.Error("it does not say when to come back")
				}
			}
			refusal := http.StatusUnauthorized
			if name == "a public route" {
				refusal = http.StatusOK
				if got := httptestCall(w, public("")); got.Code != refusal {
					t.Errorf("without a credential: %d %s", got.Code, got.Body)
				}
			}
			if count[refusal] != 300 || count[http.StatusTooManyRequests] != 5 {
				t.Errorf("the answers are %v", count)
			}
			w.send(t, ask(nobody)) // checks the response against the document
			if got := httptestCall(w, ask(owner)); got.Code == http.StatusTooManyRequests || got.Code == http.StatusUnauthorized {
				t.Errorf("a good credential: %d %s", got.Code, got.Body)
			}
			other := ask(nobody)
			other.RemoteAddr = "203.0.113.9:1"
			if got := w.send(t, other); got.status != refusal {
				t.Errorf("another address: %d %s", got.status, got.body)
			}
		})
	}
}

// A browser with an expired session can sign in and out, however often it has sent requests.
func TestAnExpiredSessionKeepsNobodyOut(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	w := onOne(t, func(d *api.Deps) {
		d.Failures = ratelimit.NewFailures(ratelimit.BadCredentials, func() time.Time { return now })
	})
	w.Deps.Auth = auth.New(tokens(w.Workspace)).WithSessions(w.Sessions)
	handler, err := api.New(w.Deps)
	if err != nil {
		t.Fatal(err)
	}
	w.Handler = handler
	stale := func(r *http.Request) *http.Request {
		r.Header.Set("Cookie", w.Sessions.Name()+"="+nobody)
		return r
	}
	for range 400 {
		httptestCall(w, stale(request(http.MethodGet, "/health", "", "")))
	}
	if got := httptestCall(w, stale(request(http.MethodPost, "/api/v1/session", "", `{"token":"`+owner+`"}`))); got.Code == http.StatusTooManyRequests || got.Code == http.StatusUnauthorized {
		t.Errorf("signing in: %d %s", got.Code, got.Body)
	}
}

// The number of open streams of a principal is limited. Streams of events and of executions count
// together.
func TestStreamsOfAPrincipalAreBounded(t *testing.T) {
	w := onOne(t, func(d *api.Deps) { d.Streams = &sse.Streams{Every: 10 * time.Millisecond, For: time.Minute} })
	server := httptest.NewServer(w)
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	open := func(ctx context.Context, method, path, token, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	first, end := context.WithCancel(ctx)
	for i := range 20 {
		under := ctx
		if i == 0 {
			under = first
		}
		if got := open(under, http.MethodGet, "/api/v1/events", member, ""); got.StatusCode != http.StatusOK {
			t.Fatalf("stream %d: %d", i+1, got.StatusCode)
		}
	}
	for _, c := range [][3]string{
		{http.MethodGet, "/api/v1/events", ""}, {http.MethodPost, "/api/v1/operate", `{"message":"hello","stream":true}`},
		{http.MethodGet, "/api/v1/executions/" + ids() + "/events", ""},
	} {
		if got := open(ctx, c[0], c[1], member, c[2]); got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s is the 21st: %d", c[0], c[1], got.StatusCode)
		}
	}
	if got := open(ctx, http.MethodGet, "/api/v1/events", admin, ""); got.StatusCode != http.StatusOK {
		t.Errorf("another principal: %d", got.StatusCode)
	}
	end()
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if open(ctx, http.MethodGet, "/api/v1/events", member, "").StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(until) {
			t.Fatal("a stream that has ended still counts")
		}
	}
	leave()
}
