// Package wire builds the parts of a process: its stores, providers, kinds of skills, channels and
// sender, and the surfaces without HTTP that use them. Packages app/web, app/visit and app/hook build
// the handlers of HTTP.
package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/keeper"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/inbox/catchup"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/live"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/notice"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/observe"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/parts"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/project"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/quiet"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/retain"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/skill/lambda"
	"github.com/lanekeeper/lanekeeper/shared/skill/mcp"
	"github.com/lanekeeper/lanekeeper/shared/skill/remote"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat/visitor"
	"github.com/lanekeeper/lanekeeper/shared/surface/coordinator"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/surface/webhook/action"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/work"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Surfaces holds the surfaces of one process that need no HTTP. They share one set of parts.
type Surfaces struct {
	*parts.Parts
	Core        *app.Core
	Operate     *operate.Operate
	Heartbeat   *heartbeat.Heartbeat
	Coordinator *coordinator.Coordinator
	Cycles      *coordinate.Coordinator // what Coordinator runs
	Work        *worker.Worker
	Tender      *thread.Tender
}

// New builds the surfaces of a process over a core. instance identifies the process in the names of
// holders. channels are further channels for messages, beside those of every process. It is called
// by the functions below, by those in app/web and app/visit, and by the local runner.
func New(core *app.Core, instance string, channels ...thread.Channel) (*Surfaces, error) {
	s := &Surfaces{Core: core, Parts: &parts.Parts{
		DB:       core.DB,
		Traces:   core.Traces,
		IDs:      core.IDs,
		Clock:    core.Clock,
		Log:      core.Log,
		Meters:   core.Meters,
		Instance: instance,
		Window:   core.Config.Window(),
	}}
	turns := &turn.Runner{Parts: s.Parts, Kinds: []turn.Kind{operate.Kind(), action.Kind(s.deliverable), visitor.Kind()}}
	s.Operate = &operate.Operate{Runner: turns}
	s.Heartbeat = &heartbeat.Heartbeat{Parts: s.Parts, Sweep: s.sweep}
	s.Coordinator = &coordinator.Coordinator{Parts: s.Parts}
	s.Work = &worker.Worker{Parts: s.Parts, Turns: turns}
	s.Parts.Skills, s.SkillsIn = s.skills, s.skillsIn
	if err := s.stores(); err != nil {
		return nil, fmt.Errorf("wire the stores: %w", err)
	}
	if err := s.coordinate(); err != nil {
		return nil, fmt.Errorf("wire the coordinator: %w", err)
	}
	if err := s.registry(); err != nil {
		return nil, fmt.Errorf("wire the skills: %w", err)
	}
	s.Lanes.Observe = func(name lane.Name, event lane.Event, took time.Duration) {
		core.Meters.Lane(string(name), observe.LaneEvent(event), took)
	}
	s.Lanes.Warn = s.waitsForLane
	models, err := newModels(core, s.Circuits, s.stopped, s.goesOn)
	if err != nil {
		return nil, fmt.Errorf("wire the models: %w", err)
	}
	s.Reason = &reason.Runner{
		Models: models, Runs: s.Runs, Lanes: s.Lanes, Activity: s.Activity, Approvals: waiting{s.Approvals}, Known: s.Guard.Redactor,
		Queues: queue.New(queue.Options{
			Queues: map[string]queue.Limits{reason.CallQueue: {MaxConcurrent: 4}, "cron": {}, "main": {}}, Log: core.Log, Warn: s.waits,
		}),
		Release: func(ctx context.Context, tx lane.Tx, execution string) error {
			_, err := s.Threads.Release(ctx, tx, execution)
			return err
		},
		Switches: s.switches, Basis: s.basis, Meter: meter{s.Budgets, s.Tasks, core.Config.Models()[1:], core.Meters}, ModelID: core.Config.Models()[0],
		Spans: core.Spans, Log: core.Log, Clock: core.Clock,
	}
	s.Worker = &work.Worker{Lanes: s.Lanes, Runs: s.Runs, Reason: s.Reason, Outbox: s.Outbox}
	s.Sender = &outbox.Sender{Store: s.Outbox, Holder: "outbox " + instance, Log: core.Log, Observe: func(topic string, status outbox.Status) {
		core.Meters.Outbox(topic, string(status))
	}, Handlers: map[string]outbox.Handler{
		approval.Topic: &approval.Executor{Store: s.Approvals, Lanes: s.Lanes, Instance: instance,
			Known: s.Guard.Redactor, Spans: core.Spans, Clock: core.Clock, Log: core.Log},
		turn.Topic:         s.Operate,
		turn.StopTopic:     turn.Stopper{Runner: s.Operate.Runner},
		inbox.Topic:        &action.Runner{Parts: s.Parts, Turns: turns, Random: rand.Float64},
		endpoint.Topic:     s.Endpoints,
		inbox.CatchUpTopic: &catchup.Catcher{Inbox: s.Inbox, Secrets: s.Secrets, Do: s.Outbound.Do, Log: core.Log},
		heartbeat.Topic:    s.Heartbeat, // runs the beats that were put off
	}}
	maps.Copy(s.Sender.Handlers, s.starters())
	all := append(s.channels(), channels...)
	maps.Copy(s.Sender.Handlers, s.Threads.Handlers(all...))
	maps.Copy(s.Sender.Handlers, notice.Handlers(all...))
	s.Tender = &thread.Tender{
		Threads: s.Threads, Sender: s.Sender, Workspaces: s.Workspaces, Settle: s.settle, Overdue: s.overdue, Log: core.Log,
	}
	return s, nil
}

