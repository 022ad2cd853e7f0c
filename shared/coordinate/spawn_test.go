package coordinate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// gateway is a server that starts agents, with the keys that it has seen.
type gateway struct {
	*httptest.Server
	mu     sync.Mutex
	keys   []string
	bodies []map[string]any
	answer func(w http.ResponseWriter)
}

func newGateway(t *testing.T) *gateway {
	g := &gateway{answer: func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"session":{"sessionKey":"s-1"}}`) }}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		g.mu.Lock()
		g.keys, g.bodies = append(g.keys, r.Method+" "+r.URL.Path+" "+r.Header.Get("Idempotency-Key")+" "+r.Header.Get("Authorization")), append(g.bodies, body)
		answer := g.answer
		g.mu.Unlock()
		answer(w)
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *gateway) answers(fn func(http.ResponseWriter)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer = fn
}

func (g *gateway) calls() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.keys)
}

// sender returns what sends the rows that start agents.
func (w world) sender(t *testing.T, g *gateway, allowed ...string) *outbox.Sender {
	t.Helper()
	client, err := outbound.New(outbound.Options{AllowPrivateHosts: allowed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return &outbox.Sender{Store: w.c.Outbox, Holder: "test", Log: slog.New(slog.DiscardHandler), Handlers: map[string]outbox.Handler{
		coordinate.SpawnTopic: &coordinate.Starter{
			Coordinator: w.c,
			Spawners:    map[agent.Spawner]coordinate.Spawner{agent.SpawnHTTP: &coordinate.Gateway{Client: client, URL: g.URL, Token: "secret"}},
			Input:       func(_ context.Context, _ db.Workspace, t task.Task) (json.RawMessage, error) { return t.Input, nil },
		},
	}}
}

func (w world) drain(t testing.TB, s *outbox.Sender) {
	t.Helper()
	if _, err := s.Drain(t.Context(), w.Workspace, 100); err != nil {
		t.Fatal(err)
	}
}

// TestAnAgentIsStartedForItsTask by the gateway, once per attempt.
func TestAnAgentIsStartedForItsTask(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		g := newGateway(t)
		a := w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnHTTP, Model: "m"})[0]
		d := draft("a title that is much longer than thirty characters")
		d.Description, d.Input = "what to do", json.RawMessage(`{"n":1}`)
		id := w.create(t, d)[0]
		if r := w.cycle(t); r.Assigned != 1 {
			t.Fatalf("%+v", r)
		}
		s := w.sender(t, g, "127.0.0.1")
		w.drain(t, s)
		if is := w.get(t, id); is.Status != task.Running || is.Session != "s-1" || is.Agent != a || is.StartedAt == nil {
			t.Errorf("%+v", is)
		}
		if len(g.keys) != 1 || g.keys[0] != "POST /api/agents/spawn task:"+id+":1 Bearer secret" {
			t.Fatalf("%q", g.keys)
		}
		b := g.bodies[0]
		c, _ := b["context"].(map[string]any)
		input, _ := c["inputContext"].(map[string]any)
		if b["workspaceId"] != string(w.Workspace) || b["agentId"] != a || b["taskId"] != id || b["model"] != "m" || input["n"] != 1.0 ||
			b["label"] != "task:"+id+":a title that is much longer th" || c["taskTitle"] != d.Title || c["taskDescription"] != "what to do" {
			t.Errorf("%v", b)
		}
		if _, has := c["checkpointData"]; !has {
			t.Errorf("%v", c)
		}
		w.drain(t, s)
		if w.cycle(t); g.calls() != 1 {
			t.Errorf("started %d times", g.calls())
		}
		w.sound(t)
	})
}

// TestASessionMayHaveAnyName: a gateway that answers with characters that no database stores has started
// the agent all the same.
func TestASessionMayHaveAnyName(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		g := newGateway(t)
		g.answers(func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"session":{"sessionKey":"a\u0000b`+strings.Repeat("ü", 300)+`"}}`)
		})
		w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnHTTP})
		id := w.create(t, draft("started"))[0]
		w.cycle(t)
		w.drain(t, w.sender(t, g, "127.0.0.1"))
		if is := w.get(t, id); g.calls() != 1 || is.Status != task.Running || !strings.HasPrefix(is.Session, "a") {
			t.Errorf("%d calls, %+v", g.calls(), is)
		}
		w.sound(t)
	})
}

