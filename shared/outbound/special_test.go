package outbound_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/outbound"
)

// The special-use ranges of the IANA registries, with multicast and deprecated ranges. They are
// written a second time here, so that a range that the guard lacks is detected.
var (
	special4 = []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/31", "192.0.2.0/24",
		"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",
		"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32",
		"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "168.63.129.16/32", "100.100.100.200/32", // platforms
	}
	special6 = []string{
		"::/128", "::1/128", "::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23",
		"2001::/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:2::/48", "2001:3::/32", "2001:4:112::/48",
		"2001:10::/28", "2001:20::/28", "2001:30::/28", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
		"5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "fd00:ec2::254/128", "fd00:ec2::23/128",
		"4000::/2", "8000::/2", "c000::/3", "e000::/4", "200::/7", "400::/6", // not allocated
	}
)

// samples returns the first, middle and last address of a prefix.
func samples(prefix string) []netip.Addr {
	p := netip.MustParsePrefix(prefix)
	first, last := p.Addr().AsSlice(), p.Addr().AsSlice()
	for i := p.Bits(); i < p.Addr().BitLen(); i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	middle := slices.Clone(first)
	if p.Bits() < p.Addr().BitLen() {
		middle[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	}
	var out []netip.Addr
	for _, b := range [][]byte{first, middle, last} {
		a, _ := netip.AddrFromSlice(b)
		out = append(out, a)
	}
	return slices.Compact(out)
}

// A spelling is the authority of a URL, without port, that some program would accept as an address.
type spelling struct {
	name, host string
	plain      bool // the client accepts it, so the address decides
}

// spell4 returns the spellings of an IPv4 address.
func spell4(a netip.Addr) []spelling {
	b, dotted := a.As4(), a.String()
	n := binary.BigEndian.Uint32(b[:])
	x := fmt.Sprintf("%x:%x", n>>16, n&0xffff)
	each := func(format string) string { return fmt.Sprintf(format, b[0], b[1], b[2], b[3]) }
	digits := func(zero rune) string {
		return strings.Map(func(r rune) rune {
			if r == '.' {
				return r
			}
			return r - '0' + zero
		}, dotted)
	}
	escaped := ""
	for _, r := range dotted {
		escaped += fmt.Sprintf("%%%02x", r)
	}
	return []spelling{
		{"dotted", dotted, true},
		{"decimal", strconv.FormatUint(uint64(n), 10), false},
		{"decimal past 32 bits", strconv.FormatUint(uint64(n)+1<<32, 10), false},
		{"octal", fmt.Sprintf("0%o", n), false},
		{"hex", fmt.Sprintf("0x%x", n), false},
		{"hex in capitals", fmt.Sprintf("0X%08X", n), false},
		{"dotted octal", each("0%o.0%o.0%o.0%o"), false},
		{"dotted octal, padded", each("%04o.%04o.%04o.%04o"), false},
		{"dotted hex", each("0x%x.0x%x.0x%x.0x%x"), false},
		{"dotted hex, padded", each("0x%08x.0x%08x.0x%08x.0x%08x"), false},
		{"padded decimal", each("%04d.%04d.%04d.%04d"), false},
		{"one octal part", each("0%o.%d.%d.%d"), false},
		{"one hex part at the end", each("%d.%d.%d.0x%x"), false},
		{"two parts", fmt.Sprintf("%d.%d", b[0], n&0xffffff), false},
		{"two parts, hex", fmt.Sprintf("0x%x.%d", b[0], n&0xffffff), false},
		{"three parts", fmt.Sprintf("%d.%d.%d", b[0], b[1], n&0xffff), false},
		{"three parts, octal", fmt.Sprintf("0%o.0%o.0%o", b[0], b[1], n&0xffff), false},
		{"octets past 8 bits", fmt.Sprintf("%d.%d.%d.%d", int(b[0])+256, int(b[1])+256, int(b[2])+256, int(b[3])+256), false},
		{"final dot", dotted + ".", false},
		{"final dots", dotted + "..", false},
		{"empty part", each("%d.%d..%d.%d"), false},
		{"final dot of hex", fmt.Sprintf("0x%x.", n), false},
		{"brackets", "[" + dotted + "]", false},
		{"escaped", escaped, false},
		{"escaped dots", strings.ReplaceAll(dotted, ".", "%2e"), false},
		{"full-width digits", digits('０'), false},
		{"bold digits", digits('𝟎'), false},
		{"Arabic digits", digits('٠'), false},
		{"full-width dots", strings.ReplaceAll(dotted, ".", "．"), false},
		{"ideographic dots", strings.ReplaceAll(dotted, ".", "。"), false},
		{"soft hyphen", "\u00ad" + dotted, false},
		{"escaped full-width dots", strings.ReplaceAll(dotted, ".", "%EF%BC%8E"), false},
		{"user", "user@" + dotted, false},
		{"user and password", "user:hunter2@" + dotted, false},
		{"public user", public4 + "@" + dotted, false},
		{"public user and port", public4 + ":80@" + dotted, false},
		{"two users", "a@" + public4 + "@" + dotted, false},
		{"backslash", public4 + `\@` + dotted, false},
		{"space in front", " " + dotted, false},
		{"space behind", dotted + " ", false},
		{"tab inside", strings.Replace(dotted, ".", ".\t", 1), false},
		{"zero byte", dotted + "\x00." + public4, false},
		{"carriage return", dotted + "\r\nHost: " + public4, false},
		{"two ports", dotted + ":80:80", false},
		{"port zero", dotted + ":0", false},
		{"port past 16 bits", dotted + ":65616", false},
		{"padded port", dotted + ":0080", false},
		{"mapped", "[::ffff:" + dotted + "]", true},
		{"mapped, hex", "[::ffff:" + x + "]", true},
		{"mapped, capitals", "[::FFFF:" + strings.ToUpper(x) + "]", true},
		{"mapped, long", "[0000:0000:0000:0000:0000:ffff:" + dotted + "]", true},
		{"mapped, zone", "[::ffff:" + dotted + "%25lo]", false},
		{"mapped, no brackets", "::ffff:" + dotted, false},
		{"compatible", "[::" + dotted + "]", false},
		{"compatible, hex", "[::" + x + "]", false},
		{"translated", "[::ffff:0:" + dotted + "]", false},
		{"NAT64", "[64:ff9b::" + dotted + "]", true},
		{"NAT64, hex", "[64:ff9b::" + x + "]", true},
		{"NAT64, long", "[0064:ff9b:0:0:0:0:" + x + "]", true},
		{"NAT64, local", "[64:ff9b:1::" + dotted + "]", false},
		{"6to4", "[2002:" + x + "::]", false},
		{"6to4 with host", "[2002:" + x + "::" + x + "]", false},
		{"Teredo server", "[2001:0:" + x + "::1]", false},
		{"Teredo client", fmt.Sprintf("[2001::%x:%x]", ^n>>16, ^n&0xffff), false},
		{"ISATAP", "[fe80::5efe:" + dotted + "]", false},
	}
}

// spell6 returns the spellings of an IPv6 address.
func spell6(a netip.Addr) []spelling {
	b := a.As16()
	tail := a.StringExpanded()
	tail = tail[:strings.LastIndexByte(tail[:strings.LastIndexByte(tail, ':')], ':')+1]
	tail += netip.AddrFrom4([4]byte(b[12:])).String()
	escaped := strings.ReplaceAll(a.String(), ":", "%3a")
	return []spelling{
		{"short", "[" + a.String() + "]", true},
		{"long", "[" + a.StringExpanded() + "]", true},
		{"capitals", "[" + strings.ToUpper(a.StringExpanded()) + "]", true},
		{"dotted tail", "[" + tail + "]", true},
		{"zone", "[" + a.String() + "%25eth0]", false},
		{"raw zone", "[" + a.String() + "%eth0]", false},
		{"zone of a number", "[" + a.String() + "%251]", false},
		{"no brackets", a.String(), false},
		{"open bracket", "[" + a.String(), false},
		{"escaped", "[" + escaped + "]", false},
		{"behind the bracket", "[" + a.String() + "]." + public4, false},
		{"two brackets", "[[" + a.String() + "]]", false},
		{"user", "user@[" + a.String() + "]", false},
		{"public user", public4 + "@[" + a.String() + "]", false},
		{"port zero", "[" + a.String() + "]:0", false},
	}
}

func spell(a netip.Addr) []spelling {
	if a.Is4() {
		return spell4(a)
	}
	return spell6(a)
}

// redirector answers with the status and the location in its query.
func redirector(w http.ResponseWriter, r *http.Request) {
	if q := r.URL.Query(); q.Has("to") {
		status, _ := strconv.Atoi(q.Get("status"))
		w.Header()["Location"] = []string{q.Get("to")}
		w.WriteHeader(status)
	}
}

var redirects = []int{301, 302, 303, 307, 308}

// TestGuardAgainstEverySpecialUseRangeInEveryNotation: there are no connections to any special-use
// range in any notation.
func TestGuardAgainstEverySpecialUseRangeInEveryNotation(t *testing.T) {
	n := newNetwork(t, redirector)
	c := n.client(t)
	clients := []doer{c, c.HTTPClient(), &http.Client{Transport: c.Transport()}}
	targets := 0
	none := func(t *testing.T, how, target string) {
		t.Helper()
		targets++
		if _, astray := n.seen(); len(astray) > 0 {
			t.Errorf("%s of %q: connections to %v, want 0", how, target, astray)
		}
	}
	for _, prefix := range slices.Concat(special4, special6) {
		t.Run(strings.ReplaceAll(prefix, "/", "_"), func(t *testing.T) {
			for _, a := range samples(prefix) {
				for i, s := range spell(a) {
					scheme := []string{"http", "https"}[i%2]
					target := scheme + "://" + s.host + "/?key=hunter2"
					mustRefuse(t, c.Check(target))
					for _, d := range clients {
						if req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil); err == nil {
							_, _, err = send(d, req)
							mustRefuse(t, err)
						}
						mustRefuse(t, getAs(t, d, scheme, s.host))
						none(t, "request", target)
					}
					via := url.Values{"status": {strconv.Itoa(redirects[i%5])}, "to": {target}}
					_, _, err := get(t, clients[i%3], n.server.URL+"/?"+via.Encode())
					if err == nil || !strings.Contains(s.host, "\x00") { // net/http refuses such a header
						mustRefuse(t, err)
					}
					none(t, "redirect", target)
				}
				names(t, n, a)
				none(t, "name", a.String())
			}
		})
	}
	t.Logf("%d targets", targets)
}

