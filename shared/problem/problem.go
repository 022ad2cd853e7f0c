// Package problem has the errors that clients and operators receive: a refused request with its
// status and code (RFC 9457), an invalid input with a problem per field, and an invalid
// configuration. It also writes the first kind into an HTTP response for all surfaces.
package problem

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// MediaType is the content type of a problem.
const MediaType = "application/problem+json"

// Problem says why a request was refused, in the form of RFC 9457. Programs decide on Code, which
// is the last part of the type.
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

	ExecutionID string `json:"executionId,omitempty" doc:"answer_not_kept, in_progress: the execution that the request began; follow it at GET /api/v1/executions/{id}/events"`

	PresentStatus string   `json:"presentStatus,omitempty" doc:"decided, ended, message_status, illegal_transition, stale_attempt: the present status"`
	LegalStatuses []string `json:"legalStatuses,omitzero" nullable:"false" doc:"illegal_transition: the statuses that a change may lead to"`
	Path          []string `json:"path,omitempty" nullable:"false" doc:"dependency_cycle: ids of tasks, each of which depends on the next; the first is also the last"`
	Count         *int     `json:"count,omitempty" doc:"count_changed: how many rows the filter matches now"`
	Order         string   `json:"order,omitempty" doc:"stale_attempt: cancel, that is: stop working on it"`

	header http.Header // sent with the response
}

// FieldError says what is wrong with one field. It never repeats the field's value.
type FieldError struct {
	Location string `json:"location" doc:"Such as body.holder, query.limit or path.lane"`
	Message  string `json:"message"`
}

// At returns the error of the field at a location.
func At(location, message string) FieldError { return FieldError{Location: location, Message: message} }

// New returns a problem. The detail must not repeat any part of the request.
func New(status int, code, detail string) *Problem {
	return &Problem{
		Type: "urn:lanekeeper:problem:" + code, Title: http.StatusText(status), Status: status, Code: code, Detail: detail,
	}
}

// Repeated returns the problem of a request in which a header occurs more than once and only one value
// has a meaning.
func Repeated(header string) *Problem {
	p := New(http.StatusBadRequest, "malformed", "the request has a header more than once that it may have only once")
	p.Errors = []FieldError{At("header."+header, "occurs more than once")}
	return p
}

// Later sets the pause before the next attempt: whole seconds, at least one.
func (p *Problem) Later(d time.Duration) *Problem {
	seconds := max(1, int64((d+time.Second-1)/time.Second))
	return p.With("Retry-After", strconv.FormatInt(seconds, 10))
}

// With adds a header to the response.
func (p *Problem) With(name, value string) *Problem {
	p.header = http.Header{http.CanonicalHeaderKey(name): {value}}
	return p
}

// MaxErrors is the largest number of fields in one response.
const MaxErrors = 32

// Of returns a copy for one request. It keeps the first MaxErrors errors.
func (p Problem) Of(id trace.ID) *Problem {
	p.Trace = id
	p.Errors = p.Errors[:min(len(p.Errors), MaxErrors)]
	return &p
}

// Write writes the problem as the response to a request of the trace. It keeps the headers that w
// has already.
func (p *Problem) Write(w http.ResponseWriter, id trace.ID) {
	maps.Copy(w.Header(), p.header)
	w.Header().Set("Content-Type", MediaType)
	w.WriteHeader(p.Status)
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	_ = e.Encode(p.Of(id))       // strings and numbers always encode
	_, _ = w.Write(body.Bytes()) // the client may have disconnected
}

// Error implements error.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// Header returns the headers that are sent with the problem.
func (p *Problem) Header() http.Header { return p.header }
