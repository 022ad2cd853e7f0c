// Package remote carries out skills of kind http. A call sends a request to a server.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// Client sends requests. It is the guarded client. It returns a redirect as the answer: following a
// redirect would send headers with secrets to another server.
type Client interface {
	DoOnce(*http.Request) (*http.Response, error)
}

// Outbound holds what the kind needs to send requests. All fields but Patience are required.
type Outbound struct {
	Client Client
	// Check refuses a URL that may not be called. It does not use the network.
	Check func(rawURL string) error
	// Blocked reports whether an error of the client is the guard's refusal.
	Blocked func(error) bool
	Expand  Expand
	// Patience returns a context whose requests may take the given time, whatever the client's own
	// limit is. It may be nil: then the client's limit applies too. A call may always take the time
	// that its context leaves.
	Patience func(context.Context, time.Duration) context.Context
}

// Patient returns a context that gives requests all the time until its deadline.
func Patient(ctx context.Context, patience func(context.Context, time.Duration) context.Context) context.Context {
	deadline, ok := ctx.Deadline()
	if !ok || patience == nil {
		return ctx
	}
	return patience(ctx, time.Until(deadline))
}

// config is the config of the kind.
type config struct {
	URL       string                     `json:"url"`
	Method    string                     `json:"method"`
	Headers   map[string]json.RawMessage `json:"headers"`
	KeyHeader string                     `json:"idempotencyKeyHeader"`
}

// request is what a skill sends, without the arguments.
type request struct {
	out       Outbound
	url       template
	method    string
	headers   Headers
	keyHeader string
	hidden    []string // sensitive values of the URL's parameters
}

const maxURL = 8 << 10

// Kind returns the factory of skills of kind http.
func Kind(out Outbound) skill.Factory {
	return func(d skill.Definition) (skill.Skill, error) {
		var c config
		if err := skill.DecodeConfig(d.Config, &c, "url", "method", "headers", "idempotencyKeyHeader"); err != nil {
			return skill.Skill{}, err
		}
		r, err := newRequest(out, c, d.Parameters)
		if err != nil {
			return skill.Skill{}, err
		}
		k := skill.Skill{Do: r.do, Keyed: r.keyHeader != "" || r.reads()}
		if r.reads() { // the definition fixes the host; arguments can't change it
			k.Effect = skill.Read
		}
		return k, nil
	}
}

func newRequest(out Outbound, c config, parameters json.RawMessage) (*request, error) {
	r := &request{out: out, method: c.Method, keyHeader: http.CanonicalHeaderKey(c.KeyHeader)}
	if r.method == "" {
		r.method = http.MethodPost
	}
	if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete}, r.method) {
		return nil, skill.Invalid("config.method", "must be GET, HEAD, POST, PUT, PATCH or DELETE")
	}
	if len(c.URL) > maxURL {
		return nil, skill.Invalid("config.url", "may have 8 KiB at most")
	}
	var err error
	if r.url, err = parseTemplate(c.URL); err != nil {
		return nil, err
	}
	if strings.Contains(c.URL, skill.Redacted) {
		return nil, skill.Invalid("config.url", "has a value that was redacted: give it anew")
	}
	example := r.url.example()
	r.hidden = sensitiveParameters(example)
	if err := out.Check(example); err != nil {
		cause := errors.New(NewSecrets(r.hidden...).Redact(err.Error()))
		return nil, fmt.Errorf("%w: %w", skill.Invalid("config.url",
			"lies where nothing may be called; ALLOW_PRIVATE_HOSTS opens a host of your own"), cause)
	}
	needed := required(parameters)
	for _, name := range r.url.places() {
		if !slices.Contains(needed, name) {
			return nil, skill.Invalid("config.url", "has a place for %s, which is none of the required parameters", name)
		}
	}
	if c.KeyHeader != "" && (!isToken(c.KeyHeader) || slices.Contains(ours, r.keyHeader)) {
		return nil, skill.Invalid("config.idempotencyKeyHeader", "is no name of a header that can be set")
	}
	r.headers, err = ParseHeaders(c.Headers, r.keyHeader)
	return r, err
}

// sensitiveParameters returns the values in a URL's query that look like secrets.
func sensitiveParameters(raw string) (values []string) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil
	}
	for name, all := range u.Query() {
		for _, v := range all {
			if skill.Sensitive(name, v) {
				values = append(values, v)
			}
		}
	}
	return values
}

