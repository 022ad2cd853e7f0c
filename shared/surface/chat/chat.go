// Package chat is the visitor's surface: conversations over HTTP, in the shapes of other chat APIs
// (/v1/chat/completions, /v1/responses, /v1/models), which existing clients speak, and in our own
// (/api/v1/chat/…).
//
// A visitor is whom X-Session-Id names, else the body's user, else a new one, whom the answer's
// X-Session-Id names. A visitor has one conversation, the thread with the visitor's address. Whoever
// knows the name of a visitor of a site can go on with the conversation: sites that use names which
// can be guessed tell visitors of one another. The key of a site reaches the conversations that it
// opened, and no others; users, keys of programs and admins reach all.
//
// A visitor learns nothing of what goes on inside: no instructions, no arguments and results of calls,
// no names of skills, no errors of ours.
package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/capture"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/intake"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/turn/telling"
)

// Handler serves visitors. Between requests it keeps only what is open now. It serves several at once
// and must not be copied. [Kind] must be among the kinds of its runner.
type Handler struct {
	*turn.Runner
	Auth     *auth.Authenticator
	Limits   *ratelimit.Cache    // of messages; nil: none
	Failures *ratelimit.Failures // of bad credentials, by address; nil: none
	Streams  sse.Streams
	// Longest is how long a turn may take here, after which it goes on by itself; 0: 2 minutes, as long
	// as the function may take.
	Longest time.Duration
	// Send has what turns have left in the outbox of a workspace sent, and does not wait for it.
	Send func(db.Workspace)
	// Pages serves /chat/ and /chat-demo to everyone; nil: there are none.
	Pages http.Handler

	once       sync.Once
	mux        *http.ServeMux
	executions *telling.Executions
	open       sse.Open
	room       intake.Room
}

const (
	traceHeader     = "X-Trace-Id"
	sessionHeader   = "X-Session-Id"
	threadHeader    = "X-Thread-Id"
	executionHeader = "X-Execution-Id"
	strategyHeader  = "X-Multitask"
)

// longest is how long a turn may take here.
const longest = 2 * time.Minute

// limit is how long a request may take that has no turn.
const limit = 10 * time.Second

