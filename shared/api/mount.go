package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// handler registers the handler of a route.
type handler func(*server, huma.API, huma.Operation)

// raced reports whether the row was changed between the read and the write. The change may be
// retried: it reads the row again, and then detects an If-Match that no longer holds.
func raced(err error) bool {
	for _, a := range answers {
		if a.problem == stale && errors.Is(err, a.err) {
			return true
		}
	}
	return false
}

// answer is the response of a typed route with its usual status.
type answer[T any] struct{ Body T }

func answered[T any](body T) *answer[T] { return &answer[T]{Body: body} }

// mount registers all routes, and describes them.
func (s *server) mount(table []route) {
	strictCasing()
	m := &guarded{ServeMux: s.mux, s: s}
	a := humago.New(m, s.config())
	for _, rt := range table {
		m.current = rt
		op := operation(a, rt)
		rt.handler(s, a, op)
		if usual := op.Responses["200"]; single(rt.method, rt.path) && usual.Headers["ETag"] == nil {
			usual.Headers = map[string]*huma.Header{"ETag": {Schema: &huma.Schema{Type: huma.TypeString}}}
		}
		if s.columns[rt.id] != nil {
			op.Responses["200"].Content[csvType] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: "The items, one a line"}}
		}
		for _, status := range rt.also {
			usual := *op.Responses["200"]
			usual.Description = http.StatusText(status)
			if status == http.StatusNoContent {
				usual.Content = nil
			}
			op.Responses[strconv.Itoa(status)] = &usual
		}
	}
	for at, allowed := range methodsByPath(table) {
		refused := s.refusal(methodNotAllowed(allowed))
		if !covered(at, table) {
			s.mux.Handle(at, refused)
			continue
		}
		for _, method := range methods { // the mux accepts no pattern without a method here
			if !slices.Contains(allowed, method) {
				s.mux.Handle(method+" "+at, refused)
			}
		}
	}
	s.mux.Handle("/", s.refusal(noRoute))
	s.mux.HandleFunc("GET /{$}", toTheDocs)
	describeDoors(a.OpenAPI())
	s.docs.describe(a.OpenAPI())
	s.mcp = sync.OnceValues(func() (http.Handler, error) { return s.newMCP(table) })
}

// toTheDocs redirects a browser from the root to the documentation. The location is relative, so
// that it also works below the path of a stage. It is called by GET /.
func toTheDocs(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "docs")
	w.WriteHeader(http.StatusFound)
}

// guarded is the mux that huma registers handlers with. It wraps each handler in its route's guard.
type guarded struct {
	*http.ServeMux
	s       *server
	current route
}

// HandleFunc implements humago.Mux.
func (m *guarded) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	if !m.s.serves(m.current) {
		m.Handle(pattern, m.s.refusal(elsewhere))
		return
	}
	guarded := m.s.guard(m.current, http.HandlerFunc(h))
	if columns := m.s.columns[m.current.id]; columns != nil {
		guarded = asCSV(tag(m.current.path), columns, guarded)
	}
	m.Handle(pattern, guarded)
}

// OfMachines are the resources whose routes agents and machines use. The function coordinator serves
// them.
var OfMachines = []string{"about", "coordinator", "agents", "agent-tasks", "lanes", "executions", "threads", "metrics"}

// serves reports whether a route is served here. A function that serves only some resources has neither
// routes with a time limit of their own nor the sign-in: its responses can't stream, and its requests have little time.
func (s *server) serves(rt route) bool {
	return s.Resources == nil || slices.Contains(s.Resources, tag(rt.path)) && rt.within == 0 && !strings.HasPrefix(rt.path, "/sign-in")
}

// strictCasing makes huma refuse a field whose case differs, as it refuses an unknown field. The
// setting is global to package huma, so it is set once.
var strictCasing = sync.OnceFunc(func() { huma.ValidateStrictCasing = true })

