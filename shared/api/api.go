// Package api is Lanekeeper's HTTP API. It has one table of routes (routes.go) and one file per
// resource. The other files hold what all routes share: authorization, the checks of a request, the
// problems that refuse one, and the OpenAPI document. Only this package imports huma.
//
// A request passes these steps in order: trace, headers, recovery and log (request.go); the mux;
// token and role (guard.go); the limits and the syntax of query and body (intake.go); register.go,
// which lets huma check the fields against the types, and calls the resource's method; and errors.go,
// which converts an error to a problem. No response repeats a value that was refused.
//
// /mcp is a second entrance (mcp.go). Each of its tools (mcptools.go) sends a request to a route,
// and that request passes the same steps.
package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/failure"
	"github.com/lanekeeper/lanekeeper/shared/observe"
	"github.com/lanekeeper/lanekeeper/shared/overview"
	"github.com/lanekeeper/lanekeeper/shared/parts"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/turn/telling"
)

// Deps holds what the API needs. The fields that optionalDeps names may be nil, and Version may be
// empty. [New] returns an error if any other field is nil. The same holds for the fields of Parts.
type Deps struct {
	*parts.Parts
	Auth *auth.Authenticator
	// People stores the members of workspaces and the keys of programs. Sessions stores the
	// sessions of persons who signed in with a cookie.
	People   *auth.Store
	Sessions *auth.Sessions
	// AgentTokens creates the tokens of agents.
	AgentTokens *auth.AgentTokens
	// Hosts lists further names, in lower case, that the Host header of a request may have if the
	// request arrives on loopback. They belong to a reverse proxy on the same machine.
	Hosts []string
	// Limits bounds the rate of requests of each principal; nil: no bound.
	Limits *ratelimit.Cache
	// Streams configures the event streams.
	Streams *sse.Streams
	// Failures counts bad credentials per address; nil: no bound.
	Failures *ratelimit.Failures

	// Operate runs the turns, approvals and calls that an admin asks for.
	Operate *operate.Operate
	// Reachable returns an error if a channel has no such address.
	Reachable func(channel, address string) error

	// Kick clears stale locks of a workspace's threads and sends the messages in its outbox, in
	// this process. It returns at once. The next heartbeat sends what Kick did not send. Send is
	// Kick without the locks, for messages that a request has just stored; nil: Kick.
	Kick, Send func(db.Workspace)

	// Beat runs one heartbeat.
	Beat func(context.Context, heartbeat.Tick) (heartbeat.Report, error)
	// Claim gives an agent that asks for work its next task, which runs from then on; false: there is
	// none. entry is the id of the entry in the task's log that says so; empty: a new one. Nil: no coordinator is wired.
	Claim func(ctx context.Context, ws db.Workspace, agent, entry string) (task.Task, bool, error)
	// BeatEvery is the interval of the heartbeat's schedule; zero: it is not known.
	BeatEvery time.Duration
	// KeepOverview is how long an overview of a workspace is answered again without a look at the
	// database, unless a request to this process changed something; zero: never.
	KeepOverview time.Duration
	// Background runs fn after the response to a request, under a context of its own. It keeps the
	// process running until fn has returned.
	Background func(fn func(context.Context))
	// Coordinator gives tasks to agents.
	Coordinator *coordinate.Coordinator
	// Cycle runs one cycle of the coordinator in a workspace, says why, and counts it. It returns a
	// [lane.BusyError] if another process runs one.
	Cycle func(ctx context.Context, ws db.Workspace, why string) (coordinate.Report, error)
	// Gateway returns an error if what starts agents cannot be reached; nil: there is none.
	Gateway func(context.Context) error
	// Valkey returns an error if the live view cannot be reached; nil: there is no live view.
	Valkey func(context.Context) error
	// DemoModel says that agents ask the demo model, a script.
	DemoModel bool
	// Version is the program's version, for the OpenAPI document.
	Version string
	// Resources are those whose routes are served here, such as [OfMachines]; nil: all. The document
	// describes all routes.
	Resources []string
}

// optionalDeps are the fields of [Deps] and of its parts that may be nil.
var optionalDeps = []string{"Valkey", "State", "Live", "Gateway", "BeatEvery", "KeepOverview", "Resources", "Claim", "Limits", "Guard", "Failures", "Hosts", "Retention", "Quiet", "Outbound", "Skills", "SkillsIn", "Reason", "Worker", "Outbox", "Sender", "Meters"}

// missing returns an error that names the required fields that are nil.
func (d Deps) missing() error {
	if d.Parts == nil {
		d.Parts = &parts.Parts{}
	}
	return errors.Join(missingOf(reflect.ValueOf(d)), missingOf(reflect.ValueOf(*d.Parts)))
}

func missingOf(v reflect.Value) error {
	var errs []error
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Name, v.Field(i)
		if !slices.Contains(optionalDeps, name) && field.Kind() != reflect.String && field.Kind() != reflect.Int && field.Kind() != reflect.Bool && field.IsNil() {
			errs = append(errs, fmt.Errorf("%s is missing", name))
		}
	}
	return errors.Join(errs...)
}

// server has the methods of all resources.
type server struct {
	Deps
	mux    *http.ServeMux
	docs   documents
	keys   *idempotency
	mcp    func() (http.Handler, error)
	gauges *observe.Gauges
	table  []route
	// columns are the fields of the items of each listing, by the operation's id.
	columns map[string][]string

	failed    *failure.Store
	overviews *overview.Kept
	runs      *telling.Executions
	open      sse.Open
	// checked caches the health check for callers without a role.
	checked *checked[healthOutput]
	cycling *checked[coordinatorHealthOutput]
	// slugs caches the slugs of workspaces for the problems that [server.missing] returns. A slug
	// never changes.
	slugs sync.Map // db.Workspace → string
}

// New returns the handler of all routes. It uses neither the network nor the database. It is called
// by the function operate and by the local runner.
func New(d Deps) (http.Handler, error) {
	if d.Send == nil {
		d.Send = d.Kick
	}
	if err := d.missing(); err != nil {
		return nil, fmt.Errorf("make the API: %w", err)
	}
	streams := d.Streams.OrDefault()
	d.Streams = &streams
	s := &server{Deps: d, columns: map[string][]string{}, mux: http.NewServeMux(), checked: newChecked[healthOutput](), cycling: newChecked[coordinatorHealthOutput](), runs: telling.New(d.Operate.Runner, streams)}
	var err error
	if s.keys, err = newIdempotency(s); err != nil {
		return nil, fmt.Errorf("make the API: %w", err)
	}
	if s.gauges, err = observe.NewGauges(d.DB); err != nil {
		return nil, fmt.Errorf("make the API: %w", err)
	}
	if s.failed, err = failure.New(d.DB); err != nil {
		return nil, fmt.Errorf("make the API: %w", err)
	}
	sources := overview.Sources{
		Switches: d.Switches, Budgets: d.Budgets, Workspaces: d.Workspaces, Failures: s.failed, Coordinator: d.Coordinator, Every: d.BeatEvery,
	}
	overviews, err := overview.New(d.DB, sources)
	if err != nil {
		return nil, fmt.Errorf("make the API: %w", err)
	}
	s.overviews = &overview.Kept{Store: overviews, For: d.KeepOverview}
	s.table = routes(s)
	s.mount(s.table)
	return s, nil
}