// TestAnOldSessionClaimsNoStart: the session that the stored start begins does the task. An agent that
// is started for its tasks may still claim what nobody has assigned.
func TestAnOldSessionClaimsNoStart(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		g := newGateway(t)
		a := w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnHTTP, MaxConcurrentTasks: 2})[0]
		id := w.create(t, draft("started"))[0]
		w.cycle(t)
		if is, ok, err := w.c.Claim(t.Context(), w.Workspace, a, ""); ok || err != nil {
			t.Errorf("claimed %+v, %v", is, err)
		}
		w.drain(t, w.sender(t, g, "127.0.0.1"))
		if is := w.get(t, id); is.Status != task.Running || is.Session != "s-1" || g.calls() != 1 {
			t.Errorf("%d starts, %+v", g.calls(), is)
		}
		other := w.create(t, draft("claimed"))[0]
		if is := w.claim(t, a); is.ID != other || is.Status != task.Running {
			t.Errorf("claimed %+v", is)
		}
		w.sound(t)
	})
}

// TestAStartThatFails is tried three times and recovered like a lost task.
func TestAStartThatFails(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		g := newGateway(t)
		g.answers(func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) })
		w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnHTTP})
		id := w.create(t, draft("fails"))[0]
		w.cycle(t)
		s := w.sender(t, g, "127.0.0.1")
		for range 4 {
			w.drain(t, s)
			w.Skew.Advance(15 * time.Second)
		}
		if is := w.get(t, id); g.calls() != 3 || is.Status != task.Aborted || is.Retries != 1 || is.LastError != "spawn_failed: the gateway answered 502" {
			t.Errorf("%d calls, %+v", g.calls(), is)
		}
		w.sound(t)
	})
}

// TestAStartWaitsForTheKey: while the key service is away, the input of a task can't be read. That is no
// failure of the attempt. An error of its configuration is.
func TestAStartWaitsForTheKey(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		g := newGateway(t)
		s := w.sender(t, g, "127.0.0.1")
		var failure error
		s.Handlers[coordinate.SpawnTopic].(*coordinate.Starter).Input = func(context.Context, db.Workspace, task.Task) (json.RawMessage, error) {
			return json.RawMessage(`{"password":"hunter2"}`), failure
		}
		w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnHTTP})
		id := w.create(t, draft("sealed"))[0]
		w.cycle(t)
		failure = fmt.Errorf("open it: %w", secret.ErrUnavailable)
		for range 20 { // longer than an assignment may wait for its agent
			w.drain(t, s)
			w.Skew.Advance(20 * time.Second)
			w.cycle(t)
		}
		if is := w.get(t, id); g.calls() != 0 || is.Status != task.Assigned || is.Retries != 0 || is.LastError != "" {
			t.Errorf("while the key is away: %d calls, %+v", g.calls(), is)
		}
		failure = nil
		w.drain(t, s)
		if is := w.get(t, id); g.calls() != 1 || is.Status != task.Running {
			t.Errorf("when it is back: %d calls, %+v", g.calls(), is)
		}
		w.register(t, agent.Agent{Name: "b", Spawner: agent.SpawnHTTP})
		for _, failure = range []error{&secret.NotFoundError{Name: "gone"}, secret.ErrConfig, secret.ErrDamaged, secret.ErrNoKey} {
			id := w.create(t, draft("broken"))[0]
			w.cycle(t)
			w.drain(t, s)
			if is := w.get(t, id); g.calls() != 1 || is.Status != task.Aborted || is.LastError != "spawn_failed: read the input: "+failure.Error() {
				t.Errorf("%v: %d calls, %+v", failure, g.calls(), is)
			}
		}
		w.sound(t)
	})
}

