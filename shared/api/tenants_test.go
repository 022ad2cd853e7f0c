package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/sse"
)

// tenant is one of three workspaces. All its rows contain its mark.
type tenant struct {
	ws    db.Workspace
	mark  string            // part of every name and text
	names map[string]string // valid values for paths, by parameter or resource
}

// TestTenantsNeverMeet calls each route, as each role of each of three workspaces, with the real
// ids and names of the others' rows. The response must be the same as for something that does not
// exist. No listing, count or error may reveal another tenant. Postgres is asked by one role, since roles
// decide above the database.
func TestTenantsNeverMeet(t *testing.T) {
	for engine, roles := range map[string][]auth.Role{
		dbtest.OnSQLite: {auth.Owner, auth.Admin, auth.Member}, dbtest.OnPostgres: {auth.Owner},
	} {
		t.Run(engine, func(t *testing.T) {
			w, tenants := threeTenants(t, dbtest.New(t, engine))
			requests := 0
			for _, named := range []bool{false, true} { // the caller's own log then holds the name
				for _, me := range tenants {
					for _, role := range roles {
						for _, them := range tenants {
							if them.mark != me.mark {
								requests += w.spy(t, me, them, role, named)
							}
						}
					}
				}
			}
			t.Logf("%d requests", requests)
			if requests < 4_000*len(roles) {
				t.Errorf("only %d requests", requests)
			}
		})
	}
}

// threeTenants returns the API over three workspaces, each with a row of every kind.
func threeTenants(t testing.TB, e dbtest.Env) (*world, []tenant) {
	t.Helper()
	tenants := make([]tenant, 3)
	for i := range tenants {
		tenants[i] = tenant{ws: dbtest.NewWorkspace(t, e.DB), mark: fmt.Sprintf("mark%dof%s", i, uuid.NewString()[:8]), names: map[string]string{}}
	}
	w := newWorld(t, e, func(d *api.Deps) {
		d.Auth = auth.New(func(_ context.Context, token string) (auth.Principal, error) {
			mark, role, _ := strings.Cut(token, "/")
			for _, of := range tenants {
				if of.mark == mark {
					return auth.Principal{Workspace: of.ws, Kind: auth.Local, ID: "someone", Role: auth.Role(role)}, nil
				}
			}
			return auth.Principal{}, auth.ErrInvalid
		})
		d.Streams = &sse.Streams{Every: time.Millisecond, For: time.Millisecond}
	})
	for _, of := range tenants {
		w.fill(t, of)
	}
	return w, tenants
}

// fill creates a row of every kind.
func (w *world) fill(t testing.TB, of tenant) {
	t.Helper()
	make := func(resource, body string) {
		t.Helper()
		got := w.call(t, http.MethodPost, "/api/v1/"+resource, of.mark+"/OWNER", strings.ReplaceAll(body, "MARK", of.mark))
		if got.status/100 != 2 {
			t.Fatalf("%s: %d %s", resource, got.status, got.body)
		}
		var told struct{ ID, UserID, MessageID string }
		_ = json.Unmarshal(got.body, &told)
		of.names[resource] = told.ID + told.UserID + told.MessageID
		of.names["traceId"] = got.header.Get("X-Trace-Id")
	}
	make("objectives", `{"title":"MARK","description":"MARK"}`)
	make("projects", `{"name":"MARK","description":"MARK"}`)
	make("milestones", `{"projectId":"`+of.names["projects"]+`","name":"MARK","description":"MARK"}`)
	make("agent-tasks", `{"title":"MARK","description":"MARK","inputContext":{"a":"MARK"},"tags":["MARK"],"taskType":"MARK"}`)
	make("memories", `{"category":"MARK","content":"MARK likes ice"}`)
	make("skills", `{"name":"MARK","kind":"http","description":"MARK","config":{"url":"https://MARK.example/"}}`)
	make("automations", `{"name":"MARK","skill":"MARK","schedule":{"cron":"@daily"}}`)
	make("webhook-sources", `{"name":"MARK","kind":"github","secret":"MARK is its secret","rules":[{"then":{"skill":"MARK","with":{}}}]}`)
	of.names["deliveries"] = w.delivered(t, of)
	make("webhook-endpoints", `{"url":"https://MARK.example/","events":["*"],"description":"MARK"}`)
	make("api-keys", `{"name":"MARK","role":"MEMBER","scopes":["*"]}`)
	make("site-keys", `{"name":"MARK","origins":["https://MARK.example"]}`)
	make("members", `{"email":"MARK@example.org","role":"MEMBER"}`)
	make("secrets", `{"name":"MARK","value":"MARK"}`)
	if got := w.call(t, http.MethodPut, "/api/v1/personas/"+of.mark, of.mark+"/OWNER", strings.ReplaceAll(`{"instructions":"MARK"}`, "MARK", of.mark)); got.status != 200 {
		t.Fatalf("persona: %d %s", got.status, got.body)
	}
	of.names["agents"] = uuid.NewString()
	if got := w.call(t, http.MethodPut, "/api/v1/agents/"+of.names["agents"], of.mark+"/OWNER", `{"name":"`+of.mark+`"}`); got.status != 201 {
		t.Fatalf("agent: %d %s", got.status, got.body)
	}
	make("kill-switches", `{"scope":"skill","target":"MARK","reason":"MARK"}`)
	make("budgets", `{"scope":"agent","scopeId":"MARK","allocated":1000,"periodStart":"2026-01-01T00:00:00Z","periodEnd":"2027-01-01T00:00:00Z"}`)
	make("lanes/"+of.mark+"/acquire", `{"holder":"MARK","ttlSeconds":3600}`)
	make("threads", `{"channel":"log","address":"MARK","metadata":{"a":"MARK"}}`)
	make("executions", `{"agent":"MARK"}`)
	in := "threads/" + of.names["threads"] + "/"
	make(in+"messages", `{"body":"MARK"}`)
	make(in+"send", `{"executionId":"`+of.names["executions"]+`","body":"MARK"}`)
	of.names["messageId"] = of.names[in+"send"]
	own := *w
	own.Workspace = of.ws
	of.names["approvals"] = own.waits(t, of.mark)
	own.fails(t, of.mark)
	var heals struct{ Items []struct{ ID string } }
	if got := w.call(t, http.MethodGet, "/api/v1/heals", of.mark+"/OWNER", ""); json.Unmarshal(got.body, &heals) != nil || len(heals.Items) != 1 {
		t.Fatalf("heals: %s", got.body)
	}
	of.names["heals"] = heals.Items[0].ID
	of.names["lane"], of.names["name"], of.names["workspaces"] = of.mark, of.mark, string(of.ws)
}

