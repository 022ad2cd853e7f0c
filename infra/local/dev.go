package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/backend"
	"github.com/lanekeeper/lanekeeper/shared/app/door"
	"github.com/lanekeeper/lanekeeper/shared/app/mail"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// devSettings says where the settings of dev come from.
const devSettings = "its settings come from the environment, such as ADDR=127.0.0.1:9000 for the address"

// dev runs everything in this process until ctx ends: the API, and the beats on
// their schedule.
func dev(*flag.FlagSet) action {
	return func(ctx context.Context, c *console, args []string) error {
		if len(args) > 0 {
			return misused("dev takes no arguments; %s", devSettings)
		}
		cfg, err := c.load()
		if err == nil {
			cfg, err = c.offer(ctx, cfg)
		}
		if err == nil {
			err = c.dev(ctx, cfg)
		}
		if stopped := ctx.Err() != nil && errors.Is(err, context.Canceled); stopped { // before it ran
			err = nil
		}
		return err
	}
}

func (c *console) dev(ctx context.Context, cfg app.Config) (err error) {
	listener, err := c.listen(ctx, cfg)
	if err != nil {
		return err
	}
	defer listener.Close() // a second time, when the server has closed it
	if err := usableKeys(cfg); err != nil {
		return err
	}
	log := slog.New(quiet{c.logger(c.out, cfg, cfg.LogLevel).Handler()})
	core, did, err := prepare(ctx, cfg, c.logger(c.out, cfg, max(cfg.LogLevel, slog.LevelWarn)), "")
	if err != nil {
		return err
	}
	core.Log = log
	defer func() { err = errors.Join(err, core.DB.Close()) }()
	defer keepSpans(ctx, core)()
	token, err := ensureToken(cfg)
	if err != nil {
		return err
	}
	who, err := auth.AdminToken(token)
	if err != nil {
		return err
	}
	agent, err := wire.New(core, instance(), mail.Channels(core)...)
	if err != nil {
		return err
	}
	kept, err := backend.Of(agent)
	if err != nil {
		return err
	}
	defer func() { _ = kept.Close() }() // it keeps nothing
	defer func() {                      // before the database is closed
		if cut := agent.Close(ctx); err == nil { // else that is why
			err = cut
		}
	}()
	process, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	end := func() { stop(reason.ErrStopped) }
	defer end()
	defer context.AfterFunc(ctx, end)()
	b := &beats{process: process, end: end, broken: make(chan error, 1), run: agent.Heartbeat.Run, every: cfg.HeartbeatEvery, log: log}
	demo, pulls := newShop(core, agent.Workspaces, agent.Lanes), newCourier(agent.Lanes, log)
	in, err := door.New(agent, token, false, func(ctx context.Context, token string) (auth.Principal, error) {
		p, err := who(ctx, token)
		if err != nil {
			return p, err
		}
		return auth.Everywhere(ctx, p, agent.Workspaces.All)
	}, demo.verify, pulls.verify)
	if err != nil {
		return err
	}
	in.Sessions.Everywhere = agent.Workspaces.All
	demoKey, err := ensureDemoKey(ctx, core, in.People, listener.Addr().String())
	if err != nil { // the page says how to make one
		log.WarnContext(ctx, "the page /chat-demo has no site key", "error", err)
	}
	handler, err := newOrigin(agent, in, b, kept.Check, demoKey)
	if err != nil {
		return err
	}
	handler = core.Spans.Handler(handler)
	demo.handler, pulls.handler = handler, handler
	agent.Work.Kick = func(_ context.Context, ws db.Workspace) {
		b.background(func(ctx context.Context) { agent.Tender.Send(ctx, ws) })
	}
	agent.Works(func(_ context.Context, t worker.Tick) error {
		b.background(func(ctx context.Context) { b.task(ctx, agent.Work, t) })
		return nil
	})
	first := core.Traces.New(trace.Heartbeat)
	agents, err := hasAgent(ctx, agent.Agents, workspace.Default)
	if err != nil {
		return err
	}
	c.welcome(welcome{
		agents: agents,
		cfg:    cfg, url: urlOf(listener.Addr().String()), token: token, first: first, did: did, log: log,
	})
	given, taken, err := agent.TakeUp(ctx, self().dead, b.background)
	if err != nil {
		return err
	}
	tellGiven(ctx, log, given)
	begin := heartbeat.Tick{Trace: first}
	if did.shop { // the workspace of the demo has nothing yet that a beat could do
		begin.Workspace = workspace.Default
	}
	b.working.Go(func() {
		b.await(taken)
		b.keep(begin, func() {
			b.background(func(ctx context.Context) {
				// Before the shop is made: a start that is cut off here is made up for by the next one, while the shop is due.
				there := pulls.enter(ctx, did.demo || did.shop)
				b.background(demo.run)
				if there {
					pulls.run(ctx)
				}
			})
		})
	})
	agent.Coordinator.Tend = func(ctx context.Context) { agent.Tender.All(ctx, b.background) }
	b.working.Go(func() {
		c := newCycles(agent.Coordinator)
		c.once(process) // what a process that has died was to do goes on at once
		b.tend(cfg.CoordinatorEvery, c.once)
	})
	b.working.Go(func() {
		b.tend(lookForTasks, func(ctx context.Context) { b.tasks(ctx, agent) })
	})
	b.working.Go(func() {
		b.tend(lookForDead, func(ctx context.Context) {
			b.schema(ctx, core.DB)
			b.giveBack(ctx, agent)
		})
	})
	return serve(ctx, newServer(handler, log), listener, b)
}

