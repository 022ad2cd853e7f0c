package wire_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// TestWhatAVisitorsMessageCosts counts the statements and the round trips before the model is asked, with
// those that store the beginning of the run meanwhile. A budget costs its reservation, and is kept.
func TestWhatAVisitorsMessageCosts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		var asked []db.Stats
		model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, e.DB.Stats())
			_, _ = io.Copy(io.Discard, r.Body) // the caller may have left
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"id":"1","model":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}],`+
				`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`+"\n\ndata: [DONE]\n\n")
		}))
		t.Cleanup(model.Close)
		a, _ := agentOf(t, e, model.URL, "x", io.Discard)
		h := &chat.Handler{
			Runner: &turn.Runner{Parts: a.Parts, Kinds: []turn.Kind{chat.Kind()}},
			Auth: auth.New(func(context.Context, string) (auth.Principal, error) {
				return auth.Principal{Workspace: e.Workspace, Kind: auth.Key, ID: "1", Role: auth.Member, Scopes: []auth.Scope{"*"}}, nil
			}),
		}
		say := func() (answer string, cost db.Stats) {
			t.Helper()
			before, times := e.DB.Stats(), len(asked)
			r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"user":"ann","messages":[{"role":"user","content":"Hi."}]}`))
			r.Header.Set("Authorization", "Bearer token")
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Fatalf("it answers %d %s", w.Code, w.Body)
			}
			if len(asked) == times {
				return w.Body.String(), db.Stats{}
			}
			return w.Body.String(), asked[len(asked)-1].Sub(before)
		}
		// least is that of several messages: a turn that takes longer looks at its lane meanwhile.
		least := func() (cost db.Stats) {
			for i := range 4 {
				if answer, got := say(); !strings.Contains(answer, "Hello.") {
					t.Fatalf("it answers %s", answer)
				} else if i == 0 || got.RoundTrips < cost.RoundTrips || got.Statements < cost.Statements {
					cost = got
				}
			}
			return cost
		}
		say() // opens the conversation, and reads the prices and the known secrets
		got := least()
		if got.RoundTrips > 5 || got.Statements > 22 {
			t.Errorf("a message costs %+v", got)
		}
		made := func(scope budget.Scope, id string, tokens int64) {
			t.Helper()
			now := time.Now()
			if err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := a.Budgets.Create(ctx, tx, budget.Budget{
					Scope: scope, ScopeID: id, Tokens: budget.Account{Allocated: tokens}, CreatedBy: "ada",
					Start: now.Add(-time.Hour), End: now.Add(time.Hour),
				})
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		made(budget.Agent, persona.VisitorChat, 1_000_000)
		got = least()
		if got.RoundTrips > 7 || got.Statements > 26 {
			t.Errorf("with a budget a message costs %+v", got)
		}
	})
}

