package outbound

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"testing"
)

// Connect dials an address that was not checked before.
func (c *Client) Connect(ctx context.Context, name string, a netip.AddrPort) (net.Conn, error) {
	return c.try(ctx, "tcp", name, a, 1)
}

// SameOrigin parses two URLs and compares their origins.
func SameOrigin(t *testing.T, from, to string) bool {
	t.Helper()
	a, err := url.Parse(from)
	if err != nil {
		t.Fatal(err)
	}
	b, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return sameOrigin(a, b)
}
