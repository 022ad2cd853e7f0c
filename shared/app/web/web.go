// Package web builds the HTTP API with all the parts that it needs.
package web

import (
	"context"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/backend"
	"github.com/lanekeeper/lanekeeper/shared/app/door"
	"github.com/lanekeeper/lanekeeper/shared/app/mail"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/engineroom"
	"github.com/lanekeeper/lanekeeper/shared/llm/demo"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
)

// Operate is the handler of functions/operate. It serves the API. On a schedule it also does the
// work that becomes due between requests and heartbeats.
type Operate struct {
	http.Handler
	tend func(context.Context)
}

// Tend does the work that is due in all workspaces, in the background.
func (o *Operate) Tend(ctx context.Context) { o.tend(ctx) }

// NewOperate builds the API with all its parts. instance identifies this process in the names of
// holders. background runs a function after the response. works starts an invocation of the built-in
// worker; nil: another process does. It is called by functions/operate.
func NewOperate(core *app.Core, instance string, background func(func(context.Context)), works func(context.Context, worker.Tick) error) (http.Handler, error) {
	s, kept, in, err := surfaces(core, instance, works)
	if err != nil {
		return nil, err
	}
	handler, err := NewAPI(s, in, Process{Background: background, Valkey: kept.Check})
	if err != nil {
		return nil, err
	}
	return &Operate{Handler: handler, tend: func(ctx context.Context) { s.Tender.All(ctx, background) }}, nil
}

// surfaces builds what a function that serves the API consists of.
func surfaces(core *app.Core, instance string, works func(context.Context, worker.Tick) error) (s *wire.Surfaces,
	kept *backend.Backend, in *door.Door, err error) {
	if s, err = wire.New(core, instance, mail.Channels(core)...); err == nil {
		kept, err = backend.Of(s)
	}
	if err == nil {
		s.Works(works)
		in, err = door.OfFunction(s)
	}
	return s, kept, in, err
}

// Process holds what the API needs from the process that serves it; see [api.Deps].
type Process struct {
	Beat       func(context.Context, heartbeat.Tick) (heartbeat.Report, error) // nil: the heartbeat of the surfaces
	Background func(func(context.Context))                                     // required
	Drain      <-chan struct{}                                                 // the streams end when it is closed
	Valkey     func(context.Context) error
	Version    string
	// Resources are those whose routes are served; nil: all.
	Resources []string
	// Kick has another process do what is due in a workspace, after this one has; nil: there is none.
	Kick func(context.Context, db.Workspace)
}

// NewAPI returns the handler of all routes, with the authentication of in. It is called by
// [NewOperate] and by the local runner.
func NewAPI(s *wire.Surfaces, in *door.Door, p Process) (http.Handler, error) {
	if p.Beat == nil {
		p.Beat = s.Heartbeat.Run
	}
	if p.Kick == nil {
		p.Kick = func(context.Context, db.Workspace) {}
	}
	served, err := api.New(api.Deps{
		Parts:       s.Parts,
		Hosts:       s.Core.Config.AllowedHosts,
		Auth:        in.Auth,
		People:      in.People,
		Sessions:    in.Sessions,
		AgentTokens: in.Agents,
		Limits:      in.Limits,
		Failures:    in.Failures,
		Streams:     &sse.Streams{Drain: p.Drain},
		Reachable:   s.Reachable,
		Operate:     s.Operate,
		Coordinator: s.Cycles,
		Cycle:       s.Coordinator.Once,
		Claim:       s.Cycles.Claim,
		Gateway:     s.Gateway(),
		Kick: func(ws db.Workspace) {
			p.Background(func(ctx context.Context) { s.Tender.Tend(ctx, ws); p.Kick(ctx, ws) })
		},
		Send: func(ws db.Workspace) {
			p.Background(func(ctx context.Context) { s.Tender.Send(ctx, ws); p.Kick(ctx, ws) })
		},
		Beat:         p.Beat,
		BeatEvery:    s.Core.Config.HeartbeatEvery,
		KeepOverview: time.Second,
		Background:   p.Background,
		DemoModel:    s.Core.Config.LLMProvider == demo.Name,
		Valkey:       p.Valkey,
		Version:      p.Version,
		Resources:    p.Resources,
	})
	if err != nil || p.Resources != nil {
		return served, err
	}
	return withPage(served), nil
}

// withPage serves the Engine Room beside the API. The root leads to it.
func withPage(api http.Handler) http.Handler {
	page := engineroom.Handler{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case engineroom.Serves(r.URL.Path):
			page.ServeHTTP(w, r)
		case r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			w.Header().Set("Location", engineroom.Home)
			w.WriteHeader(http.StatusFound)
		default:
			api.ServeHTTP(w, r)
		}
	})
}
