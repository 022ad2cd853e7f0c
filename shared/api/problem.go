package api

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// invalid returns the problem that refuses fields of a request.
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

// fail answers with the problem for an error.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.refuse(w, r, s.problem(r.Context(), err))
}

// refusal returns a handler that always answers with p.
func (s *server) refusal(p *problem.Problem) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.refuse(w, r, p) })
}

// refusedFields returns the problem for what a schema refuses. It never repeats the refused values.
func refusedFields(errs []error) *problem.Problem {
	p := invalid()
	for _, err := range errs {
		d, ok := errors.AsType[*huma.ErrorDetail](err)
		if !ok {
			continue // Validate adds no others
		}
		at, what := located(d.Location), worded(d.Message)
		if field, ok := strings.CutPrefix(d.Message, misfitIn); ok {
			field, what, _ = strings.Cut(field, ": ")
			at = located("body." + field)
		}
		if what == "unexpected property" && at == d.Location && strings.Count(at, ".") > 1 {
			at = at[:strings.LastIndex(at, ".")] // the name may be any text, so only its place is shown
		}
		p.Errors = append(p.Errors, problem.At(at, what))
	}
	slices.SortStableFunc(p.Errors, func(a, b problem.FieldError) int { return strings.Compare(a.Location, b.Location) })
	return p
}

// misfitIn begins the error of a body that its schema admits and Go's type of a field does not. The field and
// what was expected follow.
const misfitIn = "misfit in "

// expected says what a field of a kind takes. Schemas count 5.0 and 1e3 among the integers.
func expected(k reflect.Kind) string {
	if k >= reflect.Int && k <= reflect.Uint64 {
		return "expected an integer of digits alone, without a point or an exponent"
	}
	return "expected another value"
}

var safeLocation = pattern.New(`^(?:body|query|path|header)(?:\.[A-Za-z0-9_$-]{1,64}|\[[0-9]{1,6}\])*$`)

// located cuts a location before the first name that does not have the form of a field's name. Such a
// name comes from the client and may be any text.
func located(location string) string {
	if safeLocation().MatchString(location) {
		return location
	}
	end := 0
	for part := range strings.SplitSeq(location, ".") {
		if end == 0 && !safeLocation().MatchString(part) || !safeLocation().MatchString("body."+part) {
			break
		}
		end += len(part) + len(".")
	}
	if end == 0 {
		return "body"
	}
	return location[:end-len(".")]
}

var power = pattern.New(`[0-9][0-9.]*e\+[0-9]+`)

// inDigits writes out a number that huma tells as a power of ten, such as 1e+09.
func inDigits(text string) string {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// worded returns huma's message if that speaks only about the schema. It cuts off the part of a
// message that may repeat the value.
func worded(message string) string {
	for _, known := range []string{"expected ", "required ", "unexpected property", "unknown query parameter",
		"invalid integer"} {
		if strings.HasPrefix(message, known) {
			message, _, _ = strings.Cut(message, ": ")
			return power().ReplaceAllStringFunc(message, inDigits)
		}
	}
	return "expected another value"
}
