package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/demo"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/run"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// NewHeartbeat wires the heartbeat. instance names this process in holders; fan
// hands a workspace's beat to an invocation of its own, nil beats for one
// workspace after the other here. It is called by functions/heartbeat and by the
// local runner.
func NewHeartbeat(core *Core, instance string, fan func(context.Context, heartbeat.Tick) error) (*heartbeat.Heartbeat, error) {
	lanes, err1 := lane.New(core.DB)
	runs, err2 := run.New(core.DB)
	log, err3 := activity.New(core.DB, core.IDs)
	workspaces, err4 := workspace.New(core.DB)
	objectives, err5 := objective.New(core.DB, core.IDs)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, fmt.Errorf("wire the heartbeat: %w", err)
	}
	skills, err := builtins(core, log, objectives)
	if err != nil {
		return nil, fmt.Errorf("wire the heartbeat: %w", err)
	}
	return &heartbeat.Heartbeat{
		DB: core.DB, Lanes: lanes, Runs: runs, Log: log, Workspaces: workspaces, Objectives: objectives,
		Reason: &reason.Runner{
			Model: demo.New(), Runs: runs, Lanes: lanes, Log: log, Slog: core.Log, Clock: core.Clock,
		},
		Skills: skills, Traces: core.Traces, IDs: core.IDs, Clock: core.Clock, Slog: core.Log,
		Instance: instance, Fan: fan,
	}, nil
}

// builtins are the skills that come with the product.
func builtins(core *Core, log *activity.Log, objectives *objective.Store) (*skill.Set, error) {
	memories, err := memory.New(core.DB, core.IDs)
	if err != nil {
		return nil, err
	}
	all, err1 := objective.Skills(objectives)
	more, err2 := memory.Skills(memories, core.Clock)
	query, err3 := skill.QueryActivity(log, core.Clock)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return skill.NewSet(append(append(all, more...), query)...)
}
