package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn/telling"
)

// limit is the time limit of a route. A database that gives no response within this time counts as
// down.
const limit = 10 * time.Second

// guard admits a request to a route if its token, role, query and body meet the route's
// requirements.
func (s *server) guard(rt route, next http.Handler) http.Handler {
	if rt.once() {
		next = s.keys.once(keyed{route: rt.id, sensitive: rt.sensitive, within: rt.within, begins: rt.begins, again: rt.again}, next)
	}
	next = s.lastWrites(rt, rt.targeted(s.intake(rt, next)))
	if rt.within == 0 {
		next = limited(next)
	}
	if rt.surface != "" {
		next = s.started(rt.surface, next)
	}
	if rt.least == public {
		next = s.Auth.AdmitOr(fromAddress(next), s.guessed)
	} else {
		guarded := s.Auth.RequireOr(s.allowed(rt, next), s.stranger)
		if rt.loopback {
			guarded = exceptLoopback(guarded, next)
		}
		next = guarded
	}
	if rt.front {
		next = tokensOnly(next)
	}
	if rt.front || rt.ours {
		next = s.sameOrigin(next)
	}
	return next
}

// stranger answers a request without a valid principal. An address that sends too many bad
// credentials is told to wait. Good credentials from the same address are never refused because of
// them.
func (s *server) stranger(w http.ResponseWriter, r *http.Request, err error) {
	if p := s.tooMany(r.RemoteAddr, err); p != nil {
		s.refuse(w, r, p)
	} else if !auth.Refuse(w, r, err) {
		s.fail(w, r, err)
	}
}

// guessed refuses a caller that sends bad tokens too often to a public route, because the responses
// would show which tokens are valid. It does not count cookies: a browser with an expired session
// must be able to sign in and out.
func (s *server) guessed(w http.ResponseWriter, r *http.Request, err error) bool {
	if len(r.Header.Values("Authorization")) == 0 {
		return false
	}
	p := s.tooMany(r.RemoteAddr, err)
	if p != nil {
		s.refuse(w, r, p)
	}
	return p != nil
}

// tooMany counts bad credentials. It returns a problem once an address has sent too many.
func (s *server) tooMany(address string, err error) *problem.Problem {
	if !errors.Is(err, auth.ErrInvalid) {
		return nil
	}
	if over, wait := s.Failures.Count(address); over {
		return problem.New(http.StatusTooManyRequests, "rate_limited",
			"too many bad credentials came from this address: wait, and check the token").Later(wait)
	}
	return nil
}

type addressKey struct{}

// fromAddress puts the client's address into the request's context.
func fromAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), addressKey{}, r.RemoteAddr)))
	})
}

// once reports whether the route honours an Idempotency-Key. A public route does not: it has no
// principal that a stored response could belong to, and a cookie must not be stored.
func (rt route) once() bool { return rt.method == http.MethodPost && rt.least != public }

// tokensOnly removes cookies from a request, because a browser sends them without the user's
// intent.
func tokensOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Del("Cookie")
		next.ServeHTTP(w, r)
	})
}

