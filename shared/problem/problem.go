// Package problem has the errors that people and programs outside are told of: a request that
// was not served, with status and code (RFC 9457), a value that can't be taken, field by field,
// and a configuration that is wrong. It also writes the first into an HTTP response, for all who
// answer requests.
package problem

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// MediaType is the content type of a problem.
const MediaType = "application/problem+json"

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

	header http.Header // goes with the answer
}

// FieldError says what is wrong with one field, never its value.
type FieldError struct {
	Location string `json:"location" doc:"Such as body.holder, query.limit or path.lane"`
	Message  string `json:"message"`
}

// At says what is wrong with the field at a location.
func At(location, message string) FieldError { return FieldError{Location: location, Message: message} }

// New makes a problem. The detail must not repeat anything of the request.
func New(status int, code, detail string) *Problem {
	return &Problem{
		Type: "urn:lanekeeper:problem:" + code, Title: http.StatusText(status), Status: status, Code: code, Detail: detail,
	}
}

// Later says after how long to try again: whole seconds, at least one.
func (p *Problem) Later(d time.Duration) *Problem {
	seconds := max(1, int64((d+time.Second-1)/time.Second))
	return p.With("Retry-After", strconv.FormatInt(seconds, 10))
}

// With has the answer carry a header.
func (p *Problem) With(name, value string) *Problem {
	p.header = http.Header{http.CanonicalHeaderKey(name): {value}}
	return p
}

// MaxErrors is how many fields one answer names.
const MaxErrors = 32

// Of returns a copy for one request. Of very many errors it names the first.
func (p Problem) Of(id trace.ID) *Problem {
	p.Trace = id
	p.Errors = p.Errors[:min(len(p.Errors), MaxErrors)]
	return &p
}

// Write answers the request of a trace with the problem, beside the headers that w has already.
func (p *Problem) Write(w http.ResponseWriter, id trace.ID) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", MediaType)
	w.WriteHeader(p.Status)
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	_ = e.Encode(p.Of(id))       // texts and numbers always encode
	_, _ = w.Write(body.Bytes()) // the caller may have left
}

// Error implements error.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return MediaType }