// namesFor returns the names to try on a route: those of what its path is about, and every fourth of
// the others, which are different ones for the next route.
func (of tenant) namesFor(path string, route int) (out []string) {
	for i, what := range slices.Sorted(maps.Keys(of.names)) {
		about, _, _ := strings.Cut(what, "/")
		if of.names[what] != "" && (strings.Contains(path, "/"+about+"/") || (i+route)%4 == 0) {
			out = append(out, of.names[what])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// somebody is the id that the valid bodies name.
const somebody = "8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"

var (
	parameter = regexp.MustCompile(`\{([A-Za-z]+)\}`)
	changing  = regexp.MustCompile(`"(traceId|executionId|token|key|id|prefix)":"[^"]*"`)
)

// spy sends, as one workspace, all requests that could return data of another one: with named, to
// the routes whose path has a parameter, otherwise to the other routes. It returns the number of
// requests.
func (w *world) spy(t testing.TB, me, them tenant, role auth.Role, named bool) (n int) {
	t.Helper()
	token := me.mark + "/" + string(role)
	secrets := []string{them.mark}
	for _, name := range them.names {
		if name != "" {
			secrets = append(secrets, name)
		}
	}
	slices.Sort(secrets)
	secrets = slices.Compact(secrets)
	ask := func(route api.Route, of, asked string) result { // asked: the inner id
		t.Helper()
		n++
		message := asked
		if of == them.names["threads"] {
			message = them.names["messageId"]
		}
		path := parameter.ReplaceAllString(strings.Replace(route.Path, "{messageId}", message, 1), of)
		body := right[route.ID].body
		if uuid.Validate(asked) == nil {
			body = strings.ReplaceAll(body, somebody, asked)
		}
		got := w.send(t, request(route.Method, path, token, body))
		for _, own := range []string{asked, message} { // the response may repeat what the request named
			if own != "" && strings.Contains(path+body, own) {
				got.body = bytes.ReplaceAll(got.body, []byte(own), []byte("asked"))
			}
		}
		for _, s := range secrets {
			if strings.Contains(string(got.body), s) {
				t.Errorf("%s %s as %s tells of %s: %s", route.Method, path, role, s, got.body)
			}
		}
		return got
	}
	for i, route := range api.Routes() {
		if route.IsFile || slices.Contains([]string{"run-heartbeat", "acquire-lane", "put-persona", "register-agent"}, route.ID) { // free names
			continue
		}
		if parameter.MatchString(route.Path) != named {
			continue
		}
		inside := strings.Contains(right[route.ID].body, somebody) || strings.Contains(route.Path, "{messageId}")
		if !named && !inside {
			ask(route, "", "")
			continue
		}
		tried := slices.Concat([]string{"nothing-of-anybody"}, them.namesFor(route.Path, i))
		nothing := map[string]result{} // the response for a missing row, by the form of its name
		for _, theirs := range tried {
			like, nowhere := "uuid", uuid.NewString()
			if uuid.Validate(theirs) != nil {
				like, nowhere = "name", "n"+strings.ReplaceAll(nowhere, "-", "")[:len(them.mark)-1]
			}
			if theirs == them.names["traceId"] {
				like, nowhere = "trace", theirs[:len(theirs)-4]+"zzzz"
			}
			compare := func(where, of, instead string) {
				t.Helper()
				want, known := nothing[where+like]
				if !known {
					want = ask(route, instead, nowhere)
					nothing[where+like] = want
				}
				got := ask(route, of, theirs)
				plain := func(r result) string { return changing.ReplaceAllString(string(r.body), "") }
				if got.status != want.status || route.Method == http.MethodGet && plain(got) != plain(want) {
					t.Errorf("%s %s of %s as %s: %d %s, of nothing %d %s", route.Method, route.Path, theirs, role, got.status, got.body, want.status, want.body)
				}
			}
			compare("theirs ", theirs, nowhere)
			if own := me.names["threads"]; inside {
				compare("own ", own, own)
			}
		}
	}
	return n
}