// TestAVisitorIsRefusedWhereABudgetIsSpent: the message is not taken where a budget of the workspace or of the agent
// is used up, or has too little left for an answer, and taken where another agent's is.
func TestAVisitorIsRefusedWhereABudgetIsSpent(t *testing.T) {
	for _, of := range []struct {
		budget.Budget
		used int
	}{
		{budget.Budget{Scope: budget.Global}, 100}, {budget.Budget{Scope: budget.Agent, ScopeID: persona.VisitorChat}, 100},
		{budget.Budget{Scope: budget.Global}, 0}, {budget.Budget{Scope: budget.Agent, ScopeID: persona.VisitorChat}, 1},
	} {
		dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
			a, _ := agentOf(t, e, "http://127.0.0.1:9/v1", "x", io.Discard)
			h := &chat.Handler{
				Runner: &turn.Runner{Parts: a.Parts, Kinds: []turn.Kind{chat.Kind()}},
				Auth: auth.New(func(context.Context, string) (auth.Principal, error) {
					return auth.Principal{Workspace: e.Workspace, Kind: auth.Key, ID: "1", Role: auth.Member, Scopes: []auth.Scope{"*"}}, nil
				}),
			}
			say := func(path, body string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
				r.Header.Set("Authorization", "Bearer token")
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			spend := func(b budget.Budget, used int) {
				t.Helper()
				b.Tokens, b.CreatedBy, b.Start, b.End = budget.Account{Allocated: 100}, "ada", time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
				if err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
					if _, err := a.Budgets.Create(ctx, tx, b); err != nil {
						return err
					}
					cover := budget.Cover{Task: uuid.NewString(), Agent: b.ScopeID}
					l, err := a.Budgets.Lock(ctx, tx, []budget.Cover{cover})
					if err == nil {
						_, err = a.Budgets.Report(ctx, tx, l, budget.Report{Usage: llm.Usage{PromptTokens: used}, Cover: cover, Attempt: 1, Model: "x"})
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			spend(budget.Budget{Scope: budget.Agent, ScopeID: activity.Operator}, 100)
			if got := say("/v1/responses", `{"input":"Hi.","user":"ann"}`); got.Code != http.StatusOK {
				t.Errorf("with the budget of another agent: %d %s", got.Code, got.Body)
			}
			spend(of.Budget, of.used)
			for path, body := range map[string]string{
				"/api/v1/chat/messages": `{"message":"Hi.","user":"ann","stream":true}`, "/v1/responses": `{"input":"Hi.","user":"bob"}`,
				"/v1/chat/completions": `{"messages":[{"role":"user","content":"Hi."}]}`,
			} {
				got := say(path, body)
				if got.Code != http.StatusTooManyRequests || !strings.Contains(got.Body.String(), "insufficient_quota") ||
					got.Header().Get("Retry-After") == "" {
					t.Errorf("%s: %d %s", path, got.Code, got.Body)
				}
			}
		})
	}
}

// TestAHistoryThatABudgetCannotPay is refused before anything is stored: what the caller says was spoken before is
// told to the model too.
func TestAHistoryThatABudgetCannotPay(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		a, _ := agentOf(t, e, "http://127.0.0.1:9/v1", "x", io.Discard)
		if err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := a.Budgets.Create(ctx, tx, budget.Budget{
				Scope: budget.Global, Tokens: budget.Account{Allocated: 5_000}, CreatedBy: "ada",
				Start: time.Now().Add(-time.Hour), End: time.Now().Add(time.Hour),
			})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		r := &turn.Runner{Parts: a.Parts, Kinds: []turn.Kind{chat.Kind()}}
		_, err := r.Talk(t.Context(), e.Workspace, turn.Turn{
			Surface: trace.Chat, Lane: "session:chat:ann", Address: "ann", Message: "Hi.", By: "ann",
			Before: slices.Repeat([]turn.Said{{Role: thread.User, Body: strings.Repeat("word ", 1_000)}}, 10),
		})
		if !errors.Is(err, turn.ErrBudget) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// TestWhatTheModelIsAskedWithCounts before a message is taken: the persona's words and what the conversation has, beside
// the message. Where a budget is capped in money, the model's price counts.
func TestWhatTheModelIsAskedWithCounts(t *testing.T) {
	long := strings.Repeat("word ", 3_000) // 3,750 tokens
	for name, test := range map[string]struct {
		tokens, microUSD int64
		prepare          func(context.Context, *db.Tx, *wire.Surfaces, string) error
		taken            bool
	}{
		"a long persona": {tokens: 3_000, prepare: func(ctx context.Context, tx *db.Tx, a *wire.Surfaces, _ string) error {
			_, err := a.Personas.Put(ctx, tx, persona.Persona{Name: persona.VisitorChat, Instructions: long, CreatedBy: "user:ada"})
			return err
		}},
		"a long conversation": {tokens: 3_000, prepare: func(ctx context.Context, tx *db.Tx, a *wire.Surfaces, thread string) error {
			return said(ctx, tx, a, thread, long)
		}},
		"a long conversation in money": {tokens: 1_000_000, microUSD: 40_000, prepare: func(ctx context.Context, tx *db.Tx, a *wire.Surfaces, thread string) error {
			return said(ctx, tx, a, thread, long)
		}},
		"a short conversation in money": {tokens: 1_000_000, microUSD: 60_000, taken: true},
		"a short conversation":          {tokens: 3_000, taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
				a, _ := agentOf(t, e, "http://127.0.0.1:9/v1", "claude-opus-4", io.Discard) // 15 and 75 dollars a million tokens
				in, err := a.Threads.Open(t.Context(), e.Workspace, thread.Thread{Channel: chat.Channel, Address: "ann"})
				if err != nil {
					t.Fatal(err)
				}
				if err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
					_, err := a.Budgets.Create(ctx, tx, budget.Budget{
						Scope: budget.Global, Tokens: budget.Account{Allocated: test.tokens}, MicroUSD: budget.Account{Allocated: test.microUSD},
						Capped: test.microUSD > 0, CreatedBy: "ada", Start: time.Now().Add(-time.Hour), End: time.Now().Add(time.Hour),
					})
					if err == nil && test.prepare != nil {
						err = test.prepare(ctx, tx, a, in.ID)
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
				before, err := a.Threads.Lately(t.Context(), e.Workspace, in.ID, 10)
				if err != nil {
					t.Fatal(err)
				}
				r := &turn.Runner{Parts: a.Parts, Kinds: []turn.Kind{chat.Kind()}}
				_, err = r.Talk(t.Context(), e.Workspace, turn.Turn{
					Surface: trace.Chat, Lane: "session:chat:ann", Address: "ann", Message: "Hi.", By: "ann",
				})
				if errors.Is(err, turn.ErrBudget) == test.taken || test.taken && err != nil {
					t.Errorf("it ends with %v", err)
				}
				after, err := a.Threads.Lately(t.Context(), e.Workspace, in.ID, 10)
				if err != nil || (len(after) > len(before)) != test.taken {
					t.Errorf("%d messages, after %d: %v", len(after), len(before), err)
				}
			})
		})
	}
}