func (s *Surfaces) stores() error {
	d, ids := s.Core.DB, s.Core.IDs
	var errs [19]error
	s.Lanes, errs[0] = lane.New(d)
	s.Runs, errs[1] = execution.New(d)
	s.Activity, errs[2] = activity.New(d, ids)
	s.Workspaces, errs[3] = workspace.New(d)
	s.Objectives, errs[4] = objective.New(d, ids)
	s.Secrets, errs[5] = secret.New(d, keeper.Of(s.Core))
	s.Outbox, errs[6] = outbox.New(d, ids, rand.Float64)
	s.Outbound, errs[7] = outbound.New(outbound.Options{AllowPrivateHosts: s.Core.Config.AllowPrivateHosts})
	s.Automations, errs[8] = automation.New(d, ids)
	s.Memories, errs[9] = memory.New(d, ids)
	s.Budgets, errs[10] = budget.New(d, ids, s.Core.Clock)
	s.Events, errs[11] = event.New(d)
	s.Circuits, errs[12] = resilient.NewStore(d, resilient.Policy{})
	s.Switches, errs[13] = halt.New(d, ids)
	s.Retention, errs[14] = retain.New(d)
	s.Personas, errs[15] = persona.New(d)
	s.Tasks, errs[16] = task.New(d, ids, rand.Float64)
	s.Projects, s.Milestones, errs[17] = project.New(d, ids)
	s.Agents, errs[18] = agent.New(d, ids)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	s.Guard = secret.NewGuard(s.Secrets, s.Core.Config.Known(), s.Core.Clock, s.Core.Log)
	var err error
	if s.Threads, err = thread.New(d, s.Runs, s.Outbox, ids, s.Core.Log); err != nil {
		return err
	}
	if s.State, err = live.NewDatabase(d, s.Tasks, s.Threads, s.Lanes); err != nil {
		return err
	}
	if s.Inbox, err = inbox.New(d, s.Secrets, s.Outbox, ids); err != nil {
		return err
	}
	endpoints, err := endpoint.New(d, s.Secrets, s.Outbox, ids)
	if err != nil {
		return err
	}
	s.Endpoints = &endpoint.Deliverer{
		Store: endpoints, Sender: endpoint.Sender{Client: s.Outbound, Clock: s.Core.Clock}, Random: rand.Float64, Log: s.Core.Log,
	}
	s.Approvals, err = approval.New(approval.Deps{
		DB: d, Workspaces: s.Workspaces, Outbox: s.Outbox, Activity: s.Activity, Skills: s.offered, Switches: s.switches, IDs: ids,
		Over: func(ctx context.Context, ws db.Workspace, of approval.Approval) (string, error) {
			if why, err := s.Work.Over(ctx, ws, of); why != "" || err != nil {
				return why, err
			}
			return s.Heartbeat.Over(ctx, ws, of)
		},
		Settled: func(ctx context.Context, b *db.Batch, of approval.Approval) {
			s.Operate.Decided(ctx, b, of)
			s.Work.GoOn(ctx, b, of.Subject)
		},
	})
	return err
}

