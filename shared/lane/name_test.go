package lane_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/lane"
)

func TestParseName(t *testing.T) {
	for _, s := range []string{
		"heartbeat", "operate", "coordinator", "automation:7", "objective:0191f6ac-0000-7000-8000-000000000001",
		"session:http:visitor+1@example.org", "memory:flowpilot", "a", "0", "A.b_c-d/e", strings.Repeat("a", 200),
	} {
		if name, err := lane.ParseName(s); err != nil || string(name) != s {
			t.Errorf("%q: %q, %v", s, name, err)
		}
	}
	for _, s := range []string{
		"", " ", "a b", ":x", "-x", "a\n", "a\x00", "ä", "a;drop", "a'b", "a%", "..", strings.Repeat("a", 201), "a\xff",
	} {
		if name, err := lane.ParseName(s); err == nil {
			t.Errorf("%q was taken for %q", s, name)
		}
	}
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"heartbeat", "objective:7", "", "a\n", "é", "a/../b", strings.Repeat("x", 201)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := lane.ParseName(s)
		if err != nil {
			if name != "" || strings.Contains(err.Error(), s) && len(s) > 60 {
				t.Errorf("%q: %q, %v", s, name, err)
			}
			return
		}
		if string(name) != s || len(s) == 0 || len(s) > 200 || !utf8.ValidString(s) {
			t.Errorf("%q was taken for %q", s, name)
		}
		for _, r := range s {
			if r <= ' ' || r > '~' || strings.ContainsRune(`'"\%*?;&<>|$`+"`", r) {
				t.Errorf("%q has %q in it", s, r)
			}
		}
		if again, err := lane.ParseName(string(name)); err != nil || again != name {
			t.Errorf("%q does not stand for itself", s)
		}
		if ttl := name.TTL(); ttl <= 0 || ttl > lane.MaxTTL {
			t.Errorf("%q is held for %v", s, ttl)
		}
	})
}

func TestAHolderSaysFunctionInstanceAndTrace(t *testing.T) {
	if got := lane.NewHolder("heartbeat", "i-7", "hb_0mh8c1v2q_a7x2p1k9d4"); got != "heartbeat/i-7/hb_0mh8c1v2q_a7x2p1k9d4" {
		t.Error(got)
	}
}