// required returns the parameters that a schema requires.
func required(schema json.RawMessage) []string {
	var s struct {
		Required []string `json:"required"`
	}
	_ = json.Unmarshal(schema, &s) // an unreadable schema requires nothing
	return s.Required
}

// reads reports whether the method has no effect by HTTP's definition.
func (r *request) reads() bool { return r.method == http.MethodGet || r.method == http.MethodHead }

// do makes one call.
func (r *request) do(ctx context.Context, c skill.Call) (any, error) {
	target, body, err := r.fill(c.Arguments)
	if err != nil {
		return nil, err
	}
	headers, secrets, err := r.headers.Resolve(ctx, c.Workspace, r.out.Expand)
	if err != nil {
		return nil, err
	}
	secrets = secrets.With(r.hidden...)
	ctx, left := skill.Watch(Patient(ctx, r.out.Patience))
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(body))
	if err != nil {
		return nil, skill.Refuse("the arguments make no URL")
	}
	r.dress(req, headers, c.Key, body != nil)
	resp, err := r.out.Client.DoOnce(req)
	if err != nil {
		return nil, secrets.Failure(err, r.out.Blocked, left())
	}
	defer resp.Body.Close()
	return read(resp, secrets, !r.reads())
}

// dress sets the headers of a request.
func (r *request) dress(req *http.Request, headers http.Header, key string, hasBody bool) {
	req.Header = headers
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json, text/*;q=0.9, */*;q=0.1")
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "Lanekeeper")
	}
	if hasBody && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.keyHeader != "" {
		req.Header.Set(r.keyHeader, key)
	}
}

// fill returns the URL with its arguments, and the other arguments as the body. A nil body means
// that the request has none.
func (r *request) fill(raw json.RawMessage) (target string, body []byte, err error) {
	var arguments map[string]any
	if err := jsonscan.Decode(raw, &arguments); err != nil {
		return "", nil, skill.Refuse("the arguments could not be read")
	}
	if target, err = r.url.fill(arguments); err != nil {
		return "", nil, err
	}
	for _, name := range r.url.places() {
		delete(arguments, name)
	}
	if r.reads() {
		target, err = r.appendQuery(target, arguments)
		return target, nil, err
	}
	if len(arguments) == 0 && r.method == http.MethodDelete {
		return target, nil, nil
	}
	if arguments == nil {
		arguments = map[string]any{}
	}
	body, err = json.Marshal(arguments)
	return target, body, err
}

// appendQuery adds arguments to the URL's query. A list becomes a repeated parameter. Null is
// omitted. Other values that are not scalars return an error.
func (r *request) appendQuery(target string, arguments map[string]any) (string, error) {
	query := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		if arguments[name] == nil {
			continue
		}
		list, isList := arguments[name].([]any)
		if !isList {
			list = []any{arguments[name]}
		}
		for _, v := range list {
			text, ok := textOf(v)
			if !ok {
				return "", skill.Refuse("%s can't stand in a query: only texts, numbers, booleans and lists of them can", name)
			}
			query.Add(name, text)
		}
	}
	if len(query) == 0 {
		return target, nil
	}
	joint := "?"
	if r.url.hasQuery {
		joint = "&"
	}
	return target + joint + query.Encode(), nil
}

// Failure returns the error of a request without an answer. Its class is policy if the guard
// refused the request, and theirs if the request never left. Otherwise it is a
// [skill.UncertainError]. It wraps the client's error without secrets and without the URL.
func (s Secrets) Failure(err error, blocked func(error) bool, left bool) error {
	cause := err
	reason := "the request was sent, and no usable answer came"
	if size, ok := errors.AsType[*outbound.SizeError](err); ok {
		reason = fmt.Sprintf("the request was sent, and its answer is larger than %d bytes", size.Limit)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		cause = u.Err // the URL contains data of the operator and the arguments
	}
	cause = errors.New(s.Redact(cause.Error()))
	switch {
	case blocked != nil && blocked(err):
		return fmt.Errorf("%w: %w",
			skill.Fail(skill.Policy, "the address lies where nothing may be called; ALLOW_PRIVATE_HOSTS opens a host of your own"), cause)
	case left:
		return fmt.Errorf("%w: %w", &skill.UncertainError{Reason: reason}, cause)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", skill.Fail(skill.Theirs, "the server could not be reached in time"), cause)
	}
	return fmt.Errorf("%w: %w", skill.Fail(skill.Theirs, "the server could not be reached"), cause)
}
