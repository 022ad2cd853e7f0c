package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestABudgetIsOfWhatIsThere: a budget of a project, milestone or task that is not in the workspace would bind nothing.
func TestABudgetIsOfWhatIsThere(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var project, milestone, is struct{ ID string }
		w.must(t, 201, http.MethodPost, "/api/v1/projects", `{"name":"shop"}`, &project)
		w.must(t, 201, http.MethodPost, "/api/v1/milestones", fmt.Sprintf(`{"name":"first","projectId":%q}`, project.ID), &milestone)
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"Count the stock"}`, &is)
		for scope, id := range map[string]string{"project": project.ID, "milestone": milestone.ID, "task": is.ID} {
			if p := w.refused(t, 422, "invalid", http.MethodPost, budgetsPath, month(scope, "shop", 5)); !p.at("body.scopeId") {
				t.Errorf("%s: %+v", scope, p.Errors)
			}
			w.refused(t, 404, "not_found", http.MethodPost, budgetsPath, month(scope, ids(), 5))
			if b := w.budget(t, scope, strings.ToUpper(id), 1000); b.ScopeID != id {
				t.Errorf("the budget is of %s %s, want %s", scope, b.ScopeID, id)
			}
		}
		w.refused(t, 404, "not_found", http.MethodPost, budgetsPath, month("project", milestone.ID, 5))
		agent := ids()
		if b := w.budget(t, "agent", strings.ToUpper(agent), 1000); b.ScopeID != agent {
			t.Errorf("the budget is of %s, want %s", b.ScopeID, agent)
		}
		w.budget(t, "agent", "Ann", 1000)
	})
}

// TestAnAgentNamesItsAttemptInEveryReport, also when it asks whether it may commit.
func TestAnAgentNamesItsAttemptInEveryReport(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var is taskTold
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"spends"}`, &is)
		path := agentTasks + "/" + is.ID
		w.beginAttempt(t, is.ID)
		w.must(t, 200, http.MethodPost, path+"/usage", `{"attempt":1,"inputTokens":300,"outputTokens":0,"model":"claude-sonnet-4"}`, nil)
		var verdict struct{ Result string }
		if w.must(t, 200, http.MethodPost, path+"/validate-usage", `{"attempt":1,"linesChanged":2}`, &verdict); verdict.Result != "valid" {
			t.Errorf("verdict %+v", verdict)
		}
		var p refusedTask
		w.must(t, 409, http.MethodPost, path+"/validate-usage", `{"attempt":2,"linesChanged":2}`, &p)
		if p.Code != "stale_attempt" || p.Order != "cancel" {
			t.Errorf("of another attempt: %+v", p)
		}
		var log struct {
			Items []struct {
				Event   string
				Details map[string]any
			}
		}
		w.must(t, 200, http.MethodGet, path+"/logs?event=conflict", "", &log)
		if len(log.Items) != 1 || log.Items[0].Details["namedAttempt"] != 2.0 || log.Items[0].Details["presentAttempt"] != 1.0 {
			t.Errorf("the log: %+v", log)
		}
	})
}

// TestAPathMayEndInASlash: clients that join a path of parts send one.
func TestAPathMayEndInASlash(t *testing.T) {
	w := onOne(t)
	ask := func(status int, method, path, body string) []byte {
		t.Helper()
		got := httptestCall(w, request(method, path, owner, body))
		if got.Code != status {
			t.Errorf("%s %s: %d %s", method, path, got.Code, got.Body)
		}
		return got.Body.Bytes()
	}
	var is taskTold
	if err := json.Unmarshal(ask(201, http.MethodPost, agentTasks+"/", `{"title":"Count the stock","priority":9}`), &is); err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []taskTold }
	err := json.Unmarshal(ask(200, http.MethodGet, agentTasks+"/?priority>=8", ""), &list)
	if err != nil || len(list.Items) != 1 || list.Items[0].ID != is.ID {
		t.Errorf("listed %+v, %v", list, err)
	}
	ask(200, http.MethodGet, agentTasks+"/"+is.ID+"/", "")
	ask(404, http.MethodGet, agentTasks+"//", "")
	ask(404, http.MethodGet, "/api/v1/", "")
	ask(404, http.MethodGet, "/health/", "")
	ask(405, http.MethodDelete, agentTasks+"/", "")
}

// TestARefusalTellsItsBoundInDigits, not as a power of ten.
func TestARefusalTellsItsBoundInDigits(t *testing.T) {
	w := onOne(t)
	p := w.refused(t, 422, "invalid", http.MethodPost, agentTasks, `{"title":"x","estimatedDurationMinutes":99999999}`)
	if len(p.Errors) != 1 || p.Errors[0].Message != "expected number <= 5256000" {
		t.Errorf("%+v", p.Errors)
	}
}

