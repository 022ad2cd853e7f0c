package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Options configure what a client may reach and how much it may take. A zero field means its
// default.
type Options struct {
	// AllowPrivateHosts are the private hosts that may be reached: host, host:port, address,
	// address:port or prefix. The package's documentation says what each entry opens.
	AllowPrivateHosts []string

	Timeout       time.Duration // for a request with its redirects and body; default 30 s
	HeaderTimeout time.Duration // for each response's headers, including connecting and sending; default 15 s
	MaxRequest    int64         // largest request body in bytes; default 8 MiB
	MaxResponse   int64         // largest response body in bytes; default 8 MiB

	Resolver Resolver       // nil: net.DefaultResolver
	RootCAs  *x509.CertPool // nil: the system's
	// Dial connects instead of a net.Dialer. It gets only addresses that have passed, as ip:port.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	defaultTimeout       = 30 * time.Second
	defaultHeaderTimeout = 15 * time.Second
	defaultMaxBody       = 8 << 20
	maxHeaders           = 64 << 10 // bytes of a response's headers
)

// A Client sends requests to hosts that other parties have chosen. It is safe for concurrent use; a
// process has one.
type Client struct {
	registry registry
	openings []opening
	resolver Resolver
	dialer   func(ctx context.Context, network, address string) (net.Conn, error)

	timeout, headerTimeout  time.Duration
	maxRequest, maxResponse int64

	transport *http.Transport
}

// New returns a client. An error names the entry of the allow-list that can't be parsed.
func New(o Options) (*Client, error) {
	c := &Client{
		registry: newRegistry(), resolver: o.Resolver, dialer: o.Dial,
		timeout: or(o.Timeout, defaultTimeout), headerTimeout: or(o.HeaderTimeout, defaultHeaderTimeout),
		maxRequest: or(o.MaxRequest, defaultMaxBody), maxResponse: or(o.MaxResponse, defaultMaxBody),
	}
	if c.resolver == nil {
		c.resolver = net.DefaultResolver
	}
	var problems []error
	for _, entry := range o.AllowPrivateHosts {
		opening, err := parseOpening(entry)
		problems = append(problems, err)
		c.openings = append(c.openings, opening)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	var http1 http.Protocols
	http1.SetHTTP1(true)
	c.transport = &http.Transport{
		Proxy:                  nil, // the environment must not choose where we connect
		DialContext:            c.dial,
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    connectTimeout,
		DisableCompression:     true,
		MaxIdleConns:           16,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        15 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeaders,
		Protocols:              &http1,
	}
	return c, nil
}

func or[T time.Duration | int64](given, otherwise T) T {
	if given > 0 {
		return given
	}
	return otherwise
}

// Do sends a request and follows its redirects. The caller closes the response's body. A response
// is not an error, whatever its status. Errors are a [BlockedError], [ErrBarred], a [SizeError],
// a [TimeoutError], the context's error, or another error of the exchange. Reading the body may
// return the same. Of the URL their text contains only scheme and host, and it contains nothing
// that the server has sent.
func (c *Client) Do(req *http.Request) (*http.Response, error) { return c.do(req, true) }

// DoOnce is Do without following redirects: it returns the redirect.
func (c *Client) DoOnce(req *http.Request) (*http.Response, error) { return c.do(req, false) }

// Transport returns the client for libraries that need a transport. It follows redirects itself, so
// that the http.Client above it sees none.
func (c *Client) Transport() http.RoundTripper { return roundTripper{c} }

// HTTPClient returns the client for libraries that need an http.Client. Errors of an http.Client
// repeat the URL with its query, so secrets belong in headers.
func (c *Client) HTTPClient() *http.Client { return &http.Client{Transport: c.Transport()} }

// CloseIdleConnections closes the connections that no request uses.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }

type roundTripper struct{ c *Client }

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r.c.Do(req) }
func (r roundTripper) CloseIdleConnections()                               { r.c.CloseIdleConnections() }

// TraceHeader carries the trace id of a request's context.
const TraceHeader = "X-Trace-Id"

func (c *Client) do(req *http.Request, follow bool) (*http.Response, error) {
	clock := c.start(req.Context())
	answer, err := c.exchange(clock, req, follow)
	if err != nil {
		clock.stop()
		return nil, &exchangeError{where: where(req), err: clock.why(err)}
	}
	return answer, nil
}

// exchange sends a request and the requests of its redirects.
func (c *Client) exchange(clock *clock, req *http.Request, follow bool) (*http.Response, error) {
	hop, err := c.prepare(clock.ctx, req)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // a sender must close it, even when it sends nothing
		}
		return nil, err
	}
	for followed := 0; ; followed++ {
		clock.awaitHeaders()
		resp, err := c.transport.RoundTrip(hop)
		clock.headersCame()
		if err != nil {
			return nil, err
		}
		var next *http.Request
		if follow {
			next, err = c.redirect(hop, resp, followed)
		}
		switch {
		case err != nil:
			_ = resp.Body.Close()
			return nil, err
		case next == nil:
			return c.bound(clock, resp)
		}
		drain(resp.Body)
		hop = next
	}
}

// prepare returns a copy of the request to send.
func (c *Client) prepare(ctx context.Context, req *http.Request) (*http.Request, error) {
	if err := Barred(ctx); err != nil {
		return nil, err
	}
	out := req.Clone(ctx)
	h, err := c.checkURL(out.URL)
	if err != nil {
		return nil, err
	}
	if out.Method == http.MethodConnect || out.Method == http.MethodTrace {
		return nil, &BlockedError{Rule: RuleMethod, Host: h.name, Detail: "CONNECT and TRACE are not sent"}
	}
	if out.Host != "" && out.Host != out.URL.Host {
		return nil, &BlockedError{Rule: RuleHost, Host: h.name, Detail: "the Host header names another one"}
	}
	if out.Header == nil {
		out.Header = http.Header{}
	}
	if id, ok := trace.From(ctx); ok {
		out.Header.Set(TraceHeader, string(id))
	}
	return out, c.boundRequest(out)
}

// where describes the request of an error.
func where(req *http.Request) string {
	if req.URL == nil || req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return "request"
	}
	h, bad := splitHost(req.URL.Host)
	if bad != nil {
		return "request"
	}
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	return fmt.Sprintf("%.10s %s://%s", method, req.URL.Scheme, h.name)
}
