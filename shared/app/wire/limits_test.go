package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// agentOf returns the surfaces of an agent whose models are served at an address.
func agentOf(t testing.TB, e dbtest.Env, at, models string, logs io.Writer) (*wire.Surfaces, *app.Core) {
	t.Helper()
	cfg, err := app.LoadConfig([]string{
		"LLM_PROVIDER=openai", "OPENAI_BASE_URL=" + at, "OPENAI_API_KEY=k", "LLM_MODEL=" + models, "LOG_LEVEL=debug",
		"SECRET_KEY_FILE=" + filepath.Join(t.TempDir(), "key"),
	})
	if err != nil {
		t.Fatal(err)
	}
	core := app.NewCore(e.DB, cfg, app.NewLogger(logs, cfg, nil), func(context.Context) (awssdk.Config, error) { return awssdk.Config{}, errors.New("no AWS here") })
	a, err := wire.New(core, "test")
	if err != nil {
		t.Fatal(err)
	}
	return a, core
}

// TestASpentBudgetIsNamed: people read why their turn failed, and call a global budget that of the workspace.
func TestASpentBudgetIsNamed(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	a, core := agentOf(t, e, "http://127.0.0.1:9/v1", "claude-opus-4", io.Discard)
	end := time.Date(2999, 1, 2, 3, 4, 0, 0, time.UTC)
	err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := a.Budgets.Create(ctx, tx, budget.Budget{
			Scope: budget.Global, Tokens: budget.Account{Allocated: 1}, CreatedBy: "ada", Start: time.Now().Add(-time.Hour), End: end,
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = a.Reason.Meter.Reserve(t.Context(), reason.Cost{
		Workspace: e.Workspace, Agent: activity.Operator, Surface: trace.Operate, Execution: core.IDs(), Trace: core.Traces.New(trace.Operate),
		Model: a.Reason.ModelID, Output: 4000,
	})
	spent, _ := errors.AsType[*reason.SpentError](err)
	if spent == nil || spent.Why != "the budget of the workspace is used up until 2999-01-02 03:04 UTC" {
		t.Errorf("it says %v", err)
	}
}

// TestACallWaitsForWhatOthersHaveReserved: calls that a budget can pay one after the other are all made.
func TestACallWaitsForWhatOthersHaveReserved(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	a, core := agentOf(t, e, "http://127.0.0.1:9/v1", "claude-opus-4", io.Discard)
	err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := a.Budgets.Create(ctx, tx, budget.Budget{
			Scope: budget.Global, Tokens: budget.Account{Allocated: 9000}, CreatedBy: "ada", Start: time.Now().Add(-time.Hour), End: time.Now().Add(time.Hour),
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reserve := func() (reason.Settle, error) {
		_, settle, err := a.Reason.Meter.Reserve(ctx, reason.Cost{
			Workspace: e.Workspace, Agent: activity.Operator, Surface: trace.Chat, Execution: core.IDs(), Trace: core.Traces.New(trace.Chat),
			Model: a.Reason.ModelID, Input: 8000, Output: 1000,
		})
		return settle, err
	}
	first, err := reserve()
	if err != nil {
		t.Fatal(err)
	}
	before, done := e.DB.Transactions(), make(chan error, 1)
	go func() {
		_, err := reserve()
		done <- err
	}()
	for len(done) == 0 && e.DB.Transactions() < before+2 { // until it has been refused once
		runtime.Gosched()
	}
	if _, err := first(ctx, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the second call: %v", err)
	}
}

// TestABudgetOfMoneyIsNotExceeded makes many concurrent calls, each of which fits into the budget
// alone. A call reserves the price of the configured model, or of a more expensive fallback model.
func TestABudgetOfMoneyIsNotExceeded(t *testing.T) {
	for _, models := range []string{"us.anthropic.claude-opus-4-20250514-v1:0", "claude-3-5-haiku, anthropic/claude-opus-4"} {
		e := dbtest.New(t, dbtest.OnSQLite)
		a, core := agentOf(t, e, "http://127.0.0.1:9/v1", models, io.Discard)
		now := time.Now()
		err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := a.Budgets.Create(ctx, tx, budget.Budget{
				Scope: budget.Agent, ScopeID: activity.Operator, Tokens: budget.Account{Allocated: 1_000_000}, CreatedBy: "ada",
				Capped: true, MicroUSD: budget.Account{Allocated: 800_000}, Start: now.Add(-time.Hour), End: now.Add(time.Hour),
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		var admitted, refused atomic.Int32
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_, _, err := a.Reason.Meter.Reserve(context.Background(), reason.Cost{
					Workspace: e.Workspace, Agent: activity.Operator, Surface: trace.Operate, Execution: core.IDs(), Trace: core.Traces.New(trace.Operate),
					Model: a.Reason.ModelID, Output: 4000, // 0.30 dollars with the most expensive model
				})
				if _, ok := errors.AsType[*reason.SpentError](err); ok {
					refused.Add(1)
				} else if err == nil {
					admitted.Add(1)
				} else {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if admitted.Load() != 3 || refused.Load() != 17 { // the third call gets a shorter answer
			t.Errorf("%s: %d were admitted and %d refused", models, admitted.Load(), refused.Load())
		}
	}
}

func TestAModelThatIsSwitchedOffStandsInForNone(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct{ Model string }
		_ = json.NewDecoder(r.Body).Decode(&req)
		asked = append(asked, req.Model)
		if req.Model == "first" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"model":"`+req.Model+`","choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`)
	}))
	defer server.Close()
	var logs told
	a, _ := agentOf(t, e, server.URL, "first,second,third", &logs)
	err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := a.Switches.Set(ctx, tx, halt.Switch{Scope: halt.Model, Target: "second", SetBy: "ada"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := a.Reason.Models(e.Workspace).Generate(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: "hi"}}}, nil)
	if got := strings.Join(asked, " "); err != nil || resp.Model != "third" || got != "first third" {
		t.Errorf("asked were %s: %+v, %v", got, resp, err)
	}
	for _, want := range []string{`"msg":"model not fallen back to"`, `"model":"third","fallback":true,"class":"","tries":1,"tokens":3`} {
		if !strings.Contains(logs.String(), want) {
			t.Errorf("the log does not say %s: %s", want, logs.String())
		}
	}
}

// TestASkillWhoseBudgetIsSpentIsNotCalled until its next period.
func TestASkillWhoseBudgetIsSpentIsNotCalled(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	a, core := agentOf(t, e, "http://127.0.0.1:9/v1", "claude-sonnet-4", io.Discard)
	end := time.Date(2999, 1, 2, 3, 4, 0, 0, time.UTC)
	err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := a.Budgets.Create(ctx, tx, budget.Budget{
			Scope: budget.Skill, ScopeID: "look", Tokens: budget.Account{Allocated: 100}, CreatedBy: "ada", Start: time.Now().Add(-time.Hour), End: end,
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(skill, want string) {
		t.Helper()
		if halts, err := a.Reason.Switches(t.Context(), e.Workspace); err != nil || halts.Skill(skill) != want {
			t.Errorf("%s: %v, %v", skill, halts, err)
		}
	}
	expect("look", "")
	_, settle, err := a.Reason.Meter.Reserve(t.Context(), reason.Cost{
		Workspace: e.Workspace, Agent: activity.Operator, Surface: trace.Operate, Execution: core.IDs(), Trace: core.Traces.New(trace.Operate),
		Model: a.Reason.ModelID, Output: 400,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := settle(t.Context(), &llm.Response{Model: a.Reason.ModelID, Usage: llm.Usage{CompletionTokens: 120}}, []string{"look"}); err != nil {
		t.Fatal(err)
	}
	expect("look", "its budget is used up until 2999-01-02 03:04 UTC")
	expect("say", "")
}
