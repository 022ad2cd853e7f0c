// Package api is Lanekeeper's HTTP API: one table of routes (routes.go), one file
// per resource, and what holds for all of them: who may call, what a request may
// look like, how it is refused, and the OpenAPI document. It alone imports huma.
//
// A request passes, in this order: trace, headers, recovery and log (request.go);
// the mux; token and role (guard.go); the limits and the syntax of query and body
// (intake.go); huma, which checks fields against the types and hands them to the
// resource's method; and errors.go, which turns what comes back into a problem.
// No answer repeats a value that was refused.
//
// /mcp is a front (mcp.go): each of its tools (mcptools.go) makes a request to a route
// and comes the same way.
package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/parts"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
)

// Deps is what the API works with. All but Valkey, Limits and Version are needed; so are
// those of the parts that the routes use, which are all but a few.
type Deps struct {
	*parts.Parts
	Auth *auth.Authenticator
	// People has the members of workspaces and the keys of programs, Sessions those
	// who are signed in by a cookie.
	People   *auth.Store
	Sessions *auth.Sessions
	// Hosts are names, in lower case, that requests may have in their Host header beside
	// those of loopback where they arrive on it: those of a proxy on this machine.
	Hosts []string
	// Limits bounds how often a principal may ask; nil: nobody is bounded.
	Limits *ratelimit.Cache
	// Streams is how what has happened is told to those who follow.
	Streams *Streams
	// Failures counts bad credentials; nil: they may come as often as they like.
	Failures *ratelimit.Failures

	// Operate is what an admin does with the agent.
	Operate *operate.Operate
	// Reachable says whether a channel has such addresses.
	Reachable func(channel, address string) error

	// Kick has this process clear stale locks of a workspace's threads and send what is
	// in its outbox, and returns at once. What is not sent then, the next beat finds.
	// Send is Kick without the locks, for what a request has made ready; nil: Kick.
	Kick, Send func(db.Workspace)

	// Beat runs one heartbeat.
	Beat func(context.Context, heartbeat.Tick) (heartbeat.Report, error)
	// Background runs fn beyond the answer to a request, under a context of its
	// own, and sees to it that the process does not end before fn has.
	Background func(fn func(context.Context))
	// Valkey reports whether the live view can be reached; nil: there is none.
	Valkey func(context.Context) error
	// Version of the program, for the OpenAPI document.
	Version string
}

// optionalDeps are the fields of [Deps] and of its parts that may be nil.
var optionalDeps = []string{"Valkey", "Limits", "Guard", "Failures", "Hosts", "Retention", "Quiet", "Outbound", "Skills", "Reason", "Worker", "Outbox", "Sender"}

// missing names the needed fields that are not there.
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
		if !slices.Contains(optionalDeps, name) && field.Kind() != reflect.String && field.Kind() != reflect.Int && field.IsNil() {
			errs = append(errs, fmt.Errorf("%s is missing", name))
		}
	}
	return errors.Join(errs...)
}

// server has the resources' methods.
type server struct {
	Deps
	mux  *http.ServeMux
	docs documents
	keys *idempotency
	mcp  http.Handler
	runs *runHub
	open followers
	// checked is what strangers are told of the health.
	checked *checked
	// slugs are those of workspaces in which something was looked for that was not there. No slug
	// changes.
	slugs sync.Map // db.Workspace → string
}

// New makes the handler of all routes. It is served by the function operate and
// by the local runner. It touches neither network nor database.
func New(d Deps) (http.Handler, error) {
	if d.Send == nil {
		d.Send = d.Kick
	}
	if err := d.missing(); err != nil {
		return nil, fmt.Errorf("make the API: %w", err)
	}
	streams := d.Streams.orDefault()
	d.Streams = &streams
	s := &server{Deps: d, mux: http.NewServeMux(), checked: newChecked()}
	s.runs = s.newRunHub()
	var err error
	if s.keys, err = newIdempotency(s); err != nil {
		return nil, fmt.Errorf("make the API: %w", err)
	}
	if err := s.mount(routes(s)); err != nil {
		return nil, fmt.Errorf("make the API: %w", err)
	}
	return s, nil
}