// config returns huma's configuration. It omits huma's pages, which load files from other hosts.
func (s *server) config() huma.Config {
	cfg := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Lanekeeper", Version: "dev", Description: description},
			Components: &huma.Components{SecuritySchemes: map[string]*huma.SecurityScheme{
				"bearer":  {Type: "http", Scheme: "bearer"},
				"session": {Type: "apiKey", In: "cookie", Name: s.Sessions.Name(), Description: "What POST /api/v1/session sets"},
			}},
		},
	}
	if s.Version != "" {
		cfg.Info.Version = s.Version
	}
	return cfg
}

// encode writes v as JSON. It returns an error if v cannot be encoded, and then writes nothing. It
// ignores errors of the writer: the client may have disconnected.
func encode(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, _ = w.Write(b.Bytes())
	return nil
}

// decode is json.Unmarshal, but its errors name the field and not the value.
func decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errors.New(misfitIn + sentPath(e.Field) + ": " + expected(e.Type.Kind()))
	}
	return err
}

// sentPath returns the path of a field without the names of Go's embedded types, which alone begin with a capital.
func sentPath(field string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(field, "."), func(name string) bool {
		return name != "" && unicode.IsUpper(rune(name[0]))
	}), ".")
}

// operation returns the description of a route.
func operation(a huma.API, rt route) huma.Operation {
	op := huma.Operation{
		OperationID: rt.id, Method: rt.method, Path: rt.path, Summary: rt.summary,
		Description: "Called by " + rt.caller + ".", Tags: []string{tag(rt.path)},
		Responses: map[string]*huma.Response{},
	}
	statuses := slices.Concat(rt.refusals, []int{
		http.StatusBadRequest, http.StatusForbidden, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
		http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge, http.StatusInternalServerError, http.StatusServiceUnavailable,
	})
	if rt.least != public {
		op.Description += " Needs the role " + string(rt.least) + "."
		if rt.persons {
			op.Description += " Only a person may call it, no API key."
		}
		op.Security = []map[string][]string{{"bearer": {}}}
		if !rt.front {
			op.Security = append(op.Security, map[string][]string{"session": {}})
		}
		if rt.loopback {
			op.Security = append(op.Security, map[string][]string{})
		}
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: "X-Workspace-Id", In: "header", Schema: &huma.Schema{Type: huma.TypeString, Format: "uuid"},
			Description: "In which of their workspaces a person asks; without it, in the one that the session has chosen, or " +
				"else the one they have belonged to for longest",
		})
		statuses = append(statuses, http.StatusUnauthorized)
	}
	if rt.once() {
		statuses = append(statuses, http.StatusConflict)
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: keyHeader, In: "header", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "Names the request: sent again within a day it is not done again, and gets the first answer",
		})
	}
	if writes(rt.method) {
		statuses = append(statuses, http.StatusUnsupportedMediaType)
	}
	schema := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[problem.Problem](), true, "Problem")
	for _, status := range statuses {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{problem.MediaType: {Schema: schema}},
		}
	}
	return op
}

// tag returns the name of a route's resource.
func tag(path string) string {
	resource, isAPI := strings.CutPrefix(path, "/api/v1/")
	switch path {
	case mcpPath:
		return "mcp"
	case metricsPath:
		return "metrics"
	}
	if !isAPI {
		return "about"
	}
	resource, _, _ = strings.Cut(resource, "/")
	return resource
}

func methodsByPath(table []route) map[string][]string {
	methods := map[string][]string{}
	for _, rt := range table {
		methods[rt.path] = append(methods[rt.path], rt.method)
		if rt.method == http.MethodGet {
			methods[rt.path] = append(methods[rt.path], http.MethodHead)
		}
	}
	return methods
}

// covered reports whether another route has a wildcard in place of p's last segment.
func covered(p string, table []route) bool {
	return slices.ContainsFunc(table, func(rt route) bool {
		dir, last := path.Split(rt.path)
		return rt.path != p && strings.HasPrefix(last, "{") && dir+path.Base(p) == p
	})
}
