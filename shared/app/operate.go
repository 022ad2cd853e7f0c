package app

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
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
func NewOperate(core *Core, instance string, background func(func(context.Context))) (http.Handler, error) {
	a, err := NewAgent(core, instance)
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
	door, err := a.Door(cfg.AdminToken, true, others...)
	if err != nil {
		return nil, err
	}
	handler, err := a.API(door, Process{Beat: a.Heartbeat(instance, nil).Run, Background: background})
	if err != nil {
		return nil, err
	}
	return &Operate{Handler: handler, tend: func(ctx context.Context) { a.TendAll(ctx, background) }}, nil
}

// Process is what the API needs of the process that serves it. Beat and Background
// are needed; see [api.Deps].
type Process struct {
	Beat       func(context.Context, heartbeat.Tick) (heartbeat.Report, error)
	Background func(func(context.Context))
	Drain      <-chan struct{} // ends the streams when it is closed
	Valkey     func(context.Context) error
	Version    string
}

// API is the handler of all routes for those whom the door lets in. It is called by
// the local runner, whose surfaces share an agent.
func (a *Agent) API(door *Door, p Process) (http.Handler, error) {
	core := a.core
	return api.New(api.Deps{
		DB: core.DB, Lanes: a.Lanes, Runs: a.Runs, Activity: a.Activity,
		Hosts: core.Config.AllowedHosts,
		Auth:  door.Auth, People: door.People, Sessions: door.Sessions, Limits: door.Limits, Failures: door.Failures,
		Events: door.Events, Streams: &api.Streams{Drain: p.Drain},
		Objectives: a.Objectives, Memories: a.Memories, Workspaces: a.Workspaces,
		Automations: a.Automations, Heals: a.Heals, Switches: a.Switches, Budgets: a.Budgets, Circuits: a.Circuits, Threads: a.Threads, Reachable: a.Reachable,
		Secrets: a.Secrets, Guard: a.Guard, Skills: a.Registry, Approvals: a.Approvals, Operate: a.Operate,
		Kick: func(ws db.Workspace) {
			p.Background(func(ctx context.Context) { a.Tend(ctx, ws) })
		},
		Send: func(ws db.Workspace) {
			p.Background(func(ctx context.Context) { a.sendDue(trace.WithWorkspace(ctx, string(ws)), ws) })
		},
		Beat: p.Beat, Background: p.Background, Valkey: p.Valkey,
		Traces: core.Traces, IDs: core.IDs, Clock: core.Clock, Log: core.Log, Version: p.Version,
	})
}

// Tend does what was just decided: calls that a person has approved, runs that are to
// go on, messages; and clears stale locks of threads. What fails is tried again by the
// next. It is called behind answers, and on a ticker by the local runner.
func (a *Agent) Tend(ctx context.Context, ws db.Workspace) {
	ctx = trace.WithWorkspace(ctx, string(ws))
	a.sweepThreads(ctx, ws)
	a.sendDue(ctx, ws)
}

func (a *Agent) sweepThreads(ctx context.Context, ws db.Workspace) {
	var err error
	for round, swept := 0, (thread.Swept{More: true}); swept.More && round < maxSweeps; round++ {
		swept, err = a.Threads.Sweep(ctx, ws, maxDrained)
	}
	a.later(ctx, err)
}

// sendDue sends what is due, in rounds. Where a row has ended unsent, the one behind it
// can go only after a sweep.
func (a *Agent) sendDue(ctx context.Context, ws db.Workspace) {
	for range maxSweeps {
		sent, err := a.Sender.Drain(ctx, ws, maxDrained)
		a.later(ctx, err)
		switch ended := sent.Expired + sent.Uncertain; {
		case err != nil, ended == 0 && (!sent.More || sent.Claimed == 0):
			return
		case ended > 0:
			a.sweepThreads(ctx, ws)
		}
	}
}

func (a *Agent) later(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		a.core.Log.ErrorContext(ctx, "what was decided could not be done yet", "error", err)
	}
}

// TendAll tends all workspaces in which something may be due: one look tells which. It
// expires what nobody has answered, ends what nothing was heard of, and sends in the
// background, in each at its own pace: where a receiver hangs, the others need not
// wait, nor does the next call. Several are tended at once, until the time of ctx is up;
// the next call begins behind the last that was reached. What it answers is closed when
// all that it has begun has ended.
func (a *Agent) TendAll(ctx context.Context, background func(func(context.Context))) <-chan struct{} {
	var begun, working sync.WaitGroup
	a.settle(ctx)
	all, err := a.Workspaces.Due(ctx)
	if err != nil && ctx.Err() == nil {
		a.core.Log.ErrorContext(ctx, "the workspaces could not be listed", "error", err)
	}
	inner, cancel := lane.WithInnerDeadline(ctx)
	defer cancel()
	next := a.tended.from(inner, all)
	for range min(tendedAtOnce, len(all)) {
		working.Go(func() {
			for ws, ok := next(); ok; ws, ok = next() {
				a.tendOne(trace.WithWorkspace(inner, string(ws)), ws)
				begun.Add(1)
				background(func(ctx context.Context) {
					defer begun.Done()
					a.sendDue(trace.WithWorkspace(ctx, string(ws)), ws)
				})
			}
		})
	}
	working.Wait()
	ended := make(chan struct{})
	background(func(context.Context) { begun.Wait(); close(ended) })
	return ended
}

// tendOne tends a workspace, but for what it sends. A panic is told in the log, and the
// other workspaces are tended all the same.
func (a *Agent) tendOne(ctx context.Context, ws db.Workspace) {
	defer func() {
		if p := recover(); p != nil {
			a.core.Log.ErrorContext(ctx, "what was decided could not be done yet", "error", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	a.later(ctx, a.heart.Tend(ctx, ws))
	a.sweepThreads(ctx, ws)
}

const (
	tendedAtOnce = 4 // workspaces

	maxDrained = 50 // rows of the outbox in a round
	maxSweeps  = 20 // rounds, of as many threads or rows
)
