package network_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// work is a kind of work that the network disturbs.
type work struct {
	name string
	// seed creates the work.
	seed func(t *testing.T, w *world)
	// begin is the invocation that is disturbed. After a failure its caller repeats it, like Lambda
	// or a client.
	begin func(ctx context.Context, w *world) error
	// effects must have happened exactly once.
	effects []string
	// stands checks everything else that must be true at the end.
	stands func(t *testing.T, w *world)
}

var works = []*work{beating, talking, sending, tasking}

// beating is a beat with an automation, and with an objective whose step calls a skill.
var beating = &work{
	name: "a beat",
	seed: func(t *testing.T, w *world) {
		w.direct.must(t, w.ws, "POST", "/automations", fmt.Sprintf(
			`{"name":"automation","skill":"note","input":{"key":%q},"schedule":{"event":"objective.created"}}`, w.key("automation")), nil)
		var o struct{ ID string }
		w.direct.must(t, w.ws, "POST", "/objectives", `{"title":"Do it","doneCriterion":"it is done"}`, &o)
		w.direct.must(t, w.ws, "PUT", "/objectives/"+o.ID+"/steps",
			fmt.Sprintf(`{"steps":[{"title":"Do it","skill":"note","inputs":{"key":%q}}]}`, w.key("objective")), nil)
		w.settled(t, "events of transactions that are not settled", `SELECT count(*) FROM events WHERE workspace_id = $1 AND xid >= lk_settled()`, w.ws)
	},
	begin:   func(ctx context.Context, w *world) error { return w.beat(ctx) },
	effects: []string{"automation", "objective"},
	stands: func(t *testing.T, w *world) {
		if got := w.texts(t, `SELECT status || coalesce(' ' || status_reason, '') FROM agent_objectives WHERE workspace_id = $1`, w.ws); len(got) != 1 || got[0] != "completed" {
			t.Errorf("the objective is %v", got)
		}
		w.once(t, "complete_objective", "advance_plan")
	},
}

// beat delivers the current slot. If it ran, the next call delivers the next slot.
func (w *world) beat(ctx context.Context) error {
	_, err := w.Heartbeat.Run(ctx, heartbeat.Tick{Workspace: w.ws, Slot: w.slot})
	if err == nil {
		w.slot = w.slot.Add(time.Minute)
	}
	return err
}

// talking is a turn that calls a skill. Its caller sends an idempotency key.
var talking = &work{
	name: "a turn",
	seed: func(*testing.T, *world) {},
	begin: func(ctx context.Context, w *world) error {
		message := "note " + w.key("turn")
		if w.uncertain && w.looks && w.begun(message) {
			return nil
		}
		return w.turn(ctx, message)
	},
	effects: []string{"turn"},
	stands: func(t *testing.T, w *world) {
		if said := w.texts(t, `SELECT role || ': ' || body FROM messages WHERE workspace_id = $1 ORDER BY seq`, w.ws); len(said) != 2 ||
			said[0] != "user: note "+w.key("turn") || said[1] != "assistant: It is done." {
			t.Errorf("it was said: %q", said)
		}
	},
}

// begun reports whether a turn was stored.
func (w *world) begun(message string) bool {
	n, err := w.number(context.Background(), `SELECT count(*) FROM executions WHERE workspace_id = $1 AND input ->> 'message' = $2`, w.ws, message)
	return err == nil && n > 0
}

// turn sends a person's message, like a client that retries failed requests.
func (w *world) turn(ctx context.Context, message string) error {
	body, err := json.Marshal(map[string]any{"message": message, "stream": w.streams})
	if err != nil {
		return err
	}
	answer := w.ask(ctx, w.ws, http.MethodPost, "/operate", string(body), "Idempotency-Key", "turn")
	var problem struct{ Code string }
	_ = json.Unmarshal(answer.Body.Bytes(), &problem) // stays empty if the response is not a problem
	switch {
	case answer.Code == http.StatusConflict: // it was begun, or it is running
		return nil
	case problem.Code == "uncertain":
		w.uncertain = true
	}
	if answer.Code != http.StatusOK {
		return errors.New(answer.Body.String())
	}
	return nil
}

