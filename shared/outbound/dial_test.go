package outbound_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/outbound"
)

// TestDialerDecidesOnTheSocketsAddress: the dialer decides itself, whatever was decided before.
func TestDialerDecidesOnTheSocketsAddress(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	address := listener.Addr().String()
	for _, test := range []struct {
		allowed []string
		open    bool
	}{{nil, false}, {[]string{"other.test"}, false}, {[]string{"name.test"}, true}, {[]string{address}, true}} {
		conn, err := newClient(t, allow(test.allowed...)).Connect(t.Context(), "name.test", netip.MustParseAddrPort(address))
		if test.open {
			if err != nil {
				t.Errorf("%v: %v", test.allowed, err)
			} else {
				_ = conn.Close()
			}
			continue
		}
		mustRefuse(t, err, outbound.RuleAddress)
	}
}

func TestEachAddressOfANameIsTried(t *testing.T) {
	n := newNetwork(t, redirector)
	n.names = func(string) []string { return []string{"2606:4700::1", "10.0.0.1", "1.1.1.1", public4, public6} }
	if _, _, err := get(t, n.client(t), "http://name.test/"); err != nil {
		t.Error(err)
	}
	reached, astray := n.seen()
	if !slices.Equal(astray, []string{"[2606:4700::1]:80", "1.1.1.1:80"}) || !slices.Equal(reached, []string{public4 + ":80"}) {
		t.Errorf("dialled %v and %v", astray, reached)
	}
}

func TestOnlySoManyAddressesAreTried(t *testing.T) {
	n := newNetwork(t, redirector)
	n.names = func(string) []string { return strings.Split(strings.Repeat("1.1.1.1 ", 1000)+"1.1.1.1", " ") }
	_, _, err := get(t, n.client(t), "http://name.test/")
	if _, astray := n.seen(); !errors.Is(err, errUnreachable) || len(astray) != 8 {
		t.Errorf("%v after %d tries", err, len(astray))
	}
}

// nonsense is a resolver with wrong answers, which must not be trusted.
type nonsense struct{ addrs []netip.Addr }

func (r nonsense) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return r.addrs, nil
}

func TestNonsenseOfAResolver(t *testing.T) {
	n := newNetwork(t, redirector)
	for _, addrs := range [][]netip.Addr{nil, {{}}, {netip.MustParseAddr("fe80::1%lo")}, {netip.MustParseAddr(public6 + "%lo")}, {netip.MustParseAddr("::ffff:" + public4 + "%lo")}} {
		c := n.client(t, func(o *outbound.Options) { o.Resolver = nonsense{addrs} })
		_, _, err := get(t, c, "http://name.test/")
		_, isDNS := errors.AsType[*net.DNSError](err)
		if reached, astray := n.seen(); !isDNS && !errors.Is(err, outbound.ErrBlocked) || len(reached)+len(astray) > 0 {
			t.Errorf("%v: %v, dialled %v %v", addrs, err, reached, astray)
		}
	}
}

func TestFailedLookupNamesNoServerOfOurs(t *testing.T) {
	n := newNetwork(t, redirector)
	c := n.client(t)
	_, _, err := get(t, c, "http://name.test/?key=hunter2")
	for _, err := range []error{err, c.CheckDNS(t.Context(), "http://name.test/?key=hunter2")} {
		dns, ok := errors.AsType[*net.DNSError](err)
		if !ok || !dns.IsNotFound || strings.Contains(err.Error(), "10.0.0.2") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v", err)
		}
	}
}

// TestNoProxy: the proxy that TestMain has put into the environment is not used.
func TestNoProxy(t *testing.T) {
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+public4+"/", nil)
	if asked, err := http.ProxyFromEnvironment(req); err != nil || asked == nil || asked.Host != proxy {
		t.Fatalf("others would ask %v, %v: the test shows nothing", asked, err)
	}
	n := newNetwork(t, redirector)
	_, _, err := send(n.client(t, allow(proxy)), req)
	if reached, astray := n.seen(); err != nil || len(astray) > 0 || !slices.Equal(reached, []string{public4 + ":80"}) {
		t.Errorf("%v, dialled %v %v", err, reached, astray)
	}
}

// TestConnectionsAreUsedAgainForTheSameHostOnly: a connection is reused only for the same scheme,
// host and port.
func TestConnectionsAreUsedAgainForTheSameHostOnly(t *testing.T) {
	n := newNetwork(t, redirector)
	n.names = func(string) []string { return []string{public4} }
	c := n.client(t)
	for _, test := range []struct {
		url   string
		dials int
	}{
		{"http://a.test/", 1}, {"http://a.test/b", 0}, {"http://A.test/b", 1}, {"http://b.test/", 1}, {"http://a.test:8080/", 1},
		{"http://" + public4 + "/", 1}, {"http://a.test/", 0},
	} {
		if _, _, err := get(t, c, test.url); err != nil {
			t.Error(err)
		}
		if reached, _ := n.seen(); len(reached) != test.dials {
			t.Errorf("%s: %d dials, want %d", test.url, len(reached), test.dials)
		}
	}
	c.HTTPClient().CloseIdleConnections()
	if _, _, err := get(t, c, "http://a.test/"); err != nil {
		t.Error(err)
	}
	if reached, _ := n.seen(); len(reached) != 1 {
		t.Errorf("%d dials after the idle connections were closed, want 1", len(reached))
	}
}
