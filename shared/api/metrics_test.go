package api_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/observe"
	"github.com/lanekeeper/lanekeeper/shared/observe/observetest"
)

// scrape asks for the metrics and reads them.
func (w *world) scrape(t *testing.T, r *http.Request) observetest.Text {
	t.Helper()
	got := w.send(t, r)
	described := contractOf(t, w.Handler).at("paths", "/metrics", "get", "responses", "200", "content", observe.TextType)
	if described == nil {
		t.Error("the document does not describe the metrics' media type")
	}
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("%d %s: %s", got.status, got.header.Get("Content-Type"), got.body)
	}
	text, err := observetest.Parse(string(got.body))
	if err != nil {
		t.Fatalf("%v in\n%s", err, got.body)
	}
	return text
}

// A person and a key read what rows tell of their own workspace, and nothing that this process
// counts for all workspaces. The installation's admin reads both, of all workspaces.
func TestMetricsOfAWorkspace(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		const person, key, narrow, agent = "a-person", "a-key", "a-narrow-key", "an-agent"
		w := newWorld(t, e, func(d *api.Deps) {
			d.Meters = observe.New()
			d.Auth = auth.New(tokens(e.Workspace), func(_ context.Context, token string) (auth.Principal, error) {
				p, ok := map[string]auth.Principal{
					person: {Kind: auth.User, Role: auth.Member},
					key:    {Kind: auth.Key, Role: auth.Member, Scopes: []auth.Scope{"metrics:read"}},
					narrow: {Kind: auth.Key, Role: auth.Owner, Scopes: []auth.Scope{"lanes:read"}},
					agent:  {Kind: auth.Agent},
				}[token]
				if !ok {
					return p, auth.ErrInvalid
				}
				p.Workspace, p.ID = e.Workspace, token
				return p, nil
			})
		})
		w.Meters.Lane("coordinator", observe.Busy, 0)
		w.must(t, http.StatusCreated, http.MethodPost, "/api/v1/agent-tasks", `{"title":"x"}`, nil)
		for _, token := range []string{person, key} {
			text := w.scrape(t, request(http.MethodGet, "/metrics", token, ""))
			if v, ok := text.Value("tasks_pending"); !ok || v != 1 {
				t.Errorf("%s: %v tasks are pending (there: %t)", token, v, ok)
			}
			if v, ok := text.Value("lane_busy_total", "lane", "coordinator"); ok {
				t.Errorf("%s reads what all workspaces count: %v", token, v)
			}
		}
		text := w.scrape(t, request(http.MethodGet, "/metrics", owner, ""))
		if v, _ := text.Value("lane_busy_total", "lane", "coordinator"); v != 1 {
			t.Errorf("the admin reads %v refused lanes", v)
		}
		if v, _ := text.Value("tasks_pending"); v < 1 { // of other tests too
			t.Errorf("the admin reads %v pending tasks", v)
		}
		if v, _ := text.Value("database_round_trips_total"); v < 1 {
			t.Errorf("the admin reads %v round trips", v)
		}
		for token, want := range map[string]int{"": 401, nobody: 401, narrow: 403, agent: 403} {
			if got := w.call(t, http.MethodGet, "/metrics", token, ""); got.status != want {
				t.Errorf("as %q: %d, want %d: %s", token, got.status, want, got.body)
			}
		}
	})
}

// A program on this machine needs no token. Whoever comes through a reverse proxy on this machine
// does, and so does a page whose name resolves to this machine.
func TestMetricsOnThisMachine(t *testing.T) {
	w := onOne(t, func(d *api.Deps) { d.Meters, d.Hosts = observe.New(), []string{"shop.example"} })
	w.Meters.CycleBusy()
	here := func(change func(*http.Request)) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:41234"
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}))
		change(r)
		return r
	}
	for name, change := range map[string]func(*http.Request){
		"plain": func(*http.Request) {},
		"named": func(r *http.Request) { r.Host = "localhost:8080" },
		"IPv6":  func(r *http.Request) { r.Host, r.RemoteAddr = "[::1]:8080", "[::1]:41234" },
	} {
		if v, _ := w.scrape(t, here(change)).Value("coordinator_busy_total"); v != 1 {
			t.Errorf("%s: it tells of %v", name, v)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"forwarded":            func(r *http.Request) { r.Header.Set("X-Forwarded-For", "203.0.113.9") },
		"forwarded, standard":  func(r *http.Request) { r.Header.Set("Forwarded", "for=203.0.113.9") },
		"the proxy's own name": func(r *http.Request) { r.Host = "shop.example" },
		"from elsewhere":       func(r *http.Request) { r.RemoteAddr = "203.0.113.9:41234" },
		"to another address": func(r *http.Request) {
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(203, 0, 113, 1), Port: 80}))
		},
		"a wrong token": func(r *http.Request) { r.Header.Set("Authorization", "Bearer guess") },
		"no connection": func(r *http.Request) {
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, nil))
		},
	} {
		if got := w.send(t, here(change)); got.status != http.StatusUnauthorized {
			t.Errorf("%s: %d: %s", name, got.status, got.body)
		}
	}
	rebound := here(func(r *http.Request) { r.Host = "evil.example" })
	if got := w.send(t, rebound); got.status != http.StatusForbidden {
		t.Errorf("a rebound name: %d", got.status)
	}
	other := here(func(r *http.Request) { r.URL.Path = "/api/v1/lanes" })
	if got := w.send(t, other); got.status != http.StatusUnauthorized {
		t.Errorf("another route is open on this machine: %d", got.status)
	}
}

// What a scrape costs the database does not depend on how much there is.
func TestAScrapeIsOneStatement(t *testing.T) {
	w := onOne(t, func(d *api.Deps) { d.Meters = observe.New() })
	for range 2 {
		before := w.Deps.DB.Stats()
		w.scrape(t, request(http.MethodGet, "/metrics", owner, ""))
		if cost := w.Deps.DB.Stats().Sub(before); cost.Statements != 1 || cost.RoundTrips != 1 {
			t.Errorf("a scrape costs %+v", cost)
		}
		for range 10 {
			w.must(t, http.StatusCreated, http.MethodPost, "/api/v1/agent-tasks", `{"title":"x"}`, nil)
			w.Meters.Beat("idle", time.Second)
		}
	}
}