// TestAnAgentKeepsTheReasonOfItsEnd when it is told to end again without one.
func TestAnAgentKeepsTheReasonOfItsEnd(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		path := "/api/v1/agents/" + ids()
		w.must(t, 201, http.MethodPut, path, `{"name":"ada"}`, nil)
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"Count the stock"}`, nil)
		w.must(t, 200, http.MethodPost, path+"/claim", `{}`, nil)
		var a struct{ Status, TerminationReason string }
		w.must(t, 200, http.MethodPost, path+"/terminate", `{"reason":"the season is over"}`, nil)
		w.must(t, 200, http.MethodPost, path+"/terminate", `{}`, &a)
		if a.Status != "DRAINING" || a.TerminationReason != "the season is over" {
			t.Errorf("%+v", a)
		}
		w.must(t, 200, http.MethodPost, path+"/terminate", `{"graceful":false,"reason":"at once"}`, &a)
		if a.Status != "TERMINATED" || a.TerminationReason != "at once" {
			t.Errorf("%+v", a)
		}
	})
}

// TestTheCoordinatorsLogTellsWhatItDid: which agents it lost, and what became of their tasks.
func TestTheCoordinatorsLogTellsWhatItDid(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := ids()
		path := "/api/v1/agents/" + id
		w.must(t, 201, http.MethodPut, path, `{"name":"ada","maxConcurrentTasks":2}`, nil)
		w.must(t, 200, http.MethodPost, path+"/heartbeat", `{}`, nil)
		for range 2 {
			w.must(t, 201, http.MethodPost, agentTasks, `{"title":"Count the stock"}`, nil)
			w.must(t, 200, http.MethodPost, path+"/claim", `{}`, nil)
		}
		logs := func(query string) (out []string) {
			t.Helper()
			var got struct {
				Items []struct{ Level, Event, Message string }
			}
			w.must(t, 200, http.MethodGet, "/api/v1/coordinator/logs"+query, "", &got)
			for _, l := range got.Items {
				out = append(out, l.Level+" "+l.Event+": "+l.Message)
			}
			return out
		}
		w.must(t, 200, http.MethodPost, "/api/v1/coordinator/recover", `{}`, nil)
		if got := logs(""); len(got) != 0 {
			t.Errorf("nothing was done, and the log says %q", got)
		}
		w.Skew.Advance(30 * time.Second)
		w.must(t, 200, http.MethodPost, "/api/v1/coordinator/recover", `{}`, nil) // so that the gap between cycles is not large
		w.Skew.Advance(80 * time.Second)
		w.must(t, 200, http.MethodPost, "/api/v1/coordinator/recover", `{}`, nil)
		w.Skew.Advance(80 * time.Second)
		w.must(t, 200, http.MethodPost, "/api/v1/coordinator/recover", `{}`, nil)
		got := strings.Join(logs("?level=WARN"), "\n")
		for _, want := range []string{
			`WARN agent_stale: agent "ada" was silent for too long`, "WARN task_recovery: 2 tasks: the attempt was lost (agent_stale)",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the log does not say %q:\n%s", want, got)
			}
		}
	})
}

// TestAnAgentWithoutATargetGetsNoTasks: each start would fail and spend a retry.
func TestAnAgentWithoutATargetGetsNoTasks(t *testing.T) {
	w := onOne(t)
	w.must(t, 201, http.MethodPut, "/api/v1/agents/"+ids(), `{"name":"ada","spawner":"lambda"}`, nil)
	var is taskTold
	w.must(t, 201, http.MethodPost, agentTasks, `{"title":"Count the stock"}`, &is)
	w.must(t, 200, http.MethodPost, "/api/v1/coordinator/recover", `{}`, nil)
	if w.must(t, 200, http.MethodGet, agentTasks+"/"+is.ID, "", &is); is.Status != "PENDING" {
		t.Errorf("the task is %s", is.Status)
	}
	if got := w.needed(t, "task"); len(got) != 1 || !strings.Contains(got[0].Why, "spawnerTarget") {
		t.Errorf("it needs %+v", got)
	}
}

// TestAClaimThatFoundNothingIsReplayed: its answer shows no secret, so it is kept.
func TestAClaimThatFoundNothingIsReplayed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		path := "/api/v1/agents/" + ids()
		w.must(t, 201, http.MethodPut, path, `{"name":"ada"}`, nil)
		ask := func(key string) result {
			t.Helper()
			r := request(http.MethodPost, path+"/claim", owner, `{}`)
			r.Header.Set("Idempotency-Key", key)
			return w.send(t, r)
		}
		if got := ask("one"); got.status != 204 {
			t.Errorf("%d %s", got.status, got.body)
		}
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"Count the stock"}`, nil)
		if got := ask("one"); got.status != 204 || got.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("again: %d %s %v", got.status, got.body, got.header)
		}
		if got := ask("two"); got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
		var p problem
		if got := ask("two"); got.status != 409 || json.Unmarshal(got.body, &p) != nil || p.Code != "answer_not_kept" {
			t.Errorf("a claim that showed an input: %d %s", got.status, got.body)
		}
	})
}
