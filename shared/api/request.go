package api

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/capture"
	"github.com/lanekeeper/lanekeeper/shared/intake"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// traceHeader names the trace in requests and in every response.
const traceHeader = "X-Trace-Id"

// ServeHTTP implements [http.Handler].
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := s.traceOf(r)
	a := &capture.Recorder{ResponseWriter: w}
	setHeaders(a.Header(), id)
	r = r.WithContext(trace.With(r.Context(), id))
	defer s.finish(a, r, s.Clock())
	intake.Expect(a, r, bodyTime)
	if headerBytes(r) > maxHeaders {
		s.refuse(a, r, tooMuchHeader)
		return
	}
	if s.rebound(r) {
		s.refuse(a, r, wrongHost)
		return
	}
	if !clean(r.URL.EscapedPath()) { // the mux would redirect, and repeat the path
		s.refuse(a, r, noRoute)
		return
	}
	s.mux.ServeHTTP(a, intake.WithoutSlash(r, "/api/v1/"))
}

// maxHeaders is the largest size of the request line and the headers, in bytes.
const maxHeaders = 64 << 10

var tooMuchHeader = problem.New(http.StatusRequestHeaderFieldsTooLarge, "headers_too_large",
	"the URL and the headers have more than 64 KiB: send fewer cookies, or put what is long into the body")

// headerBytes returns the approximate size of a request's URL and headers, in bytes.
func headerBytes(r *http.Request) int {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value) + len(": \r\n")
		}
	}
	return n
}

// traceOf returns the trace that the client names, if its id is valid, or a new one.
func (s *server) traceOf(r *http.Request) trace.ID {
	if id, _, err := trace.Parse(r.Header.Get(traceHeader)); err == nil {
		return id
	}
	return s.Traces.New(trace.Operate)
}

var wrongHost = problem.New(http.StatusForbidden, "wrong_host",
	"the Host header names another machine than this one, on which the request arrived: "+
		"use 127.0.0.1 or localhost, or list the name in ALLOWED_HOSTS where a proxy on this machine serves it")

// rebound reports whether a request that arrived on loopback has a Host header that names another
// machine. The names of a reverse proxy on this machine are allowed. A page elsewhere can let its
// own name resolve to this machine, so that the browser takes it for a page of ours (DNS
// rebinding).
func (s *server) rebound(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !at.IP.IsLoopback() {
		return false
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if slices.Contains(s.Hosts, host) {
		return false
	}
	ip := net.ParseIP(host)
	return host != "" && host != "localhost" && !strings.HasSuffix(host, ".localhost") && (ip == nil || !ip.IsLoopback())
}

// clean reports whether a path is already in canonical form. A slash at its end is allowed.
func clean(p string) bool {
	if !strings.HasPrefix(p, "/") {
		return false
	}
	tidy := path.Clean(p)
	return tidy == p || tidy+"/" == p
}

// setHeaders sets the headers that every response has.
func setHeaders(h http.Header, id trace.ID) {
	h.Set(traceHeader, string(id))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Strict-Transport-Security", "max-age=31536000")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// finish converts a panic to a response with status 500 and writes the request's log line. The line
// holds no text from the client: it names the route's pattern instead of the path. finish must be
// deferred.
func (s *server) finish(a *capture.Recorder, r *http.Request, begun time.Time) {
	thrown := recover()
	aborted := thrown == any(http.ErrAbortHandler)
	ctx := trace.With(r.Context(), trace.ID(a.Header().Get(traceHeader)))
	cut := thrown != nil && a.Status != 0 // the response had begun
	if thrown != nil && !aborted {
		s.Log.ErrorContext(ctx, "a request panicked", "panic", fmt.Sprint(thrown), "stack", string(debug.Stack()))
		if !cut {
			s.refuse(a, r.WithContext(ctx), internal)
		}
	}
	level := slog.LevelInfo
	if a.Status < http.StatusMultipleChoices && polled[r.Pattern] {
		level = slog.LevelDebug
	}
	s.Log.LogAttrs(ctx, level, "request",
		slog.String("method", known(r.Method)), slog.String("route", routeOf(r)),
		slog.Int("status", a.Status), slog.Int64("duration_ms", s.Clock().Sub(begun).Milliseconds()))
	if cut || aborted {
		panic(http.ErrAbortHandler) // so that the client notices the incomplete response
	}
}

// polled lists the routes that each agent calls all the time. The logs of tasks show their results, so
// these requests are logged at level debug.
var polled = map[string]bool{"POST /api/v1/agents/{id}/heartbeat": true, "POST /api/v1/agents/{id}/claim": true}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

func known(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return "other"
}

// routeOf returns the path pattern of the route that the mux found.
func routeOf(r *http.Request) string {
	if _, p, ok := strings.Cut(r.Pattern, " "); ok {
		return p
	}
	if r.Pattern == "" || r.Pattern == "/" {
		return "none"
	}
	return r.Pattern
}
