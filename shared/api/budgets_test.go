package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

const budgetsPath = "/api/v1/budgets"

type budgetTold struct {
	ID, Scope, ScopeID                                  string
	Allocated, Consumed, Reserved, Remaining, Overdraft int64
	AllocatedMicroUSD                                   *int64
}

// month returns the body of a budget for the 30 days around now.
func month(scope, id string, tokens int) string {
	now := time.Now().UTC()
	return fmt.Sprintf(`{"scope":%q,"scopeId":%q,"allocated":%d,"periodStart":%q,"periodEnd":%q}`, scope, id, tokens,
		now.AddDate(0, 0, -15).Format(time.RFC3339), now.AddDate(0, 0, 15).Format(time.RFC3339))
}

func (w *world) budget(t testing.TB, scope, id string, tokens int) (b budgetTold) {
	t.Helper()
	got := w.must(t, 201, http.MethodPost, budgetsPath, month(scope, id, tokens), &b)
	if got.header.Get("Location") != budgetsPath+"/"+b.ID || got.header.Get("ETag") != `"1"` {
		t.Errorf("created %+v: %v", b, got.header)
	}
	return b
}

// reserves reserves tokens for an agent.
func (w *world) reserves(t testing.TB, agent string, tokens int64) budget.Reservation {
	t.Helper()
	return w.reservesIn(t, w.Traces.New(trace.Heartbeat), agent, tokens)
}

func (w *world) reservesIn(t testing.TB, in trace.ID, agent string, tokens int64) budget.Reservation {
	t.Helper()
	r, err := w.Budgets.Reserve(t.Context(), w.Workspace, budget.Request{
		Agent: agent, Surface: trace.Surface(in[:2]), Execution: ids(), Trace: in, Model: "demo", Output: tokens, Lease: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) uses(t testing.TB, agent string, tokens int) {
	t.Helper()
	w.usesIn(t, w.Traces.New(trace.Heartbeat), agent, tokens)
}

func (w *world) usesIn(t testing.TB, in trace.ID, agent string, tokens int) {
	t.Helper()
	used := budget.Used{Usage: llm.Usage{CompletionTokens: tokens}, Model: "demo", Operation: "reason"}
	if _, err := w.Budgets.Settle(t.Context(), w.Workspace, w.reservesIn(t, in, agent, int64(tokens)), used); err != nil {
		t.Fatal(err)
	}
}

// TestABudgetOfASkillByHTTP: calls whose answers ask for the skill count in it.
func TestABudgetOfASkillByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		b := w.budget(t, "skill", "look", 100)
		used := budget.Used{Usage: llm.Usage{CompletionTokens: 300}, Model: "demo", Skills: []string{"look", "say"}}
		if _, err := w.Budgets.Settle(t.Context(), w.Workspace, w.reserves(t, "ann", 300), used); err != nil {
			t.Fatal(err)
		}
		if w.must(t, 200, http.MethodGet, budgetsPath+"/"+b.ID, "", &b); b.Consumed != 150 || b.Overdraft != 50 || b.Remaining > 0 {
			t.Errorf("the budget: %+v", b)
		}
	})
}

// TestABudgetTellsWhatItIsOf by name, where that has one.
func TestABudgetTellsWhatItIsOf(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var made struct{ ID string }
		want := map[string]string{}
		for scope, body := range map[string]string{"project": `{"name":"Winter menu"}`, "task": `{"title":"Write the menu"}`} {
			w.must(t, 201, http.MethodPost, "/api/v1/"+map[string]string{"project": "projects", "task": "agent-tasks"}[scope], body, &made)
			want[w.budget(t, scope, made.ID, 1000).ID] = map[string]string{"project": "Winter menu", "task": "Write the menu"}[scope]
		}
		want[w.budget(t, "agent", "ann", 1000).ID] = ""
		var list struct {
			Items []struct{ ID, ScopeName string }
		}
		w.must(t, 200, http.MethodGet, budgetsPath, "", &list)
		told := map[string]string{}
		for _, b := range list.Items {
			told[b.ID] = b.ScopeName
		}
		if !maps.Equal(told, want) {
			t.Errorf("they are of %q, want %q", told, want)
		}
		for id, name := range want {
			var b struct{ ScopeName string }
			if w.must(t, 200, http.MethodGet, budgetsPath+"/"+id, "", &b); b.ScopeName != name {
				t.Errorf("it is of %q, want %q", b.ScopeName, name)
			}
		}
	})
}

func TestABudgetByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		b := w.budget(t, "agent", "ann", 1000)
		w.refused(t, 409, "overlap", http.MethodPost, budgetsPath, month("agent", "ann", 5))
		w.uses(t, "ann", 300)
		w.reserves(t, "ann", 200)
		path := budgetsPath + "/" + b.ID
		if w.must(t, 200, http.MethodGet, path, "", &b); b.Allocated != 1000 || b.Consumed != 300 || b.Reserved != 200 || b.Remaining != 500 || b.AllocatedMicroUSD != nil {
			t.Errorf("it is %+v", b)
		}
		got := w.must(t, 200, http.MethodPatch, path, `{"allocated":400}`, &b)
		if b.Remaining != 0 || b.Overdraft != 100 || got.header.Get("ETag") != `"2"` {
			t.Errorf("with less it is %+v", b)
		}
		for _, other := range []string{`"1"`, `"0"`, `*x`} {
			if got := w.callWith(t, http.MethodPatch, path, admin, `{"allocated":900}`, "If-Match", other); got.status != http.StatusPreconditionFailed {
				t.Errorf("If-Match %s: %d %s", other, got.status, got.body)
			}
		}
		if got := w.callWith(t, http.MethodPatch, path, admin, `{"allocated":900}`, "If-Match", `"2"`); got.status != http.StatusOK {
			t.Errorf("of this version: %d %s", got.status, got.body)
		}
		if p := w.refused(t, 422, "invalid", http.MethodPatch, path, `{"allocated":299}`); !p.at("body.allocated") {
			t.Errorf("less than is consumed: %+v", p.Errors)
		}
		var p struct {
			RemainingTokens, DailyBurnRate int64
			DaysUntilExhaustion            *float64
			ProjectedExhaustionDate        *time.Time
			Recommendation                 string
		}
		w.must(t, 200, http.MethodGet, path+"/projection", "", &p)
		if p.RemainingTokens != 600 || p.DailyBurnRate != 300 || p.DaysUntilExhaustion == nil || *p.DaysUntilExhaustion != 2 || p.ProjectedExhaustionDate == nil || p.Recommendation != "THROTTLE" {
			t.Errorf("projected %+v", p)
		}
		idle := w.budget(t, "agent", "bob", 10)
		w.must(t, 200, http.MethodGet, budgetsPath+"/"+idle.ID+"/projection", "", &p)
		if p.DaysUntilExhaustion != nil || p.ProjectedExhaustionDate != nil || p.Recommendation != "CONTINUE" {
			t.Errorf("projected %+v", p)
		}
		want := []string{"budget.create", "budget.update", "budget.update", "budget.create"}
		if got := w.changes(t); !slices.Equal(got, want) {
			t.Errorf("the log says %v", got)
		}
	})
}

func TestTokensAreReallocatedByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		a, b := w.budget(t, "agent", "ann", 1000), w.budget(t, "agent", "bob", 10)
		w.uses(t, "ann", 300)
		ask := func(from, to string, amount int) string {
			return fmt.Sprintf(`{"from":%q,"to":%q,"amount":%d}`, from, to, amount)
		}
		const path = budgetsPath + "/reallocate"
		var moved struct{ From, To budgetTold }
		w.must(t, 200, http.MethodPost, path, ask(strings.ToUpper(a.ID), b.ID, 600), &moved)
		if moved.From.ID != a.ID || moved.From.Allocated != 400 || moved.To.ID != b.ID || moved.To.Allocated != 610 {
			t.Errorf("moved %+v", moved)
		}
		if p := w.refused(t, 409, "insufficient", http.MethodPost, path, ask(a.ID, b.ID, 101)); !p.at("body.amount") {
			t.Errorf("more than there is: %+v", p.Errors)
		}
		none := ids()
		for _, body := range []string{ask(a.ID, none, 1), ask(none, a.ID, 1)} {
			w.refused(t, 404, "not_found", http.MethodPost, path, body)
		}
		for body, at := range map[string]string{
			ask(a.ID, a.ID, 1): "body.to", ask(a.ID, b.ID, 0): "body.amount", ask("x", b.ID, 1): "body.from",
		} {
			if p := w.refused(t, 422, "invalid", http.MethodPost, path, body); !p.at(at) {
				t.Errorf("%s: %+v, want %s", body, p.Errors, at)
			}
		}
	})
}

