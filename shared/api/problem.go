package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// invalid refuses fields of a request.
func invalid(fields ...problem.FieldError) *problem.Problem {
	p := problem.New(http.StatusUnprocessableEntity, "invalid", "the request has fields that can't be taken")
	p.Errors = fields
	return p
}

// refuse answers with a problem.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	id, _ := trace.From(r.Context())
	p.Write(w, id)
}

// fail answers with the problem an error is.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.refuse(w, r, s.problem(r.Context(), err))
}

// refusal is the handler that always answers p.
func (s *server) refusal(p *problem.Problem) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.refuse(w, r, p) })
}

// plain is huma's last look at an answer: what huma itself refuses becomes a
// [Problem], without the refused values, and every problem names its trace. One thing
// that has no version gets an ETag of what is told of it.
func plain(ctx huma.Context, _ string, v any) (any, error) {
	id, _ := trace.From(ctx.Context())
	switch v := v.(type) {
	case *problem.Problem:
		return v.Of(id), nil
	case *huma.ErrorModel:
		return translated(v).Of(id), nil
	}
	if op := ctx.Operation(); single(op.Method, op.Path) {
		if _, w := humago.Unwrap(ctx); w.Header().Get("ETag") == "" {
			told := sha256.New()
			if err := encode(told, v); err != nil {
				return nil, err
			}
			ctx.SetHeader("ETag", `"`+hex.EncodeToString(told.Sum(nil)[:16])+`"`)
		}
	}
	return v, nil
}

// single reports whether a route reads one thing.
func single(method, path string) bool {
	return method == http.MethodGet && strings.HasSuffix(path, "}")
}

func translated(e *huma.ErrorModel) *problem.Problem {
	if e.Status != http.StatusUnprocessableEntity {
		p := *internal // intake.go has refused everything else huma could
		p.Status, p.Title = e.Status, http.StatusText(e.Status)
		return &p
	}
	p := invalid()
	for _, d := range e.Errors {
		at, what := located(d.Location), worded(d.Message)
		if what == "unexpected property" && strings.Count(at, ".") > 1 {
			at = at[:strings.LastIndex(at, ".")] // its name may be anything: the place where it stands must do
		}
		p.Errors = append(p.Errors, problem.At(at, what))
	}
	slices.SortStableFunc(p.Errors, func(a, b problem.FieldError) int { return strings.Compare(a.Location, b.Location) })
	return p
}

var safeLocation = pattern.New(`^(?:body|query|path|header)(?:\.[A-Za-z0-9_$-]{1,64}|\[[0-9]{1,6}\])*$`)

// located is a location without names that look like no field's: they are the
// caller's, and may be anything.
func located(location string) string {
	if safeLocation().MatchString(location) {
		return location
	}
	part, _, _ := strings.Cut(location, ".")
	if safeLocation().MatchString(part) {
		return part
	}
	return "body"
}

// worded is huma's message where it is known to come from the schema alone, cut
// before the place where some of them go on with the value.
func worded(message string) string {
	for _, known := range []string{"expected ", "required ", "unexpected property", "unknown query parameter", "invalid integer", "invalid boolean"} {
		if strings.HasPrefix(message, known) {
			message, _, _ = strings.Cut(message, ": ")
			return message
		}
	}
	if strings.HasPrefix(message, "invalid date/time") {
		return "expected string to be RFC 3339 date-time"
	}
	return "expected another value"
}
