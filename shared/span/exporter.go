package span

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options says where spans are sent, and as what.
type Options struct {
	Endpoint string            // URL of a receiver of OTLP over HTTP, without /v1/traces
	Headers  map[string]string // that each request has; see [ParseHeaders]
	Service  string            // service.name
	Version  string            // service.version
	Resource map[string]string // further attributes of the resource
	// Observe is called with numbers of spans that were exported and dropped. It may be nil.
	Observe func(exported, dropped int)
	Log     *slog.Logger     // of failures; may be nil
	Clock   func() time.Time // nil: the system's
	Limit   time.Duration    // how long [Exporter.Flush] may take; 0: one second
}

const (
	// mostKept is the largest number of spans in memory. What comes after them is dropped.
	mostKept = 2048
	// mostSent is the largest number of spans of a request.
	mostSent = 512
	// usualLimit is how long a flush may take.
	usualLimit = time.Second
	// pause is how long a receiver that has failed is left alone.
	pause = 30 * time.Second
	// breath is the time before a request is sent once more.
	breath = 100 * time.Millisecond
	// maxAnswer is how much of a receiver's answer is read, in bytes.
	maxAnswer = 64 << 10
)

// Exporter keeps spans that have ended until it sends them. It is safe for concurrent use.
type Exporter struct {
	o        Options
	client   *http.Client
	resource []keyValue
	turn     chan struct{} // binary semaphore: one flush at a time
	many     chan struct{} // has a value when a whole request is waiting

	mu      sync.Mutex
	headers map[string]string
	kept    []*Span
	until   time.Time // until then the receiver is left alone
}

// New returns an exporter. It returns nil if there is no endpoint.
func New(o Options) *Exporter {
	if o.Endpoint == "" {
		return nil
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(int, int) {}
	}
	o.Limit = cmp.Or(o.Limit, usualLimit)
	var http1 http.Protocols
	http1.SetHTTP1(true)
	x := &Exporter{o: o, headers: o.Headers, turn: make(chan struct{}, 1), many: make(chan struct{}, 1), client: &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, Protocols: &http1,
			MaxIdleConns: 1, IdleConnTimeout: 15 * time.Second, MaxResponseHeaderBytes: maxAnswer,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	named := []attribute{{key: "service.name", text: o.Service}, {key: "service.version", text: o.Version}}
	for key, value := range o.Resource {
		named = append(named, attribute{key: key, text: value})
	}
	slices.SortStableFunc(named[2:], func(a, b attribute) int { return cmp.Compare(a.key, b.key) })
	for _, a := range named {
		if a.text != "" {
			x.resource = append(x.resource, a.json())
		}
	}
	return x
}

// SetHeaders replaces the headers of requests.
func (x *Exporter) SetHeaders(headers map[string]string) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.headers = headers
}

// keep adds a span that has ended.
func (x *Exporter) keep(s *Span) {
	x.mu.Lock()
	full := len(x.kept) >= mostKept
	if !full {
		x.kept = append(x.kept, s)
	}
	n := len(x.kept)
	x.mu.Unlock()
	if full {
		x.o.Observe(0, 1)
	}
	if n >= mostSent {
		select {
		case x.many <- struct{}{}:
		default:
		}
	}
}

// take removes the spans of the next request. There are none while the receiver is left alone.
func (x *Exporter) take() []*Span {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now().Before(x.until) {
		return nil
	}
	n := min(len(x.kept), mostSent)
	taken := slices.Clone(x.kept[:n])
	x.kept = slices.Delete(x.kept, 0, n)
	return taken
}

// now is the time of the wall clock: the monotonic one stops while a sandbox is frozen.
func (x *Exporter) now() time.Time { return x.o.Clock().Round(0) }

// leaveAlone sends nothing for a while.
func (x *Exporter) leaveAlone() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.until = x.now().Add(pause)
}

