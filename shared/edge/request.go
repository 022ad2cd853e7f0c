package edge

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// maxPayload is Lambda's limit for an event, and for a response that does not stream, in bytes.
const maxPayload = 6 << 20

// httpEvent holds the fields that edge reads from events with HTTP requests.
type httpEvent struct {
	Version         string
	Headers         map[string]string
	Body            string
	IsBase64Encoded bool
	RequestContext  struct {
		Stage      string
		Path       string // includes the stage
		DomainName string
		Identity   struct{ SourceIP string }
		HTTP       struct{ Method, SourceIP string }
	}

	// Of a REST API.
	HTTPMethod                      string
	Path                            string // without the stage
	MultiValueHeaders               map[string][]string
	QueryStringParameters           map[string]string
	MultiValueQueryStringParameters map[string][]string

	// Of an HTTP API or a function URL.
	RawPath        string // with the stage, unless that is $default
	RawQueryString string
	Cookies        []string
}

// A call is a request and the form of its response.
type call struct {
	request *http.Request
	streams bool
	prefix  string // path prefix that clients see: "/" and the stage, or empty
}

// decodeCall reads the event of an HTTP request from one of these sources:
//
//   - a REST API whose integration streams (payload 1.0),
//   - a function URL that streams (payload 2.0, at a domain of Lambda),
//   - an HTTP API (payload 2.0), which does not stream.
//
// The request's path excludes the stage. Its address is the one that AWS saw; X-Forwarded-For is
// ignored. Any other event returns an [EventError].
func decodeCall(payload []byte) (*call, error) {
	if len(payload) > maxPayload {
		return nil, &EventError{Problem: fmt.Sprintf("is larger than %d bytes", maxPayload)}
	}
	var e httpEvent
	if err := json.Unmarshal(payload, &e); err != nil {
		return nil, &EventError{Problem: "is not the JSON of an HTTP request"}
	}
	switch {
	case e.Version == "2.0" && e.RequestContext.HTTP.Method != "":
		return e.url()
	case e.Version == "" && e.HTTPMethod != "" && e.RequestContext.Stage != "":
		return e.rest()
	case e.Version == "1.0":
		return nil, &EventError{Field: "version", Problem: "is 1.0: set the payload format of the HTTP API's integration to 2.0"}
	}
	return nil, &EventError{Problem: "is no request by a REST API, an HTTP API or a function URL"}
}

// rest returns the call of a REST API's event.
func (e *httpEvent) rest() (*call, error) {
	query := url.Values(e.MultiValueQueryStringParameters)
	if query == nil {
		query = url.Values{}
		for name, value := range e.QueryStringParameters {
			query.Set(name, value)
		}
	}
	// At the stage alone the path is "/", and with the stage "/live" or "/live/".
	prefix, below := strings.CutSuffix(strings.TrimSuffix(e.RequestContext.Path, "/"), strings.TrimSuffix(e.Path, "/"))
	if !below {
		prefix = ""
	}
	return e.call(call{streams: true, prefix: prefix}, "httpMethod", e.HTTPMethod, e.Path, query.Encode(), e.RequestContext.Identity.SourceIP)
}

// url returns the call of an event from a function URL or an HTTP API. Only the domain distinguishes
// the two.
func (e *httpEvent) url() (*call, error) {
	at, path, prefix := e.RequestContext, e.RawPath, ""
	if at.Stage != "" && at.Stage != "$default" {
		if rest, ok := strings.CutPrefix(path, "/"+at.Stage); ok && (rest == "" || rest[0] == '/') {
			path, prefix = rest, "/"+at.Stage
		}
	}
	streams := strings.Contains(at.DomainName, ".lambda-url.")
	return e.call(call{streams: streams, prefix: prefix}, "requestContext.http.method", at.HTTP.Method, path,
		e.RawQueryString, at.HTTP.SourceIP)
}

// call completes c. field names the event's field that holds the method.
func (e *httpEvent) call(c call, field, method, path, query, source string) (*call, error) {
	var body io.Reader = strings.NewReader(e.Body) // the largest body is not copied
	if e.IsBase64Encoded {
		raw, err := base64.StdEncoding.DecodeString(e.Body)
		if err != nil {
			return nil, &EventError{Field: "body", Problem: "is not base64"}
		}
		body = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(context.Background(), method, "/", body)
	if err != nil {
		return nil, &EventError{Field: field, Problem: "is not the method of a request"}
	}
	r.URL = &url.URL{Path: "/" + strings.TrimPrefix(path, "/"), RawQuery: query}
	if plain, err := url.PathUnescape(r.URL.Path); err == nil { // an error means that it was unescaped before
		r.URL.RawPath, r.URL.Path = r.URL.Path, plain
	}
	r.RequestURI = r.URL.RequestURI()
	for name, value := range e.Headers {
		r.Header.Set(name, value)
	}
	for name, values := range e.MultiValueHeaders {
		r.Header.Del(name)
		for _, value := range values {
			r.Header.Add(name, value)
		}
	}
	if len(e.Cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(e.Cookies, "; "))
	}
	if r.Host = e.RequestContext.DomainName; r.Host == "" {
		r.Host = r.Header.Get("Host")
	}
	r.Header.Del("Host") // as in net/http
	if ip, err := netip.ParseAddr(source); err == nil {
		r.RemoteAddr = netip.AddrPortFrom(ip, 0).String()
	}
	c.request = r
	return &c, nil
}
