package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

type usageTold struct {
	TotalTokens   int64
	CostMicroUSD  *int64
	Attempt       int
	Order, Reason string
	Budgets       []struct {
		Scope, ScopeID                           string
		Consumed, Reserved, Remaining, Overdraft int64
	}
}

func TestUsageOfATaskByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var is taskTold
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"spends","taskType":"code"}`, &is)
		path := agentTasks + "/" + is.ID
		of := w.budget(t, "task", is.ID, 1000)
		var why struct {
			Summary string
			Reasons []struct{ Code, Message string }
		}
		w.must(t, 200, http.MethodGet, path+"/why", "", &why)
		if len(why.Reasons) != 2 || why.Reasons[0].Code != "no_agent" || why.Reasons[1].Code != "budget" || why.Summary != why.Reasons[0].Message ||
			!strings.Contains(why.Reasons[1].Message, "task "+is.ID+" has 1000 tokens left") ||
			!strings.Contains(why.Reasons[1].Message, "8970 tokens") || !strings.Contains(why.Reasons[1].Message, "reallocate") {
			t.Errorf("why: %+v", why)
		}
		var p refusedTask
		if w.must(t, 409, http.MethodPost, path+"/usage", `{"inputTokens":1,"outputTokens":1,"model":"demo"}`, &p); p.PresentStatus != "PENDING" {
			t.Errorf("of a task that nobody works on: %+v", p)
		}
		w.beginAttempt(t, is.ID)
		var verdict struct {
			Result, Reason, Recommendation string
			ExpectedTokens, UsedTokens     int64
			Efficiency                     *float64
		}
		if w.must(t, 200, http.MethodPost, path+"/validate-usage", `{"linesChanged":3,"testsAdded":1}`, &verdict); verdict.Result != "not_applicable" || verdict.Efficiency != nil {
			t.Errorf("before any usage: %+v", verdict)
		}
		var told usageTold
		w.must(t, 200, http.MethodPost, path+"/usage", `{"attempt":1,"inputTokens":800,"outputTokens":100,"model":"claude-sonnet-4","operation":"edit"}`, &told)
		if told.TotalTokens != 900 || told.CostMicroUSD == nil || *told.CostMicroUSD != 3900 || told.Order != "continue" || told.Attempt != 1 || len(told.Budgets) != 1 ||
			told.Budgets[0].Consumed != 900 || told.Budgets[0].Remaining != 100 {
			t.Errorf("told %+v", told)
		}
		if w.must(t, 200, http.MethodPost, path+"/validate-usage", `{"linesChanged":2}`, &verdict); verdict.Result != "invalid" || verdict.ExpectedTokens != 300 ||
			verdict.UsedTokens != 900 || *verdict.Efficiency*3 != 1 || verdict.Reason == "" || verdict.Recommendation == "" {
			t.Errorf("for two lines: %+v", verdict)
		}
		if w.must(t, 200, http.MethodPost, path+"/validate-usage", `{"linesChanged":3}`, &verdict); verdict.Result != "valid" || *verdict.Efficiency != 0.5 {
			t.Errorf("for three lines: %+v", verdict)
		}
		p = refusedTask{}
		if w.must(t, 409, http.MethodPost, path+"/usage", `{"attempt":2,"inputTokens":1,"outputTokens":1,"model":"demo"}`, &p); p.Code != "stale_attempt" || p.Order != "cancel" {
			t.Errorf("of another attempt: %+v", p)
		}
		w.must(t, 200, http.MethodPost, path+"/usage", `{"inputTokens":150,"outputTokens":0,"model":"nobody-knows"}`, &told)
		if told.CostMicroUSD != nil || told.Order != "pause" || !strings.Contains(told.Reason, "Budget exceeded") || told.Budgets[0].Overdraft != 50 {
			t.Errorf("beyond the end: %+v", told)
		}
		if w.must(t, 200, http.MethodGet, path, "", &is); is.Status != "PAUSED" || is.StatusReason != "Budget exceeded" {
			t.Errorf("the task: %+v", is)
		}
		w.must(t, 200, http.MethodGet, path+"/why", "", &why)
		if len(why.Reasons) != 1 || why.Reasons[0].Code != "budget" || !strings.Contains(why.Summary, "goes on by itself") {
			t.Errorf("why: %+v", why)
		}
		var b budgetTold
		if w.must(t, 200, http.MethodGet, budgetsPath+"/"+of.ID, "", &b); b.Consumed != 1050 || b.Overdraft != 50 || b.Remaining != 0 {
			t.Errorf("the budget: %+v", b)
		}
		w.must(t, 422, http.MethodPatch, budgetsPath+"/"+of.ID, `{}`, nil)
		w.must(t, 200, http.MethodPatch, budgetsPath+"/"+of.ID, `{"allocatedMicroUsd":5000000}`, nil)
		w.must(t, 200, http.MethodPatch, budgetsPath+"/"+of.ID, `{"allocated":100000}`, nil)
		w.must(t, 200, http.MethodGet, path+"/why", "", &why)
		if len(why.Reasons) != 1 || why.Reasons[0].Code != "budget" || !strings.Contains(why.Summary, "the next cycle has it go on") {
			t.Errorf("why, after more was allocated: %+v", why)
		}
		w.must(t, 404, http.MethodPost, agentTasks+"/"+somebody+"/usage", `{"inputTokens":1,"outputTokens":1,"model":"demo"}`, nil)
		w.must(t, 404, http.MethodPost, agentTasks+"/"+somebody+"/validate-usage", `{"linesChanged":1}`, nil)
		for _, body := range []string{`{"inputTokens":-1,"outputTokens":1,"model":"demo"}`, `{"inputTokens":1,"outputTokens":1}`, `{"tokens":1}`} {
			w.must(t, 422, http.MethodPost, path+"/usage", body, nil)
		}
		w.must(t, 422, http.MethodPost, path+"/validate-usage", `{"linesChanged":-1}`, nil)
	})
}

// TestWhatAnAttemptUsedIsCountedAfterItsEnd, once and in the budgets of who used it, although the report is an order to
// stop.
func TestWhatAnAttemptUsedIsCountedAfterItsEnd(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		g := newGate(t, e)
		other := ids()
		g.registered(t, g.Workspace, other)
		token, others := minted(t, g.agents, g.Workspace, working, 2), minted(t, g.agents, g.Workspace, other, 2)
		first, second := g.budget(t, "agent", working, 100_000), g.budget(t, "agent", other, 100_000)
		claims := func(agent, token string) (is taskTold) {
			t.Helper()
			g.asked(t, 200, http.MethodPost, agentsPath+"/"+agent+"/claim", token, "", &is)
			return is
		}
		reports := func(id, token, attempt string, tokens int, key ...string) (code string) {
			t.Helper()
			r := request(http.MethodPost, agentTasks+"/"+id+"/usage", token, fmt.Sprintf(`{%s"inputTokens":%d,"outputTokens":0,"model":"demo"}`, attempt, tokens))
			for _, k := range key {
				r.Header.Set("Idempotency-Key", k)
			}
			var p refusedTask
			got := g.send(t, r)
			if decode(t, got.body, &p); got.status != 409 && got.status != 404 || got.status == 409 && p.Order != "cancel" {
				t.Errorf("a report of %d tokens: %d %s", tokens, got.status, got.body)
			}
			return p.Code
		}
		consumed := func(when string, want ...int64) {
			t.Helper()
			for i, b := range []budgetTold{first, second} {
				if g.must(t, 200, http.MethodGet, budgetsPath+"/"+b.ID, "", &b); b.Consumed != want[i] || b.Reserved != 0 {
					t.Errorf("%s: budget %d has %d consumed and %d reserved, want %d and 0", when, i+1, b.Consumed, b.Reserved, want[i])
				}
			}
		}
		var is taskTold
		g.must(t, 201, http.MethodPost, agentTasks, `{"title":"one"}`, &is)
		own := g.budget(t, "task", is.ID, 100_000)
		claims(working, token)
		at := agentTasks + "/" + is.ID
		g.must(t, 200, http.MethodPatch, at, `{"status":"PAUSED"}`, nil)
		reports(is.ID, token, `"attempt":1,`, 10)
		consumed("paused", 10, 0)
		for range 3 {
			reports(is.ID, token, `"attempt":1,`, 100, "one")
		}
		consumed("repeated with its key", 110, 0)
		reports(is.ID, token, "", 1)
		consumed("without an attempt", 111, 0)
		reports(is.ID, token, `"attempt":2,`, 1000)
		reports(is.ID, owner, `"attempt":2,`, 1000)
		if code := reports(is.ID, others, `"attempt":1,`, 1000); code != "not_found" {
			t.Errorf("of another agent: %s", code)
		}
		consumed("of attempts that the agent never had", 111, 0)
		reports(is.ID, owner, `"attempt":1,`, 5)
		consumed("by a script that acts for it", 116, 0)

		g.must(t, 200, http.MethodPatch, at, `{"status":"PENDING"}`, nil)
		if is = claims(other, others); is.Attempt != 2 {
			t.Fatalf("claimed %+v", is)
		}
		reports(is.ID, token, `"attempt":1,`, 20)
		reports(is.ID, token, `"attempt":2,`, 1000)
		reports(is.ID, others, `"attempt":1,`, 1000)
		consumed("another agent has it", 136, 0)
		g.must(t, 200, http.MethodPost, at+"/cancel", `{}`, nil)
		reports(is.ID, others, `"attempt":2,`, 7)
		reports(is.ID, token, `"attempt":1,`, 4)
		consumed("cancelled", 140, 7)
		if g.must(t, 200, http.MethodGet, budgetsPath+"/"+own.ID, "", &own); own.Consumed != 147 {
			t.Errorf("the task's own budget has %d consumed", own.Consumed)
		}
		g.Skew.Advance(25 * time.Hour)
		reports(is.ID, token, `"attempt":1,`, 1000)
		consumed("long after its end", 140, 7)
	})
}

func TestWhatTasksUsedByHTTP(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		begun := time.Now()
		w := newWorld(t, e, func(d *api.Deps) { d.Clock = func() time.Time { return begun } }) // "today" begins once, also around midnight
		for i := range 3 {
			var is taskTold
			w.must(t, 201, http.MethodPost, agentTasks, fmt.Sprintf(`{"title":"No. %d","taskType":"code","metadata":{"complexity":2}}`, i), &is)
			w.beginAttempt(t, is.ID)
			w.must(t, 200, http.MethodPost, agentTasks+"/"+is.ID+"/usage", fmt.Sprintf(`{"inputTokens":%d,"outputTokens":0,"model":"claude-3-5-haiku"}`, 1794*(i+1)), nil)
			w.must(t, 200, http.MethodPost, agentTasks+"/"+is.ID+"/complete", `{}`, nil)
		}
		type past struct {
			TaskType                    string
			EstimatedTokens, UsedTokens int64
			Ratio                       float64
		}
		told := listed(t, w, "/api/v1/usage/estimates?taskType=code&limit=2", func(p past) string {
			return fmt.Sprintf("%s %d %d %.1f", p.TaskType, p.EstimatedTokens, p.UsedTokens, p.Ratio)
		})
		if want := []string{"code 3588 5382 1.5", "code 3588 3588 1.0", "code 3588 1794 0.5"}; !slices.Equal(told, want) {
			t.Errorf("the past: %q, want %q", told, want)
		}
		if got := listed(t, w, "/api/v1/usage/corrections", func(c struct{ TaskType string }) string { return c.TaskType }); len(got) != 0 {
			t.Errorf("learned of three tasks: %q", got)
		}
		var saved struct {
			CostMicroUSD, TopTierMicroUSD, SavedMicroUSD, Calls int64
			SavedPercent                                        float64
		}
		w.must(t, 200, http.MethodGet, "/api/v1/usage/savings", "", &saved)
		if saved.Calls != 3 || saved.TopTierMicroUSD != 161_460 || saved.SavedMicroUSD != saved.TopTierMicroUSD-saved.CostMicroUSD || int(saved.SavedPercent) != 94 {
			t.Errorf("saved %+v", saved)
		}
		var now struct {
			TotalTokens, CostMicroUSD int64
			LastUpdated               *string
			Pace                      string
		}
		if w.must(t, 200, http.MethodGet, "/api/v1/usage/current", "", &now); now.TotalTokens != 6*1794 || now.LastUpdated == nil || now.Pace != "CONTINUE" {
			t.Errorf("now %+v", now)
		}
	})
}

func TestModelTiersByHTTP(t *testing.T) {
	w := onOne(t)
	type tier struct {
		Tier, Model                   string
		InputMicroUSD, OutputMicroUSD int64
	}
	read := func() []string {
		return listed(t, w, "/api/v1/model-tiers", func(m tier) string {
			return fmt.Sprintf("%s %s %d %d", m.Tier, m.Model, m.InputMicroUSD, m.OutputMicroUSD)
		})
	}
	shipped := []string{"small claude-3-5-haiku 800000 4000000", "middle claude-sonnet-4 3000000 15000000", "top claude-opus-4 15000000 75000000"}
	if got := read(); !slices.Equal(got, shipped) {
		t.Errorf("shipped: %q", got)
	}
	var m tier
	if w.must(t, 200, http.MethodPut, "/api/v1/model-tiers/top", `{"model":"claude-sonnet-4-5"}`, &m); m.Model != "claude-sonnet-4-5" || m.OutputMicroUSD != 15_000_000 {
		t.Errorf("chosen: %+v", m)
	}
	if got := read(); got[2] != "top claude-sonnet-4-5 3000000 15000000" {
		t.Errorf("then: %q", got)
	}
	if p := w.refused(t, 422, "invalid", http.MethodPut, "/api/v1/model-tiers/top", `{"model":"nobody-knows"}`); !p.at("body.model") {
		t.Errorf("without a price: %+v", p.Errors)
	}
	w.must(t, 422, http.MethodPut, "/api/v1/model-tiers/best", `{"model":"claude-opus-4"}`, nil)
}
