package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/quiet"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/retain"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/skill/lambda"
	"github.com/lanekeeper/lanekeeper/shared/skill/mcp"
	"github.com/lanekeeper/lanekeeper/shared/skill/remote"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Agent is what thinks and acts, for all surfaces of a process: its stores, its
// skills, its models, and what sends what it has decided.
type Agent struct {
	Lanes       *lane.Store
	Runs        *execution.Store
	Activity    *activity.Log
	Workspaces  *workspace.Store
	Objectives  *objective.Store
	Automations *automation.Store
	Memories    *memory.Store
	Heals       *heal.Store
	Switches    *halt.Store
	Retention   *retain.Store
	Quiet       *quiet.Store
	Budgets     *budget.Store
	Circuits    *resilient.Store
	Secrets     *secret.Store
	Guard       *secret.Guard // knows what nobody may be told
	Outbound    *outbound.Client
	Registry    *skill.Registry
	Approvals   *approval.Store
	Outbox      *outbox.Store
	Threads     *thread.Store
	Sender      *outbox.Sender
	Reason      *reason.Runner
	Events      *event.Store
	Operate     *operate.Operate

	core   *Core
	heart  *heartbeat.Heartbeat
	tended rounds
}

// NewAgent wires an agent. instance names the process in holders. It is called by
// the functions below, one for each surface, and by the local runner.
func NewAgent(core *Core, instance string) (*Agent, error) {
	a := &Agent{core: core}
	if err := a.stores(); err != nil {
		return nil, fmt.Errorf("wire the agent: %w", err)
	}
	if err := a.skills(); err != nil {
		return nil, fmt.Errorf("wire the agent's skills: %w", err)
	}
	models, err := newModels(core, a.Circuits, a.stopped)
	if err != nil {
		return nil, fmt.Errorf("wire the agent's models: %w", err)
	}
	a.Reason = &reason.Runner{
		Models: models, Runs: a.Runs, Lanes: a.Lanes, Activity: a.Activity, Approvals: waiting{a.Approvals}, Known: a.Guard.Redactor,
		Queues: queue.New(queue.Options{
			Queues: map[string]queue.Limits{reason.CallQueue: {MaxConcurrent: 4}, "cron": {}, "main": {}}, Log: core.Log, Warn: a.waits,
		}),
		Release: func(ctx context.Context, tx lane.Tx, execution string) error {
			_, err := a.Threads.Release(ctx, tx, execution)
			return err
		},
		Switches: a.switches, Meter: meter{a.Budgets, core.Config.models()[1:]}, ModelID: core.Config.models()[0],
		Log: core.Log, Clock: core.Clock,
	}
	a.Operate = &operate.Operate{Runner: &turn.Runner{
		Kinds: []turn.Kind{operate.Kind()}, DB: core.DB, Lanes: a.Lanes, Runs: a.Runs, Activity: a.Activity, Outbox: a.Outbox, Workspaces: a.Workspaces, Reason: a.Reason,
		Threads: a.Threads, Approvals: a.Approvals,
		Skills: a.Skills, IDs: core.IDs, Log: core.Log, Instance: instance, Window: core.Config.window(),
	}}
	a.Sender = &outbox.Sender{Store: a.Outbox, Holder: "outbox " + instance, Log: core.Log, Handlers: map[string]outbox.Handler{
		approval.Topic: &approval.Executor{Store: a.Approvals, Lanes: a.Lanes, Instance: instance,
			Known: a.Guard.Redactor, Clock: core.Clock, Log: core.Log},
		turn.Topic: a.Operate, turn.StopTopic: turn.Stopper{Runner: a.Operate.Runner},
	}}
	maps.Copy(a.Sender.Handlers, a.Threads.Handlers(a.channels()...))
	a.heart = a.Heartbeat(instance, nil)
	a.Sender.Handlers[heartbeat.Topic] = a.heart // runs the beats that were put off
	return a, nil
}

