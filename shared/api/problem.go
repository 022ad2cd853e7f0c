package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

const problemType = "application/problem+json"

// Problem is why a request was not served, as RFC 9457 has it. Code is the part
// programs decide on; it ends the type.
type Problem struct {
	Type   string       `json:"type" doc:"urn:lanekeeper:problem: and the code"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty"`
	Code   string       `json:"code" doc:"For programs to decide on"`
	Trace  trace.ID     `json:"traceId,omitempty" doc:"The trace of the request, as in X-Trace-Id"`
	Errors []FieldError `json:"errors,omitempty" nullable:"false" doc:"Each field that was refused"`

	Holder    string     `json:"holder,omitempty" doc:"busy: who holds the lane or has the thread"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty" doc:"busy: when the hold ends at the latest, unless it is renewed"`

	ExecutionID string `json:"executionId,omitempty" doc:"answer_not_kept: the execution that the request began; follow it at GET /api/v1/executions/{id}/events"`

	PresentStatus string `json:"presentStatus,omitempty" doc:"decided, ended, message_status: what it is now"`

	header http.Header
}

// FieldError says what is wrong with one field, never its value.
type FieldError struct {
	Location string `json:"location" doc:"Such as body.holder, query.limit or path.lane"`
	Message  string `json:"message"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return problemType }

// refusal makes a problem. The detail must not repeat anything of the request.
func refusal(status int, code, detail string) *Problem {
	return &Problem{
		Type: "urn:lanekeeper:problem:" + code, Title: http.StatusText(status), Status: status, Code: code, Detail: detail,
	}
}

// invalid refuses fields of a request.
func invalid(fields ...FieldError) *Problem {
	p := refusal(http.StatusUnprocessableEntity, "invalid", "the request has fields that can't be taken")
	p.Errors = fields
	return p
}

// later says after how long to try again.
func (p *Problem) later(d time.Duration) *Problem {
	seconds := max(1, int64((d+time.Second-1)/time.Second))
	p.header = http.Header{"Retry-After": {strconv.FormatInt(seconds, 10)}}
	return p
}

// of is a copy for one request. Of very many errors it names the first.
func (p Problem) of(id trace.ID) *Problem {
	p.Trace = id
	p.Errors = p.Errors[:min(len(p.Errors), maxErrors)]
	return &p
}

// refuse answers with a problem.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	id, _ := trace.From(r.Context())
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = encode(w, p.of(id)) // it always encodes
}

// fail answers with the problem an error is.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.refuse(w, r, s.problem(r.Context(), err))
}

// refusal is the handler that always answers p.
func (s *server) refusal(p *Problem) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.refuse(w, r, p) })
}

// plain is huma's last look at an answer: what huma itself refuses becomes a
// [Problem], without the refused values, and every problem names its trace. One thing
// that has no version gets an ETag of what is told of it.
func plain(ctx huma.Context, _ string, v any) (any, error) {
	id, _ := trace.From(ctx.Context())
	switch v := v.(type) {
	case *Problem:
		return v.of(id), nil
	case *huma.ErrorModel:
		return translated(v).of(id), nil
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

func translated(e *huma.ErrorModel) *Problem {
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
		p.Errors = append(p.Errors, FieldError{at, what})
	}
	slices.SortStableFunc(p.Errors, func(a, b FieldError) int { return strings.Compare(a.Location, b.Location) })
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
