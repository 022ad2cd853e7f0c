package app

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// NewHeartbeat wires the heartbeat. instance names this process in holders; fan
// hands a workspace's beat to an invocation of its own, nil beats for one
// workspace after the other here. It is called by functions/heartbeat.
func NewHeartbeat(core *Core, instance string, fan func(context.Context, heartbeat.Tick) error) (*heartbeat.Heartbeat, error) {
	a, err := NewAgent(core, instance)
	if err != nil {
		return nil, err
	}
	return a.Heartbeat(instance, fan), nil
}

// Heartbeat is that of an agent. It is called by the local runner, whose surfaces
// share one.
func (a *Agent) Heartbeat(instance string, fan func(context.Context, heartbeat.Tick) error) *heartbeat.Heartbeat {
	core := a.core
	return &heartbeat.Heartbeat{
		DB: core.DB, Lanes: a.Lanes, Runs: a.Runs, Activity: a.Activity, Workspaces: a.Workspaces, Objectives: a.Objectives,
		Automations: a.Automations, Heals: a.Heals, Switches: a.Switches, Retention: a.Retention, Quiet: a.Quiet, Memories: a.Memories, Registered: heartbeat.Registered(a.Registry), Sweep: a.sweep,
		Reason: a.Reason, Skills: a.Skills, Outbox: a.Outbox, Sender: a.Sender, Threads: a.Threads, Approvals: a.Approvals,
		Traces: core.Traces, IDs: core.IDs, Clock: core.Clock, Log: core.Log,
		Instance: instance, Window: core.Config.window(), Fan: fan,
	}
}

// sweep lets go of reservations and rate limits that nobody needs any more.
func (a *Agent) sweep(ctx context.Context, ws db.Workspace) error {
	if _, err := a.Budgets.Sweep(ctx, ws); err != nil {
		return err
	}
	limits, err := ratelimit.New(a.core.DB)
	if err != nil {
		return err
	}
	var b db.Batch
	limits.Purge(&b)
	if err := a.core.DB.Do(ctx, ws, &b); err != nil {
		return fmt.Errorf("sweep rate limits: %w", err)
	}
	return nil
}
