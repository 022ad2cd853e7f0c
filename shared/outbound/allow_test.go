package outbound_test

import (
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/outbound"
)

func TestAllowListOpens(t *testing.T) {
	resolved := map[string]string{
		"wiki.internal": "10.0.0.7", "other.internal": "10.0.0.7", "loop.internal": "127.0.0.1", "shared.internal": "100.64.0.1",
		"unique.internal": "fd12::1", "nat64.internal": "64:ff9b::10.0.0.7", "odd.internal": "0.0.0.0", "multi.internal": "224.0.0.1",
		"six.internal": "2002:a00:7::", "meta.internal": "169.254.169.254", "meta6.internal": "fd00:ec2::254", "docs.internal": "192.0.2.1",
		"nat64meta.internal": "64:ff9b::169.254.169.254", "localhost": "127.0.0.1",
	}
	for _, test := range []struct {
		entry, url string
		open       bool
	}{
		{"wiki.internal", "http://wiki.internal/", true},
		{"wiki.internal", "https://WIKI.internal:8443/", true},
		{"Wiki.Internal", "http://wiki.internal/", true},
		{"wiki.internal", "http://other.internal/", false},
		{"wiki.internal", "http://10.0.0.7/", false},
		{"internal", "http://wiki.internal/", false},
		{"wiki.internal:80", "http://wiki.internal/", true},
		{"wiki.internal:443", "https://wiki.internal/", true},
		{"wiki.internal:80", "http://wiki.internal:8080/", false},
		{"wiki.internal:80", "https://wiki.internal/", false},
		{"10.0.0.7", "http://10.0.0.7/", true},
		{"10.0.0.7", "http://[::ffff:10.0.0.7]/", true},
		{"10.0.0.7", "http://wiki.internal/", true},
		{"10.0.0.7", "http://nat64.internal/", true},
		{"10.0.0.7", "http://10.0.0.8/", false},
		{"10.0.0.7:8080", "http://10.0.0.7:8080/", true},
		{"10.0.0.7:8080", "http://10.0.0.7/", false},
		{"::ffff:10.0.0.7", "http://10.0.0.7/", true},
		{"[::ffff:10.0.0.7]:80", "http://10.0.0.7/", true},
		{"::1", "http://[::1]:8080/", true},
		{"[::1]", "http://[0:0:0:0:0:0:0:1]/", true},
		{"[::1]:80", "http://[::1]/", true},
		{"[::1]:80", "http://[::1]:81/", false},
		{"::1", "http://127.0.0.1/", false},
		{"10.0.0.0/8", "http://10.255.0.1/", true},
		{"10.1.2.3/8", "http://wiki.internal/", true},
		{"10.0.0.0/8", "http://192.168.0.1/", false},
		{"fd00::/8", "http://unique.internal/", true},
		{"localhost", "http://localhost:8080/", true},
		{"127.0.0.1", "http://localhost:8080/", true},
		{"127.0.0.1", "http://loop.internal/", true},
		{"localhost", "http://127.0.0.1/", false},
		{"localhost", "http://a.localhost/", false},
		{"shared.internal", "http://shared.internal/", true},

		// Only by an entry for exactly this address, not by a name or a prefix.
		{"meta.internal", "http://meta.internal/", false},
		{"meta6.internal", "http://meta6.internal/", false},
		{"nat64meta.internal", "http://nat64meta.internal/", false},
		{"169.254.0.0/16", "http://169.254.169.254/", false},
		{"0.0.0.0/0", "http://169.254.169.254/", false},
		{"::/0", "http://[fd00:ec2::254]/", false},
		{"fd00::/8", "http://meta6.internal/", false},
		{"100.64.0.0/10", "http://100.100.100.200/", false},
		{"169.254.170.2", "http://169.254.169.254/", false},
		{"169.254.170.2:80", "http://169.254.170.2/", true},
		{"169.254.169.254", "http://meta.internal/", true},
		{"fd00:ec2::254", "http://[fd00:ec2::254]/", true},

		// By no entry.
		{"odd.internal", "http://odd.internal/", false},
		{"0.0.0.0", "http://0.0.0.0/", false},
		{"0.0.0.0/0", "http://0.0.0.0/", false},
		{"multi.internal", "http://multi.internal/", false},
		{"224.0.0.1", "http://224.0.0.1/", false},
		{"192.0.0.192", "http://192.0.0.192/", false},
		{"six.internal", "http://six.internal/", false},
		{"docs.internal", "http://docs.internal/", false},
		{"::/0", "http://[4000::1]/", false},
		{"::/0", "http://[::10.0.0.1]/", false},
	} {
		t.Run(test.entry+" for "+test.url, func(t *testing.T) {
			n := newNetwork(t, redirector)
			n.names = func(name string) []string { return []string{resolved[name]} }
			c := n.client(t, allow(test.entry))
			if err := c.CheckDNS(t.Context(), test.url); (err == nil) != test.open {
				t.Errorf("CheckDNS: %v", err)
			}
			_, _, err := get(t, c, test.url)
			_, astray := n.seen()
			switch {
			case test.open && (!errors.Is(err, errUnreachable) || len(astray) != 1):
				t.Errorf("got %v, dialled %v, want one connection", err, astray)
			case !test.open:
				mustRefuse(t, err, outbound.RuleAddress, outbound.RuleMetadata)
				if len(astray) > 0 {
					t.Errorf("dialled %v", astray)
				}
			}
		})
	}
}

func TestAllowListRefusesWhatItCannotRead(t *testing.T) {
	for _, entry := range []string{
		"", "http://a", "a/b", "*.internal", "a b", "10.0.0.0/33", "::ffff:10.0.0.0/104", "0177.0.0.1", "2130706433", "127.1", "a:0", "a:b", "a:1:2",
		"a.", "fe80::1%eth0", "[::1", "[10.0.0.1]", "ä.internal",
	} {
		if _, err := outbound.New(outbound.Options{AllowPrivateHosts: []string{"ok.internal", entry}}); err == nil {
			t.Errorf("%q was taken", entry)
		}
	}
}
