package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// dev runs everything in this process until ctx ends: the API, and the beats on
// their schedule.
func dev(*flag.FlagSet) action {
	return func(ctx context.Context, c *console, args []string) error {
		if len(args) > 0 {
			return misused("dev takes no arguments; the configuration comes from the environment")
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
	listener, err := listen(ctx, cfg.Addr)
	if err != nil {
		return err
	}
	defer listener.Close() // a second time, when the server has closed it
	log := c.logger(c.out, cfg.LogLevel)
	core, did, err := prepare(ctx, cfg, c.logger(c.out, max(cfg.LogLevel, slog.LevelWarn)), "")
	if err != nil {
		return err
	}
	core.Log = log
	defer func() { err = errors.Join(err, core.DB.Close()) }()
	token, err := ensureToken(cfg)
	if err != nil {
		return err
	}
	who, err := auth.AdminToken(token)
	if err != nil {
		return err
	}
	agent, err := app.NewAgent(core, instance())
	if err != nil {
		return err
	}
	defer func() { // before the database is closed
		if cut := agent.Close(ctx); err == nil { // else that is why
			err = cut
		}
	}()
	heart := agent.Heartbeat(instance(), nil)
	process, end := context.WithCancel(ctx)
	defer end()
	b := &beats{process: process, end: end, run: heart.Run, every: cfg.HeartbeatEvery, log: log}
	door, err := agent.Door(token, false, who)
	if err != nil {
		return err
	}
	handler, err := newAPI(agent, door, b, valkey(cfg))
	if err != nil {
		return err
	}
	first := core.Traces.New(trace.Heartbeat)
	c.welcome(welcome{
		cfg: cfg, url: urlOf(listener.Addr().String()), token: token, first: first, did: did, log: log,
	})
	b.working.Go(func() { b.keep(first) })
	b.working.Go(func() {
		b.tend(cfg.CoordinatorEvery, func(ctx context.Context) { agent.TendAll(ctx, b.background) })
	})
	return serve(ctx, newServer(handler, log), listener, b)
}

// instance names this process in the holders of lanes.
func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "local"
	}
	return fmt.Sprintf("%.60s-%d", host, os.Getpid())
}

// valkey asks the live view whether it is there; nil where none is configured.
func valkey(cfg app.Config) func(context.Context) error {
	if cfg.RedisURL == "" {
		return nil
	}
	return func(ctx context.Context) error { return pingRedis(ctx, cfg.RedisURL) }
}
