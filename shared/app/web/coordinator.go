package web

import (
	"context"
	"net/http"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/observe"
	"github.com/lanekeeper/lanekeeper/shared/surface/coordinator"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// Coordinator is the handler of functions/coordinator. It serves the routes of agents and machines, and
// runs the cycles.
type Coordinator struct {
	http.Handler
	*coordinator.Coordinator
}

// thinking are the outbox topics whose handlers ask models or run skills. The function operate has what
// they need, and longer invocations.
var thinking = []string{turn.Topic, inbox.Topic, approval.Topic, heartbeat.Topic}

// NewCoordinator builds the coordinator with all its parts. instance identifies this process in the names
// of holders. background runs a function after the response. fan starts a separate invocation for a
// workspace's cycles. kick has the function operate do what is due in a workspace and is not done here.
// works starts an invocation of the built-in worker. It is called by functions/coordinator.
func NewCoordinator(core *app.Core, instance string, background func(func(context.Context)),
	fan func(context.Context, coordinator.Tick) error,
	kick func(context.Context, db.Workspace), works func(context.Context, worker.Tick) error) (*Coordinator, error) {
	s, kept, in, err := surfaces(core, instance, works)
	if err != nil {
		return nil, err
	}
	for _, topic := range thinking {
		delete(s.Sender.Handlers, topic)
	}
	s.Coordinator.Fan = fan
	gauges, err := observe.NewGauges(core.DB)
	if err != nil {
		return nil, err
	}
	s.Coordinator.Tend = func(ctx context.Context) {
		s.Tender.All(ctx, background)
		if err := gauges.Set(ctx, core.Meters); err != nil {
			core.Log.WarnContext(ctx, "the gauges can't be read", "error", err)
		}
	}
	handler, err := NewAPI(s, in, Process{
		Background: background,
		Resources:  api.OfMachines,
		Valkey:     kept.Check,
		Kick: func(ctx context.Context, ws db.Workspace) {
			if waits(ctx, s, ws) {
				kick(ctx, ws)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return &Coordinator{handler, s.Coordinator}, nil
}

// waits reports whether rows of the outbox are due that the coordinator does not send.
func waits(ctx context.Context, s *wire.Surfaces, ws db.Workspace) bool {
	var b db.Batch
	due := s.Outbox.Due(&b, thinking...)
	return s.DB.Read(ctx, ws, &b) == nil && *due > 0
}
