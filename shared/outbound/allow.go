package outbound

import (
	"fmt"
	"net/netip"
	"strings"
)

// An opening allows requests to private addresses: those that a name resolves to, or those of a
// prefix.
type opening struct {
	name   string // lower case; empty: prefix decides
	prefix netip.Prefix
	port   uint16 // 0: all ports
}

// parseOpening parses host, host:port or a prefix. An IPv6 address with a port is in brackets.
func parseOpening(entry string) (opening, error) {
	entry = strings.ToLower(entry)
	if strings.Contains(entry, "/") {
		p, err := netip.ParsePrefix(entry)
		if err != nil {
			return opening{}, fmt.Errorf("allow-list: %q is not a prefix such as 10.0.0.0/8", entry)
		}
		if p.Addr().Is4In6() {
			return opening{}, fmt.Errorf("allow-list: write the prefix %q as one of IPv4", entry)
		}
		return opening{prefix: p.Masked()}, nil
	}
	if a, err := netip.ParseAddr(entry); err == nil && a.Is6() {
		entry = "[" + entry + "]"
	}
	h, bad := splitHost(entry)
	switch {
	case bad != nil:
		return opening{}, fmt.Errorf("allow-list: %q is not host or host:port: %s", entry, bad.Detail)
	case h.addr.IsValid():
		a := h.addr.Unmap()
		return opening{prefix: netip.PrefixFrom(a, a.BitLen()), port: h.port}, nil
	}
	return opening{name: h.name, port: h.port}, nil
}

// opens reports whether the opening allows an address that a host has resolved to.
func (o opening) opens(host string, a netip.AddrPort, how reach) bool {
	if o.port != 0 && o.port != a.Port() {
		return false
	}
	switch how {
	case private:
		return o.name == host && host != "" && o.name != "" || o.prefix.Contains(a.Addr())
	case metadata:
		return o.prefix.IsSingleIP() && o.prefix.Contains(a.Addr())
	default:
		return false
	}
}