// names resolves a name to the address in each way that could mislead.
func names(t *testing.T, n *network, a netip.Addr) {
	t.Helper()
	answers := func(list ...string) func(string) []string {
		lookups := 0
		return func(string) []string {
			lookups++
			return strings.Split(list[min(lookups, len(list))-1], " ")
		}
	}
	written := []string{a.String()}
	if a.Is4() {
		written = append(written, "::ffff:"+a.String(), "64:ff9b::"+a.String())
	} else {
		written = append(written, a.String()+"%lo")
	}
	for _, address := range written {
		c := n.client(t)
		n.names = answers(address)
		_, _, err := get(t, c, "http://name.test/")
		mustRefuse(t, err, outbound.RuleAddress, outbound.RuleMetadata)
		mustRefuse(t, c.CheckDNS(t.Context(), "http://name.test/"), outbound.RuleAddress, outbound.RuleMetadata)
		if err := c.Check("http://name.test/"); err != nil {
			t.Errorf("Check asks DNS: %v", err)
		}

		// Public at registration, then private.
		n.names = answers(public4, address)
		if err := c.CheckDNS(t.Context(), "http://name.test/"); err != nil {
			t.Error(err)
		}
		_, _, err = get(t, c, "http://name.test/")
		mustRefuse(t, err, outbound.RuleAddress, outbound.RuleMetadata)

		// Public for the first connection, then private. Another port is used, because the first
		// connection is kept.
		n.names = answers(public4, address)
		via := url.Values{"status": {"307"}, "to": {"http://name.test:8080/"}}
		_, _, err = get(t, c, "http://name.test/?"+via.Encode())
		mustRefuse(t, err, outbound.RuleAddress, outbound.RuleMetadata)

		// Public and private at once: only the public address is dialled.
		for _, both := range []string{address + " " + public4, public4 + " " + address} {
			c.CloseIdleConnections()
			n.seen()
			n.names = answers(both)
			if _, _, err := get(t, c, "http://name.test/"); err != nil {
				t.Errorf("%s: %v", both, err)
			}
			if reached, astray := n.seen(); !slices.Equal(reached, []string{public4 + ":80"}) || len(astray) > 0 {
				t.Errorf("%s: dialled %v and %v", both, reached, astray)
			}
		}
		c.CloseIdleConnections()
	}
}