// usableKeys returns an error if there is a key file and no secret could be encrypted with it. Sessions could not be
// signed either.
func usableKeys(cfg app.Config) error {
	if cfg.KMSKeyID != "" {
		return nil
	}
	if _, err := secret.NewKeyFile(cfg.SecretKeyFile).Keys(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &hinted{err, "Put the key file right, or SECRET_KEY_FILE: without it no secret can be read."}
	}
	return nil
}

// keepSpans has the spans of this process exported until the returned function is called, which exports the
// last ones.
func keepSpans(ctx context.Context, core *app.Core) (stop func()) {
	if core.Spans == nil {
		return func() {}
	}
	keeping, end := context.WithCancel(context.WithoutCancel(ctx))
	var kept sync.WaitGroup
	kept.Go(func() { core.Spans.Keep(keeping) })
	return func() {
		end()
		kept.Wait()
	}
}

// lookForDead is the interval at which the runner looks for dead processes of this host, whose work it
// continues, and for a database that another process has migrated.
const lookForDead = 10 * time.Second

// schema ends the process if another program has migrated the database to a schema that refuses this build.
func (b *beats) schema(ctx context.Context, d *db.DB) {
	err := d.Check(ctx)
	if _, newer := errors.AsType[*db.NewerSchemaError](err); !newer {
		return // other errors are reported by the work that they stop
	}
	select {
	case b.broken <- err:
	default: // it was reported already
	}
}

// giveBack releases the holds and claims of dead processes, and continues their work.
func (b *beats) giveBack(ctx context.Context, agent *wire.Surfaces) {
	given, err := agent.GiveBack(ctx, self().dead)
	tellGiven(ctx, b.log, given)
	switch {
	case err != nil && ctx.Err() == nil:
		b.log.WarnContext(ctx, "what dead processes had is left to expire", "error", err)
	case given != (wire.GivenBack{}):
		agent.Tender.All(ctx, b.background)
	}
}

func tellGiven(ctx context.Context, log *slog.Logger, given wire.GivenBack) {
	if given != (wire.GivenBack{}) {
		log.InfoContext(ctx, "taken over from a dead process", "lanes", given.Lanes, "rows", given.Rows, "turns", given.Turns)
	}
}

// instance names this process in the holders of lanes.
func instance() string { return self().String() }