// TestAModelWithoutAPriceIsNoModelForACapInMoney: the message is refused before it is taken. Visitors get a plain sentence,
// those who run the site what is missing. A persona with a model that has a price is talked with.
func TestAModelWithoutAPriceIsNoModelForACapInMoney(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		a, _ := agentOf(t, e, "http://127.0.0.1:9/v1", "homegrown", io.Discard)
		if err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := a.Budgets.Create(ctx, tx, budget.Budget{
				Scope: budget.Global, Tokens: budget.Account{Allocated: 100_000_000}, MicroUSD: budget.Account{Allocated: 1_000_000_000},
				Capped: true, CreatedBy: "ada", Start: time.Now().Add(-time.Hour), End: time.Now().Add(time.Hour),
			})
			if err == nil {
				_, err = a.Personas.Put(ctx, tx, persona.Persona{
					Name: "priced", Model: "claude-opus-4", Surfaces: []persona.Surface{persona.Chat}, CreatedBy: "user:ada",
				})
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		say := func(as auth.Principal, path, body string) *httptest.ResponseRecorder {
			as.Workspace, as.ID = e.Workspace, "1"
			h := &chat.Handler{
				Runner: &turn.Runner{Parts: a.Parts, Kinds: []turn.Kind{chat.Kind()}},
				Auth:   auth.New(func(context.Context, string) (auth.Principal, error) { return as, nil }),
			}
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer token")
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Origin", "https://shop.example")
			r.Header.Set("X-Session-Id", "ann")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		program := auth.Principal{Kind: auth.Key, Role: auth.Member, Scopes: []auth.Scope{"*"}}
		site := auth.Principal{Kind: auth.Site, Origins: []string{"https://shop.example"}}
		for path, body := range map[string]string{
			"/api/v1/chat/messages": `{"message":"Hi.","stream":true}`, "/v1/responses": `{"input":"Hi.","stream":true}`,
			"/v1/chat/completions": `{"messages":[{"role":"user","content":"Hi."}]}`,
		} {
			for _, as := range []auth.Principal{program, site} {
				got := say(as, path, body)
				text := got.Body.String()
				if got.Code != http.StatusTooManyRequests || !strings.Contains(text, "insufficient_quota") ||
					strings.HasPrefix(path, "/v1/") != strings.Contains(text, `{"error":{"message":`) {
					t.Errorf("%s, %s: %d %s", path, as.Kind, got.Code, text)
				}
				if told := strings.Contains(text, "homegrown") && strings.Contains(text, "model_prices"); told != (as.Kind == auth.Key) {
					t.Errorf("%s, %s: %s", path, as.Kind, text)
				}
			}
		}
		if all, _, err := a.Threads.List(t.Context(), e.Workspace, thread.Filter{Limit: 10}); err != nil || len(all) != 0 {
			t.Errorf("%d conversations, %v", len(all), err)
		}
		if got := say(program, "/v1/chat/completions", `{"model":"priced","messages":[{"role":"user","content":"Hi."}]}`); got.Code != http.StatusOK {
			t.Errorf("a model with a price: %d %s", got.Code, got.Body)
		}
	})
}

// said puts a message of a visitor into a conversation.
func said(ctx context.Context, tx *db.Tx, a *wire.Surfaces, in, body string) error {
	_, _, err := a.Threads.Append(ctx, tx, in, thread.Spoken{Role: thread.User, Body: body, Key: "1"})
	return err
}