// TestGuardLetsPublicAddressesThrough is the counterpart of the test above: it shows that
// connections are counted.
func TestGuardLetsPublicAddressesThrough(t *testing.T) {
	n := newNetwork(t, redirector)
	for _, public := range []string{public4, public6} {
		for _, s := range spell(netip.MustParseAddr(public)) {
			c := n.client(t)
			target := "http://" + s.host + "/"
			checked := c.Check(target)
			err := getAs(t, c, "http", s.host)
			via := url.Values{"status": {"302"}, "to": {target}}
			_, _, redirected := get(t, c, n.server.URL+"/?"+via.Encode())
			reached, astray := n.seen()
			switch {
			case !s.plain:
				mustRefuse(t, checked)
				mustRefuse(t, err)
				if reached = slices.DeleteFunc(reached, func(a string) bool { return a == n.address() }); len(reached)+len(astray) > 0 {
					t.Errorf("%s of %s: connections to %v %v", s.name, public, reached, astray)
				}
			case strings.HasPrefix(s.name, "NAT64"): // dialled unchanged, and the test network has no such route
				if checked != nil || !errors.Is(err, errUnreachable) || !errors.Is(redirected, errUnreachable) || len(astray) != 2 {
					t.Errorf("%s of %s: %v, %v, %v, dialled %v", s.name, public, checked, err, redirected, astray)
				}
			case checked != nil || err != nil || redirected != nil || !slices.Contains(reached, netip.AddrPortFrom(netip.MustParseAddr(public), 80).String()):
				t.Errorf("%s of %s: %v, %v, %v, dialled %v", s.name, public, checked, err, redirected, reached)
			}
			c.CloseIdleConnections()
		}
	}
}

