package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// The rate limit of principals is a setting of the workspace. It is read together with the limit's
// state.
func TestAPrincipalMayAskAsOftenAsIsSet(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		var at atomic.Int64
		w := newWorld(t, e, func(d *api.Deps) {
			limiter, err := ratelimit.New(d.DB)
			if err != nil {
				t.Fatal(err)
			}
			d.Limits = ratelimit.NewCache(limiter, func() time.Time { return time.Unix(at.Load(), 0) }, slog.New(slog.DiscardHandler))
		})
		w.must(t, 200, http.MethodPatch, "/api/v1/workspaces/"+string(w.Workspace), `{"settings":{"apiRate":1,"apiBurst":5}}`, nil)
		before := w.Deps.DB.Stats()
		w.call(t, http.MethodGet, "/api/v1/me", member, "")              // it caches the limit
		if cost := w.Deps.DB.Stats().Sub(before); cost.RoundTrips != 3 { // one reads the limit; the route reads the position and the names
			t.Errorf("it cost %+v", cost)
		}
		e.Skew.Advance(time.Hour)
		at.Add(3600)
		served := 0
		for range 50 {
			got := w.call(t, http.MethodGet, "/api/v1/me", member, "")
			switch got.status {
			case http.StatusOK:
				served++
			case http.StatusTooManyRequests:
				if got.retryAfter() < time.Second {
					t.Errorf("to come back after %s", got.retryAfter())
				}
			default:
				t.Fatalf("%d %s", got.status, got.body)
			}
		}
		if served < 5 || served > 20 { // one more is admitted in each second that the loop takes
			t.Errorf("%d requests were served", served)
		}
	})
}

// An error of a database constraint counts as the client's error, even if no schema has detected
// it.
func TestWhatTheDatabaseRefuses(t *testing.T) {
	w := onOne(t, func(d *api.Deps) {
		d.Beat = func(context.Context, heartbeat.Tick) (heartbeat.Report, error) {
			return heartbeat.Report{}, fmt.Errorf("begin: %w", db.ErrCheck)
		}
	})
	w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/heartbeat/run", `{"wait":true}`)
	if lines := w.logs.lines(t, "the database refused what the API let through"); len(lines) != 1 || lines[0]["level"] != "WARN" {
		t.Errorf("the log says %v", lines)
	}
}

// Escapes of whole characters are accepted, and so is text that only resembles half a character.
func TestWholeCharactersAreTaken(t *testing.T) {
	w := onOne(t)
	for title, want := range map[string]string{
		`\ud83e\udd9c`: "🦜", `a\ud83e\udd9c\ud83e\udd9cb`: "a🦜🦜b", `\\ud800`: `\ud800`, `\u00fc\\`: `ü\`, `\ufffd`: "\ufffd",
	} {
		var made struct{ Title string }
		w.must(t, 201, http.MethodPost, "/api/v1/objectives", `{"title":"`+title+`"}`, &made)
		if made.Title != want {
			t.Errorf("%s became %q", title, made.Title)
		}
	}
	if p := w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/secrets", `{"name":"a","value":"x\ud83e"}`); !p.at("body.value") {
		t.Errorf("%+v", p)
	}
}

// TestEveryBodyIsHeldToTheLimits checks each route that has a body. It must refuse a body that is
// too large, too deeply nested or not valid text, and names that occur twice or differ in case.
func TestEveryBodyIsHeldToTheLimits(t *testing.T) {
	w := onOne(t)
	var many strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&many, `,"k%d":1`, i)
	}
	common := []struct {
		name, body string
		status     int
		code       string
	}{
		{"a byte too large", strings.Repeat(" ", api.MaxBody+1), 413, "too_large"},
		{"33 levels below the body", `{"x":` + strings.Repeat("[", 33) + strings.Repeat("]", 33) + `}`, 422, "invalid"},
		{"100,000 levels", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), 400, "malformed"},
		{"20,000 unknown names", "{" + many.String()[1:] + "}", 422, "invalid"},
		{"20,000 times the same name", "{" + strings.Repeat(`"x":1,`, 20_000) + `"x":1}`, 422, "invalid"},
		{"raw NUL", "{\"x\":\"\x00\"}", 422, "invalid"},
		{"escaped NUL", `{"x":"\u0000"}`, 422, "invalid"},
		{"NUL in a name", `{"\u0000":1}`, 422, "invalid"},
		{"half of a surrogate pair", `{"x":"\ud800"}`, 422, "invalid"},
		{"the other half alone", `{"x":"\udc00"}`, 422, "invalid"},
		{"two first halves", `{"x":"\ud800\ud800"}`, 422, "invalid"},
		{"half of a surrogate pair in a name", `{"\udfff":1}`, 422, "invalid"},
		{"invalid UTF-8", "{\"x\":\"\xff\"}", 422, "invalid"},
		{"invalid UTF-8 in a name", "{\"\xff\":1}", 422, "invalid"},
		{"huge number", `{"x":1e999}`, 422, "invalid"},
		{"unknown name", `{"x":1}`, 422, "invalid"},
		{"no object", `[]`, 422, "invalid"},
		{"no JSON", `{"x":`, 400, "malformed"},
		{"two values", `{}{}`, 400, "malformed"},
	}
	routes, fields := 0, 0
	for _, route := range api.Routes() {
		if route.Method != http.MethodPost && route.Method != http.MethodPut && route.Method != http.MethodPatch {
			continue
		}
		if route.Front { // its messages follow another protocol; the routes behind it check the arguments of its tools
			continue
		}
		routes++
		path := right[route.ID].path
		for _, c := range common {
			p := w.refused(t, c.status, c.code, route.Method, path, c.body)
			if len(p.Errors) > 32 || c.status == 422 && len(p.Errors) == 0 {
				t.Errorf("%s, %s: it names %d errors", route.ID, c.name, len(p.Errors))
			}
			if t.Failed() {
				t.Fatalf("%s: %s", route.ID, c.name)
			}
		}
		for _, name := range w.contract.fields(route) {
			fields++
			other := strings.ToUpper(name[:1]) + name[1:]
			for body, at := range map[string]string{
				fmt.Sprintf(`{%q:null,%q:null}`, name, name):  "body." + name, // duplicate
				fmt.Sprintf(`{%q:null}`, other):               "body." + other,
				fmt.Sprintf(`{%q:null,%q:null}`, name, other): "body." + other,
			} {
				if p := w.refused(t, 422, "invalid", route.Method, path, body); !p.at(at) {
					t.Errorf("%s: %s is not named for %s: %+v", route.ID, at, body, p.Errors)
				}
			}
		}
	}
	t.Logf("%d routes, %d fields", routes, fields)
	if routes < 35 || fields < 60 {
		t.Errorf("only %d routes and %d fields", routes, fields)
	}
}