// sending delivers rows of the outbox: a message, and an approved call after which a turn
// continues.
var sending = &work{
	name: "a delivery",
	seed: func(t *testing.T, w *world) {
		var turn struct{ Approvals []string }
		w.direct.must(t, w.ws, "POST", "/operate", fmt.Sprintf(`{"message":"pay %s"}`, w.key("call")), &turn)
		if len(turn.Approvals) != 1 {
			t.Fatalf("the turn waits for %v", turn.Approvals)
		}
		w.direct.must(t, w.ws, "POST", "/approvals/"+turn.Approvals[0]+"/approve", `{}`, nil)
		w.direct.must(t, w.ws, "POST", "/secrets", `{"name":"channel.http","value":"a-text-that-signs-what-is-said"}`, nil)
		var thread, speaker struct{ ID string }
		w.direct.must(t, w.ws, "POST", "/threads", `{"channel":"http","address":"`+w.target+`/said"}`, &thread)
		w.direct.must(t, w.ws, "POST", "/executions", `{"agent":"speaker"}`, &speaker)
		w.direct.must(t, w.ws, "POST", "/threads/"+thread.ID+"/send",
			fmt.Sprintf(`{"executionId":%q,"body":%q}`, speaker.ID, w.key("message")), nil)
		w.direct.must(t, w.ws, "POST", "/executions/"+speaker.ID+"/complete", `{}`, nil)
	},
	begin:   func(ctx context.Context, w *world) error { w.tend(ctx); return nil },
	effects: []string{"call", "message"},
	stands: func(t *testing.T, w *world) {
		if n := w.count(t, `SELECT count(*) FROM messages WHERE workspace_id = $1 AND role = 'assistant' AND body = 'It is done.'`, w.ws); n < 1 {
			t.Error("the turn has no answer")
		}
		w.once(t, "pay")
	},
}

// tend does the due work, like the schedule.
func (w *world) tend(ctx context.Context) {
	<-w.Tender.All(ctx, w.background)
}

// tasking is a task that a cycle of the coordinator gives to the built-in worker, which calls a skill.
var tasking = &work{
	name: "a task",
	seed: func(t *testing.T, w *world) {
		w.Works(func(context.Context, worker.Tick) error { return nil }) // begin does
		w.Work.BeatEvery = 2 * silence                                   // an invocation is short as well
		check(t, w.direct.DB.Tx(t.Context(), w.ws, func(ctx context.Context, tx *db.Tx) error {
			_, _, err := w.direct.Agents.Register(ctx, tx, agent.Agent{
				ID: w.IDs(), Name: "built in", Spawner: agent.SpawnBuiltin, CoordinatorEnabled: true, CreatedBy: "test",
			})
			return err
		}))
		w.direct.must(t, w.ws, "POST", "/agent-tasks", fmt.Sprintf(
			`{"title":"Do it","inputContext":{"key":%q},"maxRetries":5,"retryBackoffSeconds":1}`, w.key("task")), nil)
	},
	begin: func(ctx context.Context, w *world) error {
		_, err := w.Cycles.Cycle(ctx, w.ws, "test")
		if _, busy := errors.AsType[*lane.BusyError](err); err != nil && !busy {
			return err
		}
		all, err := w.Tasks.List(ctx, w.ws, task.Filter{Limit: 10})
		for _, t := range all {
			if _, failed := w.Work.Run(ctx, worker.Tick{Workspace: w.ws, Task: t.ID}); err == nil {
				err = failed
			}
		}
		return err
	},
	effects: []string{"task"},
	stands: func(t *testing.T, w *world) {
		if got := w.texts(t, `SELECT status FROM agent_tasks WHERE workspace_id = $1`, w.ws); len(got) != 1 || got[0] != "COMPLETED" {
			t.Errorf("the task is %v", got)
		}
		if n := w.count(t, `SELECT count(*) FROM agent_task_logs WHERE workspace_id = $1 AND new_status = 'COMPLETED'`, w.ws); n != 1 {
			t.Errorf("it was completed %d times", n)
		}
	},
}

// once checks that the activity log has one success for each of the skills.
func (w *world) once(t *testing.T, skills ...string) {
	t.Helper()
	for _, name := range skills {
		if n := w.count(t, `SELECT count(*) FROM agent_activity WHERE workspace_id = $1 AND skill_name = $2 AND status = 'success'`, w.ws, name); n != 1 {
			t.Errorf("%s has succeeded %d times", name, n)
		}
	}
}