// Serves reports whether a path is one of chat's.
func Serves(path string) bool {
	for _, prefix := range []string{"/v1/", "/api/v1/chat/", "/chat/"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return path == "/chat-demo"
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.once.Do(h.begin)
	id := h.Traces.New(trace.Chat)
	a := &capture.Recorder{ResponseWriter: w}
	head := a.Header()
	head.Set(traceHeader, string(id))
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	r = r.WithContext(trace.With(r.Context(), id))
	defer h.finish(a, r, h.Clock())
	intake.Expect(a, r, bodyTime) // also where nobody reads it

	if p := path.Clean(r.URL.Path); p != r.URL.Path && p+"/" != r.URL.Path { // the mux would redirect, and repeat the path
		h.refuse(a, r, noRoute)
		return
	}
	if preflight(a, r) {
		return
	}
	head.Add("Vary", "Origin")
	r = intake.WithoutSlash(r, "/api/v1/chat/")
	h.mux.ServeHTTP(a, intake.WithoutSlash(r, "/v1/"))
}

var noRoute = problem.New(http.StatusNotFound, "not_found", "chat has no such path")

// begin makes what the zero value lacks.
func (h *Handler) begin() {
	h.Streams = h.Streams.OrDefault()
	h.executions = telling.New(h.Runner, h.Streams)
	h.mux = http.NewServeMux()
	methods := map[string][]string{}
	type route struct {
		method, path string
		handle       func(http.ResponseWriter, *http.Request, *visit)
	}
	for _, rt := range []route{
		{http.MethodGet, "/v1/models", h.listModels},
		{http.MethodGet, "/v1/models/{model}", h.getModel},
		{http.MethodPost, "/v1/chat/completions", h.complete},
		{http.MethodPost, "/v1/responses", h.respond},
		{http.MethodGet, "/v1/responses/{response}", h.getResponse},
		{http.MethodPost, "/api/v1/chat/messages", h.knows(h.message)},
		{http.MethodPost, "/api/v1/chat/{thread}/messages", h.knows(h.message)},
		{http.MethodGet, "/api/v1/chat/{thread}/messages", h.knows(h.history, "user", "cursor", "limit")},
		{http.MethodGet, "/api/v1/chat/{thread}/executions/{execution}/events", h.knows(h.events, "user", "after")},
	} {
		h.mux.Handle(rt.method+" "+rt.path, h.guard(rt.method != http.MethodGet, rt.handle))
		methods[rt.path] = append(methods[rt.path], rt.method)
	}
	for at, allowed := range methods {
		h.mux.HandleFunc(at, func(w http.ResponseWriter, r *http.Request) {
			h.refuseAnyone(w, r, problem.New(http.StatusMethodNotAllowed, "method_not_allowed", "this path is asked with another method").
				With("Allow", strings.Join(allowed, ", ")))
		})
	}
	if h.Pages != nil {
		h.mux.Handle("/chat/", h.Pages)
		h.mux.Handle("/chat-demo", h.Pages)
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { h.refuseAnyone(w, r, noRoute) })
}

// guard lets those through to a route who may chat, or, where the route changes nothing, may read.
func (h *Handler) guard(write bool, next func(http.ResponseWriter, *http.Request, *visit)) http.Handler {
	access := auth.Access{Least: auth.Member, Resource: "chat", Write: write, Also: []auth.Kind{auth.Site}}
	known := h.Auth.RequireOr(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := auth.From(r.Context())
		if p.Kind == auth.Site {
			readable(w, r)
		}
		if !p.Allows(access) {
			h.refuse(w, r, problem.New(http.StatusForbidden, "forbidden",
				"this needs a site key, the role MEMBER, or a key with the scope chat:write or, to read, chat:read"))
			return
		}
		ctx := trace.WithWorkspace(r.Context(), string(p.Workspace))
		if p.Kind != auth.Site { // a page's visitors name no trace of ours
			if id, _, err := trace.Parse(r.Header.Get(traceHeader)); err == nil {
				ctx = trace.With(ctx, id)
				w.Header().Set(traceHeader, string(id))
			}
		}
		if h.Guard != nil {
			ctx = redact.With(ctx, redact.New(h.Guard.Redactor(ctx, p.Workspace)))
		}
		r = r.WithContext(ctx)
		next(w, r, &visit{Principal: p, from: r.RemoteAddr})
	}), h.stranger)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Del("Cookie") // what a browser sends by itself says nothing here
		known.ServeHTTP(w, r)
	})
}

// stranger answers who has no principal. Those who bring bad credentials too often are told to wait.
func (h *Handler) stranger(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, auth.ErrOrigin) { // the key of another's site
		h.refuse(w, r, h.strange(r, err))
		return
	}
	h.refuseAnyone(w, r, h.strange(r, err))
}

// finish turns a panic into a 500, and writes the request's line in the log. It must be deferred.
func (h *Handler) finish(a *capture.Recorder, r *http.Request, begun time.Time) {
	thrown := recover()
	cut := thrown != nil && a.Status != 0 // the answer had begun
	if thrown != nil && thrown != any(http.ErrAbortHandler) {
		h.Log.ErrorContext(r.Context(), "a request panicked", "panic", fmt.Sprint(thrown), "stack", string(debug.Stack()))
		if !cut {
			h.refuse(a, r, internal)
		}
	}
	method, route, known := strings.Cut(r.Pattern, " ")
	if !known {
		method, route = "other", r.Pattern
	}
	ctx := trace.With(r.Context(), trace.ID(a.Header().Get(traceHeader))) // which the caller may have named
	if id := a.Header().Get(executionHeader); id != "" {
		ctx = trace.WithExecution(ctx, id)
	}
	h.Log.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("method", method), slog.String("route", route),
		slog.Int("status", a.Status), slog.Int64("duration_ms", h.Clock().Sub(begun).Milliseconds()))
	if cut || thrown == any(http.ErrAbortHandler) {
		panic(http.ErrAbortHandler) // so that the caller sees it was cut off
	}
}

// within bounds a read for a request.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, limit)
}
