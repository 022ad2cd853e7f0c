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
)

// limit is how long a route may take: a database that neither answers nor refuses
// is one that is down.
const limit = 10 * time.Second

// guard lets a request through to a route when its token, its role, its query and
// its body are what the route asks for.
func (s *server) guard(rt route, next http.Handler) http.Handler {
	if rt.once() {
		within := time.Duration(0)
		if rt.patient {
			within = patience
		}
		next = s.keys.once(keyed{route: rt.id, sensitive: rt.sensitive, within: within}, next)
	}
	next = s.lastWrites(rt, rt.targeted(s.intake(rt, next)))
	if !rt.patient {
		next = limited(next)
	}
	if rt.surface != "" {
		next = s.started(rt.surface, next)
	}
	if rt.least == public {
		next = s.Auth.AdmitOr(fromAddress(next), s.guessed)
	} else {
		next = s.Auth.RequireOr(s.allowed(rt, next), s.stranger)
	}
	if rt.front {
		next = tokensOnly(next)
	}
	if rt.front || rt.ours {
		next = s.sameOrigin(next)
	}
	return next
}

// stranger answers who has no principal. Those who bring bad credentials too often are told
// to wait; good ones are never refused for them.
func (s *server) stranger(w http.ResponseWriter, r *http.Request, err error) {
	if p := s.tooMany(r.RemoteAddr, err); p != nil {
		s.refuse(w, r, p)
	} else if !auth.Refuse(w, r, err) {
		s.fail(w, r, err)
	}
}

// guessed refuses a caller that sends bad tokens too often to a public route, because the
// answers would show which tokens are valid. It does not count cookies: a browser with an
// expired session must be able to sign in and out.
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

// tooMany counts bad credentials, and refuses those beyond what an address may bring.
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

// fromAddress puts where a request comes from into its context.
func fromAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), addressKey{}, r.RemoteAddr)))
	})
}

// once reports whether a request with an Idempotency-Key is done once. Without a
// principal there is nobody to answer again, and a cookie is not kept.
func (rt route) once() bool { return rt.method == http.MethodPost && rt.least != public }

// tokensOnly keeps out what a browser sends by itself: cookies.
func tokensOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Del("Cookie")
		next.ServeHTTP(w, r)
	})
}

// sameOrigin keeps out what a page of another origin has a browser ask for.
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

// patience is how long a patient route may take: what a function has at most.
const patience = 15 * time.Minute

// access is what a route asks of its caller.
func (rt route) access() auth.Access {
	return auth.Access{Least: rt.least, Resource: tag(rt.path), Write: rt.method != http.MethodGet, Also: rt.kinds, Persons: rt.persons}
}

// allowed refuses principals that may not do what the route does, and those that ask
// too often.
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
		if writes(r.Method) && (tag(rt.path) != "lanes" || len(rt.kinds) == 0) { // agents write no text there
			ctx = redact.With(ctx, redact.New(s.Guard.Redactor(ctx, p.Workspace)))
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// rate adds the reading of how often a principal of the workspace may ask to a batch.
func (s *server) rate(b *db.Batch) func() ratelimit.Limit {
	read := s.Workspaces.Settings(b)
	return func() ratelimit.Limit {
		set, err := read()
		if err != nil { // others tell of it
			return ratelimit.API
		}
		return ratelimit.Limit{PerSecond: float64(set.APIRate), Burst: set.APIBurst}
	}
}

// forbidden says what the principal lacks.
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

// lastWrites has all last writes of a request share one limit, how it ended under its key
// among them.
func (s *server) lastWrites(rt route, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		work := r.Context()
		if rt.outlasts {
			outlasting, cancel := s.outlasting(work)
			defer cancel()
			work = outlasting
		}
		ctx, cancel := lane.WithLastWritesOf(r.Context(), work)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// started gives the request a trace of the surface that the route starts, unless
// the caller named one.
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

// discreet is a text that a person or an agent gave, without the secrets that are known.
func discreet(ctx context.Context, text string) string {
	return redact.From(ctx).Values().Text(text)
}

// workspace is whose data a guarded route may see.
func workspace(ctx context.Context) db.Workspace {
	p, _ := auth.From(ctx)
	return p.Workspace
}
