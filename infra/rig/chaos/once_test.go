package chaos_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// R8: the process is killed at any instant of a request with an Idempotency-Key, and the client repeats the
// request until it is answered. The request took effect once.
func TestAKeyedRequestTakesEffectOnce(t *testing.T) {
	kills := promise.Figure(20, 500)
	seed := promise.Seed(t)
	var deck []int
	s := newStorm(t, dbtest.OnPostgres, rand.New(rand.NewPCG(seed, 11)), &deck) //nolint:gosec // a test that can be repeated
	proof := promise.Of(t, "R8", fmt.Sprintf("%d requests with a key, killed at random instants and repeated, on postgres", kills),
		"1 effect each")
	kinds := []struct{ path, body, count string }{
		{"/agent-tasks", `{"title":%q}`, `SELECT count(*) FROM agent_tasks WHERE title = $1`},
		{"/objectives", `{"title":%q}`, `SELECT count(*) FROM agent_objectives WHERE title = $1`},
		{"/executions", `{"agent":%q}`, `SELECT count(*) FROM executions WHERE agent = $1`},
		{"/projects", `{"name":%q}`, `SELECT count(*) FROM projects WHERE name = $1`},
		{"/threads/" + s.threads[0] + "/messages", `{"body":%q}`, `SELECT count(*) FROM messages WHERE body = $1`},
	}
	before, cut := 0, 0
	for n := range kills {
		kind, name := kinds[n%len(kinds)], fmt.Sprintf("once-%d", n)
		event := toURL("POST", kind.path, name, fmt.Sprintf(kind.body, name))
		inv, err := s.operate.Begin(t.Context(), event, rig.WithTimeout(ample))
		if err != nil {
			t.Fatal(err)
		}
		<-inv.Started()
		instant := time.NewTimer(time.Duration(s.random.Int64N(int64(15 * time.Millisecond))))
		<-instant.C
		_ = inv.Kill() // does nothing if it has responded
		if res, err := inv.Wait(t.Context()); err != nil {
			t.Fatal(err)
		} else if res.Killed {
			cut++
		}
		s.unanswered(t)
		stored := s.count(t, kind.count, name)
		before += stored
		status := http.StatusConflict
		for range 3 { // the request that was cut off counts as running for a while
			if status = s.answerOf(t, event); status != http.StatusConflict {
				break
			}
			s.advance(t, time.Minute)
		}
		if rows := s.count(t, kind.count, name); status/100 != 2 || rows != 1 {
			t.Errorf("%s %s, sent again: %d, %d rows, there were %d", kind.path, name, status, rows, stored)
		}
	}
	proof.Tell("%d cut off, %d of all stored before they were repeated; 1 effect each", cut, before)
	if cut == 0 {
		t.Error("no request was cut off")
	}
}

// answerOf sends a request to operate and returns the status of its response.
func (s *storm) answerOf(t *testing.T, event []byte) int {
	t.Helper()
	res, err := s.operate.Invoke(t.Context(), event, rig.WithTimeout(ample))
	if err != nil || res.FunctionError != nil {
		t.Fatalf("%v, %+v", err, res)
	}
	prelude, _, _ := bytes.Cut(res.Payload, make([]byte, 8))
	var head struct{ StatusCode int }
	if err := json.Unmarshal(prelude, &head); err != nil {
		t.Fatalf("%v in %s", err, res.Payload)
	}
	return head.StatusCode
}