// registry creates the built-in skills and the kinds of skills that a workspace can register.
func (s *Surfaces) registry() error {
	builtins, err := s.builtins()
	if err != nil {
		return err
	}
	blocked := func(err error) bool { return errors.Is(err, outbound.ErrBlocked) }
	s.Registry, err = skill.NewRegistry(s.Core.DB, s.Core.IDs, builtins, map[skill.Kind]skill.Factory{
		skill.HTTP: remote.Kind(remote.Outbound{Client: s.Outbound, Check: s.Outbound.Check, Blocked: blocked,
			Expand: s.expand, Patience: outbound.WithTimeout}),
		skill.MCP: mcp.Kind(mcp.Outbound{Client: s.Outbound.HTTPClient(), Check: s.Outbound.Check, Blocked: blocked,
			Expand: s.expand, Patience: outbound.WithTimeout}),
		skill.Lambda: lambda.Kind(&functions{core: s.Core}),
	})
	if err != nil {
		return err
	}
	if s.Heals, err = heal.New(s.Core.DB, s.Core.IDs, s.Registry, s.Automations); err != nil {
		return err
	}
	s.Quiet, err = quiet.New()
	return err
}

// halts are the kill switches of a workspace, and the skills whose budget is spent.
type halts struct {
	*halt.Switches
	spent map[string]time.Time
}

// Skill implements [reason.Halts].
func (h halts) Skill(name string) string {
	if why := h.Switches.Skill(name); why != "" {
		return why
	}
	if until, is := h.spent[name]; is {
		return "its budget is used up until " + until.UTC().Format("2006-01-02 15:04 UTC")
	}
	return ""
}

// haltsIn adds the reads of [Surfaces.switches] to a batch.
func (s *Surfaces) haltsIn(b *db.Batch) halts {
	return halts{s.Switches.On(b), s.Budgets.SpentSkills(b)}
}

// switches reads what halts runs and skills in a workspace.
func (s *Surfaces) switches(ctx context.Context, ws db.Workspace) (reason.Halts, error) {
	var b db.Batch
	on := s.haltsIn(&b)
	if err := s.Core.DB.Read(ctx, ws, &b); err != nil {
		return nil, fmt.Errorf("read the kill switches: %w", err)
	}
	return on, nil
}

// basis adds to a batch what the first step of a run depends on.
func (s *Surfaces) basis(b *db.Batch) *reason.Basis {
	budgets := s.Budgets.AnyIn(b)
	on := &reason.Basis{Halts: s.haltsIn(b)}
	on.Ready = func() { on.Unbudgeted = !*budgets }
	return on
}

// stopped returns why none of the models may be a fallback, or an empty text if they may be.
func (s *Surfaces) stopped(ctx context.Context, ws db.Workspace, models ...string) (string, error) {
	halts, err := s.switches(ctx, ws)
	if err != nil {
		return "", err
	}
	return halts.Run("", models...), nil
}

// builtins returns the skills that come with the product.
func (s *Surfaces) builtins() (*skill.Set, error) {
	all, err1 := objective.Skills(s.Objectives)
	more, err2 := memory.Skills(s.Memories)
	query, err3 := skill.QueryActivity(s.Activity, s.Core.Clock)
	own, err4 := skill.Skills()
	automations, err5 := automation.Skills(s.Automations)
	threads, err6 := thread.Skills(s.Threads, s.deliverable, visitor.Channel)
	tasks, err7 := task.Skills(s.Tasks, s.Secrets)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		return nil, err
	}
	return skill.NewSet(slices.Concat(all, more, own, automations, threads, tasks, []skill.Skill{query})...)
}

// expand replaces references to secrets by the secrets' values.
func (s *Surfaces) expand(ctx context.Context, ws db.Workspace, raw json.RawMessage) (json.RawMessage, error) {
	v, err := secret.Expand(ctx, ws, raw, s.Secrets)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(v.Reveal()), nil
}

// offered returns what Parts.Skills does at the time of the call, because tests replace it.
func (s *Surfaces) offered(ctx context.Context, ws db.Workspace, surface trace.Surface) (*skill.Set, error) {
	return s.Parts.Skills(ctx, ws, surface)
}

// skills returns the skills that a surface of a workspace may use now. It logs registered skills
// that cannot be used.
func (s *Surfaces) skills(ctx context.Context, ws db.Workspace, surface trace.Surface) (*skill.Set, error) {
	var b db.Batch
	read := s.skillsIn(&b, ws, surface)
	if err := s.Core.DB.Read(ctx, ws, &b); err != nil {
		return nil, fmt.Errorf("load skills: %w", err)
	}
	return read(ctx), nil
}

// skillsIn is skills in a batch. The returned function is called after the batch was sent.
func (s *Surfaces) skillsIn(b *db.Batch, ws db.Workspace, surface trace.Surface) func(context.Context) *skill.Set {
	read := s.Registry.LoadIn(b, ws, surface)
	return func(ctx context.Context) *skill.Set {
		set, broken := read()
		for _, b := range broken {
			s.Core.Log.WarnContext(ctx, "skill left out", "error", b)
		}
		return set
	}
}
