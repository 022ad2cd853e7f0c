// Package spantest receives spans for tests. It reads the JSON of OTLP strictly, by types of its own that
// follow the published trace.proto, common.proto and resource.proto and their mapping to JSON.
package spantest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// Receiver is a receiver of OTLP over HTTP.
type Receiver struct {
	URL string
	// Answer answers a request in place of the receiver, which does not count the spans then; nil: the
	// receiver takes them.
	Answer http.HandlerFunc

	t        testing.TB
	mu       sync.Mutex
	requests []Request
	spans    []Span
}

// Request is what a receiver got.
type Request struct {
	Header http.Header
	Body   string
	Spans  int
}

// New starts a receiver that ends with the test.
func New(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{t: t}
	server := httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) {
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender has given up
	}
	if req.Method != http.MethodPost || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/json" {
		r.t.Errorf("the request is %s %s of type %q", req.Method, req.URL.Path, req.Header.Get("Content-Type"))
	}
	spans, err := Parse(raw)
	if err != nil {
		r.t.Errorf("%v in\n%s", err, raw)
	}
	r.mu.Lock()
	r.requests = append(r.requests, Request{req.Header, string(raw), len(spans)})
	if r.Answer == nil {
		r.spans = append(r.spans, spans...)
	}
	r.mu.Unlock()
	if r.Answer != nil {
		r.Answer(w, req)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"partialSuccess":{}}`))
}

// Requests returns the requests so far.
func (r *Receiver) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Spans returns the spans that were taken so far.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// Span is a span as a receiver knows it.
type Span struct {
	Trace, ID, Parent string
	Name              string
	Kind              int
	Begun, Ended      int64 // nanoseconds
	Attributes        map[string]any
	Resource          map[string]any
	Links             []Link
	Failed            bool
}

// Link names another span.
type Link struct {
	Trace, Span string
	Flags       uint32
}

// ints are 64 bits, which JSON has as texts.
type ints string

type (
	traces struct {
		ResourceSpans []struct {
			Resource   resource     `json:"resource"`
			ScopeSpans []scopeSpans `json:"scopeSpans"`
			SchemaURL  string       `json:"schemaUrl"`
		} `json:"resourceSpans"`
	}
	resource struct {
		Attributes             []keyValue `json:"attributes"`
		DroppedAttributesCount uint32     `json:"droppedAttributesCount"`
	}
	scopeSpans struct {
		Scope struct {
			Name                   string     `json:"name"`
			Version                string     `json:"version"`
			Attributes             []keyValue `json:"attributes"`
			DroppedAttributesCount uint32     `json:"droppedAttributesCount"`
		} `json:"scope"`
		Spans     []span `json:"spans"`
		SchemaURL string `json:"schemaUrl"`
	}
	span struct {
		TraceID                string     `json:"traceId"`
		SpanID                 string     `json:"spanId"`
		TraceState             string     `json:"traceState"`
		ParentSpanID           string     `json:"parentSpanId"`
		Flags                  uint32     `json:"flags"`
		Name                   string     `json:"name"`
		Kind                   int        `json:"kind"`
		StartTimeUnixNano      ints       `json:"startTimeUnixNano"`
		EndTimeUnixNano        ints       `json:"endTimeUnixNano"`
		Attributes             []keyValue `json:"attributes"`
		DroppedAttributesCount uint32     `json:"droppedAttributesCount"`
		Events                 []struct{} `json:"events"`
		DroppedEventsCount     uint32     `json:"droppedEventsCount"`
		Links                  []struct {
			TraceID                string     `json:"traceId"`
			SpanID                 string     `json:"spanId"`
			TraceState             string     `json:"traceState"`
			Attributes             []keyValue `json:"attributes"`
			DroppedAttributesCount uint32     `json:"droppedAttributesCount"`
			Flags                  uint32     `json:"flags"`
		} `json:"links"`
		DroppedLinksCount uint32 `json:"droppedLinksCount"`
		Status            struct {
			Message string `json:"message"`
			Code    int    `json:"code"`
		} `json:"status"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		StringValue *string  `json:"stringValue"`
		BoolValue   *bool    `json:"boolValue"`
		IntValue    *ints    `json:"intValue"`
		DoubleValue *float64 `json:"doubleValue"`
		ArrayValue  *struct {
			Values []value `json:"values"`
		} `json:"arrayValue"`
	}
)

