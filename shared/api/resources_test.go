package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// objectiveTold and memoryTold hold the fields that the tests read.
type objectiveTold struct {
	ID, Title, Status, StatusReason, Summary string
	Priority, PlanVersion                    int
	Steps                                    []struct{ Number int }
}

// callWith is call with a further header.
func (w *world) callWith(t testing.TB, method, path, token, body, name, value string) result {
	t.Helper()
	r := request(method, path, token, body)
	r.Header.Set(name, value)
	return w.send(t, r)
}

// withKeys returns the world with authentication by its own API keys.
func withKeys(t testing.TB, w *world) *world {
	t.Helper()
	return newWorld(t, w.Env, func(d *api.Deps) {
		d.Auth = auth.New(tokens(w.Workspace), d.People.VerifyKey)
	})
}

func TestAnObjectiveByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var o objectiveTold
		got := w.must(t, 201, http.MethodPost, "/api/v1/objectives", `{"title":"Sell ice","priority":7,"doneCriterion":"it is sold"}`, &o)
		path := "/api/v1/objectives/" + o.ID
		if o.Status != "active" || o.Priority != 7 || got.header.Get("Location") != path {
			t.Fatalf("created %+v, %v", o, got.header)
		}
		tags := []string{got.header.Get("ETag")} // the ETag of each state
		tagged := func(got result) {
			t.Helper()
			tag := got.header.Get("ETag")
			if now := w.must(t, 200, http.MethodGet, path, "", nil).header.Get("ETag"); slices.Contains(tags, tag) || now != tag {
				t.Errorf("its ETag is %s, then %s; before, it had %q", tag, now, tags)
			}
			tags = append(tags, tag)
		}
		tagged(w.must(t, 200, http.MethodPut, path+"/steps", `{"steps":[{"title":"one"},{"title":"two","skill":"look","inputs":{}}]}`, &o))
		if len(o.Steps) != 2 || o.PlanVersion != 1 {
			t.Errorf("planned %+v", o)
		}
		type step struct{ Title string }
		if got := listed(t, w, path+"/steps?limit=1", func(s step) string { return s.Title }); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("the steps are %v", got)
		}
		if got := w.callWith(t, http.MethodPatch, path, admin, `{"title":"Sell more ice"}`, "If-Match", tags[0]); got.status != 412 {
			t.Errorf("a stale If-Match: %d %s", got.status, got.body)
		}
		now := w.callWith(t, http.MethodPatch, path, admin, `{"title":"Sell more ice"}`, "If-Match", tags[1])
		if now.status != 200 {
			t.Fatalf("a fresh If-Match: %d %s", now.status, now.body)
		}
		tagged(now)
		tagged(w.must(t, 200, http.MethodPost, path+"/pause", `{"reason":"winter"}`, &o))
		if o.Title != "Sell more ice" || o.Status != "paused" || o.StatusReason != "winter" {
			t.Errorf("paused %+v", o)
		}
		tagged(w.must(t, 200, http.MethodPost, path+"/resume", `{}`, &o))
		tagged(w.must(t, 200, http.MethodPost, path+"/complete", `{"summary":"all of it"}`, &o))
		if o.Status != "completed" || o.Summary != "all of it" {
			t.Errorf("completed %+v", o)
		}
		w.must(t, 409, http.MethodPost, path+"/pause", `{"reason":"late"}`, nil)
		for i := range 3 {
			w.must(t, 201, http.MethodPost, "/api/v1/objectives", fmt.Sprintf(`{"title":"No. %d"}`, i), nil)
		}
		var titles []string
		for next := ""; ; {
			var list struct {
				Items      []objectiveTold
				NextCursor *string
			}
			w.must(t, 200, http.MethodGet, "/api/v1/objectives?status=active&limit=2&cursor="+next, "", &list)
			for _, i := range list.Items {
				titles = append(titles, i.Title)
			}
			if list.NextCursor == nil {
				break
			}
			next = *list.NextCursor
		}
		if strings.Join(titles, ",") != "No. 2,No. 1,No. 0" {
			t.Errorf("listed %v", titles)
		}
		w.must(t, 204, http.MethodDelete, "/api/v1/objectives/"+o.ID, "", nil)
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			w.must(t, 404, method, "/api/v1/objectives/"+o.ID, "", nil)
		}
	})
}

func TestAMemoryByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		type told struct {
			ID, Agent, Content string
			Importance         int
			ExpiresAt          *time.Time
		}
		var m told
		w.must(t, 201, http.MethodPost, "/api/v1/memories", `{"category":"fact","content":"The shop opens at nine"}`, &m)
		w.must(t, 201, http.MethodPost, "/api/v1/memories", `{"category":"fact","content":"The shop sells ice"}`, nil)
		w.must(t, 409, http.MethodPost, "/api/v1/memories", `{"category":"fact","content":"the SHOP sells ice."}`, nil)
		if m.Agent != activity.Operator || m.Importance != 5 {
			t.Errorf("created %+v", m)
		}
		w.must(t, 200, http.MethodPatch, "/api/v1/memories/"+m.ID, `{"content":"The shop opens at ten","importance":9}`, &m)
		for _, change := range []struct {
			body    string
			expires bool
		}{{`{"expiresAt":"2999-01-01T00:00:00Z"}`, true}, {`{"importance":9}`, true}, {`{"expiresAt":null}`, false}} {
			m.ExpiresAt = nil
			w.must(t, 200, http.MethodPatch, "/api/v1/memories/"+m.ID, change.body, &m)
			if (m.ExpiresAt != nil) != change.expires {
				t.Errorf("after %s it expires at %v", change.body, m.ExpiresAt)
			}
		}
		var list struct {
			Items      []told
			NextCursor *string
		}
		w.must(t, 200, http.MethodGet, "/api/v1/memories?q=shop+te", "", &list)
		if len(list.Items) != 1 || list.Items[0].Importance != 9 {
			t.Errorf("found %+v", list)
		}
		for query, want := range map[string]int{"?q=": 2, "": 2, "?q=+%2C": 0} { // missing, empty, and without a word
			if w.must(t, 200, http.MethodGet, "/api/v1/memories"+query, "", &list); len(list.Items) != want {
				t.Errorf("memories%s: %d, want %d", query, len(list.Items), want)
			}
		}
		w.must(t, 200, http.MethodGet, "/api/v1/memories?q=shop&limit=1", "", &list)
		if len(list.Items) != 1 || list.NextCursor == nil {
			t.Fatalf("the first page is %+v", list)
		}
		w.must(t, 200, http.MethodGet, "/api/v1/memories?q=shop&limit=1&cursor="+*list.NextCursor, "", &list)
		if len(list.Items) != 1 {
			t.Errorf("the second page is %+v", list)
		}
		var categories struct {
			Items []struct {
				Category string
				Count    int
			}
		}
		w.must(t, 200, http.MethodGet, "/api/v1/memory-categories", "", &categories)
		if len(categories.Items) != 1 || categories.Items[0].Count != 2 {
			t.Errorf("the categories are %+v", categories)
		}
		w.must(t, 201, http.MethodPost, "/api/v1/memories", `{"category":"rule","content":"No credit"}`, nil)
		type category struct{ Category string }
		if got := listed(t, w, "/api/v1/memory-categories?limit=1", func(c category) string { return c.Category }); !slices.Equal(got, []string{"fact", "rule"}) {
			t.Errorf("the categories are %v", got)
		}
		w.must(t, 204, http.MethodDelete, "/api/v1/memories/"+m.ID, "", nil)
		w.must(t, 404, http.MethodGet, "/api/v1/memories/"+m.ID, "", nil)
	})
}

func TestAWorkspaceByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		path := "/api/v1/workspaces/" + string(w.Workspace)
		var told struct {
			Name, Role string
			Settings   map[string]int64
		}
		w.must(t, 200, http.MethodGet, path, "", &told)
		if told.Settings["beatTokens"] != 60_000 {
			t.Errorf("it is %+v", told)
		}
		w.must(t, 200, http.MethodPatch, path, `{"name":"Ice","settings":{"beatTokens":1000}}`, &told)
		if told.Name != "Ice" || told.Settings["beatTokens"] != 1000 || told.Settings["stepsPerRun"] != 20 {
			t.Errorf("changed it is %+v", told)
		}
		if _, err := w.Budgets.Reserve(t.Context(), w.Workspace, budget.Request{ // the first call of the day's beats
			Agent: activity.Operator, Surface: trace.Heartbeat, Execution: ids(), Trace: w.Traces.New(trace.Heartbeat), Model: "demo",
			Input: 10, Output: 10, Lease: time.Minute, Day: 500_000,
		}); err != nil {
			t.Fatal(err)
		}
		w.must(t, 200, http.MethodPatch, path, `{"settings":{"dayTokens":5000}}`, nil)
		var days struct{ Items []struct{ Allocated int64 } }
		if w.must(t, 200, http.MethodGet, "/api/v1/budgets?scope=agent", "", &days); len(days.Items) != 1 || days.Items[0].Allocated != 5000 {
			t.Errorf("the day of the beats is %+v", days)
		}
		got := w.call(t, http.MethodPatch, path, admin, `{"settings":{"beatTokens":-1,"nonsense":1}}`)
		if got.status != 422 || !strings.Contains(string(got.body), "body.settings.beatTokens") || !strings.Contains(string(got.body), "body.settings.nonsense") {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}

