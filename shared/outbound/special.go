package outbound

import "net/netip"

// reach says under which condition an address may be reached.
type reach int

const (
	public   reach = iota // always
	private               // with an entry of the allow-list
	metadata              // with an entry for exactly this address
	never                 // never
)

// special are the addresses that are not public. They are all entries of the IANA IPv4 and IPv6
// Special-Purpose Address Registries (iana.org/assignments/iana-ipv4-special-registry and
// iana-ipv6-special-registry, RFC 6890), including those called globally reachable, because these
// are infrastructure and not web servers. Multicast and deprecated addresses are added, and the
// addresses at which cloud platforms serve their own machines. The first entry that contains an
// address counts.
var special = [...]struct {
	prefix string
	reach  reach
	name   string
}{
	// Cloud platforms, inside or outside of the registered blocks.
	{"168.63.129.16/32", metadata, "a cloud platform's own address"},   // Azure
	{"100.100.100.200/32", metadata, "a cloud platform's own address"}, // Alibaba
	{"fd00:ec2::/32", metadata, "a cloud platform's own address"},      // AWS
	{"fd20:ce::254/128", metadata, "a cloud platform's own address"},   // Google

	{"0.0.0.0/8", never, "this network (RFC 791)"},
	{"10.0.0.0/8", private, "private-use (RFC 1918)"},
	{"100.64.0.0/10", private, "shared address space (RFC 6598)"},
	{"127.0.0.0/8", private, "loopback (RFC 1122)"},
	{"169.254.0.0/16", metadata, "link-local (RFC 3927)"}, // metadata, credentials, the Lambda runtime
	{"172.16.0.0/12", private, "private-use (RFC 1918)"},
	{"192.0.0.0/24", never, "IETF protocol assignments (RFC 6890)"},
	{"192.0.2.0/24", never, "documentation (RFC 5737)"},
	{"192.31.196.0/24", never, "AS112 (RFC 7535)"},
	{"192.52.193.0/24", never, "AMT (RFC 7450)"},
	{"192.88.99.0/24", never, "6to4 relay (RFC 7526)"},
	{"192.168.0.0/16", private, "private-use (RFC 1918)"},
	{"192.175.48.0/24", never, "AS112 (RFC 7534)"},
	{"198.18.0.0/15", private, "benchmarking (RFC 2544)"},
	{"198.51.100.0/24", never, "documentation (RFC 5737)"},
	{"203.0.113.0/24", never, "documentation (RFC 5737)"},
	{"224.0.0.0/4", never, "multicast (RFC 5771)"},
	{"255.255.255.255/32", never, "limited broadcast (RFC 919)"},
	{"240.0.0.0/4", never, "reserved (RFC 1112)"},

	{"::/128", never, "unspecified (RFC 4291)"},
	{"::1/128", private, "loopback (RFC 4291)"},
	{"::/96", never, "IPv4-compatible (RFC 4291)"},
	{"64:ff9b:1::/48", never, "local NAT64 (RFC 8215)"},
	{"100::/64", never, "discard-only (RFC 6666)"},
	{"100:0:0:1::/64", never, "dummy prefix (RFC 9780)"},
	{"2001::/23", never, "IETF protocol assignments (RFC 2928)"}, // Teredo, ORCHID, benchmarking, …
	{"2001:db8::/32", never, "documentation (RFC 3849)"},
	{"2002::/16", never, "6to4 (RFC 3056)"},
	{"2620:4f:8000::/48", never, "AS112 (RFC 7534)"},
	{"3fff::/20", never, "documentation (RFC 9637)"},
	{"5f00::/16", never, "segment routing (RFC 9602)"},
	{"fc00::/7", private, "unique local (RFC 4193)"},
	{"fe80::/10", never, "link-local (RFC 4291)"},
	{"fec0::/10", never, "site-local (RFC 3879)"},
	{"ff00::/8", never, "multicast (RFC 4291)"},
}

const (
	nat64         = "64:ff9b::/96" // RFC 6052
	globalUnicast = "2000::/3"     // RFC 4291; the rest of IPv6 is not allocated
)

// A block is a parsed row of special.
type block struct {
	prefix netip.Prefix
	reach  reach
	name   string
}

// A registry knows how each address may be reached.
type registry struct {
	blocks       []block
	nat64, globe netip.Prefix
}

func newRegistry() registry {
	r := registry{nat64: netip.MustParsePrefix(nat64), globe: netip.MustParsePrefix(globalUnicast)}
	for _, s := range special {
		r.blocks = append(r.blocks, block{netip.MustParsePrefix(s.prefix), s.reach, s.name})
	}
	return r
}

// find returns how an address may be reached and what it is. meant is the address that was checked:
// the IPv4 address that a stands for, if it does.
func (r *registry) find(a netip.Addr) (meant netip.Addr, how reach, name string) {
	if !a.IsValid() || a.Zone() != "" {
		return a, never, "not an address of its own"
	}
	a = a.Unmap()
	if r.nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	for _, b := range r.blocks {
		if b.prefix.Contains(a) {
			return a, b.reach, b.name
		}
	}
	if a.Is6() && !r.globe.Contains(a) {
		return a, never, "not allocated (RFC 4291)"
	}
	return a, public, ""
}
