package outbound

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"testing"
)

// Connect dials an address that nothing has been decided about.
func (c *Client) Connect(ctx context.Context, name string, a netip.AddrPort) (net.Conn, error) {
	return c.try(ctx, "tcp", name, a, 1)
}

// SameOrigin reads two URLs.
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
