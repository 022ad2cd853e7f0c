package outbound_test

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/outbound"
)

func TestCheckTakes(t *testing.T) {
	c := newClient(t)
	for _, u := range []string{
		"http://example.com", "https://example.com/", "HTTPS://EXAMPLE.COM/a?b=c#d", "https://example.com:8443/",
		"http://example.com:1/", "http://example.com:65535/", "http://example.com:/", "https://xn--bcher-kva.example/",
		"https://a_b.example/", "https://1.2.3.4.example/", "https://0x7f.example/", "https://3com.com/", "https://wiki/",
		"http://" + public4 + "/", "http://[" + public6 + "]:8080/", "http://[64:ff9b::5db8:d822]/",
		"https://" + strings.Repeat("a", 63) + ".example/",
	} {
		if err := c.Check(u); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
}

func TestCheckSaysWhichRule(t *testing.T) {
	c := newClient(t)
	for rule, urls := range map[outbound.Rule][]string{
		outbound.RuleURL:    {"http://a b/", "http://%zz/", "http:example.com", "http://[::1", "://", "https://a/\n", "http://a/" + strings.Repeat("a", 8<<10)},
		outbound.RuleScheme: {"", "/", "example.com", "//example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "javascript:alert(1)", "unix:///run/x"},
		outbound.RuleUserInfo: {
			"http://user@example.com/", "http://user:hunter2@example.com/", "http://:@example.com/", "http://@example.com/",
		},
		outbound.RuleHost: {
			"http://", "http:///a", "http://:80/", "http://example.com./", "http://.example.com/", "http://a..b/", "http://exämple.com/",
			"http://ｅxample.com/", "http://a,b/", "http://a*b/", "http://" + strings.Repeat("a", 64) + ".example/",
			"http://" + strings.Repeat("a.", 127) + "example/", "http://1/", "http://0x/", "http://a.0x1f/", "http://a.1/", "http://256.1.1.1/",
			"http://[fe80::1%25eth0]/",
		},
		outbound.RulePort:     {"http://a:0/", "http://a:00/", "http://a:080/", "http://a:65536/", "http://a:99999999999999999999/"},
		outbound.RuleAddress:  {"http://10.0.0.1/", "http://localhost/", "http://a.LocalHost:80/", "http://[::1]/", "http://[::ffff:10.0.0.1]/", "http://[4000::1]/"},
		outbound.RuleMetadata: {"http://169.254.169.254/", "http://169.254.170.2/", "http://[fd00:ec2::254]/", "http://[64:ff9b::169.254.169.254]/", "http://168.63.129.16/"},
	} {
		for _, u := range urls {
			t.Run(string(rule), func(t *testing.T) {
				err := c.Check(u)
				mustRefuse(t, err, rule)
				if errors.Is(err, outbound.ErrBlocked) && strings.Contains(err.Error(), "hunter2") {
					t.Errorf("the error repeats a secret: %v", err)
				}
			})
		}
	}
}

// TestCheckSaysWhatIsWrong: a refusal says how to correct the URL.
func TestCheckSaysWhatIsWrong(t *testing.T) {
	c := newClient(t)
	for u, want := range map[string]string{
		"http://example.com./": "ends with a dot", "http://0177.0.0.1/": "four decimal numbers", "http://2130706433/": "four decimal numbers",
		"http://exämple.com/": "xn-- form", "http://[fe80::1%25lo]/": "zones", "http://u@example.com/": "in a header",
		"http://10.1.2.3/": "host 10.1.2.3: not a public address: private-use (RFC 1918)",
	} {
		if err := c.Check(u); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want that it says %q", u, err, want)
		}
	}
}

// legacy parses hosts as inet_aton does, and with it many parsers of URLs.
func legacy(host string) (netip.Addr, bool) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var n uint64
	for i, p := range parts {
		v, ok := number(p)
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if !ok || v >= 1<<bits {
			return netip.Addr{}, false
		}
		n = n<<bits | v
	}
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), true
}

// number parses a number in base 8, 10 or 16 of at most 32 bits.
func number(s string) (n uint64, ok bool) {
	base := uint64(10)
	if hex, found := strings.CutPrefix(strings.ToLower(s), "0x"); found {
		s, base = hex, 16
	} else if len(s) > 1 && s[0] == '0' {
		base = 8
	}
	for _, r := range strings.ToLower(s) {
		d := strings.IndexRune("0123456789abcdef"[:base], r)
		if d < 0 || n > 1<<32 {
			return 0, false
		}
		n = n*base + uint64(d)
	}
	return n, s != "" && n < 1<<32
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		"http://example.com/", "https://127.0.0.1:8080/a", "http://[::1]:80/", "http://[::ffff:127.0.0.1]/", "http://2130706433/",
		"http://0177.0.0.1/", "http://0x7f.1/", "http://127.1/", "http://127.0.0.1./", "http://%31%32%37.0.0.1/", "http://１２７.0.0.1/",
		"http://a:b@10.0.0.1/", "http://93.184.216.34\\@10.0.0.1/", "http://[fe80::1%25lo]/", "http://localhost:0/", "//a", "http:a", "http://a#b",
		"http://[64:ff9b::10.0.0.1]/", "http://[2002:a00:1::]/", "HTTP://EXAMPLE.com:443", "http://a:65536", "http://0x.0x/", "http://a.08/",
	} {
		f.Add(seed)
	}
	n := newNetwork(f, redirector)
	n.names = func(string) []string { return []string{"127.0.0.1", "fd00::1"} }
	c := n.client(f, allow())
	f.Fuzz(func(t *testing.T, raw string) {
		const canary = "hunter2canary"
		err := c.Check(raw)
		if withSecret := c.Check(raw + "?key=" + canary); withSecret != nil && strings.Contains(withSecret.Error(), canary) {
			t.Errorf("the error repeats the query: %v", withSecret)
		}
		u, parseErr := url.Parse(raw)
		if parseErr == nil {
			if err := getAs(t, c, u.Scheme, u.Host); err == nil {
				t.Errorf("%q was answered", raw)
			}
			if err := getAs(t, c, "http", raw); err == nil {
				t.Errorf("the authority %q was answered", raw)
			}
		}
		_, astray := n.seen()
		for _, address := range astray {
			ip := netip.MustParseAddrPort(address).Addr()
			if ip.IsPrivate() || ip.IsLoopback() || !ip.IsGlobalUnicast() {
				t.Errorf("%q: dialled %s", raw, address)
			}
		}
		if err != nil {
			mustRefuse(t, err)
			return
		}
		if parseErr != nil || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			t.Fatalf("%q was taken: %+v, %v", raw, u, parseErr)
		}
		host := u.Hostname()
		if ip, err := netip.ParseAddr(host); err == nil {
			if ip = ip.Unmap(); ip.IsPrivate() || ip.IsLoopback() || !ip.IsGlobalUnicast() || ip.Zone() != "" {
				t.Errorf("%q was taken", raw)
			}
		} else if ip, ok := legacy(host); ok {
			t.Errorf("%q was taken, which some read as %s", raw, ip)
		}
	})
}
