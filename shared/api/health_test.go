package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
)

// down makes the API work over a Postgres that is not there.
func down(t testing.TB) func(*api.Deps) {
	t.Helper()
	d, err := postgres.Open(postgres.Config{URL: "postgres://nobody@127.0.0.1:1/none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return func(to *api.Deps) {
		from := deps(t, d)
		to.DB, to.Lanes, to.Runs, to.Log, to.Secrets, to.Skills = from.DB, from.Lanes, from.Runs, from.Log, from.Secrets, from.Skills
		to.Approvals, to.Operate = from.Approvals, from.Operate
		to.Automations, to.Heals, to.Budgets, to.Threads = from.Automations, from.Heals, from.Budgets, from.Threads
		to.People, to.Sessions, to.Events = from.People, from.Sessions, from.Events
		to.Objectives, to.Memories, to.Workspaces = from.Objectives, from.Memories, from.Workspaces
	}
}

func TestHealth(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		got := w.call(t, http.MethodGet, "/health", owner, "")
		if want := `{"status":"healthy","database":"connected","valkey":"disabled","gateway":"disabled"}` + "\n"; got.status != 200 || string(got.body) != want {
			t.Errorf("%d %s", got.status, got.body)
		}
		for _, token := range []string{"", nobody} { // strangers learn nothing of the inside
			got := w.call(t, http.MethodGet, "/health", token, "")
			if got.status != 200 || string(got.body) != `{"status":"healthy"}`+"\n" {
				t.Errorf("without a token: %d %s", got.status, got.body)
			}
		}
	})
}

func TestHealthOfParts(t *testing.T) {
	away := func(context.Context) error { return errors.New("connection refused by 10.0.0.7") }
	there := func(context.Context) error { return nil }
	for _, c := range []struct {
		name     string
		database bool
		valkey   func(context.Context) error
		status   int
		want     string
	}{
		{"all there", true, there, 200, `{"status":"healthy","database":"connected","valkey":"connected","gateway":"disabled"}`},
		{"valkey away", true, away, 200, `{"status":"degraded","database":"connected","valkey":"down","gateway":"disabled"}`},
		{"database away", false, there, 503, `{"status":"unhealthy","database":"down","valkey":"connected","gateway":"disabled"}`},
		{"both away", false, away, 503, `{"status":"unhealthy","database":"down","valkey":"down","gateway":"disabled"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			changes := []func(*api.Deps){func(d *api.Deps) { d.Valkey = c.valkey }}
			if !c.database {
				changes = append(changes, down(t))
			}
			w := onOne(t, changes...)
			if got := w.call(t, http.MethodGet, "/health", member, ""); got.status != c.status || string(got.body) != c.want+"\n" {
				t.Errorf("%d %s", got.status, got.body)
			}
			var short struct{ Status, Database string }
			got := w.call(t, http.MethodGet, "/health", "", "")
			if err := json.Unmarshal(got.body, &short); err != nil || got.status != c.status || short.Database != "" {
				t.Errorf("without a token: %d %s", got.status, got.body)
			}
		})
	}
}

// A site's key stands in its pages: who has it learns no more than strangers do.
func TestHealthForWhoHasNoRole(t *testing.T) {
	g := newGate(t, dbtest.New(t, dbtest.OnSQLite))
	for _, c := range g.others(t) {
		r := request(http.MethodGet, "/health", "", "")
		maps.Copy(r.Header, c.with)
		if got := g.send(t, r); got.status != 200 || string(got.body) != `{"status":"healthy"}`+"\n" {
			t.Errorf("%s: %d %s", c.name, got.status, got.body)
		}
	}
}

// stuck is an engine that never answers.
type stuck struct{ db.Engine }

func (stuck) Dialect() db.Dialect { return db.SQLite }

func (stuck) Check(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (stuck) Do(ctx context.Context, _ db.Workspace, _ bool, _ []*db.Op) error {
	<-ctx.Done()
	return ctx.Err()
}

// A database that neither answers nor refuses is one that is down.
func TestADatabaseThatHangs(t *testing.T) {
	w := onOne(t, func(d *api.Deps) {
		from := deps(t, db.New(stuck{}))
		d.DB, d.Lanes, d.Runs, d.Log, d.Secrets, d.Skills = from.DB, from.Lanes, from.Runs, from.Log, from.Secrets, from.Skills
		d.Approvals, d.Operate = from.Approvals, from.Operate
		d.Automations, d.Heals, d.Budgets, d.Threads = from.Automations, from.Heals, from.Budgets, from.Threads
		d.People, d.Sessions, d.Events = from.People, from.Sessions, from.Events
	})
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if got := w.call(t, http.MethodGet, "/health", owner, ""); got.status != 503 || time.Since(begun) != 2*time.Second {
			t.Errorf("health: %d after %s", got.status, time.Since(begun))
		}
		begun = time.Now()
		if got := w.call(t, http.MethodGet, "/api/v1/activity", owner, ""); got.status != 503 || time.Since(begun) != 10*time.Second {
			t.Errorf("activity: %d after %s", got.status, time.Since(begun))
		}
	})
}

func TestEveryRouteWithTheDatabaseDown(t *testing.T) {
	w := onOne(t, down(t))
	for _, route := range api.Routes() {
		ask := right[route.ID]
		got := w.call(t, route.Method, ask.path, owner, ask.body)
		want := http.StatusServiceUnavailable
		if route.IsFile || slices.Contains([]string{"run-heartbeat", "get-me", "start-session", "end-session", "get-workspace", "patch-workspace", "delete-workspace", "choose-workspace", "speak-mcp"}, route.ID) { // which works behind its answer, or needs none
			want = ask.status
		}
		if got.status != want {
			t.Errorf("%s: %d: %s", route.ID, got.status, got.body)
		}
		if want == 503 && route.ID != "get-health" && got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", route.ID)
		}
	}
	if len(w.logs.lines(t, "a request failed")) == 0 {
		t.Error("nothing was logged")
	}
}