func (a *Agent) stores() error {
	d, ids := a.core.DB, a.core.IDs
	var errs [13]error
	a.Lanes, errs[0] = lane.New(d)
	a.Runs, errs[1] = execution.New(d)
	a.Activity, errs[2] = activity.New(d, ids)
	a.Workspaces, errs[3] = workspace.New(d)
	a.Objectives, errs[4] = objective.New(d, ids)
	a.Secrets, errs[5] = secret.New(d, a.core.keeper())
	a.Outbox, errs[6] = outbox.New(d, ids, rand.Float64)
	a.Outbound, errs[7] = outbound.New(outbound.Options{AllowPrivateHosts: a.core.Config.AllowPrivateHosts})
	a.Automations, errs[8] = automation.New(d, ids)
	a.Memories, errs[9] = memory.New(d, ids)
	a.Budgets, errs[10] = budget.New(d, ids, a.core.Clock)
	a.Events, errs[11] = event.New(d)
	a.Circuits, errs[12] = resilient.NewStore(d, resilient.Policy{})
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	a.Guard = secret.NewGuard(a.Secrets, a.core.Config.known(), a.core.Clock, a.core.Log)
	var err error
	if a.Threads, err = thread.New(d, a.Runs, a.Outbox, ids, a.core.Log); err != nil {
		return err
	}
	a.Approvals, err = approval.New(approval.Deps{
		DB: d, Workspaces: a.Workspaces, Outbox: a.Outbox, Activity: a.Activity, Skills: a.Skills, Switches: a.switches, IDs: ids,
		Settled: func(ctx context.Context, b *db.Batch, of approval.Approval) { a.Operate.Decided(ctx, b, of) },
	})
	return err
}

// skills wires the built-in skills, and the kinds that a row may have.
func (a *Agent) skills() error {
	builtins, err := a.builtins()
	if err != nil {
		return err
	}
	blocked := func(err error) bool { return errors.Is(err, outbound.ErrBlocked) }
	a.Registry, err = skill.NewRegistry(a.core.DB, a.core.IDs, builtins, map[skill.Kind]skill.Factory{
		skill.HTTP:   remote.Kind(remote.Outbound{Client: a.Outbound, Check: a.Outbound.Check, Blocked: blocked, Expand: a.expand, Patience: outbound.WithTimeout}),
		skill.MCP:    mcp.Kind(mcp.Outbound{Client: a.Outbound.HTTPClient(), Check: a.Outbound.Check, Blocked: blocked, Expand: a.expand, Patience: outbound.WithTimeout}),
		skill.Lambda: lambda.Kind(a.core.functions()),
	})
	if err != nil {
		return err
	}
	if a.Heals, err = heal.New(a.core.DB, a.core.IDs, a.Registry, a.Automations); err != nil {
		return err
	}
	if a.Switches, err = halt.New(a.core.DB, a.core.IDs); err != nil {
		return err
	}
	if a.Retention, err = retain.New(a.core.DB); err != nil {
		return err
	}
	a.Quiet, err = quiet.New()
	return err
}

// switches reads what people have switched off in a workspace.
func (a *Agent) switches(ctx context.Context, ws db.Workspace) (reason.Halts, error) {
	var b db.Batch
	on := a.Switches.On(&b)
	if err := a.core.DB.Read(ctx, ws, &b); err != nil {
		return nil, fmt.Errorf("read the kill switches: %w", err)
	}
	return *on, nil
}

// stopped says why no model of one of the names is fallen back to; empty: it may be.
func (a *Agent) stopped(ctx context.Context, ws db.Workspace, models ...string) (string, error) {
	halts, err := a.switches(ctx, ws)
	if err != nil {
		return "", err
	}
	return halts.Run("", models...), nil
}

// builtins are the skills that come with the product.
func (a *Agent) builtins() (*skill.Set, error) {
	all, err1 := objective.Skills(a.Objectives)
	more, err2 := memory.Skills(a.Memories)
	query, err3 := skill.QueryActivity(a.Activity, a.core.Clock)
	own, err4 := skill.Skills()
	automations, err5 := automation.Skills(a.Automations)
	threads, err6 := thread.Skills(a.Threads, a.deliverable)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return nil, err
	}
	return skill.NewSet(slices.Concat(all, more, own, automations, threads, []skill.Skill{query})...)
}

// expand puts secrets in the place of the references to them.
func (a *Agent) expand(ctx context.Context, ws db.Workspace, raw json.RawMessage) (json.RawMessage, error) {
	v, err := secret.Expand(ctx, ws, raw, a.Secrets)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(v.Reveal()), nil
}

// Skills are what a surface of a workspace may use now. What is registered but
// can't be used is logged.
func (a *Agent) Skills(ctx context.Context, ws db.Workspace, surface trace.Surface) (*skill.Set, error) {
	set, broken, err := a.Registry.Load(ctx, ws, surface)
	if err != nil {
		return nil, err
	}
	for _, b := range broken {
		a.core.Log.WarnContext(ctx, "skill left out", "error", b)
	}
	return set, nil
}