// sameOrigin refuses requests that a browser sends for a page of another origin.
func (s *server) sameOrigin(next http.Handler) http.Handler {
	foreign := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if foreign.Check(r) != nil {
			s.refuse(w, r, problem.New(http.StatusForbidden, "cross_origin", "a page of another origin may not ask"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// patience is the time limit of a route that works for as long as its caller waits. It equals the longest
// time that a Lambda function may run.
const patience = 15 * time.Minute

// access describes the permission that the route requires.
func (rt route) access() auth.Access {
	return auth.Access{Least: rt.least, Resource: tag(rt.path), Write: rt.method != http.MethodGet, Also: rt.kinds, Persons: rt.persons}
}

// allowed refuses a principal that lacks the route's permission and a principal that exceeds its
// rate limit.
func (s *server) allowed(rt route, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := auth.From(r.Context())
		if !p.Allows(rt.access()) && !(rt.front && p.Role.AtLeast(rt.least)) {
			s.refuse(w, r, rt.forbidden(p))
			return
		}
		if s.Limits != nil {
			if ok, wait := s.Limits.Take(r.Context(), p.Workspace, "api:"+principal(p), 1, s.rate); !ok {
				s.refuse(w, r, problem.New(http.StatusTooManyRequests, "rate_limited", "too many requests").Later(wait))
				return
			}
		}
		ctx := trace.WithWorkspace(r.Context(), string(p.Workspace))
		if writes(r.Method) && (tag(rt.path) != "lanes" || len(rt.kinds) == 0) { // agents write no text to lanes
			ctx = redact.With(ctx, redact.New(s.Guard.Redactor(ctx, p.Workspace)))
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			changed := func() { s.overviews.Forget(p.Workspace) }
			w = &changing{ResponseWriter: w, changed: changed}
			defer changed() // a stream goes on after its first line
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// changing calls changed before a response begins: a client that has the response sees what it changed.
type changing struct {
	http.ResponseWriter
	changed func()
	begun   bool
}

func (c *changing) begin() {
	if !c.begun {
		c.begun = true
		c.changed()
	}
}

// WriteHeader implements [http.ResponseWriter].
func (c *changing) WriteHeader(status int) {
	c.begin()
	c.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (c *changing) Write(p []byte) (int, error) {
	c.begin()
	return c.ResponseWriter.Write(p)
}

// Unwrap lets [http.ResponseController] reach the underlying writer.
func (c *changing) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// rate adds a query to a batch and returns a function for its result, the rate limit of the
// workspace's principals.
func (s *server) rate(b *db.Batch) func() ratelimit.Limit {
	read := s.Workspaces.Settings(b)
	return func() ratelimit.Limit {
		set, err := read()
		if err != nil { // the route's own queries report it
			return ratelimit.API
		}
		return ratelimit.Limit{PerSecond: float64(set.APIRate), Burst: set.APIBurst}
	}
}

// forbidden names the permission that the principal lacks.
func (rt route) forbidden(p auth.Principal) *problem.Problem {
	a, needs := rt.access(), "the role "+string(rt.least)
	switch {
	case p.Kind != auth.Key || !p.Role.AtLeast(a.Least):
	case a.Persons:
		needs = "a person: no key may do it"
	case a.Write:
		needs = "a key with the scope " + a.Resource + ":write"
	default:
		needs = "a key with the scope " + a.Resource + ":read"
	}
	return problem.New(http.StatusForbidden, "forbidden", "this needs "+needs)
}

func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// lastWrites gives all last writes of a request one shared time limit. The outcome that is stored
// under its idempotency key is one of these writes.
func (s *server) lastWrites(rt route, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		work := r.Context()
		if rt.outlasts {
			outlasting, cancel := telling.Outlasting(work, s.Streams.Drain)
			defer cancel()
			work = outlasting
		}
		ctx, cancel := lane.WithLastWritesOf(r.Context(), work)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// started gives the request a new trace of the route's surface, unless the client sent a trace id.
func (s *server) started(surface trace.Surface, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, _ := trace.From(r.Context()); r.Header.Get(traceHeader) != string(id) {
			id = s.Traces.New(surface)
			w.Header().Set(traceHeader, string(id))
			r = r.WithContext(trace.With(r.Context(), id))
		}
		next.ServeHTTP(w, r)
	})
}

// discreet redacts the known secrets in a text from a person or an agent.
func discreet(ctx context.Context, text string) string {
	return redact.From(ctx).Values().Text(text)
}

// workspace returns the workspace of the request's principal. A guarded route may read the data of
// this workspace only.
func workspace(ctx context.Context) db.Workspace {
	p, _ := auth.From(ctx)
	return p.Workspace
}