// TestTheCircuitOpensAfterFive failures in a row: what waits for its start goes back without a retry.
// Then one start tries, and all go on.
func TestTheCircuitOpensAfterFive(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		g := newGateway(t)
		g.answers(func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) })
		w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnHTTP, MaxConcurrentTasks: 3})
		of := w.create(t, draft("one"), draft("two"), draft("three"))
		w.cycle(t)
		s := w.sender(t, g, "127.0.0.1")
		for range 4 {
			w.drain(t, s)
			w.Skew.Advance(10 * time.Second)
		}
		for _, id := range of {
			if is := w.get(t, id); g.calls() < 5 || g.calls() > 7 || is.Status != task.Pending || is.Retries != 0 {
				t.Errorf("%d calls, %+v", g.calls(), is)
			}
		}
		w.Skew.Advance(time.Minute)
		g.answers(func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"session":{"sessionKey":"s-2"}}`) })
		if r := w.cycle(t); r.Assigned != 1 {
			t.Errorf("half open: %+v", r)
		}
		w.drain(t, s)
		if r := w.cycle(t); r.Assigned != 2 {
			t.Errorf("closed: %+v", r)
		}
		w.sound(t)
	})
}

// TestAnOpenCircuitKeepsTasksWaiting, and why says so.
func TestAnOpenCircuitKeepsTasksWaiting(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnHTTP})
		w.exec(t, w.q.Open, "http ")
		id := w.create(t, draft("waits"))[0]
		if r := w.cycle(t); r.Assigned != 0 {
			t.Errorf("%+v", r)
		}
		_, reasons, err := w.c.Why(t.Context(), w.Workspace, id)
		if err != nil || len(reasons) != 2 || !strings.Contains(reasons[1].Message, "failed 5 times in a row") || reasons[1].Until == nil {
			t.Errorf("%+v, %v", reasons, err)
		}
		w.Skew.Advance(2 * time.Minute)
		w.create(t, draft("second"))
		w.register(t, agent.Agent{Name: "b", Spawner: agent.SpawnHTTP})
		if r := w.cycle(t); r.Assigned != 1 {
			t.Errorf("half open: %+v", r)
		}
	})
}

// TestNobodyIsStartedWhileStopped: a kill switch comes between an assignment and its start.
func TestNobodyIsStartedWhileStopped(t *testing.T) {
	for _, c := range []struct{ scope, target string }{{"workspace", ""}, {"agent", "a"}} {
		t.Run(c.scope, func(t *testing.T) {
			onEach(t, func(t *testing.T, w world) {
				g := newGateway(t)
				w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnHTTP})
				id := w.create(t, draft("waits"))[0]
				if r := w.cycle(t); r.Assigned != 1 {
					t.Fatalf("%+v", r)
				}
				w.exec(t, w.q.Stop, ids(), c.scope, c.target)
				w.drain(t, w.sender(t, g, "127.0.0.1"))
				if is := w.get(t, id); g.calls() != 0 || is.Status != task.Pending || is.Retries != 0 {
					t.Errorf("after %d starts it is %+v", g.calls(), is)
				}
				if r := w.cycle(t); r.Assigned != 0 {
					t.Errorf("while stopped: %+v", r)
				}
				w.sound(t)
			})
		})
	}
}

// TestAKillSwitchEndsAttempts: an agent that works is told to stop. Its task waits, without a retry spent, and begins again when
// the switch is released, or with an agent that is not stopped. The built-in worker stops by itself.
func TestAKillSwitchEndsAttempts(t *testing.T) {
	for _, c := range []struct {
		scope, target string
		assigned      int // while it is on
	}{{"workspace", "", 0}, {"agent", "a", 1}} {
		t.Run(c.scope, func(t *testing.T) {
			onEach(t, func(t *testing.T, w world) {
				a := w.register(t, agent.Agent{Name: "a"})[0]
				id := w.create(t, draft("external"))[0]
				if got, ok, err := w.c.Claim(t.Context(), w.Workspace, a, ""); err != nil || !ok || got.ID != id {
					t.Fatal(got.ID, ok, err)
				}
				w.register(t, agent.Agent{Name: "b"})
				w.exec(t, w.q.Stop, ids(), c.scope, c.target)
				if r := w.cycle(t); r.Recovered != 1 || r.Assigned != 0 {
					t.Errorf("%+v", r)
				}
				orders, err := w.agents.Beat(t.Context(), w.Workspace, agent.Beat{Agent: a, Attempt: 1, Vitals: agent.Vitals{Task: id}})
				if err != nil || len(orders) != 1 || orders[0].Order != agent.OrderCancel {
					t.Errorf("orders %+v, %v", orders, err)
				}
				if r := w.cycle(t); r.Requeued != 1 || r.Assigned != c.assigned || r.Recovered != 0 {
					t.Errorf("then %+v", r)
				}
				if is := w.get(t, id); is.Retries != 0 || is.Cancelled || (is.Status == task.Assigned) != (c.assigned > 0) || is.Agent == a {
					t.Errorf("it is %+v", is)
				}
				w.sound(t)
			})
		})
	}
}

// TestAKillSwitchLeavesTheBuiltinWorker to stop by itself: its attempt goes on when the switch is released.
func TestAKillSwitchLeavesTheBuiltinWorker(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnBuiltin})
		id := w.create(t, draft("of the built-in worker"))[0]
		if r := w.cycle(t); r.Assigned != 1 {
			t.Fatalf("%+v", r)
		}
		w.exec(t, w.q.Begin, id)
		w.exec(t, w.q.Stop, ids(), "workspace", "")
		w.cycle(t)
		if is := w.get(t, id); is.Status != task.Running || is.Attempt != 1 {
			t.Errorf("it is %+v", is)
		}
	})
}

// TestALateAnswerChangesNothing has the task taken away while the gateway thinks.
func TestALateAnswerChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		g := newGateway(t)
		w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnHTTP})
		id := w.create(t, draft("taken away"))[0]
		w.cycle(t)
		g.answers(func(out http.ResponseWriter) {
			err := w.DB.Tx(context.Background(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				to := task.Paused
				_, err := w.tasks.Patch(ctx, tx, id, "user:ada", func(task.Task) error { return nil }, task.Patch{Status: &to})
				return err
			})
			if err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(out, `{"session":{"sessionKey":"late"}}`)
		})
		w.drain(t, w.sender(t, g, "127.0.0.1"))
		if is := w.get(t, id); is.Status != task.Paused || is.Session != "" {
			t.Errorf("%+v", is)
		}
		w.sound(t)
	})
}

// TestAPrivateGatewayIsRefused unless it is allowed. No retry helps.
func TestAPrivateGatewayIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		g := newGateway(t)
		w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnHTTP})
		id := w.create(t, draft("inside"))[0]
		w.cycle(t)
		w.drain(t, w.sender(t, g))
		if is := w.get(t, id); g.calls() != 0 || is.Status != task.Aborted || !strings.HasPrefix(is.LastError, "spawn_failed: ") {
			t.Errorf("%d calls, %+v", g.calls(), is)
		}
		w.sound(t)
	})
}

// TestNobodyIsStartedWithoutBudget spends the budget between the assignment and the start.
func TestNobodyIsStartedWithoutBudget(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.c.Budgets = budgets(t, w.DB)
		w.allocate(t, 1000)
		g := newGateway(t)
		w.register(t, agent.Agent{Name: "a", Spawner: agent.SpawnHTTP})
		id := w.create(t, costs("waits", 100, 5))[0]
		w.cycle(t)
		w.spend(t, "another", 5000)
		w.drain(t, w.sender(t, g, "127.0.0.1"))
		if is := w.get(t, id); g.calls() != 0 || is.Status != task.Pending || is.Retries != 0 {
			t.Errorf("%d calls, %+v", g.calls(), is)
		}
		w.sound(t)
	})
}
