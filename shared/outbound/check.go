package outbound

import (
	"context"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

const (
	maxURL  = 8 << 10 // bytes
	maxName = 253
)

// Check reports whether a URL may be registered. It makes no DNS lookup: the addresses of a name
// are checked when it is dialled. The error is a [BlockedError].
func (c *Client) Check(rawURL string) error {
	_, err := c.checkText(rawURL)
	return err
}

// CheckDNS is Check followed by a lookup: at least one current address of the host must be
// reachable. It serves to report problems early and decides nothing, because the next lookup may
// differ. The error is a [BlockedError], or says why the lookup failed.
func (c *Client) CheckDNS(ctx context.Context, rawURL string) error {
	h, err := c.checkText(rawURL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if _, err := c.candidates(ctx, h.name, h.port); err != nil {
		return &exchangeError{where: "look up " + h.name, err: err}
	}
	return nil
}

func (c *Client) checkText(rawURL string) (host, error) {
	if len(rawURL) > maxURL {
		return host{}, &BlockedError{Rule: RuleURL, Detail: "longer than " + strconv.Itoa(maxURL) + " bytes"}
	}
	u, err := url.Parse(rawURL)
	if err != nil { // its text repeats the URL
		return host{}, &BlockedError{Rule: RuleURL, Detail: "not a URL"}
	}
	return c.checkURL(u)
}

// checkURL checks everything that can be checked without DNS. The returned port is the one that
// will be dialled.
func (c *Client) checkURL(u *url.URL) (host, error) {
	var h host
	switch {
	case u == nil:
		return h, &BlockedError{Rule: RuleURL, Detail: "there is none"}
	case u.Scheme != "http" && u.Scheme != "https":
		return h, &BlockedError{Rule: RuleScheme, Detail: "only http and https are spoken"}
	case u.User != nil:
		return h, &BlockedError{Rule: RuleUserInfo, Detail: "user and password belong in a header"}
	case u.Opaque != "":
		return h, &BlockedError{Rule: RuleURL, Detail: "no // after the scheme"}
	}
	h, bad := splitHost(u.Host)
	if bad != nil {
		return h, bad
	}
	if h.port == 0 {
		h.port = 80
		if u.Scheme == "https" {
			h.port = 443
		}
	}
	switch {
	case h.addr.IsValid():
		return h, c.decide(h.name, netip.AddrPortFrom(h.addr, h.port))
	case h.name == "localhost" || strings.HasSuffix(h.name, ".localhost"): // RFC 6761
		if c.decide(h.name, netip.AddrPortFrom(netip.IPv6Loopback(), h.port)) != nil {
			return h, c.decide(h.name, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), h.port))
		}
	}
	return h, nil
}

// decide returns an error unless an address that a host has resolved to may be dialled.
func (c *Client) decide(name string, a netip.AddrPort) error {
	meant, how, what := c.registry.find(a.Addr())
	if how == public {
		return nil
	}
	for _, o := range c.openings {
		if o.opens(name, netip.AddrPortFrom(meant, a.Port()), how) {
			return nil
		}
	}
	rule := RuleAddress
	if how == metadata {
		rule = RuleMetadata
	}
	return &BlockedError{Rule: rule, Host: name, Detail: "not a public address: " + what}
}

// A host is the parsed authority of a URL.
type host struct {
	name string     // lower case; an address in its shortest form
	addr netip.Addr // valid if the host is an address
	port uint16     // 0: not given
}

// splitHost parses host, host:port, [address] or [address]:port. It accepts only one notation of
// each host. It refuses notations that libraries parse differently: numbers in other bases, short
// forms, a final dot, escapes, Unicode digits.
func splitHost(authority string) (host, *BlockedError) {
	refuse := func(rule Rule, detail string) (host, *BlockedError) {
		return host{}, &BlockedError{Rule: rule, Detail: detail}
	}
	name, port, bracket := authority, "", strings.HasPrefix(authority, "[")
	if bracket {
		inside, rest, closed := strings.Cut(authority[1:], "]")
		if !closed || rest != "" && rest[0] != ':' {
			return refuse(RuleHost, "brackets around an IPv6 address are not closed")
		}
		name, port = inside, strings.TrimPrefix(rest, ":")
	} else if before, after, found := strings.Cut(authority, ":"); found {
		name, port = before, after
	}
	h := host{name: strings.ToLower(name)}

	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || port[0] == '0' {
			return refuse(RulePort, "not a number from 1 to 65535")
		}
		h.port = uint16(n)
	}
	switch detail := notation(h.name, bracket); {
	case detail != "":
		return refuse(RuleHost, detail)
	case bracket || endsInNumber(h.name):
		a, err := netip.ParseAddr(h.name)
		switch {
		case err != nil && bracket:
			return refuse(RuleHost, "not an IPv6 address")
		case err != nil:
			return refuse(RuleHost, "an IPv4 address is four decimal numbers without leading zeros")
		case a.Is4() == bracket:
			return refuse(RuleHost, "brackets are for IPv6 addresses")
		}
		h.addr, h.name = a, a.String()
	}
	return h, nil
}

// notation says what is wrong with the notation of a host, or returns "". It leaves the text in
// brackets to the address parser, except a zone.
func notation(name string, bracket bool) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 }) {
		return "not ASCII: write it in its xn-- form"
	}
	switch {
	case name == "":
		return "there is none"
	case len(name) > maxName:
		return "longer than " + strconv.Itoa(maxName) + " characters"
	case strings.Contains(name, "%"):
		return "escapes and IPv6 zones are not taken"
	case bracket:
		return ""
	case strings.HasSuffix(name, "."):
		return "ends with a dot"
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "not a name of letters, digits and hyphens with dots between"
		}
	}
	return ""
}

// endsInNumber reports whether some parser would accept the host as an IPv4 address: its last label
// is a number in base 8, 10 or 16. No top-level domain is one.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}