var (
	traceID = regexp.MustCompile(`^[0-9a-f]{32}$`)
	spanID  = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

// Parse reads the body of an ExportTraceServiceRequest. An unknown field, an id of zeros, or a value that the
// mapping to JSON does not allow is an error.
func Parse(raw []byte) ([]Span, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var all traces
	if err := d.Decode(&all); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the request")
	}
	var spans []Span
	for _, of := range all.ResourceSpans {
		described, err := attributes(of.Resource.Attributes)
		if err != nil {
			return nil, fmt.Errorf("the resource: %w", err)
		}
		for _, in := range of.ScopeSpans {
			for _, s := range in.Spans {
				one, err := s.read()
				if err != nil {
					return nil, fmt.Errorf("span %q: %w", s.Name, err)
				}
				one.Resource = described
				spans = append(spans, one)
			}
		}
	}
	return spans, nil
}

func (s span) read() (Span, error) {
	out := Span{Trace: s.TraceID, ID: s.SpanID, Parent: s.ParentSpanID, Name: s.Name, Kind: s.Kind, Failed: s.Status.Code == 2}
	var errs [3]error
	out.Begun, errs[0] = s.StartTimeUnixNano.number()
	out.Ended, errs[1] = s.EndTimeUnixNano.number()
	out.Attributes, errs[2] = attributes(s.Attributes)
	if err := errors.Join(errs[:]...); err != nil {
		return out, err
	}
	switch {
	case !isID(traceID, s.TraceID), !isID(spanID, s.SpanID), s.ParentSpanID != "" && !isID(spanID, s.ParentSpanID):
		return out, errors.New("an id is not one")
	case s.ParentSpanID == s.SpanID:
		return out, errors.New("it is its own parent")
	case s.Name == "", s.Kind < 1 || s.Kind > 5, s.Status.Code < 0 || s.Status.Code > 2:
		return out, errors.New("a name, a kind or a status is not one")
	case out.Begun <= 0, out.Ended < out.Begun:
		return out, errors.New("it ends before it begins")
	case s.Status.Message != "":
		return out, errors.New("the status has a message")
	case s.Flags != 0:
		return out, errors.New("it has flags")
	}
	for _, l := range s.Links {
		if !isID(traceID, l.TraceID) || !isID(spanID, l.SpanID) {
			return out, errors.New("the id of a link is not one")
		}
		out.Links = append(out.Links, Link{l.TraceID, l.SpanID, l.Flags})
	}
	return out, nil
}

func isID(form *regexp.Regexp, id string) bool {
	return form.MatchString(id) && strings.Trim(id, "0") != ""
}

func (n ints) number() (int64, error) { return strconv.ParseInt(string(n), 10, 64) }

func attributes(all []keyValue) (map[string]any, error) {
	out := map[string]any{}
	for _, a := range all {
		if _, twice := out[a.Key]; twice || a.Key == "" {
			return nil, fmt.Errorf("attribute %q is there twice, or has no name", a.Key)
		}
		v, err := a.Value.read()
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", a.Key, err)
		}
		out[a.Key] = v
	}
	return out, nil
}

func (v value) read() (out any, err error) {
	n := 0
	if v.StringValue != nil {
		n, out = n+1, *v.StringValue
		if !utf8.ValidString(*v.StringValue) {
			err = errors.New("it is not UTF-8")
		}
	}
	if v.BoolValue != nil {
		n, out = n+1, *v.BoolValue
	}
	if v.DoubleValue != nil {
		n, out = n+1, *v.DoubleValue
	}
	if v.IntValue != nil {
		n++
		out, err = v.IntValue.number()
	}
	if v.ArrayValue != nil {
		n++
		var texts []string
		for _, one := range v.ArrayValue.Values {
			if one.StringValue == nil {
				return nil, errors.New("a list has something that is not a text")
			}
			texts = append(texts, *one.StringValue)
		}
		out = texts
	}
	if n != 1 {
		return nil, fmt.Errorf("it has %d values", n)
	}
	return out, err
}