// Flush sends what is kept. It takes at most the limit of the options, and at most half of the time that is
// left to ctx. Its failures are logged and counted, and are nobody's error. Spans that a receiver did not take
// are dropped; spans for which there was no time are kept.
func (x *Exporter) Flush(ctx context.Context) {
	if x == nil {
		return
	}
	limit := x.o.Limit
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	case <-limited.Done():
		return
	}
	for limited.Err() == nil {
		spans := x.take()
		if len(spans) == 0 {
			return
		}
		rejected, err := x.send(limited, spans)
		if err != nil {
			x.leaveAlone()
			x.o.Observe(0, len(spans))
			x.o.Log.WarnContext(ctx, "spans were not exported", "spans", len(spans), "error", err)
			return
		}
		x.o.Observe(len(spans)-rejected, rejected)
	}
}

// Keep sends what is kept each second and whenever there is enough for a request, until ctx ends. It then
// sends the rest and closes its connections.
func (x *Exporter) Keep(ctx context.Context) {
	if x == nil {
		return
	}
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			x.Flush(context.WithoutCancel(ctx))
			x.Close()
			return
		case <-ticks.C:
		case <-x.many:
		}
		x.Flush(context.WithoutCancel(ctx))
	}
}

// Close closes the connections that no request uses. The exporter may be used afterwards.
func (x *Exporter) Close() {
	if x != nil {
		x.client.CloseIdleConnections()
	}
}

// refusedError says with which status a receiver has refused spans.
type refusedError struct{ status int }

func (e *refusedError) Error() string { return fmt.Sprintf("the receiver answered %d", e.status) }

// again are the statuses after which a request is sent once more.
var again = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// send sends spans in one request, which it repeats at most once. It returns how many the receiver rejected.
func (x *Exporter) send(ctx context.Context, spans []*Span) (rejected int, err error) {
	body, err := x.encode(spans)
	if err != nil {
		return 0, fmt.Errorf("encode spans: %w", err)
	}
	rejected, err = x.post(ctx, body)
	if refused, ok := errors.AsType[*refusedError](err); ok && slices.Contains(again, refused.status) {
		select {
		case <-time.After(breath):
			rejected, err = x.post(ctx, body)
		case <-ctx.Done():
		}
	}
	return min(rejected, len(spans)), err
}

func (x *Exporter) post(ctx context.Context, body []byte) (rejected int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(x.o.Endpoint, "/")+"/v1/traces", bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the endpoint is not a URL")
	}
	x.mu.Lock()
	for name, value := range x.headers {
		req.Header.Set(name, value)
	}
	x.mu.Unlock()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "lanekeeper")
	// A sandbox that was frozen may hold a connection that was closed meanwhile. The empty list has net/http
	// send the request again over a new one, and sends no header.
	req.Header["X-Idempotency-Key"] = []string{}
	resp, err := x.client.Do(req)
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // without the URL
	}
	if err != nil {
		return 0, fmt.Errorf("reach the receiver: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it is read only
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode/100 != 2:
		return 0, &refusedError{resp.StatusCode}
	case err != nil:
		return 0, fmt.Errorf("read the receiver's answer: %w", err)
	}
	return rejectedOf(raw), nil
}

// rejectedOf reads from an answer how many spans were rejected.
func rejectedOf(raw []byte) int {
	var answer struct {
		PartialSuccess struct {
			RejectedSpans json.RawMessage `json:"rejectedSpans"` // a number, or a text with one
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(raw, &answer) != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.Trim(string(answer.PartialSuccess.RejectedSpans), `"`))
	if err != nil {
		return 0
	}
	return max(0, n)
}

// errHeaders never repeats what it is about.
var errHeaders = errors.New("is not a list of key=value")

// ParseHeaders reads headers in the form of OTEL_EXPORTER_OTLP_HEADERS: key=value pairs that are separated by
// commas, with percent-encoded values.
func ParseHeaders(s string) (map[string]string, error) {
	headers := map[string]string{}
	for pair := range strings.SplitSeq(s, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		key = http.CanonicalHeaderKey(strings.TrimSpace(key))
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !found || err != nil || !isToken(key) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) ||
			slices.Contains(ours, key) {
			return nil, errHeaders
		}
		headers[key] = value
	}
	return headers, nil
}

// ours are headers that describe the request itself.
var ours = []string{"Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Host", "Connection"}

// isToken reports whether s may be the name of a header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
