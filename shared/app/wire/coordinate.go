package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/coordinate/lambda"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/surface/coordinator"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// coordinate builds the coordinator, which gives tasks to agents. A task that is created or ends starts a
// cycle.
func (s *Surfaces) coordinate() (err error) {
	s.Cycles, err = (&coordinate.Coordinator{
		DB:       s.DB,
		Lanes:    s.Lanes,
		Tasks:    s.Tasks,
		Agents:   s.Agents,
		Budgets:  s.Budgets,
		Outbox:   s.Outbox,
		Traces:   s.Traces,
		IDs:      s.IDs,
		Random:   rand.Float64,
		Log:      s.Log,
		Instance: s.Instance,
	}).Open()
	s.Coordinator.Cycle = s.Cycles.Cycle
	s.Work.Begin, s.Work.Deliverable = s.Cycles.Begin, s.deliverable
	s.Tasks.Converse = func(ctx context.Context, tx lane.Tx, with task.Conversation, key string) (string, error) {
		return s.Threads.Hear(ctx, tx, with.Channel, with.Address, with.Message, key)
	}
	s.Tasks.Stopped = s.Work.Stopped
	s.Tasks.Wake = func(ctx context.Context, b *db.Batch) { coordinate.Kick(ctx, s.Outbox, b) }
	return err
}

// starting are the outbox topics by which cycles run and agents are started.
var starting = []string{coordinate.KickTopic, coordinate.SpawnTopic}

// starters returns the handlers of these topics.
func (s *Surfaces) starters() map[string]outbox.Handler {
	cfg := s.Core.Config
	return map[string]outbox.Handler{
		coordinate.KickTopic: kicks{s.Coordinator},
		coordinate.SpawnTopic: &coordinate.Starter{
			Coordinator: s.Cycles,
			Spawners: map[agent.Spawner]coordinate.Spawner{
				agent.SpawnBuiltin: worker.Spawner{DB: s.DB, Outbox: s.Outbox},
				agent.SpawnHTTP:    &coordinate.Gateway{Client: s.Outbound, URL: cfg.GatewayURL, Token: cfg.GatewayToken},
				agent.SpawnLambda:  lambda.Spawner{Client: &functions{core: s.Core}},
			},
			Input: func(ctx context.Context, ws db.Workspace, t task.Task) (json.RawMessage, error) {
				return s.Tasks.GivenInput(ctx, ws, t, s.Secrets)
			},
		},
	}
}

// Works makes this process start the built-in worker for tasks of built-in agents. invoke starts an
// invocation of the worker and does not wait for it; nil: another process starts the worker. Works is called
// before the surfaces serve, by functions that may invoke the worker and by the local runner.
func (s *Surfaces) Works(invoke func(context.Context, worker.Tick) error) {
	if invoke == nil {
		return
	}
	s.Sender.Handlers[worker.Topic] = &worker.Supervisor{Worker: s.Work, Invoke: invoke}
}

// kicks runs the cycles that tasks ask for.
type kicks struct{ *coordinator.Coordinator }

// kickAgain is how long a kick waits while another cycle runs.
const kickAgain = time.Second

// Handle implements [outbox.Handler]. A busy lane is no failure, but the running cycle may have read its
// tasks already, so the kick is repeated. It is also repeated, uncounted, when this process stops.
func (k kicks) Handle(ctx context.Context, c outbox.Claimed) error {
	_, err := k.Once(ctx, c.Workspace, "kick")
	if _, busy := errors.AsType[*lane.BusyError](err); busy {
		return outbox.LaterIn(kickAgain, err)
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return outbox.LaterIn(time.Millisecond, err)
	}
	return err
}

// Gateway returns a check that the gateway answers, whatever the status; nil: none is configured.
func (s *Surfaces) Gateway() func(context.Context) error {
	at := s.Core.Config.GatewayURL
	if at == "" {
		return nil
	}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodHead, at, nil)
		if err != nil {
			return err
		}
		resp, err := s.Outbound.DoOnce(req)
		if err != nil {
			return fmt.Errorf("ask the gateway: %w", err)
		}
		return resp.Body.Close()
	}
}
