package span

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

// The following types are the JSON of OTLP. Ids are hexadecimal, numbers of 64 bits are texts, and enums
// are numbers.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope instrumentation `json:"scope"`
		Spans []spanJSON      `json:"spans"`
	}
	instrumentation struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	spanJSON struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		ParentID   string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Begun      string      `json:"startTimeUnixNano"`
		Ended      string      `json:"endTimeUnixNano"`
		Attributes []keyValue  `json:"attributes,omitempty"`
		Links      []linkJSON  `json:"links,omitempty"`
		Status     *statusJSON `json:"status,omitempty"`
	}
	linkJSON struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
		Flags   uint32 `json:"flags"`
	}
	statusJSON struct {
		Code int `json:"code"`
	}
	keyValue struct {
		Key   string   `json:"key"`
		Value anyValue `json:"value"`
	}
	anyValue struct {
		Text   *string    `json:"stringValue,omitempty"`
		Number string     `json:"intValue,omitempty"`
		List   *arrayJSON `json:"arrayValue,omitempty"`
	}
	arrayJSON struct {
		Values []anyValue `json:"values"`
	}
)

const (
	statusError = 2
	// Flags of a link: the link says whether its span is of another process, and it is.
	sampled, saysRemote, remote = 0x1, 0x100, 0x200
)

// encode returns the body of a request that exports spans.
func (x *Exporter) encode(spans []*Span) ([]byte, error) {
	all := make([]spanJSON, len(spans))
	for i, s := range spans {
		all[i] = s.json()
	}
	return json.Marshal(request{[]resourceSpans{{
		Resource:   resource{x.resource},
		ScopeSpans: []scopeSpans{{Scope: instrumentation{"lanekeeper", x.o.Version}, Spans: all}},
	}}})
}

func (s *Span) json() spanJSON {
	id := TraceID(s.in.trace)
	out := spanJSON{
		TraceID: hex.EncodeToString(id[:]), SpanID: hex.EncodeToString(s.id[:]), Name: s.name, Kind: int(s.kind),
		Begun: nanoseconds(s.begun), Ended: nanoseconds(s.ended), Attributes: make([]keyValue, 0, len(s.attrs)+6),
	}
	if s.parent != [8]byte{} {
		out.ParentID = hex.EncodeToString(s.parent[:])
	}
	for _, a := range append(s.attrs, s.in.attributes()...) {
		out.Attributes = append(out.Attributes, a.json())
	}
	if s.failed != "" {
		out.Status = &statusJSON{statusError}
		out.Attributes = append(out.Attributes, attribute{key: "error.type", text: s.failed}.json())
	}
	for _, l := range s.links {
		flags := uint32(saysRemote | remote)
		if l.Sampled {
			flags |= sampled
		}
		out.Links = append(out.Links, linkJSON{hex.EncodeToString(l.Trace[:]), hex.EncodeToString(l.Span[:]), flags})
	}
	return out
}

func nanoseconds(t time.Time) string { return strconv.FormatInt(max(0, t.UnixNano()), 10) }

// attributes returns the attributes that the spans of a run have in common.
func (in scope) attributes() (all []attribute) {
	for _, a := range []attribute{
		{key: "lanekeeper.trace_id", text: string(in.trace)},
		{key: "lanekeeper.execution_id", text: in.execution},
		{key: "lanekeeper.workspace_id", text: in.workspace},
		{key: "lanekeeper.surface", text: in.surface},
		{key: "lanekeeper.attempt", number: int64(in.attempt), form: number},
	} {
		if a.text != "" || a.number != 0 {
			all = append(all, a)
		}
	}
	return all
}

func (a attribute) json() keyValue {
	switch a.form {
	case number:
		return keyValue{a.key, anyValue{Number: strconv.FormatInt(a.number, 10)}}
	case texts:
		return keyValue{a.key, anyValue{List: &arrayJSON{[]anyValue{{Text: &a.text}}}}}
	default:
		return keyValue{a.key, anyValue{Text: &a.text}}
	}
}