// TestGuardEndsWhereTheRangesEnd: the addresses next to a range are public, unless another range
// contains them.
func TestGuardEndsWhereTheRangesEnd(t *testing.T) {
	c := newClient(t)
	all := slices.Concat(special4, special6)
	special := func(a netip.Addr) bool {
		return slices.ContainsFunc(all, func(p string) bool { return netip.MustParsePrefix(p).Contains(a) })
	}
	neighbours := 0
	for _, prefix := range all {
		s := samples(prefix)
		for _, a := range []netip.Addr{s[0].Prev(), s[len(s)-1].Next()} {
			if !a.IsValid() || special(a) || a.Is6() && !netip.MustParsePrefix("2000::/3").Contains(a) {
				continue
			}
			neighbours++
			if err := c.Check("http://" + netip.AddrPortFrom(a, 80).String()); err != nil {
				t.Errorf("next to %s: %v", prefix, err)
			}
		}
	}
	if neighbours < 30 {
		t.Errorf("only %d neighbours tried", neighbours)
	}
}

// TestGuardAgainstARealListenerOnLoopback uses real sockets: a listener on loopback counts
// connections.
func TestGuardAgainstARealListenerOnLoopback(t *testing.T) {
	connections := make(chan struct{}, 100)
	listener := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { connections <- struct{}{} }))
	t.Cleanup(listener.Close)
	at := netip.MustParseAddrPort(listener.Listener.Addr().String())
	port := ":" + strconv.Itoa(int(at.Port()))

	closed := newClient(t)
	hosts := []string{"localhost", "LOCALHOST", "localhost.", "a.localhost", "0", "0.0.0.0", "[::]", "[::1]", "127.1", "127.0.1"}
	for _, s := range spell(at.Addr()) {
		hosts = append(hosts, s.host)
	}
	for _, host := range hosts {
		mustRefuse(t, closed.Check("http://"+host+port))
		mustRefuse(t, getAs(t, closed, "http", host+port))
	}
	if n := len(connections); n > 0 {
		t.Errorf("%d requests have come through, want 0", n)
	}

	open := newClient(t, allow("localhost"+port, "127.0.0.1"))
	for i, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "localhost"} {
		if err := getAs(t, open, "http", host+port); err != nil || len(connections) != i+1 {
			t.Errorf("%s is opened: %v, %d requests have come through", host, err, len(connections))
		}
	}
}
