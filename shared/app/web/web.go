// Package web makes what has an address: who may come in, and the API with all that stands
// behind it.
package web

import (
	"context"
	"net/http"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/mail"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// Operate is what functions/operate serves: the API, and on a schedule what waits
// between requests and beats.
type Operate struct {
	http.Handler
	tend func(context.Context)
}

// Tend does what is due in all workspaces, in the background.
func (o *Operate) Tend(ctx context.Context) { o.tend(ctx) }

// NewOperate wires the API with all that stands behind it. instance names this
// process in holders; background runs what goes on behind an answer. It is called by
// functions/operate.
func NewOperate(core *app.Core, instance string, background func(func(context.Context))) (http.Handler, error) {
	s, err := wire.New(core, instance, mail.Channels(core)...)
	if err != nil {
		return nil, err
	}
	cfg := core.Config
	var others []auth.Verifier
	if cfg.AdminToken != "" {
		admin, err := auth.AdminToken(cfg.AdminToken)
		if err != nil {
			return nil, err
		}
		others = append(others, admin)
	}
	door, err := NewDoor(s, cfg.AdminToken, true, others...)
	if err != nil {
		return nil, err
	}
	handler, err := NewAPI(s, door, Process{Background: background})
	if err != nil {
		return nil, err
	}
	return &Operate{Handler: handler, tend: func(ctx context.Context) { s.Tender.All(ctx, background) }}, nil
}

// Process is what the API needs of the process that serves it; see [api.Deps].
type Process struct {
	Beat       func(context.Context, heartbeat.Tick) (heartbeat.Report, error) // nil: the heartbeat's own
	Background func(func(context.Context))                                     // is needed
	Drain      <-chan struct{}                                                 // ends the streams when it is closed
	Valkey     func(context.Context) error
	Version    string
}

// NewAPI is the handler of all routes for those whom the door lets in. It is called by
// [NewOperate], and by the local runner.
func NewAPI(s *wire.Surfaces, door *Door, p Process) (http.Handler, error) {
	if p.Beat == nil {
		p.Beat = s.Heartbeat.Run
	}
	return api.New(api.Deps{
		Parts:     s.Parts,
		Hosts:     s.Core.Config.AllowedHosts,
		Auth:      door.Auth,
		People:    door.People,
		Sessions:  door.Sessions,
		Limits:    door.Limits,
		Failures:  door.Failures,
		Streams:   &api.Streams{Drain: p.Drain},
		Reachable: s.Reachable,
		Operate:   s.Operate,
		Kick: func(ws db.Workspace) {
			p.Background(func(ctx context.Context) { s.Tender.Tend(ctx, ws) })
		},
		Send: func(ws db.Workspace) {
			p.Background(func(ctx context.Context) { s.Tender.Send(ctx, ws) })
		},
		Beat:       p.Beat,
		Background: p.Background,
		Valkey:     p.Valkey,
		Version:    p.Version,
	})
}
