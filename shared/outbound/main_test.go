package outbound_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/outbound"
)

const proxy = "10.0.0.3:3128"

func TestMain(m *testing.M) {
	// Once for all tests: net/http reads these variables once in a process.
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
		if err := os.Setenv(name, "http://"+proxy); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// Two addresses of the public internet.
const (
	public4 = "93.184.216.34"
	public6 = "2606:2800:220:1:248:1893:25c8:1946"
)

var errUnreachable = errors.New("nobody there")

// network is the internet as a client's dialer and resolver see it. The public addresses lead to
// the test's handler. Every other dial is recorded and fails. The handler's own address, 127.0.0.1
// with a port, is really dialled.
type network struct {
	server *httptest.Server
	names  func(name string) []string // addresses of a name; nil: none

	mu      sync.Mutex
	reached []string // dialled addresses that lead to the server
	astray  []string // all others
}

func newNetwork(t testing.TB, handler http.HandlerFunc) *network {
	t.Helper()
	n := &network{server: httptest.NewServer(handler)}
	t.Cleanup(n.server.Close)
	return n
}

// address returns the handler's real address.
func (n *network) address() string { return n.server.Listener.Addr().String() }

func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ip, _, err := net.SplitHostPort(address)
	if err != nil || address != n.address() && ip != public4 && ip != public6 {
		n.astray = append(n.astray, address)
		return nil, errUnreachable
	}
	n.reached = append(n.reached, address)
	return new(net.Dialer).DialContext(ctx, network, n.address())
}

// LookupNetIP implements outbound.Resolver.
func (n *network) LookupNetIP(_ context.Context, _, name string) (addrs []netip.Addr, _ error) {
	if n.names != nil {
		for _, a := range n.names(name) {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, Server: "10.0.0.2:53", IsNotFound: true}
	}
	return addrs, nil
}

// seen returns what was dialled since the last call.
func (n *network) seen() (reached, astray []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	reached, astray, n.reached, n.astray = n.reached, n.astray, nil, nil
	return reached, astray
}

// client returns a client on this network that may reach the handler by its own address.
func (n *network) client(t testing.TB, change ...func(*outbound.Options)) *outbound.Client {
	t.Helper()
	return newClient(t, append([]func(*outbound.Options){func(o *outbound.Options) {
		o.Dial, o.Resolver, o.AllowPrivateHosts = n.dial, n, []string{n.address()}
	}}, change...)...)
}

func newClient(t testing.TB, change ...func(*outbound.Options)) *outbound.Client {
	t.Helper()
	var o outbound.Options
	for _, f := range change {
		f(&o)
	}
	c, err := outbound.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func allow(entries ...string) func(*outbound.Options) {
	return func(o *outbound.Options) { o.AllowPrivateHosts = entries }
}

type doer interface {
	Do(*http.Request) (*http.Response, error)
}

// get requests a URL and reads the response.
func get(t testing.TB, d doer, rawURL string) (status int, body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, rawURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	return send(d, req)
}

// getAs is get with an authority that net/url may not accept.
func getAs(t testing.TB, d doer, scheme, authority string) error {
	t.Helper()
	req := (&http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: scheme, Host: authority, Path: "/"}}).WithContext(t.Context())
	_, _, err := send(d, req)
	return err
}

func send(d doer, req *http.Request) (status int, body string, err error) {
	resp, err := d.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// mustRefuse fails unless the error is a refusal by one of the rules. Without rules any rule is
// accepted.
func mustRefuse(t testing.TB, err error, rules ...outbound.Rule) {
	t.Helper()
	blocked, ok := errors.AsType[*outbound.BlockedError](err)
	switch {
	case !ok || !errors.Is(err, outbound.ErrBlocked):
		t.Errorf("got %v, want a BlockedError", err)
	case len(rules) > 0 && !slices.Contains(rules, blocked.Rule):
		t.Errorf("refused by rule %s, want %v: %v", blocked.Rule, rules, err)
	case !strings.Contains(err.Error(), string(blocked.Rule)) || blocked.Detail == "":
		t.Errorf("the error %q does not say why", err)
	}
}