// The path reallocate also matches the wildcard of another route.
func TestReallocateGoesByPOST(t *testing.T) {
	w := onOne(t)
	rec := httptestCall(w, request(http.MethodGet, budgetsPath+"/reallocate", owner, ""))
	if rec.Code != http.StatusMethodNotAllowed || rec.Header().Get("Allow") != "POST" {
		t.Errorf("%d, Allow %q", rec.Code, rec.Header().Get("Allow"))
	}
}

func TestBudgetsThatAreRefused(t *testing.T) {
	w := onOne(t)
	sound := month("agent", "ann", 5)
	for body, at := range map[string]string{
		month("agent", "", 5): "body.scopeId", month("global", "x", 5): "body.scopeId", month("world", "", 5): "body.scope", month("agent", "ann", -1): "body.allocated",
		strings.Replace(sound, `"allocated":5`, `"allocated":5,"allocatedMicroUsd":-1`, 1):                         "body.allocatedMicroUsd",
		strings.Replace(sound, `"allocated":5,`, ``, 1):                                                            "body",
		strings.Replace(sound, `"periodEnd"`, `"ends"`, 1):                                                         "body.ends",
		`{"scope":"global","allocated":1,"periodStart":"2030-01-02T00:00:00Z","periodEnd":"2030-01-01T00:00:00Z"}`: "body.periodEnd",
		`{"scope":"global","allocated":1,"periodStart":"yesterday","periodEnd":"2030-01-01T00:00:00Z"}`:            "body.periodStart",
	} {
		p := w.refused(t, 422, "invalid", http.MethodPost, budgetsPath, body)
		if !slices.ContainsFunc(p.Errors, func(e struct{ Location, Message string }) bool { return strings.HasPrefix(e.Location, at) }) {
			t.Errorf("%s: %+v, want %s", body, p.Errors, at)
		}
	}
}

func TestBudgetsAndUsageAreListed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.budget(t, "agent", "ann", 1000)
		w.budget(t, "agent", "bob", 1000)
		var p struct{ ID string }
		w.must(t, 201, http.MethodPost, "/api/v1/projects", `{"name":"shop"}`, &p)
		w.must(t, 201, http.MethodPost, budgetsPath, fmt.Sprintf(`{"scope":"project","scopeId":%q,"allocated":1,"allocatedMicroUsd":7,
			"periodStart":"2010-01-01T00:00:00Z","periodEnd":"2010-02-01T00:00:00Z"}`, p.ID), nil)
		project := "project " + p.ID
		for query, want := range map[string][]string{
			"": {project, "agent bob", "agent ann"}, "?limit=2": {project, "agent bob", "agent ann"}, "?scope=agent": {"agent bob", "agent ann"},
			"?scope=agent&scopeId=ann": {"agent ann"}, "?scopeId=" + strings.ToUpper(p.ID): {project},
			"?active=false": {project}, "?active=true&limit=1": {"agent bob", "agent ann"},
		} {
			got := listed(t, w, budgetsPath+query, func(b budgetTold) string { return strings.TrimSpace(b.Scope + " " + b.ScopeID) })
			if !slices.Equal(got, want) {
				t.Errorf("%s lists %v", query, got)
			}
		}
		w.uses(t, "ann", 30)
		w.uses(t, "ann", 40)
		w.uses(t, "bob", 50)
		for query, want := range map[string][]string{
			"?by=agent": {"ann 2 70", "bob 1 50"}, "?by=model": {"demo 3 120"}, "?by=surface": {"heartbeat 3 120"}, "?by=skill": {"(answer) 3 120"}, "?by=task": {" 3 120"},
			"?by=agent&until=2020-01-01T00:00:00Z": nil, "?by=model&since=2020-01-01T00:00:00Z": {"demo 3 120"}, "?by=agent&limit=1": {"ann 2 70", "bob 1 50"},
		} {
			got := listed(t, w, "/api/v1/usage"+query, func(u struct {
				Key                              string
				Calls, OutputTokens, TotalTokens int64
			}) string {
				if u.OutputTokens != u.TotalTokens {
					t.Errorf("%s: %+v", query, u)
				}
				return fmt.Sprint(u.Key, " ", u.Calls, " ", u.TotalTokens)
			})
			if !slices.Equal(got, want) {
				t.Errorf("%s adds up to %q", query, got)
			}
		}
		if p := w.refused(t, 422, "invalid", http.MethodGet, "/api/v1/usage?by=moon", ""); !p.at("query.by[0]") {
			t.Errorf("%+v", p.Errors)
		}
	})
}
