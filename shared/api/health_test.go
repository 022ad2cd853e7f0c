package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// down connects the API to a Postgres server that does not exist.
func down(t testing.TB) func(*api.Deps) {
	t.Helper()
	d, err := postgres.Open(postgres.Config{URL: "postgres://nobody@127.0.0.1:1/none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return func(to *api.Deps) {
		from := deps(t, d)
		from.Log = to.Log
		to.Parts, to.Operate, to.People, to.Sessions = from.Parts, from.Operate, from.People, from.Sessions
		to.Coordinator, to.Cycle = from.Coordinator, from.Cycle
	}
}

func TestHealth(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		got := w.call(t, http.MethodGet, "/health", owner, "")
		if want := `{"status":"healthy","database":"connected","valkey":"disabled","gateway":"disabled"}` + "\n"; got.status != 200 || string(got.body) != want {
			t.Errorf("%d %s", got.status, got.body)
		}
		for _, token := range []string{"", nobody} { // callers without a role learn no details
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

// TestHealthOfTheAgent: a member sees the models with an open circuit and the last heartbeat; an
// admin resets a circuit.
func TestHealthOfTheAgent(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		key := resilient.Key{Provider: "openai:1a2b3c4d", Model: "org/small"}
		if _, err := w.Circuits.Failed(t.Context(), w.Workspace, key, llm.ClassBilling, 0); err != nil {
			t.Fatal(err)
		}
		beat := execution.Execution{ID: ids(), Agent: activity.Operator, Surface: trace.Heartbeat, Trace: w.Traces.New(trace.Heartbeat), Subject: lane.Heartbeat, Attempt: 1}
		hold, err := w.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: lane.Heartbeat, Holder: "someone"})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Lanes.InHold(t.Context(), hold, func(_ context.Context, tx lane.Tx) error { return w.Runs.Start(tx, beat) }); err != nil {
			t.Fatal(err)
		}
		type circuit struct {
			Name, State, Reason string
			Until               time.Time
		}
		var h struct {
			Circuits      []circuit
			LastHeartbeat struct {
				At              time.Time
				AgeSeconds      int
				Status, TraceID string
			}
		}
		got := w.call(t, http.MethodGet, "/health", member, "")
		if err := json.Unmarshal(got.body, &h); err != nil || got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		if len(h.Circuits) != 1 || h.Circuits[0].Name != "openai:1a2b3c4d/org/small" || h.Circuits[0].State != "paused" || h.Circuits[0].Reason != "billing" ||
			time.Until(h.Circuits[0].Until).Round(time.Minute) != time.Hour {
			t.Errorf("the circuits: %s", got.body)
		}
		if b := h.LastHeartbeat; b.Status != "running" || b.TraceID != string(beat.Trace) || b.AgeSeconds > 60 || time.Since(b.At) > time.Minute {
			t.Errorf("the last beat: %s", got.body)
		}
		if got := w.call(t, http.MethodGet, "/health", "", ""); string(got.body) != `{"status":"healthy"}`+"\n" {
			t.Errorf("without a token: %s", got.body)
		}
		var page struct{ Items []circuit }
		if got := w.call(t, http.MethodGet, "/api/v1/circuits", member, ""); json.Unmarshal(got.body, &page) != nil || !slices.Equal(page.Items, h.Circuits) {
			t.Errorf("the listing: %s", got.body)
		}

		path := "/api/v1/circuits/" + url.PathEscape(h.Circuits[0].Name)
		if got := w.call(t, http.MethodDelete, path, member, ""); got.status != 403 {
			t.Errorf("a member resets it: %d", got.status)
		}
		if got := w.call(t, http.MethodDelete, path, admin, ""); got.status != 204 {
			t.Errorf("an admin resets it: %d %s", got.status, got.body)
		}
		if got := w.call(t, http.MethodDelete, path, admin, ""); got.status != 404 {
			t.Errorf("again: %d %s", got.status, got.body)
		}
		if got := w.call(t, http.MethodGet, "/api/v1/circuits", member, ""); !strings.Contains(string(got.body), `"items":[]`) {
			t.Errorf("afterwards: %s", got.body)
		}
		if got := w.call(t, http.MethodGet, "/api/v1/activity?skill=circuit.reset", member, ""); strings.Count(string(got.body), key.String()) != 1 {
			t.Errorf("the log: %s", got.body)
		}
	})
}

// The key of a site is public, so its owner learns no more than an unknown caller.
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

// TestStrangersShareACheck: a hundred requests without a token, concurrent or not, cause one check
// of the components per second.
func TestStrangersShareACheck(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var asked atomic.Int32
		var later atomic.Int64
		began, answer := make(chan struct{}, 1), make(chan struct{})
		w = newWorld(t, w.Env, func(d *api.Deps) {
			d.Clock = func() time.Time { return time.Unix(1_800_000_000+later.Load(), 0) }
			d.Valkey = func(context.Context) error {
				asked.Add(1)
				select {
				case began <- struct{}{}:
				default:
				}
				<-answer
				return nil
			}
		})
		ask := func() {
			if got := w.call(t, http.MethodGet, "/health", "", ""); got.status != 200 || string(got.body) != `{"status":"healthy"}`+"\n" {
				t.Errorf("%d %s", got.status, got.body)
			}
		}
		var all sync.WaitGroup
		all.Go(ask)
		<-began
		for range 50 {
			all.Go(ask)
		}
		close(answer)
		all.Wait()
		before := w.Env.DB.Stats()
		for range 50 {
			ask()
		}
		if cost := w.Env.DB.Stats().Sub(before); asked.Load() != 1 || cost.Statements != 0 {
			t.Errorf("101 requests asked %d times; the last 50 made %d statements", asked.Load(), cost.Statements)
		}
		w.call(t, http.MethodGet, "/health", member, "")
		if asked.Load() != 2 {
			t.Errorf("a member is told what is %d checks old", asked.Load())
		}
		later.Add(1)
		ask()
		later.Add(-10) // the clock was set back
		ask()
		if asked.Load() != 4 {
			t.Errorf("then it asked %d times", asked.Load())
		}
	})
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

// A database that gives no response counts as down.
func TestADatabaseThatHangs(t *testing.T) {
	w := onOne(t, func(d *api.Deps) {
		from := deps(t, db.New(stuck{}))
		from.Log = d.Log
		d.Parts, d.Operate, d.People, d.Sessions = from.Parts, from.Operate, from.People, from.Sessions
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
		if route.IsFile && route.ID != "get-coordinator-health" || slices.Contains([]string{"run-heartbeat", "get-me", "start-session", "end-session", "get-workspace", "patch-workspace", "delete-workspace", "choose-workspace", "speak-mcp"}, route.ID) { // which works behind its answer, or needs none
			want = ask.status
		}
		if got.status != want {
			t.Errorf("%s: %d: %s", route.ID, got.status, got.body)
		}
		if want == 503 && !strings.HasSuffix(route.ID, "-health") && got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", route.ID)
		}
	}
	if len(w.logs.lines(t, "a request failed")) == 0 {
		t.Error("nothing was logged")
	}
}
