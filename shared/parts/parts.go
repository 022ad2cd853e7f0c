// Package parts lists what the surfaces of a process work with, once: stores, skills,
// reasoner, worker, sender, clock, ids and logger. It makes none of them: app/wire does, and
// tests do.
package parts

import (
	"context"
	"log/slog"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/live"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/observe"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/project"
	"github.com/lanekeeper/lanekeeper/shared/quiet"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/retain"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Parts is embedded, as a pointer, by each surface and by the API. The surfaces of a process
// share one. Nothing in it changes once they serve.
type Parts struct {
	DB          *db.DB
	Lanes       *lane.Store
	Runs        *execution.Store
	Activity    *activity.Log
	Workspaces  *workspace.Store
	Objectives  *objective.Store
	Automations *automation.Store
	Tasks       *task.Store
	Projects    *project.Store
	Milestones  *project.Store
	Agents      *agent.Store
	Memories    *memory.Store
	Personas    *persona.Store
	Heals       *heal.Store
	Switches    *halt.Store
	Retention   *retain.Store
	Quiet       *quiet.Store
	Budgets     *budget.Store
	Circuits    *resilient.Store    // of the models of all workspaces
	Threads     *thread.Store       // the conversations with people
	Inbox       *inbox.Store        // the webhooks that came, and who may send them
	Endpoints   *endpoint.Deliverer // whom webhooks tell of events
	Approvals   *approval.Store     // what waits for a person, and expires
	Events      *event.Store        // what has happened
	Secrets     *secret.Store       // may have no keeper: what needs a key is then refused
	Guard       *secret.Guard       // knows what nobody may be told
	State       live.State          // the contract over tasks and threads; with a Redis before the database where one is configured
	Live        *live.Rebuilder     // shows the live view; nil: there is none
	Outbound    *outbound.Client

	// Registry has the built-in skills of all surfaces, and the kinds that can be registered.
	Registry *skill.Registry
	// Skills are those that a surface of a workspace may use now.
	Skills func(context.Context, db.Workspace, trace.Surface) (*skill.Set, error)
	// SkillsIn is Skills in a batch of the workspace; the returned function is called after the batch was
	// sent. nil: Skills reads them.
	SkillsIn func(*db.Batch, db.Workspace, trace.Surface) func(context.Context) *skill.Set
	Reason   *reason.Runner
	Worker   *work.Worker
	// Outbox has what was decided and is still to be done, Sender does it.
	Outbox *outbox.Store
	Sender *outbox.Sender

	Meters   *observe.Meters // what this process counts; nil: nothing
	Traces   *trace.Source
	IDs      func() string // time-ordered (UUIDv7)
	Clock    func() time.Time
	Log      *slog.Logger
	Instance string // names this process in holders
	Window   int    // of the model, in tokens; 0: it is not known
}
