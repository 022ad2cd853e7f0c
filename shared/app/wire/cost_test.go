package wire_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/app/door"
	"github.com/lanekeeper/lanekeeper/shared/app/web"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// served is the API as functions serve it, for an owner without a rate limit.
type served struct {
	dbtest.Env
	http.Handler
	working *sync.WaitGroup // work that continues after responses
}

func serve(t *testing.T, e dbtest.Env) *served {
	t.Helper()
	a, _ := newAgent(t, e)
	in, err := door.New(a, "", true)
	if err != nil {
		t.Fatal(err)
	}
	in.Limits = nil
	in.Auth = auth.New(func(context.Context, string) (auth.Principal, error) {
		return auth.Principal{Workspace: e.Workspace, Kind: auth.Local, ID: "ada", Role: auth.Owner}, nil
	})
	s := &served{Env: e, working: &sync.WaitGroup{}}
	t.Cleanup(s.working.Wait)
	background := func(fn func(context.Context)) { s.working.Go(func() { fn(context.Background()) }) }
	s.Handler, err = web.NewAPI(a, in, web.Process{Background: background})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// cost is what a request costs: its statements, of which each transaction has one more on Postgres, by
// which it enters the workspace.
type cost struct{ statements, transactions, roundTrips int64 }

// post sends a request. It returns the cost of the request, including the work that continued after
// the response.
func (s *served) post(t *testing.T, path, body string, into any) cost {
	t.Helper()
	before, begun := s.DB.Stats(), s.DB.Transactions()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer token")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	s.working.Wait()
	if w.Code >= 300 {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Fatal(err)
	}
	used := s.DB.Stats().Sub(before)
	return cost{used.Statements, s.DB.Transactions() - begun, used.RoundTrips}
}

// TestWhatAnAnswerCosts counts the statements of turns in which the agent only answers: the first
// turn of a thread and later turns.
func TestWhatAnAnswerCosts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		s := serve(t, e)
		var first, then struct{ Status, ThreadID string }
		s.post(t, "/api/v1/operate", `{"message":"Hello."}`, &first) // reads the prices
		if got, want := s.post(t, "/api/v1/operate", `{"message":"Hello."}`, &first), (cost{37, 9, 12}); got != want {
			t.Errorf("the first answer of a thread costs %+v, want %+v", got, want)
		}
		if got, want := s.post(t, "/api/v1/operate", `{"message":"Again.","threadId":"`+first.ThreadID+`"}`, &then), (cost{38, 9, 12}); got != want {
			t.Errorf("the next costs %+v, want %+v", got, want)
		}
		if first.Status != "completed" || then.Status != "completed" || then.ThreadID != first.ThreadID {
			t.Errorf("%+v, %+v", first, then)
		}
	})
}

// TestWhatASendCosts counts the statements of a message and its delivery.
func TestWhatASendCosts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		s := serve(t, e)
		var execution, other, thread struct{ ID string }
		s.post(t, "/api/v1/executions", `{"agent":"ada"}`, &execution)
		s.post(t, "/api/v1/executions", `{"agent":"ada"}`, &other)
		s.post(t, "/api/v1/threads", `{"channel":"log","address":"someone"}`, &thread)
		send := func(by string) (used cost, queued bool) {
			var sent struct{ Queued bool }
			used = s.post(t, "/api/v1/threads/"+thread.ID+"/send", `{"executionId":"`+by+`","body":"Hello."}`, &sent)
			return used, sent.Queued
		}
		for range 2 {
			if got, queued := send(execution.ID); got != (cost{19, 6, 7}) || queued {
				t.Errorf("it costs %+v, queued: %v", got, queued)
			}
		}
		// A queued message starts no delivery.
		if got, queued := send(other.ID); got != (cost{12, 2, 4}) || !queued {
			t.Errorf("one that is queued costs %+v, queued: %v", got, queued)
		}
	})
}