// TestAKeyOpensWhatItsScopesSay: a key permits what its scopes permit, until it is revoked.
func TestAKeyOpensWhatItsScopesSay(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w = withKeys(t, w)
		var k struct{ ID, Key, Prefix string }
		got := w.must(t, 201, http.MethodPost, "/api/v1/api-keys", `{"name":"reader","role":"MEMBER","scopes":["memories:read"]}`, &k)
		if !strings.HasPrefix(k.Key, k.Prefix) || len(k.Key) < 40 {
			t.Fatalf("created %s", got.body)
		}
		for path, want := range map[string]int{"/api/v1/memories": 200, "/api/v1/objectives": 403} {
			if got := w.call(t, http.MethodGet, path, k.Key, ""); got.status != want {
				t.Errorf("%s: %d %s", path, got.status, got.body)
			}
		}
		if got := w.call(t, http.MethodPost, "/api/v1/memories", k.Key, `{"category":"a","content":"b"}`); got.status != 403 {
			t.Errorf("it writes: %d", got.status)
		}
		if list := w.call(t, http.MethodGet, "/api/v1/api-keys", member, ""); list.status != 200 || strings.Contains(string(list.body), k.Key) {
			t.Error("the listing shows the key")
		}
		w.must(t, 204, http.MethodDelete, "/api/v1/api-keys/"+k.ID, "", nil)
		if got := w.call(t, http.MethodGet, "/api/v1/memories", k.Key, ""); got.status != 401 {
			t.Errorf("revoked it opens: %d", got.status)
		}
	})
}

// TestAKeyIsMadeOnce: a repetition with the same Idempotency-Key neither shows the API key again
// nor creates another one.
func TestAKeyIsMadeOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, want := range []int{201, 409} {
			got := w.callWith(t, http.MethodPost, "/api/v1/api-keys", admin, `{"name":"ci","role":"MEMBER","scopes":["*"]}`, "Idempotency-Key", "one")
			if got.status != want {
				t.Errorf("%d, want %d: %s", got.status, want, got.body)
			}
		}
		for i := range 2 {
			got := w.callWith(t, http.MethodPost, "/api/v1/objectives", admin, `{"title":"once"}`, "Idempotency-Key", "two")
			if replayed := got.header.Get("Idempotency-Replayed") == "true"; got.status != 201 || replayed != (i == 1) {
				t.Errorf("%d %v: %s", got.status, got.header, got.body)
			}
		}
		var keys, objectives struct{ Items []struct{ ID string } }
		w.must(t, 200, http.MethodGet, "/api/v1/api-keys", "", &keys)
		w.must(t, 200, http.MethodGet, "/api/v1/objectives", "", &objectives)
		if len(keys.Items) != 1 || len(objectives.Items) != 1 {
			t.Errorf("%d keys, %d objectives", len(keys.Items), len(objectives.Items))
		}
	})
}

func TestMembersByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var m struct{ UserID, Email, Role string }
		if got := w.call(t, http.MethodPost, "/api/v1/members", owner, `{"email":"Ann@Example.org","role":"OWNER"}`); got.status != 201 {
			t.Fatalf("%d %s", got.status, got.body)
		} else if err := json.Unmarshal(got.body, &m); err != nil {
			t.Fatal(err)
		}
		if m.Email != "ann@example.org" || m.Role != "OWNER" {
			t.Errorf("added %+v", m)
		}
		for what, got := range map[string]result{
			"again":        w.call(t, http.MethodPost, "/api/v1/members", owner, `{"email":"ann@example.org","role":"MEMBER"}`),
			"the last one": w.call(t, http.MethodDelete, "/api/v1/members/"+m.UserID, owner, ""),
			"lowered":      w.call(t, http.MethodPatch, "/api/v1/members/"+m.UserID, owner, `{"role":"MEMBER"}`),
		} {
			if got.status != 409 {
				t.Errorf("%s: %d %s", what, got.status, got.body)
			}
		}
		if got := w.call(t, http.MethodPost, "/api/v1/members", owner, `{"email":"no address","role":"MEMBER"}`); got.status != 422 || !strings.Contains(string(got.body), "body.email") {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}
